"""Record a module's forward while it runs in eager: the calls Dynamo would capture, at the cost of one run.

A TorchFunctionMode sees every torch call with real tensors; each becomes a node of an FX graph. Sizes and
scalars that the module reads are constants of the graph, as under static shapes. Several times cheaper than
`torch.compile`, so that this is what walks a whole zoo; the recorded graph is run once more and must
reproduce the module's outputs."""

# ruff: noqa: SIM905
from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from pass_bench.data.records import TensorMeta
from pass_bench.dataset.capture import Captured, without_noise
from pass_bench.dataset.listing import Kind, read_listing
from pass_bench.dataset.measure import measure
from pass_bench.errors import BadInput

MOST_VALUES = 1500
_ARITHMETIC = "add sub mul truediv floordiv mod pow matmul lshift rshift and or xor".split()
_OPERATORS: dict[str, Callable[..., Any]] = {
    **{f"__{n}__": getattr(operator, n) for n in "eq ne lt le gt ge neg invert getitem".split()},
    **{f"__{n}__": getattr(operator, n + "_" * (n in ("and", "or"))) for n in _ARITHMETIC},
    **{f"__i{n}__": getattr(operator, f"i{n}") for n in _ARITHMETIC},
    "__setitem__": operator.setitem,
    "__div__": operator.truediv,
    "__idiv__": operator.itruediv,
}
# `x + y` reaches a mode as the method `add`; nearly all models write the operator.
_AS_METHODS: dict[str, Callable[..., Any]] = {
    **{n: getattr(operator, n) for n in "add sub mul matmul neg eq ne lt le gt ge".split()},
    "div": operator.truediv,
    "remainder": operator.mod,
    "add_": operator.iadd,
    "sub_": operator.isub,
    "mul_": operator.imul,
    "div_": operator.itruediv,
    "floor_divide_": operator.ifloordiv,
}
_AS_FUNCTIONS: dict[str, Callable[..., Any]] = {"pow": operator.pow, "pow_": operator.ipow}
_REFLECTED = {
    f"__r{n}__": getattr(operator, n + "_" * (n in ("and", "or"))) for n in _ARITHMETIC if n != "xor"
} | {"__rdiv__": operator.truediv, "__rxor__": operator.xor}
_IN_PLACE = {operator.setitem, *(getattr(operator, f"i{n}") for n in _ARITHMETIC)}


def record(
    module: torch.nn.Module,
    inputs: Mapping[str, Any],
    *,
    name: str,
    with_metas: bool = True,
    check: bool = True,
) -> Captured:
    """Run `module(**inputs)` under `no_grad` and return its graph.

    With `check`, BadInput where running the graph does not give the outputs of the module.
    """
    recorder = _Recording(module, inputs, with_metas)
    with torch.no_grad():
        torch.manual_seed(0)
        with recorder:
            result = module(**recorder.inputs)
        graph_module, values = recorder.finish(result)
        if check:
            torch.manual_seed(0)
            _compare(graph_module(*values), recorder.results, name)
    listing = read_listing(graph_module.code, name, recorder.metas, recorder.kinds)
    return Captured(without_noise(listing), graph_module, tuple(values))


def _compare(actual: Sequence[Any], expected: Sequence[torch.Tensor], name: str) -> None:
    for one, two in zip(actual, expected, strict=True):
        if not torch.allclose(one.float(), two.float(), rtol=1e-3, atol=1e-3, equal_nan=True):
            raise BadInput("the recorded graph computes something else", path=name)


