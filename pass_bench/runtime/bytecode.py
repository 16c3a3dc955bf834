"""The names, attributes and writes of a function's bytecode."""

from __future__ import annotations

import dis
import importlib.util
import sys
from dataclasses import dataclass, field
from types import CodeType
from typing import Any, Literal

WRITES = {
    "STORE_GLOBAL": "assigns the global",
    "DELETE_GLOBAL": "deletes the global",
    "STORE_ATTR": "assigns the attribute",
    "DELETE_ATTR": "deletes the attribute",
}
STATEMENTS = {
    "LOAD_BUILD_CLASS": "defines a class",
    "YIELD_FROM": "is a generator",
    "GET_AWAITABLE": "is a coroutine",
    "IMPORT_STAR": "imports everything of a module",
}
STORES = frozenset({"STORE_FAST", "STORE_DEREF", "STORE_NAME"})
LOCAL_LOADS = frozenset({"LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_BORROW", "LOAD_DEREF", "LOAD_CLOSURE"})


@dataclass(frozen=True)
class Name:
    """A name from outside the function, and the attributes taken of it: `torch.cuda.synchronize`."""

    kind: Literal["global", "cell", "import"]
    name: str
    attributes: tuple[str, ...] = ()
    value: Any = None  # of an import


@dataclass
class Uses:
    """What one code object uses; `refused` is what it does that no plan can stand for, empty if nothing."""

    names: list[Name] = field(default_factory=list)
    attributes: set[str] = field(default_factory=set)
    refused: str = ""


def names_in(code: CodeType, space: dict[str, Any], outer: dict[str, Any] | None = None) -> Uses:
    """List what `code` and the functions defined in it use; `space` are the globals, for relative imports."""
    uses = Uses()
    _scan(code, space, dict(outer or {}), set(), uses)
    return uses


def _scan(
    code: CodeType, space: dict[str, Any], imports: dict[str, Any], local: set[str], uses: Uses
) -> None:
    instructions = [i for i in dis.get_instructions(code) if i.opname not in ("CACHE", "EXTENDED_ARG", "NOP")]
    here = {**imports, **_imports(instructions, space, uses)}
    local = local | set(code.co_cellvars)
    for position, instruction in enumerate(instructions):
        name, argument = instruction.opname, instruction.argval
        if name in WRITES:
            uses.refused = uses.refused or f"{WRITES[name]} {argument}"
        elif name in STATEMENTS:
            uses.refused = uses.refused or STATEMENTS[name]
        elif name in ("STORE_DEREF", "DELETE_DEREF") and argument not in local:
            uses.refused = uses.refused or f"assigns {argument} of an enclosing function"
        elif name in ("LOAD_ATTR", "LOAD_METHOD"):
            uses.attributes.add(argument)
        elif name in ("LOAD_GLOBAL", "LOAD_NAME"):
            uses.names.append(Name("global", argument, _attributes(instructions, position)))
        elif name in LOCAL_LOADS and argument in here:
            attributes = _attributes(instructions, position)
            uses.names.append(Name("import", argument, attributes, here[argument]))
        elif name in ("LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF") and argument not in local:
            uses.names.append(Name("cell", argument, _attributes(instructions, position)))
        elif name.startswith("LOAD_FAST") and isinstance(argument, tuple) and set(argument) & set(here):
            uses.refused = uses.refused or "uses a module imported inside it as a value"
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            _scan(constant, space, here, local, uses)


def _attributes(instructions: list[dis.Instruction], position: int) -> tuple[str, ...]:
    found = []
    for instruction in instructions[position + 1 :]:
        if instruction.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            found.append(instruction.argval)
        elif instruction.opname != "PUSH_NULL":
            break
    return tuple(found)


def _imports(instructions: list[dis.Instruction], space: dict[str, Any], uses: Uses) -> dict[str, Any]:
    """The local names that import statements bind, and what they are bound to."""
    bound: dict[str, Any] = {}
    stores: list[str] = []
    module: Any = None
    source: Any = None  # what the next store binds
    for position, instruction in enumerate(instructions):
        name = instruction.opname
        if name == "IMPORT_NAME":
            level = next(
                i.argval
                for i in reversed(instructions[:position])
                if i.opname in ("LOAD_CONST", "LOAD_SMALL_INT") and isinstance(i.argval, int)
            )
            full = instruction.argval
            if level:
                full = importlib.util.resolve_name("." * level + full, space.get("__package__") or "")
            module = sys.modules.get(full)
            follows = instructions[position + 1].opname
            source = sys.modules.get(full.split(".")[0]) if follows in STORES else module
            if module is None:
                uses.refused = uses.refused or f"imports {full} for the first time"
        elif name == "IMPORT_FROM":
            source = getattr(module, instruction.argval, None)
            if source is None:
                source = sys.modules.get(f"{getattr(module, '__name__', '')}.{instruction.argval}")
            follows = instructions[position + 1].opname
            if follows in ("SWAP", "ROT_TWO"):  # `import a.b as c` walks down to b
                module = source
        elif name in STORES:
            stores.append(instruction.argval)
            if source is not None:
                bound[instruction.argval] = source
                source = None
    for name in bound:
        if stores.count(name) > 1:
            uses.refused = uses.refused or f"binds {name} to more than an import"
    return bound
