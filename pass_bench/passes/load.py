"""Loading the passes that a manifest lists."""

from __future__ import annotations

import importlib
import importlib.machinery
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import fx

from pass_bench.data import read_manifest
from pass_bench.errors import BadInput
from pass_bench.passes.rule import PassRule
from pass_bench.results.records import PassReport

PACKAGE = "pass_dir"
INPUT_MANIFEST = "sorted_input_pass_rule_names.json"


@dataclass(frozen=True)
class LoadedPasses:
    """The passes to apply, in order, and a report for each that is left out, with the reason."""

    rules: tuple[PassRule, ...]
    skipped: tuple[PassReport, ...]


def load_passes(
    pass_dir: Path | str,
    const_pass_dir: Path | str | None = None,
    pattern_limit: int | None = None,
    replacement_func_limit: int | None = None,
    device: str = "cpu",
) -> LoadedPasses:
    """Load the passes of a pass_dir, in manifest order.

    `const_pass_dir` holds passes that come first, in the order of pass_dir's
    sorted_input_pass_rule_names.json if there is one. The limits keep the first passes, and the passes of
    the first replacement functions; a pass that says `DEVICES` without this device's type is left out.
    Raises BadInput for a manifest, module, function or `replacement_func` that is not what it should be.
    """
    pass_dir = Path(pass_dir)
    rules: list[PassRule] = []
    if const_pass_dir is not None:
        const_pass_dir = Path(const_pass_dir)
        with _package(const_pass_dir):
            rules += [_load(const_pass_dir, stem) for stem in _const_order(pass_dir, const_pass_dir)]
    with _package(pass_dir):
        rules += [_load(pass_dir, stem) for stem in read_manifest(pass_dir)]
    return _limited(rules, pattern_limit, replacement_func_limit, device.split(":")[0])


def _const_order(pass_dir: Path, const_pass_dir: Path) -> Sequence[str]:
    if (pass_dir / INPUT_MANIFEST).exists():
        return read_manifest(pass_dir, INPUT_MANIFEST)
    return read_manifest(const_pass_dir)


def _limited(
    rules: Sequence[PassRule], pattern_limit: int | None, function_limit: int | None, device: str
) -> LoadedPasses:
    kept: list[PassRule] = []
    skipped: list[PassReport] = []
    functions: list[Callable[..., Any]] = []
    for rule in rules:
        function = rule.replacement_func()
        why = ""
        if rule.devices is not None and device not in rule.devices:
            why = f"DEVICES is {', '.join(rule.devices)}; this run is on {device}"
        elif pattern_limit is not None and len(kept) >= pattern_limit:
            why = f"pattern limit {pattern_limit} reached; kept {', '.join(r.name for r in kept) or 'none'}"
        elif function_limit is not None and function not in functions and len(functions) >= function_limit:
            why = f"replacement function limit {function_limit} reached; kept {_names(functions) or 'none'}"
        if why:
            skipped.append(PassReport(name=rule.name, matched=0, replaced=0, skipped=why))
            continue
        kept.append(rule)
        if function not in functions:
            functions.append(function)
    return LoadedPasses(tuple(kept), tuple(skipped))


def _names(functions: Sequence[Callable[..., Any]]) -> str:
    return ", ".join(getattr(f, "__name__", repr(f)) for f in functions)


@contextmanager
def _package(directory: Path) -> Iterator[None]:
    """Let `pass_dir` mean this directory: a fresh package, whatever was imported under the name before."""
    for name in [n for n in sys.modules if n == PACKAGE or n.startswith(PACKAGE + ".")]:
        del sys.modules[name]
    package = ModuleType(PACKAGE)
    package.__path__ = [str(directory)]
    package.__spec__ = importlib.machinery.ModuleSpec(PACKAGE, None, is_package=True)
    sys.modules[PACKAGE] = package
    importlib.invalidate_caches()
    yield


def _load(directory: Path, stem: str) -> PassRule:
    path = directory / f"{stem}.py"
    try:
        module = importlib.import_module(f"{PACKAGE}.{stem}")
    except BadInput:
        raise
    except (Exception, SystemExit) as error:
        raise _import_error(error, path, directory) from error
    pattern = _attribute(module, "pattern", path)
    if not isinstance(pattern, fx.GraphModule) and not callable(pattern):
        raise BadInput("pattern is not callable", path=path, expected="a function or a torch.fx.GraphModule")
    arguments = _attribute(module, "replacement_args", path)
    function = _attribute(module, "replacement_func", path)
    for name, value in (("replacement_args", arguments), ("replacement_func", function)):
        if not callable(value):
            raise BadInput(f"{name} is not callable", path=path, expected="a function")
    _check_replacement(function, path)
    return PassRule(stem, pattern, arguments, function, path, _devices(module, path))


def _attribute(module: ModuleType, name: str, path: Path) -> Any:
    if not hasattr(module, name):
        raise BadInput(
            f"has no {name}",
            path=path,
            expected="pattern, replacement_args and replacement_func in every pass",
        )
    return getattr(module, name)


def _check_replacement(function: Callable[[], Any], path: Path) -> None:
    line = getattr(getattr(function, "__code__", None), "co_firstlineno", None)
    try:
        first, second = function(), function()
    except Exception as error:
        raise BadInput(
            f"replacement_func() raised {type(error).__name__}: {_first_line(error)}", path=path, line=line
        ) from error
    if not callable(first):
        raise BadInput(f"replacement_func() returned {first!r}", path=path, line=line, expected="a callable")
    if first is not second:
        raise BadInput(
            "replacement_func() returns another object on every call",
            path=path,
            line=line,
            expected="the same module-level function each time",
        )


def _devices(module: ModuleType, path: Path) -> tuple[str, ...] | None:
    value = getattr(module, "DEVICES", None)
    if value is None:
        return None
    devices = (value,) if isinstance(value, str) else value
    if not isinstance(devices, tuple | list) or not all(isinstance(d, str) for d in devices):
        raise BadInput(f"DEVICES is {value!r}", path=path, expected='device types, as in DEVICES = ("cpu",)')
    return tuple(devices)


def _import_error(error: BaseException, path: Path, directory: Path) -> BadInput:
    """The innermost line of the pass's own files that the failed import went through."""
    if isinstance(error, SyntaxError) and error.filename:
        return BadInput(f"SyntaxError: {error.msg}", path=error.filename, line=error.lineno)
    where, line = path, None
    for frame in traceback.extract_tb(error.__traceback__):
        if Path(frame.filename).parent == directory:
            where, line = Path(frame.filename), frame.lineno
    return BadInput(
        f"cannot be imported: {type(error).__name__}: {_first_line(error)}", path=where, line=line
    )


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [""])[0]
