"""Loading the passes that a manifest lists."""

from __future__ import annotations

import ast
import importlib
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import fx

from pass_bench.data import read_manifest
from pass_bench.data.sample import kept_const_names, read_pass_names
from pass_bench.errors import BadInput
from pass_bench.passes.importing import PACKAGE, use_pass_dir
from pass_bench.passes.rule import PassRule
from pass_bench.results.records import PassReport


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

    `const_pass_dir` holds passes that come first (`read_const_names`); one of the same name in pass_dir takes
    the place of such a pass. The limits are about pass_dir: they keep the first passes, and the passes of the
    first replacement functions. A pass that says `DEVICES` without this device's type is left out without
    being imported. Raises BadInput for a manifest, module or function that is not what it should be.
    """
    pass_dir, kind = Path(pass_dir), device.split(":")[0]
    consts: dict[str, PassRule] = {}
    skipped: list[PassReport] = []
    if const_pass_dir is not None:
        const_pass_dir = Path(const_pass_dir)
        rules, skipped = _load_all(const_pass_dir, kept_const_names(pass_dir, const_pass_dir), kind)
        consts = {rule.name: rule for rule in rules}
    found, left_out = _load_all(pass_dir, read_manifest(pass_dir), kind)
    kept, dropped = _limited(found, pattern_limit, replacement_func_limit)
    by_name = consts | {rule.name: rule for rule in kept}
    order = read_pass_names(pass_dir, const_pass_dir)
    return LoadedPasses(
        tuple(by_name[name] for name in order if name in by_name), (*skipped, *left_out, *dropped)
    )


def _load_all(directory: Path, stems: Sequence[str], device: str) -> tuple[list[PassRule], list[PassReport]]:
    use_pass_dir(directory)
    rules: list[PassRule] = []
    skipped: list[PassReport] = []
    for stem in stems:
        path = directory / f"{stem}.py"
        devices = _devices(path)
        if devices is not None and device not in devices:
            why = f"DEVICES is {', '.join(devices)}; this run is on {device}"
            skipped.append(PassReport(name=stem, matched=0, replaced=0, skipped=why))
        else:
            rules.append(_load(path, stem, devices))
    return rules, skipped


def _limited(
    rules: Sequence[PassRule], pattern_limit: int | None, function_limit: int | None
) -> tuple[list[PassRule], list[PassReport]]:
    kept: list[PassRule] = []
    dropped: list[PassReport] = []
    functions: list[Callable[..., Any]] = []
    for rule in rules:
        function = rule.replacement_func()
        why = ""
        if pattern_limit is not None and len(kept) >= pattern_limit:
            why = f"pattern limit {pattern_limit} reached; kept {', '.join(r.name for r in kept) or 'none'}"
        elif function_limit is not None and function not in functions and len(functions) >= function_limit:
            why = f"replacement function limit {function_limit} reached; kept {_names(functions) or 'none'}"
        if why:
            dropped.append(PassReport(name=rule.name, matched=0, replaced=0, skipped=why))
            continue
        kept.append(rule)
        if function not in functions:
            functions.append(function)
    return kept, dropped


def _names(functions: Sequence[Callable[..., Any]]) -> str:
    return ", ".join(getattr(f, "__name__", repr(f)) for f in functions)


def _devices(path: Path) -> tuple[str, ...] | None:
    """The literal that a pass assigns to DEVICES, read without importing it."""
    try:
        tree = ast.parse(path.read_bytes(), str(path))
    except (SyntaxError, ValueError) as error:
        what = error.msg if isinstance(error, SyntaxError) else str(error)
        raise BadInput(f"syntax error: {what}", path=path, line=getattr(error, "lineno", None)) from None
    expected = 'device types, as in DEVICES = ("cpu",)'
    for statement in tree.body:
        if not isinstance(statement, ast.Assign | ast.AnnAssign) or statement.value is None:
            continue
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        if not any(isinstance(t, ast.Name) and t.id == "DEVICES" for t in targets):
            continue
        try:
            value = ast.literal_eval(statement.value)
        except (ValueError, TypeError):
            value = None
        devices = (value,) if isinstance(value, str) else value
        if not isinstance(devices, tuple | list) or not all(isinstance(d, str) for d in devices):
            raise BadInput("DEVICES is no literal", path=path, line=statement.lineno, expected=expected)
        return tuple(devices)
    return None


def _load(path: Path, stem: str, devices: tuple[str, ...] | None) -> PassRule:
    try:
        module = importlib.import_module(f"{PACKAGE}.{stem}")
    except (Exception, SystemExit) as error:
        raise _import_error(error, path) from error
    pattern = _attribute(module, "pattern", path)
    if not isinstance(pattern, fx.GraphModule) and not callable(pattern):
        raise BadInput("pattern is not callable", path=path, expected="a function or a torch.fx.GraphModule")
    arguments = _attribute(module, "replacement_args", path)
    function = _attribute(module, "replacement_func", path)
    for name, value in (("replacement_args", arguments), ("replacement_func", function)):
        if not callable(value):
            raise BadInput(f"{name} is not callable", path=path, expected="a function")
    _check_replacement(function, path)
    return PassRule(stem, pattern, arguments, function, path, devices)


def _attribute(module: ModuleType, name: str, path: Path) -> Any:
    if not hasattr(module, name):
        expected = "pattern, replacement_args and replacement_func in every pass"
        raise BadInput(f"has no {name}", path=path, expected=expected)
    return getattr(module, name)


def _check_replacement(function: Callable[[], Any], path: Path) -> None:
    line = getattr(getattr(function, "__code__", None), "co_firstlineno", None)
    try:
        first, second = function(), function()
    except Exception as error:
        what = f"replacement_func() raised {type(error).__name__}: {_first_line(error)}"
        raise BadInput(what, path=path, line=line) from error
    if not callable(first):
        raise BadInput(
            f"replacement_func() returned {_short(first)}", path=path, line=line, expected="a callable"
        )
    if first is not second:
        raise BadInput(
            "replacement_func() returns another object on every call",
            path=path,
            line=line,
            expected="the same module-level function each time",
        )


def _import_error(error: BaseException, path: Path) -> BadInput:
    """The innermost line of the pass's own files that the failed import went through."""
    if isinstance(error, SyntaxError) and error.filename:
        return BadInput(f"syntax error: {error.msg}", path=error.filename, line=error.lineno)
    where, line = path, None
    for frame in traceback.extract_tb(error.__traceback__):
        if Path(frame.filename).is_relative_to(path.parent):
            where, line = Path(frame.filename), frame.lineno
    what = f"cannot be imported: {type(error).__name__}: {_first_line(error)}"
    return BadInput(what, path=where, line=line)


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [""])[0][:300]


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 80 else text[:77] + "..."
