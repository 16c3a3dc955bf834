"""Run a graph once and note, node by node, what its operators did: values, views, effects, randomness.

What is noted is only used for calls whose inputs have the same shapes, dtypes, strides and devices, so that
everything that metadata decides is a constant.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import (
    BuiltinFunctionType,
    FunctionType,
    MethodDescriptorType,
    MethodWrapperType,
    WrapperDescriptorType,
)
from typing import Any

import torch
from torch import fx
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

METHODS = (MethodDescriptorType, MethodWrapperType, WrapperDescriptorType)
LIBRARY_MODULES = frozenset({"torch", "operator", "_operator", "math", "builtins", "_sitebuiltins"})
INDEX_OPS = frozenset({"aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_"})
STORAGE_OPS = frozenset(
    {"aten::set_", "aten::resize_", "aten::resize_as_", "aten::set_data", "aten::swap_data"}
)
GLOBAL_STATE_WORDS = ("set_grad_enabled", "functorch", "autocast", "inference_mode", "vmap", "set_default")


@dataclass(frozen=True)
class Layout:
    """Where a tensor lies: sizes and strides in elements, dtype, device."""

    size: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device

    @staticmethod
    def of(tensor: torch.Tensor) -> Layout:
        return Layout(tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype, tensor.device)


@dataclass(frozen=True)
class View:
    """A tensor in the storage of an argument, its first element `offset` elements after the argument's."""

    of: fx.Node
    offset: int
    layout: Layout


@dataclass
class Fact:
    """What one node did.

    `same_as`: it returned that argument itself. `views`: of its result, or of each element.
    `depends_on_data`: sizes or Python values of the result follow from tensor contents; `fold` carries that
    on to what is computed from it.
    """

    value: Any = None
    is_value: bool = False  # a Python value, no tensor in it
    layout: Layout | None = None
    same_as: fx.Node | None = None
    views: tuple[View | None, ...] = ()
    is_sequence: bool = False
    mutates: bool = False
    random: bool = False
    changes_metadata: bool = False
    depends_on_data: bool = False
    dispatched: int = 0


@dataclass
class Observation:
    """The facts of one run. `plain`: why nothing may be simplified, empty if it may."""

    facts: dict[fx.Node, Fact] = field(default_factory=dict)
    plain: str = ""


@dataclass
class OperatorLog:
    """The dispatched operators of one step, summed up."""

    count: int = 0
    mutates: bool = False
    random: bool = False
    changes_metadata: bool = False
    depends_on_data: bool = False
    only_views: bool = True

    def add(self, op: Any, args: tuple[Any, ...]) -> None:
        schema = op._schema
        self.count += 1
        self.mutates |= schema.is_mutable
        self.random |= torch.Tag.nondeterministic_seeded in op.tags
        self.changes_metadata |= torch.Tag.inplace_view in op.tags or schema.name in STORAGE_OPS
        self.only_views &= not schema.is_mutable and any(
            result.alias_info is not None for result in schema.returns
        )
        if torch.Tag.data_dependent_output in op.tags:
            self.depends_on_data = True
        elif torch.Tag.dynamic_output_shape in op.tags:
            self.depends_on_data |= schema.name not in INDEX_OPS or any(
                isinstance(leaf, torch.Tensor) and leaf.dtype in (torch.bool, torch.uint8)
                for leaf in tree_leaves(args[1:2])
            )


class OperatorWatch(TorchDispatchMode):
    """Sums up every dispatched operator in `log`."""

    def __init__(self) -> None:
        super().__init__()
        self.log = OperatorLog()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.log.add(func, args)
        return func(*args, **(kwargs or {}))


def is_replacement(node: fx.Node) -> bool:
    """Whether a node calls something that a pass brought, rather than a function of torch or Python."""
    if node.op != "call_function" or isinstance(node.target, str):
        return False
    target: Any = node.target
    named = isinstance(target, (FunctionType, BuiltinFunctionType, type, *METHODS))
    home = target if named else type(target)
    if isinstance(target, METHODS):
        home = getattr(target, "__objclass__", None) or type(getattr(target, "__self__", None))
    return (getattr(home, "__module__", None) or "builtins").split(".")[0] not in LIBRARY_MODULES


