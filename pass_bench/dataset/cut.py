"""Cut consecutive statements of a listing into a graph of its own, in the published spellings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from pass_bench.data.metas import CLASS_PREFIX
from pass_bench.data.records import TensorMeta
from pass_bench.dataset.listing import HOLE, Listing, Statement
from pass_bench.errors import BadInput

Spelling = Literal["source", "fx"]
_GLOBAL = re.compile(r"(?<![\w.])(device|inf|nan)(?![\w=])")


@dataclass(frozen=True, slots=True)
class Cut:
    """Statements start..end of a listing; arguments and outputs are indices of its values."""

    listing: Listing
    start: int
    end: int
    arguments: tuple[int, ...]
    outputs: tuple[int, ...]

    @property
    def statements(self) -> tuple[Statement, ...]:
        """The statements that are in the cut."""
        return self.listing.statements[self.start : self.end]

    @property
    def operators(self) -> tuple[str, ...]:
        """The operator of every statement, in order."""
        return tuple(statement.op for statement in self.statements)

    def argument_names(self) -> dict[int, str]:
        """The published name of every argument, in signature order: `in_i`, then `w_i`, by first use."""
        weights = [i for i in self.arguments if self.listing.values[i].kind == "weight"]
        inputs = [i for i in self.arguments if self.listing.values[i].kind != "weight"]
        return {
            index: f"{prefix}_{number}"
            for prefix, group in (("in", inputs), ("w", weights))
            for number, index in enumerate(group)
        }


def whole(listing: Listing) -> Cut:
    """The whole listing as a cut: unused arguments are left out."""
    return cut(listing, 0, len(listing.statements))


def cut(listing: Listing, start: int, end: int) -> Cut:
    """Statements start..end: what they read from outside are arguments, what is read after them is returned.

    Where nothing of the part is read later, the results that nobody reads are returned. BadInput where a
    boundary would carry something that is not a tensor or an int.
    """
    if not 0 <= start < end <= len(listing.statements):
        raise BadInput(f"no statements {start} to {end}", path=listing.name)
    part = listing.statements[start:end]
    made: dict[int, None] = {}
    arguments: dict[int, None] = {}
    for statement in part:
        arguments.update((index, None) for index in statement.reads if index not in made)
        made[statement.result] = None
    read_later = set(listing.outputs).union(*(s.reads for s in listing.statements[end:]))
    outputs = [index for index in made if index in read_later]
    if not outputs:
        read_inside = set[int]().union(*(statement.reads for statement in part))
        effects = {statement.result for statement in part if statement.effect}
        outputs = [index for index in made if index not in read_inside and index not in effects]
    for index in (*arguments, *outputs):
        value = listing.values[index]
        if value.kind == "other" or (value.kind == "number" and index in arguments):
            raise BadInput(f"{value.name} is not a tensor and lies on the boundary", path=listing.name)
    return Cut(listing, start, end, tuple(arguments), tuple(outputs))


def is_legal(listing: Listing, start: int, end: int) -> bool:
    """Whether these statements can be cut out."""
    try:
        return bool(cut(listing, start, end).outputs)
    except BadInput:
        return False


def print_code(part: Cut, spelling: Spelling = "source") -> str:
    """The text of model.py: "source" for the unparsed form, "fx" for the form of an FX printout."""
    names = part.argument_names()
    last_use = _last_uses(part)
    symints = {names[i] for i in part.arguments if part.listing.values[i].kind == "symint"}
    lines: list[str] = []
    for position, statement in enumerate(part.statements):
        names[statement.result] = f"tmp_{position}"
        text = _fill(statement.text, names)
        target = names[statement.result]
        new = (
            [text, f"{target} = {names[statement.reads[0]]}"] if statement.effect else [f"{target} = {text}"]
        )
        freed = [names[i] for i in last_use.get(position, ()) if spelling == "fx" or i not in part.arguments]
        if spelling == "fx":
            free = f"  {' = '.join(freed)} = None" if freed else ""
            lines.append(";  ".join(new) + (f";{free}" if free else ""))
        else:
            lines += new
            if freed:
                lines.append(f"{' = '.join(freed)} = None")
    returned = [names[index] for index in part.outputs]
    lines.append(f"return ({', '.join(returned)}{',' if len(returned) == 1 else ''})")
    signature = ", ".join(
        ["self", *(f"{n} : torch.SymInt" if n in symints else n for n in part.argument_names().values())]
    )
    body = "\n".join(lines)
    header = "import torch\n"
    needed = sorted(set(_GLOBAL.findall(body)))
    if needed:
        header += f"from torch import {', '.join(needed)}\n"
    indented = "\n".join(f"        {line}" for line in lines)
    return f"{header}\nclass GraphModule(torch.nn.Module):\n    def forward({signature}):\n{indented}\n"


def argument_metas(part: Cut) -> tuple[TensorMeta, ...]:
    """The metas of the arguments in signature order, under their published names.

    BadInput where nothing was recorded of an argument.
    """
    metas: list[TensorMeta] = []
    for index, name in part.argument_names().items():
        value = part.listing.values[index]
        if value.meta is None:
            raise BadInput(f"nothing is recorded of {value.name}", path=part.listing.name)
        original = value.meta.original_name or value.name
        metas.append(
            replace(value.meta, name=name, original_name=original, class_name=CLASS_PREFIX + original)
        )
    return tuple(metas)


def _last_uses(part: Cut) -> dict[int, list[int]]:
    last: dict[int, int] = {}
    for position, statement in enumerate(part.statements):
        for index in (statement.result, *statement.reads):
            last[index] = position
    kept = set(part.outputs)
    by_position: dict[int, list[int]] = {}
    for index, position in last.items():
        if index not in kept:
            by_position.setdefault(position, []).append(index)
    return {position: sorted(indices) for position, indices in by_position.items()}


def _fill(text: str, names: Mapping[int, str]) -> str:
    return HOLE.sub(lambda hole: names[int(hole.group(1))], text)
