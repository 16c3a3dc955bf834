"""What a node does besides computing: storages it touches and writes, the random state, the global state.

Found by running the graph node by node on fake tensors while a dispatch mode reads the schemas of the
operators that are reached. Where that is impossible (no inputs, a value that only data decides) the facts
come from the schema of the node's own operator and err on the side of more order.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from types import BuiltinFunctionType
from typing import Any

import torch
from torch import fx
from torch.utils._python_dispatch import TorchDispatchMode

from pass_bench.fx import static_facts
from pass_bench.fx.trace import attribute, leaves


@dataclass(frozen=True)
class NodeFacts:
    """Storages (by an arbitrary id) a node reads, makes or writes; `random`: it draws from the generator.

    `barrier`: it changes a global state (grad mode), so nothing moves across it.
    """

    touches: frozenset[int] = frozenset()
    writes: frozenset[int] = frozenset()
    random: bool = False
    barrier: bool = False


@dataclass(frozen=True)
class Facts:
    """The facts of each node of a graph, in graph order; `unknown` names nodes that could not be run."""

    nodes: Mapping[fx.Node, NodeFacts]
    unknown: frozenset[str] = frozenset()

    def order_edges(self, graph: fx.Graph) -> Iterator[tuple[fx.Node, fx.Node]]:
        """Pairs (earlier, later) that may not change places although no value flows between them."""
        writer: dict[int, fx.Node] = {}
        readers: dict[int, list[fx.Node]] = {}
        random: fx.Node | None = None
        barrier: fx.Node | None = None
        since: list[fx.Node] = []
        for node in graph.nodes:
            facts = self.nodes.get(node)
            if facts is None or node.op == "placeholder":
                continue
            if facts.barrier:
                yield from ((earlier, node) for earlier in since)
                barrier, since = node, []
            elif barrier is not None:
                yield barrier, node
            since.append(node)
            if facts.random:
                if random is not None:
                    yield random, node
                random = node
            for storage in sorted(facts.touches | facts.writes):
                if storage in writer:
                    yield writer[storage], node
                if storage in facts.writes:
                    yield from ((reader, node) for reader in readers.pop(storage, []))
                    writer[storage] = node
                else:
                    readers.setdefault(storage, []).append(node)


@dataclass
class _Seen:
    writes: set[int] = field(default_factory=set)
    random: bool = False
    dispatched: bool = False


class _SchemaReader(TorchDispatchMode):
    """Notes what the operators reached meanwhile write and whether they draw random numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = _Seen()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        self.seen.dispatched = True
        if torch.Tag.nondeterministic_seeded in func.tags:
            self.seen.random = True
        bound = dict(zip((a.name for a in func._schema.arguments), args, strict=False)) | kwargs
        for argument in func._schema.arguments:
            if argument.alias_info is not None and argument.alias_info.is_write:
                self.seen.writes |= storages(bound.get(argument.name))
        self.seen.writes |= storages(_statistics(bound))
        return func(*args, **kwargs)


def _statistics(bound: Mapping[str, Any]) -> list[Any]:
    """Running statistics that a normalisation updates; some schemas do not say so."""
    training = [bound[flag] for flag in ("training", "train", "use_input_stats") if flag in bound]
    if any(flag is False for flag in training):
        return []
    return [bound.get("running_mean"), bound.get("running_var")]


def storages(value: Any) -> set[int]:
    """Ids of the storages of all tensors in a value."""
    found = set()
    for leaf in leaves(value):
        if isinstance(leaf, torch.Tensor):
            try:
                found.add(leaf.untyped_storage()._cdata)
            except (RuntimeError, NotImplementedError):
                continue
    return found


