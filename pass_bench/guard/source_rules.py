"""Source rules over everything in a pass_dir that its passes import; no torch, nothing is executed.

They are hygiene and early feedback, not the boundary: the sandbox, the fresh inputs and the outside clock
are.
"""

from __future__ import annotations

import ast
import functools
import importlib
import importlib.util
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from pass_bench.data.sample import kept_const_names, read_manifest
from pass_bench.errors import BadInput
from pass_bench.guard.allowed import words
from pass_bench.guard.native_rules import check_native
from pass_bench.guard.python_rules import TRACED, Checker, is_kernel, referenced
from pass_bench.guard.scopes import SELF, Scope, absolute, function_scope, module_scope
from pass_bench.results.records import Violation

PLUGIN_VARIABLES = ("PASSNET_CUSTOM_PASS_SOURCE_CHECKER_PATH", "AI4C_CUSTOM_PASS_SOURCE_CHECKER_PATH")
NATIVE_SUFFIXES = {".cu", ".cuh", ".cpp", ".cc", ".cxx", ".c", ".h", ".hpp"}
MAX_FILE_BYTES = 2 << 20
Plugin = Callable[[str], list[str]]


@dataclass(frozen=True)
class _Module:
    name: str  # "pass_dir.FusedAdd"
    path: Path
    text: str
    tree: ast.Module
    scope: Scope


def check_passes(pass_dir: Path, const_pass_dir: Path | None) -> tuple[Violation, ...]:
    """Every broken rule in the passes of a pass_dir, and in those of a const_pass_dir that it keeps.

    Raises BadInput as `check_pass_dir` does.
    """
    found = check_pass_dir(pass_dir)
    if const_pass_dir is None:
        return found
    return (*found, *check_pass_dir(const_pass_dir, stems=kept_const_names(pass_dir, const_pass_dir)))


def check_pass_dir(
    pass_dir: Path, plugins: Iterable[Plugin] | None = None, stems: Iterable[str] | None = None
) -> tuple[Violation, ...]:
    """Every broken rule in the passes of the manifest, in the modules of pass_dir that they import, however
    indirectly, and in the C++ and CUDA files beside them; ordered by file and line.

    `plugins` default to those that the environment names, `stems` to the passes of the manifest. Raises
    BadInput for a missing or malformed manifest, for a file that is not UTF-8 Python, and for a plug-in that
    cannot be loaded.
    """
    pass_dir = Path(pass_dir)
    found: list[Violation] = []
    modules = _reachable(pass_dir, read_manifest(pass_dir) if stems is None else stems, found)
    traced, kernels = _roles(modules)
    for module in modules:

        def report(rule: str, why: str, line: int, file: Path = module.path) -> None:
            found.append(Violation(rule=rule, why=why, file=str(file), line=line))

        try:
            Checker(module.name, module.scope, traced, kernels, report).check(module.tree)
        except RecursionError:
            report("unreadable", "nested too deeply to be checked", 1)
    for path in sorted(p for p in pass_dir.rglob("*") if p.suffix in NATIVE_SUFFIXES and p.is_file()):
        for rule, why, line in check_native(_read(path)):
            found.append(Violation(rule=rule, why=why, file=str(path), line=line))
    for plugin in load_plugins() if plugins is None else plugins:
        for module in modules:
            for message in plugin(module.text):
                found.append(Violation(rule="custom", why=str(message), file=str(module.path)))
    return tuple(sorted(set(found), key=lambda v: (v.file, v.line or 0, v.rule, v.why)))


def load_plugins(environment: os._Environ[str] | dict[str, str] = os.environ) -> tuple[Plugin, ...]:
    """`validate_pass_source` of each module that the environment names: files or module names, joined by ":".

    Raises BadInput for one that cannot be imported or has no such function.
    """
    loaded: list[Plugin] = []
    for variable in PLUGIN_VARIABLES:
        for entry in filter(None, environment.get(variable, "").split(":")):
            try:
                if entry.endswith(".py"):
                    spec = importlib.util.spec_from_file_location(f"passnet_checker_{len(loaded)}", entry)
                    assert spec is not None and spec.loader is not None
                    module = importlib.util.module_from_spec(spec)
                    spec.loader.exec_module(module)
                else:
                    module = importlib.import_module(entry)
                loaded.append(module.validate_pass_source)
            except Exception as error:
                what = f"{variable}: cannot use {entry}: {type(error).__name__}: {error}"
                raise BadInput(what, expected="a module with validate_pass_source(source)") from None
    return tuple(loaded)


