"""Whether a replacement function's host code can be planned: it may only look at metadata and constants.

Read from bytecode, together with everything that it can reach: helper functions, grids, heuristics. What is
not known to be harmless counts as harmful; the reason is kept. Reads of module-level names are returned, so
that a plan can check that they still hold the same objects.
"""

from __future__ import annotations

import builtins
import functools
from dataclasses import dataclass, field
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import torch

from pass_bench.runtime.bytecode import Name, names_in
from pass_bench.runtime.library import allowed_builtin, allowed_torch, allowed_triton

SCALARS = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis), slice)
TORCH_VALUES = (torch.dtype, torch.device, torch.memory_format, torch.layout, torch.Size)
TRITON_KERNELS = frozenset(
    {"JITFunction", "InterpretedFunction", "Autotuner", "Heuristics", "GluonJITFunction"}
)
HARMLESS_DUNDERS = frozenset({"__len__", "__getitem__", "__name__", "__class__"})


class Impure(Exception):
    """Host code that cannot be planned; the message says what it does."""


@dataclass(frozen=True)
class Read:
    """A module-level or enclosing name that host code reads, and the object it held."""

    space: dict[str, Any] | CellType
    name: str
    value: Any

    @property
    def is_container(self) -> bool:
        """Whether the object itself may change, so that its contents must be compared."""
        return isinstance(self.value, (list, dict, set))


@dataclass
class HostCode:
    """All that a function's host code reads; `kernels` are the Triton kernels among it."""

    reads: list[Read] = field(default_factory=list)
    kernels: list[Any] = field(default_factory=list)


def examine(function: Any) -> HostCode:
    """Return what a replacement function's host code reads; raises Impure if it may do more than read."""
    examiner = _Examiner()
    examiner.value(function, getattr(function, "__name__", repr(function)))
    return examiner.found


def is_constant(value: Any) -> bool:
    """Whether a value is immutable all the way down and is no tensor."""
    if isinstance(value, (tuple, frozenset)):
        return all(is_constant(item) for item in value)
    return isinstance(value, (*SCALARS, *TORCH_VALUES)) or type(value).__name__ in ("dtype", "constexpr")


def is_triton_kernel(value: Any) -> bool:
    """Whether a value is one of Triton's launchable objects."""
    kind = type(value)
    return kind.__name__ in TRITON_KERNELS and kind.__module__.startswith("triton.")


def _is_own_kernel(value: Any) -> bool:
    homes = (type(value).__module__, getattr(value, "__module__", None))
    return any(isinstance(home, str) and home.startswith("pass_bench.kernels.") for home in homes)


class _Examiner:
    def __init__(self) -> None:
        self.found = HostCode()
        self._done: set[int] = set()

    def value(self, value: Any, name: str) -> None:
        """Check an object that host code may use in any way."""
        if is_constant(value) or id(value) in self._done:
            return
        self._done.add(id(value))
        if type(value).__name__ == "Launcher" and _is_own_kernel(value):
            self._kernel(value.kernel, name)
            return
        if _is_own_kernel(value):
            return
        if isinstance(value, FunctionType):
            self._function(value, name)
        elif isinstance(value, functools._lru_cache_wrapper):
            self.value(value.__wrapped__, name)
        elif is_triton_kernel(value):
            self._kernel(value, name)
        elif isinstance(value, torch.Tensor):
            raise Impure(f"uses the module-level tensor {name}")
        elif isinstance(value, (list, dict, set)):
            items = [*value.keys(), *value.values()] if isinstance(value, dict) else list(value)
            if not all(is_constant(item) for item in items):
                raise Impure(f"uses the container {name}, which holds more than constants")
        elif isinstance(value, ModuleType):
            raise Impure(f"uses the module {name} as a value")
        elif not (allowed_builtin(value) or allowed_torch(value) or allowed_triton(value)):
            raise Impure(f"uses {name}, which is not known to be free of effects")

    def _function(self, function: FunctionType, name: str) -> None:
        if (function.__module__ or "").split(".")[0] in ("torch", "triton"):
            if not (allowed_torch(function) or allowed_triton(function)):
                raise Impure(f"calls {function.__module__}.{function.__qualname__}")
            return
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=False))
        if function.__code__.co_filename.endswith("torch/utils/_contextlib.py"):
            factory = cells["ctx_factory"].cell_contents if "ctx_factory" in cells else None
            if not (isinstance(factory, MethodType) and isinstance(factory.__self__, torch.no_grad)):
                raise Impure(f"{name} is wrapped in a context other than no_grad")
            self.value(getattr(function, "__wrapped__", None), name)
            return
        for default in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
            if isinstance(default, (list, dict, set)):
                raise Impure(f"{name} has a mutable default")
            self.value(default, f"a default of {name}")
        self._code(function.__code__, function.__globals__, cells, name)

    def _kernel(self, kernel: Any, name: str) -> None:
        self.found.kernels.append(kernel)
        if getattr(kernel, "pre_run_hooks", None):
            raise Impure(f"kernel {name} has pre-run hooks")
        if type(kernel).__name__ == "Heuristics":
            for heuristic, function in kernel.values.items():
                self.value(function, f"the heuristic {heuristic} of {name}")
        for config in getattr(kernel, "configs", None) or ():
            if config.pre_hook is not None:
                self.value(config.pre_hook, f"a pre_hook of {name}")
        inner = getattr(kernel, "fn", None)
        if is_triton_kernel(inner):
            self.value(inner, name)

    def _code(self, code: CodeType, space: dict[str, Any], cells: dict[str, CellType], where: str) -> None:
        uses = names_in(code, space)
        if uses.refused:
            raise Impure(f"{where} {uses.refused}")
        for attribute in uses.attributes:
            if attribute.startswith("__") and attribute not in HARMLESS_DUNDERS:
                raise Impure(f"{where} looks at {attribute}")
        for name in uses.names:
            root = self._root(name, space, cells, where)
            if root is not None:
                self._chain(root, name.attributes, where)

    def _root(self, name: Name, space: dict[str, Any], cells: dict[str, CellType], where: str) -> Read | None:
        if name.kind == "import":
            return Read(vars(builtins), name.name, name.value)
        if name.kind == "cell":
            cell = cells.get(name.name)
            return None if cell is None else Read(cell, name.name, cell.cell_contents)
        for holder in (space, vars(builtins)):
            if name.name in holder:
                return Read(holder, name.name, holder[name.name])
        raise Impure(f"{where} uses {name.name}, which is not defined")

    def _chain(self, root: Read, attributes: tuple[str, ...], where: str) -> None:
        """Follow `root.a.b.c` through modules to the object that is used, and check that."""
        value, spelling, rest, read = root.value, root.name, list(attributes), root
        while isinstance(value, ModuleType) and rest:
            attribute = rest.pop(0)
            if not hasattr(value, attribute):
                raise Impure(f"{where} uses {spelling}.{attribute}, which is not there")
            library = value.__name__.split(".")[0] in ("torch", "triton", "math", "operator")
            read = Read(vars(builtins if library else value), attribute, getattr(value, attribute))
            value, spelling = read.value, f"{spelling}.{attribute}"
        if isinstance(value, ModuleType):
            raise Impure(f"{where} uses the module {spelling} as a value")
        if allowed_builtin(value) or allowed_torch(value) or allowed_triton(value, tuple(rest)):
            return
        self.value(value, spelling)
        if read.space is vars(builtins):
            return
        if isinstance(read.space, dict) and read.name not in read.space:
            raise Impure(f"{where} uses {spelling}, which is made on demand")
        self.found.reads.append(read)