def graph_facts(gm: fx.GraphModule, inputs: Sequence[Any] | None = None) -> Facts:
    """Aliasing, mutation and randomness of each node.

    `inputs` stand for the placeholders in order: tensors (shape, dtype, strides and storage matter, values
    only of single elements) or numbers. Without inputs the facts come from schemas alone.
    """
    if inputs is None:
        return Facts(_from_schemas(gm.graph, {}, {}))
    with _quiet():
        return _FakeRun(gm, inputs).run()


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep what fake execution says about nodes it cannot run away from the user: it is no error here."""
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def _from_schemas(
    graph: fx.Graph, known: Mapping[fx.Node, NodeFacts], held: Mapping[fx.Node, set[int]]
) -> dict[fx.Node, NodeFacts]:
    facts: dict[fx.Node, NodeFacts] = {}
    hold: dict[fx.Node, frozenset[int]] = {}
    fresh = -1
    for node in graph.nodes:
        if node.op == "output":
            continue
        if node in known:
            facts[node], hold[node] = known[node], frozenset(held.get(node, ()))
            continue
        reads = frozenset(s for n in node.all_input_nodes for s in hold[n])
        if node.op in ("placeholder", "get_attr"):
            facts[node], hold[node] = NodeFacts(), frozenset({fresh})
        else:
            effect = static_facts.effect_of(node)
            writes = frozenset(s for n in effect.writes for s in hold[n])
            made = frozenset({fresh}) | (reads if effect.may_alias else frozenset())
            barrier = is_barrier(node, dispatched=False)
            facts[node], hold[node] = NodeFacts(reads | made, writes, effect.random, barrier), made
        fresh -= 1
    return facts


def is_barrier(node: fx.Node, dispatched: bool) -> bool:
    """Whether a call changes a global state: one of torch's internal functions that reaches no operator."""
    if node.op != "call_function" or dispatched or not isinstance(node.target, BuiltinFunctionType):
        return False
    module = str(getattr(node.target, "__module__", None) or getattr(node.target.__self__, "__name__", ""))
    internal = module in ("torch._C", "torch._C._functorch")
    return internal and node.target is not torch._C._log_api_usage_once


class _FakeRun:
    def __init__(self, gm: fx.GraphModule, inputs: Sequence[Any]):
        from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
        from torch.fx.experimental.symbolic_shapes import ShapeEnv

        self.gm = gm
        modes = [t.fake_mode for t in inputs if isinstance(t, FakeTensor)]
        self.mode: Any = (
            modes[0] if modes else FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True)
        )
        self.inputs = [self._fake(value) for value in inputs]

    def _fake(self, value: Any) -> Any:
        from torch._subclasses.fake_tensor import FakeTensor

        if not isinstance(value, torch.Tensor) or isinstance(value, FakeTensor):
            return value
        fake = self.mode.from_tensor(value.detach(), static_shapes=True)
        if value.numel() == 1:  # `.item()` on it is a number then, not an unknown
            fake.constant = value.detach().cpu().clone()
            self.mode.fake_tensor_converter.add_constant_storage_mapping(fake)
        return fake

    def run(self) -> Facts:
        values: dict[fx.Node, Any] = {}
        facts: dict[fx.Node, NodeFacts] = {}
        unknown: set[str] = set()
        inputs = iter(self.inputs)
        for node in self.gm.graph.nodes:
            if node.op == "placeholder":
                values[node] = next(inputs, None)
                facts[node] = NodeFacts()
            elif node.op != "output" and all(n in values for n in node.all_input_nodes):
                found = self._run_node(node, values)
                if found is None:
                    unknown.add(node.name)
                else:
                    facts[node] = found
            elif node.op != "output":
                unknown.add(node.name)
        held = {node: storages(value) for node, value in values.items()}
        if unknown:
            facts = _from_schemas(self.gm.graph, facts, held)
        return Facts(facts, frozenset(unknown))

    def _run_node(self, node: fx.Node, values: dict[fx.Node, Any]) -> NodeFacts | None:
        args, kwargs = fx.node.map_arg((node.args, node.kwargs), lambda n: values[n])
        before = storages((args, kwargs))
        reader = _SchemaReader()
        try:
            with ExitStack() as stack:
                stack.enter_context(torch.no_grad())
                stack.enter_context(self.mode)
                stack.enter_context(reader)
                values[node] = self._call(node, args, kwargs)
        except Exception:
            return None
        seen = reader.seen
        return NodeFacts(
            frozenset(before | storages(values[node])),
            frozenset(seen.writes & (before | storages(values[node]))),
            seen.random,
            is_barrier(node, seen.dispatched),
        )

    def _call(self, node: fx.Node, args: Any, kwargs: Any) -> Any:
        if node.op == "call_method":
            return getattr(args[0], str(node.target))(*args[1:], **kwargs)
        if node.op == "get_attr":
            return self._fake(attribute(self.gm, str(node.target)))
        if node.op == "call_module":
            return self.gm.get_submodule(str(node.target))(*args, **kwargs)
        assert callable(node.target)
        return node.target(*args, **kwargs)