class _Recording(TorchFunctionMode):
    """Builds the graph. Tensors are kept alive while recording, since they are known by their id."""

    def __init__(self, module: torch.nn.Module, inputs: Mapping[str, Any], with_metas: bool):
        super().__init__()
        self.graph = fx.Graph()
        self.with_metas = with_metas
        self.nodes: dict[int, fx.Node] = {}
        self.alive: list[Any] = []
        self.arguments: list[tuple[fx.Node, torch.Tensor]] = []
        self.metas: dict[str, TensorMeta] = {}
        self.kinds: dict[str, Kind] = {}
        self.results: list[torch.Tensor] = []
        self.names: dict[int, str] = {}
        self._anchor: fx.Node | None = None
        self.inputs = pytree.tree_map(lambda v: v.clone() if isinstance(v, torch.Tensor) else v, dict(inputs))
        for keys, value in pytree.tree_flatten_with_path(self.inputs)[0]:
            if isinstance(value, torch.Tensor):
                self._name(value, "L" + "".join(f"_{_clean(str(_key(part)))}" for part in keys) + "_")
        for kind, named in (("parameters", module.named_parameters()), ("buffers", module.named_buffers())):
            for path, value in named:
                *owners, last = path.split(".")
                parts = "".join(f"modules_{_clean(owner)}_" for owner in owners)
                self._name(value, f"L_self_{parts}{kind}_{_clean(last)}_")

    def _name(self, value: torch.Tensor, name: str) -> None:
        self.names.setdefault(id(value), name)
        self.alive.append(value)

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        target = self._target(func, args, kwargs)
        if target is None:
            return func(*args, **kwargs)
        kind, what, call_args, call_kwargs = target
        graph_args, graph_kwargs = pytree.tree_map(self._argument, (call_args, call_kwargs))
        result = func(*args, **kwargs)
        if what is operator.setitem:
            node = self._node(kind, what, graph_args, graph_kwargs)
            node.meta["effect"] = True
            return result
        if isinstance(result, torch.Tensor):
            given = any(result is leaf for leaf in pytree.tree_leaves((args, kwargs)))
            changes = given and _changes(func, what, args, kwargs)
            if given and not changes:
                result = result.view_as(result)  # an object of its own: later reads of the argument stay its
            node = self._node(kind, what, graph_args, graph_kwargs)
            node.meta["effect"] = changes
            node.meta["view"] = not changes and _shares_storage(result, pytree.tree_leaves((args, kwargs)))
            self._bind(result, node)
            return result
        leaves = result if isinstance(result, tuple | list) else ()
        if not any(isinstance(leaf, torch.Tensor) for leaf in leaves):
            return result
        node = self._node(kind, what, graph_args, graph_kwargs)
        self.kinds[node.name] = "other"
        for index, leaf in enumerate(leaves):
            if isinstance(leaf, torch.Tensor):
                self._bind(leaf, self._node("call_function", operator.getitem, (node, index), {}))
        return result

    def _target(self, func: Any, args: Any, kwargs: Any) -> tuple[str, Any, Any, Any] | None:
        """How the call is written in a graph; None where it makes no tensor."""
        name = getattr(func, "__name__", "")
        if name == "__get__":
            attribute = getattr(func.__self__, "__name__", "")
            if attribute in ("T", "mT", "H", "mH", "real", "imag", "data"):
                return "call_function", getattr, (args[0], attribute), {}
            return None
        if name in ("__set__", "__len__", "__bool__", "__repr__", "__format__", "__hash__", "__deepcopy__"):
            return None
        kwargs = {key: value for key, value in kwargs.items() if key != "_stacklevel"}
        in_python = getattr(func, "__module__", "") == "torch._tensor"
        spelled = _OPERATORS.get(name) or (_AS_FUNCTIONS if in_python else {}).get(name)
        if spelled is None and type(func).__name__ == "method_descriptor" and not kwargs:
            spelled = _AS_METHODS.get(name)
        if spelled is not None:
            return "call_function", spelled, args, kwargs
        if name in _REFLECTED:
            return "call_function", _REFLECTED[name], (args[1], args[0]), kwargs
        if name in (
            "__torch_function__",
            "requires_grad_",
            "_log_api_usage_once",
            "__contains__",
            "__iter__",
        ):
            return None
        method = getattr(torch.Tensor, name, None)
        is_method = (
            func is method or in_python or type(func).__name__ in ("method_descriptor", "wrapper_descriptor")
        )
        if is_method and args and isinstance(args[0], torch.Tensor):
            if name.startswith("__"):
                return None
            return "call_method", name, args, kwargs
        return "call_function", func, args, kwargs

    def _node(self, kind: str, what: Any, args: Any, kwargs: Any) -> fx.Node:
        if len(self.alive) > MOST_VALUES:
            raise BadInput(f"more than {MOST_VALUES} values", path="record", expected="a smaller model")
        return self.graph.create_node(kind, what, tuple(args), dict(kwargs))

    def _argument(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        known = self.nodes.get(id(value))
        if known is not None:
            return known
        name = self.names.get(id(value), f"L_constants_{len(self.arguments)}_")
        with _before_all(self.graph, self._anchor):
            node = self.graph.placeholder(name)
        self._anchor = node
        self.arguments.append((node, value.detach().clone() if id(value) not in self.names else value))
        self._bind(value, node, name)
        return node

    def _bind(self, value: torch.Tensor, node: fx.Node, name: str | None = None) -> None:
        self.nodes[id(value)] = node
        self.alive.append(value)
        key = name or node.name
        if self.with_metas:
            self.metas[key] = measure(value, key)
        else:
            dtype = str(value.dtype).removeprefix("torch.")
            self.metas[key] = TensorMeta(key, tuple(int(n) for n in value.shape), dtype)

    def finish(self, result: Any) -> tuple[fx.GraphModule, list[torch.Tensor]]:
        leaves = [leaf for leaf in _tensors(result) if id(leaf) in self.nodes]
        unique = list({id(leaf): leaf for leaf in leaves}.values())
        self.results = unique
        self.graph.output(tuple(self.nodes[id(leaf)] for leaf in unique))
        for node in reversed(list(self.graph.nodes)):
            dead = not node.users and node.op not in ("placeholder", "output") and not node.meta.get("effect")
            if dead:
                self.graph.erase_node(node)
        values = []
        for node, value in self.arguments:
            if node.users:
                values.append(value)
            else:
                self.graph.erase_node(node)
        if not unique:
            raise BadInput("no output is computed by torch calls", path="record")
        return fx.GraphModule(torch.nn.Module(), self.graph), values


def _before_all(graph: fx.Graph, anchor: fx.Node | None) -> Any:
    if anchor is not None:
        return graph.inserting_after(anchor)
    first = next(iter(graph.nodes), None)
    return graph.inserting_before(first) if first is not None else graph.inserting_before()


def _changes(func: Any, what: Any, args: Any, kwargs: Any) -> bool:
    name = getattr(func, "__name__", "")
    if what in _IN_PLACE or (name.endswith("_") and not name.endswith("__")):
        return True
    functional = getattr(func, "__module__", "") == "torch.nn.functional"
    return kwargs.get("inplace") is True or (functional and any(value is True for value in args))


def _shares_storage(result: torch.Tensor, leaves: list[Any]) -> bool:
    storage = result.untyped_storage()._cdata
    return any(isinstance(leaf, torch.Tensor) and leaf.untyped_storage()._cdata == storage for leaf in leaves)


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, Mapping):
        return [leaf for item in value.values() for leaf in _tensors(item)]
    if isinstance(value, tuple | list):
        return [leaf for item in value for leaf in _tensors(item)]
    if hasattr(value, "__dict__"):
        return [leaf for item in vars(value).values() if isinstance(item, torch.Tensor) for leaf in [item]]
    return []


def _key(part: Any) -> Any:
    return getattr(part, "key", getattr(part, "idx", part))


def _clean(name: str) -> str:
    return "".join(c if c.isalnum() or c == "_" else "_" for c in name)
