"""Run a replacement function once and record what it does to tensors, step by step."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from pass_bench.runtime.fold import METADATA_ATTRIBUTES, METADATA_METHODS
from pass_bench.runtime.launches import launches_seen_by
from pass_bench.runtime.observe import Layout, OperatorLog, OperatorWatch, whereabouts
from pass_bench.runtime.plan import (
    Constant,
    CurrentStream,
    Described,
    Place,
    Plan,
    Slot,
    Step,
    mapped,
    rebased,
)

ALLOCATORS = frozenset(
    {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "empty_permuted"}
)
METADATA = METADATA_METHODS | METADATA_ATTRIBUTES
METADATA |= {"is_cpu", "is_sparse", "is_quantized", "is_meta", "is_nested", "is_conj", "is_neg", "is_leaf"}
METADATA |= {"result_type", "is_tensor", "is_same_size", "dim_order", "is_inference", "itemsize"}


HARMLESS = (
    *(type(None), bool, int, float, complex, str, bytes, type(Ellipsis), Constant, CurrentStream),
    *(torch.dtype, torch.device, torch.layout, torch.memory_format),
)


class Refused(Exception):
    """The function did something that a plan cannot repeat; the message says what."""


class Recorder(TorchFunctionMode):
    """Sees every call on tensors and every kernel launch of one run.

    `refused` is the first thing that cannot be planned, empty if there was none; the run itself goes on as it
    would without the recorder.
    """

    def __init__(self, watch: OperatorWatch) -> None:
        super().__init__()
        self.watch = watch
        self.refused = ""
        self.plan = Plan(0)
        self._paused = 0
        self._slots: dict[int, Slot] = {}
        self._alive: list[torch.Tensor] = []  # so that an id stays that tensor's

    def arguments(self, tensors: Sequence[torch.Tensor]) -> None:
        """Give the arguments their slots; the same tensor twice has one."""
        self.plan.argument_slots = tuple(self._slot(tensor).number for tensor in tensors)
        self.plan.arguments = len(self._alive)

    def _slot(self, tensor: torch.Tensor) -> Slot:
        slot = self._slots.get(id(tensor))
        if slot is None:
            slot = self._slots[id(tensor)] = Slot(len(self._alive))
            self._alive.append(tensor)
        return slot

    def known(self, value: Any) -> Any:
        """A value with its tensors replaced by their slots; raises Refused for a tensor from elsewhere."""
        if isinstance(value, torch.Tensor):
            slot = self._slots.get(id(value))
            if slot is None:
                raise Refused("uses a tensor that it was not given and did not make")
            return slot
        if type(value).__name__ == "TensorDescriptor":
            return Described(rebased(value, None), self.known(value.base))
        if type(value).__name__ == "TensorWrapper" and type(value).__module__.startswith("triton"):
            return self.known(value.base)
        if isinstance(value, HARMLESS) or callable(value) or type(value).__module__.startswith("triton.lang"):
            return value
        raise Refused(f"passes on a {type(value).__name__}")

    def refuse(self, why: str) -> None:
        """Note the first reason for which there will be no plan."""
        self.refused = self.refused or why

    @contextmanager
    def paused(self, pause: bool = True) -> Iterator[None]:
        """Let calls pass unseen (or seen again, with `pause` false)."""
        before, self._paused = self._paused, pause
        try:
            yield
        finally:
            self._paused = before

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self._paused or self.refused or _called_by_triton():
            return func(*args, **kwargs)
        watched = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        before = [whereabouts(tensor) for tensor in watched]
        self.watch.log = log = OperatorLog()
        result = func(*args, **kwargs)
        log.changes_metadata = before != [whereabouts(tensor) for tensor in watched]
        try:
            self._note(func, args, kwargs, result, log)
        except Refused as why:
            self.refuse(str(why))
        return result

    def _note(self, func: Any, args: Any, kwargs: dict[str, Any], result: Any, log: OperatorLog) -> None:
        name = name_of(func)
        if name == "_set_grad_enabled":  # `no_grad`: nothing of the plan records gradients anyway
            return
        tensors = [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        if not tensors and not (result is None and log.mutates):
            if name not in METADATA or log.count:
                raise Refused(f"takes a value from {name}(), which may depend on data")
            return
        self._check(name, tensors, log)
        if isinstance(result, torch.Tensor) and id(result) in self._slots and not log.count:
            return  # `contiguous()` and the like, with nothing to do
        plain = mapped(args, self.known), tuple((key, mapped(kwargs[key], self.known)) for key in kwargs)
        if name in ALLOCATORS and _is_plain_allocation(result, kwargs):
            step = Step("allocate", func, *plain, results=self._slot(result), layout=Layout.of(result))
        else:
            results = self._results(result)
            layout = Layout.of(result) if isinstance(result, torch.Tensor) else None
            step = Step("operator", func, *plain, results=results, mutates=log.mutates, layout=layout)
            for tensor in tensors:
                self._note_view(tensor, [*args, *kwargs.values()], log)
        self.plan.steps.append(step)

    def _check(self, name: str, tensors: Sequence[torch.Tensor], log: OperatorLog) -> None:
        if log.random:
            raise Refused(f"draws random numbers with {name}()")
        if log.depends_on_data:
            raise Refused(f"calls {name}(), whose result's shape or value depends on data")
        if log.changes_metadata:
            raise Refused(f"changes a tensor's metadata in place with {name}()")
        for tensor in tensors:
            if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or tensor.layout is not torch.strided:
                raise Refused(f"makes a tensor of a special kind with {name}()")
            if tensor.requires_grad and torch.is_grad_enabled():
                raise Refused("records gradients")

    def _results(self, result: Any) -> Any:
        if result is None:
            return None
        if isinstance(result, torch.Tensor):
            return self._slot(result)
        if isinstance(result, (tuple, list)) and all(isinstance(item, torch.Tensor) for item in result):
            return tuple(self._slot(item) for item in result)
        raise Refused("calls an operator that returns tensors among other values")

    def _note_view(self, tensor: torch.Tensor, sources: list[Any], log: OperatorLog) -> None:
        slot = self._slots[id(tensor)]
        storage = tensor.untyped_storage().data_ptr()
        bases = {
            id(leaf): leaf
            for leaf in tree_leaves(sources)
            if isinstance(leaf, torch.Tensor) and leaf.untyped_storage().data_ptr() == storage
        }
        if id(tensor) in bases or not storage:
            return
        if len(bases) == 1 and log.only_views:
            base = next(iter(bases.values()))
            place = self.plan.place(self._slots[id(base)])
            offset = place.offset + tensor.data_ptr() - base.data_ptr()
            special = [x.is_conj() or x.is_neg() for x in (tensor, base)]
            plain = place.plain and tensor.dtype is base.dtype and not any(special)
            self.plan.places[slot] = Place(place.root, offset, plain)
        elif bases:
            self.plan.unclear = True

    def launched(
        self,
        function: Any,
        args: Sequence[Any],
        kwargs: dict[str, Any] | None = None,
        *,
        device: int | None = None,
        by_address: bool = False,
        by_pointer: bool = False,
        aligned: bool = False,
    ) -> None:
        """Add a kernel launch: on replay `function` is called with the same arguments, tensors by slot."""
        try:
            step = Step(
                "launch",
                function,
                mapped(tuple(args), self.known),
                tuple((key, mapped(value, self.known)) for key, value in (kwargs or {}).items()),
                mutates=True,
                device=device,
                by_address=by_address,
                by_pointer=by_pointer,
                aligned=aligned,
            )
        except Refused as why:
            self.refuse(str(why))
        else:
            self.plan.steps.append(step)

    def returned(self, result: Any) -> None:
        """Note what the function returned."""
        try:
            self.plan.result = mapped(result, self._returnable)
        except Refused as why:
            self.refuse(str(why))

    def _returnable(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return self.known(value)
        if value is None or type(value) in (bool, int, float, str, torch.dtype, torch.device):
            return value
        raise Refused(f"returns a {type(value).__name__}")


def record(function: Callable[..., Any], args: Sequence[Any]) -> tuple[Any, Plan | None, str]:
    """Run `function` on `args`: its result, the plan, and why there is none."""
    watch = OperatorWatch()
    recorder = Recorder(watch)
    recorder.arguments([leaf for leaf in tree_leaves(list(args)) if isinstance(leaf, torch.Tensor)])
    with launches_seen_by(recorder), watch, recorder:
        result = function(*args)
    recorder.returned(result)
    return result, None if recorder.refused else recorder.plan, recorder.refused


def name_of(func: Any) -> str:
    """The name of what a function mode was called with; of a property, its own name."""
    name = getattr(func, "__name__", "") or str(func)
    if name in ("__get__", "__set__", "__delete__"):
        owner = getattr(getattr(func, "__self__", None), "__name__", "")
        return owner if name == "__get__" else f"setting {owner}"
    return name


def _called_by_triton() -> bool:
    """Whether Triton itself asked (for a dtype, an address): what it does with that is its own business."""
    frame = sys._getframe(2)
    # The code that Triton generates to bind arguments has globals without a name; its caller has one.
    named = frame if "__name__" in frame.f_globals else frame.f_back
    return named is not None and str(named.f_globals.get("__name__", "")).startswith("triton.")


def _is_plain_allocation(result: Any, kwargs: dict[str, Any]) -> bool:
    return (
        isinstance(result, torch.Tensor)
        and not kwargs.get("pin_memory")
        and not kwargs.get("out")
        and not result.requires_grad
        and result.device.type in ("cpu", "cuda")
        and not torch.are_deterministic_algorithms_enabled()
        and (result.device.type == "cpu" or result.device.index == torch.cuda.current_device())
    )