def _reachable(pass_dir: Path, stems: Iterable[str], found: list[Violation]) -> list[_Module]:
    """The modules that a manifest lists and what they import from pass_dir, each once."""
    waiting = [(f"{SELF}.{stem}", pass_dir / f"{stem}.py") for stem in stems]
    known: dict[str, _Module] = {}
    seen: set[Path] = set()
    while waiting:
        name, path = waiting.pop(0)
        if path in seen:
            continue
        seen.add(path)
        if not path.resolve().is_relative_to(pass_dir.resolve()):
            found.append(Violation(rule="unreadable", why="a link that leaves pass_dir", file=str(path)))
            continue
        module = _parse(name, path)
        known[name] = module
        for line, imported in _own_imports(module, pass_dir):
            target = _find(pass_dir, imported)
            if target is not None:
                waiting.append((imported, target))
            elif _find_binary(pass_dir, imported):
                why = f"{imported} is no Python source file"
                found.append(Violation(rule="forbidden-import", why=why, file=str(path), line=line))
    return list(known.values())


def _parse(name: str, path: Path) -> _Module:
    text = _read(path)
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise BadInput(f"not Python: {error.msg}", path=path, line=error.lineno) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise BadInput(f"cannot be parsed: {error}", path=path) from None
    return _Module(name, path, text, tree, module_scope(tree, name))


def _read(path: Path) -> str:
    if path.stat().st_size > MAX_FILE_BYTES:
        raise BadInput(f"larger than {MAX_FILE_BYTES >> 20} MiB", path=path)
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise BadInput("not UTF-8 text", path=path) from None


def _own_imports(module: _Module, pass_dir: Path) -> list[tuple[int, str]]:
    """Lines and dotted names of what a module imports from its own pass_dir."""
    named: list[tuple[int, str]] = []
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            named += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = absolute(node, module.name)
            named += [(node.lineno, base), *((node.lineno, f"{base}.{alias.name}") for alias in node.names)]
    return [(line, name) for line, name in named if name.startswith(f"{SELF}.")]


def _find(pass_dir: Path, dotted: str) -> Path | None:
    base = pass_dir.joinpath(*dotted.split(".")[1:])
    for candidate in (base.with_suffix(".py"), base / "__init__.py"):
        if candidate.is_file():
            return candidate
    return None


def _find_binary(pass_dir: Path, dotted: str) -> bool:
    base = pass_dir.joinpath(*dotted.split(".")[1:])
    return any(
        path.name.split(".")[0] == base.name and path.suffix in (".so", ".pyc", ".pyd", ".zip")
        for path in (base.parent.iterdir() if base.parent.is_dir() else ())
    )


def _roles(modules: list[_Module]) -> tuple[frozenset[str], frozenset[str]]:
    """Functions that run only while a pattern is traced, and functions that Triton compiles.

    A function belongs to the pattern if it is `pattern` or `replacement_args`, or if nothing but such
    functions mentions it. What nobody mentions never runs and may hold torch code too, unless a decorator
    runs it.
    """
    functions: set[str] = set()
    kernels: set[str] = set()
    mentions: dict[str, set[str]] = {}  # function -> who mentions it; "" stands for code that runs at import
    entries = {f"{module.name}.replacement_func" for module in modules}
    for module in modules:
        for node in module.tree.body:
            owner, scope = "", module.scope
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                owner = f"{module.name}.{node.name}"
                functions.add(owner)
                if is_kernel(node, module.scope):
                    kernels.add(owner)
                elif any(not _harmless(d) for d in node.decorator_list):
                    mentions.setdefault(owner, set()).add("")
                scope = function_scope(node, module.scope, module.name)
            elif isinstance(node, ast.Assign) and all(
                isinstance(target, ast.Name) and target.id in TRACED for target in node.targets
            ):
                owner = f"{module.name}.pattern"
            for target in referenced(node, scope, module.name):
                if target != owner:
                    mentions.setdefault(target, set()).add(owner)
    roots = {f"{module.name}.{name}" for module in modules for name in TRACED}
    traced = {name for name in functions if name in roots or name not in entries}
    changed = True
    while changed:
        outside = {n for n in traced - roots if mentions.get(n, set()) - traced - roots}
        traced -= outside
        changed = bool(outside)
    return frozenset(traced), frozenset(kernels)


def _harmless(decorator: ast.expr) -> bool:
    """`@torch.fx.wrap` and caches do not call what they decorate."""
    text = ast.unparse(decorator).split("(")[0]
    return text in ("torch.fx.wrap", "fx.wrap", "functools.lru_cache", "functools.cache", "staticmethod")


@functools.cache
def rule_names() -> tuple[str, ...]:
    """Names of all source rules, for the documentation."""
    names = words(
        """
        torch-compute torch-state stream forbidden-builtin forbidden-import forbidden-name
        harness-import dunder patched-module module-as-value star-import tensor-subclass
        unreadable custom native-include native-process native-file native-loader native-clock
        native-stream native-hook native-assembly
        """
    )
    return tuple(sorted(names))