def touches_global_state(node: fx.Node) -> bool:
    """Whether a node switches modes (grad, autocast, functorch) that change what later nodes mean."""
    if node.op != "call_function":
        return False
    name = f"{getattr(node.target, '__module__', '')}.{getattr(node.target, '__name__', node.target)}"
    return any(word in name for word in GLOBAL_STATE_WORDS)


class _Observer(fx.Interpreter):
    def __init__(self, gm: fx.GraphModule, watch: OperatorWatch) -> None:
        super().__init__(gm, garbage_collect_values=True)
        self.watch = watch
        self.seen: dict[fx.Node, Fact] = {}

    def run_node(self, n: fx.Node) -> Any:
        inputs = [self.env[source] for source in n.all_input_nodes if source in self.env]
        before = [whereabouts(value) for value in inputs]
        self.watch.log = log = OperatorLog()
        result = super().run_node(n)
        log.changes_metadata = before != [whereabouts(value) for value in inputs]
        self.seen[n] = self._fact(n, result, log)
        return result

    def _fact(self, node: fx.Node, result: Any, log: OperatorLog) -> Fact:
        inputs = {
            source: self.env[source]
            for source in node.all_input_nodes
            if isinstance(self.env.get(source), torch.Tensor)
        }
        fact = Fact(
            mutates=log.mutates,
            random=log.random,
            changes_metadata=log.changes_metadata,
            depends_on_data=log.depends_on_data,
            dispatched=log.count,
        )
        if isinstance(result, torch.Tensor):
            if type(result) in (torch.Tensor, torch.nn.Parameter) and result.layout is torch.strided:
                fact.layout = Layout.of(result)
                fact.same_as = next((source for source, value in inputs.items() if value is result), None)
                if log.count and log.only_views:
                    fact.views = (_view(result, inputs),)
        elif isinstance(result, (tuple, list)) and any(isinstance(leaf, torch.Tensor) for leaf in result):
            fact.is_sequence = True
            if log.count and log.only_views:
                fact.views = tuple(
                    _view(leaf, inputs) if isinstance(leaf, torch.Tensor) else None for leaf in result
                )
        else:
            fact.is_value, fact.value = True, result
        return fact


def whereabouts(value: Any) -> Any:
    """What an in-place change of a tensor's metadata would change."""
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
        return None
    return value.data_ptr(), tuple(value.shape), value.stride()


def _view(result: torch.Tensor, inputs: dict[fx.Node, torch.Tensor]) -> View | None:
    if type(result) is not torch.Tensor or result.layout is not torch.strided:
        return None
    if result.is_conj() or result.is_neg():
        return None
    storage = result.untyped_storage().data_ptr()
    sources = [
        (node, value)
        for node, value in inputs.items()
        if value.layout is torch.strided and value.untyped_storage().data_ptr() == storage
    ]
    if storage == 0 or len(sources) != 1:  # which of two is the base could be another in the next call
        return None
    node, value = sources[0]
    if value.dtype is not result.dtype or value.is_conj() or value.is_neg():
        return None
    return View(node, int(result.storage_offset() - value.storage_offset()), Layout.of(result))


def observe(gm: fx.GraphModule, inputs: Sequence[Any]) -> tuple[Any, Observation]:
    """Run `gm` on `inputs` (changing them as the graph does); return its result and what was observed."""
    observation = Observation()
    if torch.is_grad_enabled() and any(isinstance(x, torch.Tensor) and x.requires_grad for x in inputs):
        observation.plain = "gradients are recorded"
    if any(touches_global_state(node) for node in gm.graph.nodes):
        observation.plain = "the graph switches global modes"
    if observation.plain:
        return gm(*inputs), observation
    watch = OperatorWatch()
    observer = _Observer(gm, watch)
    with watch:
        result = observer.run(*inputs, enable_io_processing=False)
    observation.facts = observer.seen
    return result, observation
