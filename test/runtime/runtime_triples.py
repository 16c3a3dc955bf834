"""Random (graph, pass, input) triples: graphs around the idioms' replacement functions, changing calls."""

from __future__ import annotations

import functools
import importlib.util
import inspect
import operator
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import fx

from pass_bench.runtime.observe import is_replacement

IDIOMS_DIR = Path(__file__).parent / "idioms"
IDIOMS = tuple(sorted(path.stem for path in IDIOMS_DIR.glob("*.py") if not path.stem.startswith("_")))
SCALAR_IDIOMS = ("autotune_over_heuristics", "scale_run_spelling", "swapped_arguments_and_constant")
# Triton compiles ints and floats differently, and of the ints 1, multiples of 16 and those over 32 bits.
SCALARS = (-1, 0, 1, 2, 16, 2**33, 1.0, 2.0, 0.0, -0.0, -1.5, 0.125)
PROBES = ((3, 5), (4, 6))


@functools.cache
def load_idiom(name: str, folder: Path = IDIOMS_DIR) -> ModuleType:
    """Load a pass file the way passes are loaded: by path, with its folder importable."""
    if "cuda" not in DEVICE:
        from pass_bench.kernels import interpreter

        interpreter.enable()
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    spec = importlib.util.spec_from_file_location(f"runtime_idiom_{name}", folder / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def arity(idiom: ModuleType) -> int:
    return len(inspect.signature(idiom.pattern).parameters)


def insert(graph: fx.Graph, idiom: ModuleType, sources: list[fx.Node]) -> fx.Node:
    """Put a call of the idiom's replacement function into the graph, as a rewrite would."""
    tracer = fx.proxy.GraphAppendingTracer(graph)
    args = idiom.replacement_args(*(fx.Proxy(node, tracer) for node in sources))
    plain = fx.node.map_aggregate(args, lambda value: value.node if isinstance(value, fx.Proxy) else value)
    return graph.call_function(idiom.replacement_func(), plain)


def one_call(idiom: ModuleType) -> fx.GraphModule:
    """The graph whose only node is the replacement function."""
    graph = fx.Graph()
    graph.output(insert(graph, idiom, [graph.placeholder(f"in_{i}") for i in range(arity(idiom))]))
    return fx.GraphModule(torch.nn.Module(), graph)


@functools.cache
def outputs_of(name: str) -> tuple[bool | None, ...] | bool:
    """Whether each output has the shape of the inputs; one bool where the function returns no sequence."""
    gm = one_call(load_idiom(name))
    found = []
    for shape in PROBES:
        result = gm(*(torch.rand(shape, device=DEVICE) for _ in range(arity(load_idiom(name)))))
        leaves = result if isinstance(result, (tuple, list)) else [result]
        same = tuple(leaf.shape == shape and leaf.dtype is torch.float32 for leaf in leaves)
        found.append(same if isinstance(result, (tuple, list)) else same[0])
    assert found[0] == found[1]
    return found[0]


def random_graph(rng: random.Random, names: Sequence[str] = IDIOMS) -> tuple[fx.GraphModule, int]:
    """A graph of plain operators with 1 to 3 replacement calls in it, and the number of its inputs."""
    graph = fx.Graph()
    inputs = [graph.placeholder(f"in_{i}") for i in range(rng.randint(1, 3))]
    pool = list(inputs)
    results: list[fx.Node] = []
    for _ in range(rng.randint(1, 3)):
        for _ in range(rng.randint(0, 2)):
            pool.append(_plain_operator(graph, rng, pool))
        name = rng.choice(names)
        idiom = load_idiom(name)
        node = insert(graph, idiom, [rng.choice(pool) for _ in range(arity(idiom))])
        shapes = outputs_of(name)
        if isinstance(shapes, bool):
            (pool if shapes else results).append(node)
        else:
            for i, same in enumerate(shapes):
                item = graph.call_function(operator.getitem, (node, i))
                (pool if same else results).append(item)
    results += [rng.choice(pool), pool[-1]]
    graph.output(tuple(results))
    return fx.GraphModule(torch.nn.Module(), graph), len(inputs)


def make_scalars_inputs(gm: fx.GraphModule, rng: random.Random) -> int:
    """Make most of the numbers that replacement calls take further inputs of the graph; return how many."""
    made = 0
    for node in [node for node in gm.graph.nodes if is_replacement(node)]:
        for place, value in enumerate(node.args):
            if type(value) in (int, float) and rng.random() < 0.8:
                last = [one for one in gm.graph.nodes if one.op == "placeholder"][-1]
                with gm.graph.inserting_after(last):
                    node.update_arg(place, gm.graph.placeholder(f"scalar_{made}"))
                made += 1
    gm.recompile()
    return made


def with_scalars(
    lists: Iterator[list[Any]], count: int, rng: random.Random, settle: int = 4
) -> Iterator[list[Any]]:
    """Inputs with numbers after the tensors: the same until the graph is planned, then others in between."""
    usual = [rng.choice(SCALARS) for _ in range(count)]
    for number, inputs in enumerate(lists):
        changes = number >= settle and rng.random() < 0.6
        yield [*inputs, *([rng.choice(SCALARS) for _ in usual] if changes else usual)]


def _plain_operator(graph: fx.Graph, rng: random.Random, pool: list[fx.Node]) -> fx.Node:
    x, y = rng.choice(pool), rng.choice(pool)
    kind = rng.randrange(9)
    if kind == 0:
        return graph.call_function(operator.add, (x, 1.0))
    if kind == 1:
        return graph.call_function(operator.mul, (x, y))
    if kind == 2:
        return graph.call_method("contiguous", (x,))
    if kind == 3:
        return graph.call_function(torch.nn.functional.dropout, (x, 0.1, False))
    if kind == 4:
        rows = graph.call_method("size", (y, 0))
        return graph.call_method("view", (graph.call_method("contiguous", (x,)), rows, -1))
    if kind == 5:
        turned = graph.call_method("transpose", (graph.call_method("clone", (x,)), 0, 1))
        return graph.call_method("transpose", (graph.call_method("contiguous", (turned,)), 0, 1))
    if kind == 6:
        return graph.call_function(torch.nn.functional.relu, (x,))
    if kind == 7:
        return graph.call_method("to", (x, graph.call_function(getattr, (y, "dtype"))))
    left = graph.call_method("chunk", (graph.call_function(torch.cat, ([x, y], 1)), 2, 1))
    return graph.call_function(operator.getitem, (left, 1))


def make_input(kind: str, rows: int, cols: int, device: str) -> torch.Tensor:
    """A rows x cols tensor: plain, float16, transposed, a slice of a wider one, 4 bytes off alignment."""
    dtype = torch.float16 if kind == "half" else torch.float32
    if kind == "transposed":
        return torch.randn(cols, rows, device=device).t()
    if kind == "sliced":
        return torch.randn(rows, cols + 3, device=device)[:, :cols]
    if kind == "offset":
        return torch.randn(rows * cols + 1, device=device)[1:].view(rows, cols)
    return torch.randn(rows, cols, device=device).to(dtype)


def calls(rng: random.Random, count: int, device: str, settle: int = 4) -> Iterator[list[torch.Tensor]]:
    """Inputs of the calls that one graph gets: the same kind until it is planned, then others in between."""
    rows, cols = rng.randint(2, 6), rng.choice([3, 4, 8, 16])
    for _ in range(settle):
        yield [make_input("plain", rows, cols, device) for _ in range(count)]
    others = [
        ("half", rows, cols),
        ("transposed", rows, cols),
        ("sliced", rows, cols),
        ("offset", rows, cols),
    ]
    others += [("plain", rows + 1, cols), ("plain", rows, cols + 1), ("plain", rows, cols)]
    rng.shuffle(others)
    for kind, r, c in others[:4]:
        for _ in range(rng.choice([1, 1, 4])):
            yield [make_input(kind if rng.random() < 0.7 else "plain", r, c, device) for _ in range(count)]
    if count > 1:
        twice = make_input("plain", rows, cols, device)
        yield [twice, twice, *(make_input("plain", rows, cols, device) for _ in range(count - 2))]
    yield [make_input("plain", rows, cols, device) for _ in range(count)]


def outcome(call: Callable[..., Any], inputs: list[Any]) -> Any:
    """What a call returns, or the type and message of what it raises."""
    try:
        return call(*inputs)
    except Exception as error:
        return type(error), str(error).split("\n")[0]


def identical(left: Any, right: Any) -> bool:
    """Whether two results are equal bit by bit, with the same types, shapes and strides."""
    if type(left) is not type(right):
        return False
    if isinstance(left, (tuple, list)):
        return len(left) == len(right) and all(identical(a, b) for a, b in zip(left, right, strict=True))
    if isinstance(left, torch.Tensor):
        if (left.dtype, left.shape, left.stride()) != (right.dtype, right.shape, right.stride()):
            return False
        a, b = left.contiguous().view(-1), right.contiguous().view(-1)
        width = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[a.element_size()]
        return torch.equal(a.view(width), b.view(width)) if a.numel() else True
    return bool(left == right)
