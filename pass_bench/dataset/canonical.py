"""What makes two graphs the same: texts without names, with or without constants, shapes and dtypes."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator

from pass_bench.dataset.cut import Cut
from pass_bench.dataset.listing import HOLE

NUMBER = re.compile(r"(?<![\w.])\d+\.?\d*(?:e[-+]?\d+)?(?![\w.])|(?<![\w.])\.\d+(?:e[-+]?\d+)?(?![\w.])")
_SIGNED = re.compile(r"(?<![\w)\]] )-(?=#)")
_DTYPE = re.compile(r"\btorch\.(?:float16|bfloat16|float32|float64|half|float)\b")
_MANY = re.compile(r"#(?:, #)+")


def _lines(part: Cut) -> Iterator[str]:
    """The statements with values named by order of appearance, arguments too."""
    names: dict[int, str] = {}

    def name(index: int) -> str:
        return names.setdefault(index, f"v{len(names)}")

    for statement in part.statements:
        text = HOLE.sub(lambda hole: name(int(hole.group(1))), statement.text)
        changed = " effect" if statement.effect else ""
        yield f"{name(statement.result)} = {text}{changed}"
    yield "return " + ", ".join(name(index) for index in part.outputs)


def canonical_text(part: Cut) -> str:
    """The graph without names of its own: the same for two graphs that compute the same in the same way."""
    return "\n".join(_lines(part))


def skeleton(part: Cut) -> str:
    """Hash of the operators and how they are connected: constants, shapes and dtypes do not count."""
    lines = []
    for line in _lines(part):
        text = _DTYPE.sub("torch.dtype", NUMBER.sub("#", line))
        lines.append(_MANY.sub("#", _SIGNED.sub("", text)))
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def uid_of(part: Cut) -> str:
    """The derived uid, 32 hex digits: canonical text, and shape, dtype and kind of every argument.

    Statistics do not count, so that the same graph of two layers is one graph.
    """
    lines = [canonical_text(part)]
    for index in part.arguments:
        value = part.listing.values[index]
        meta = value.meta
        kind = "weight" if value.kind == "weight" else "input"
        lines.append(kind if meta is None else f"{kind} {meta.dtype} {list(meta.shape)}")
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:32]
