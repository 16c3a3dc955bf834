"""Equality of literals, and how nodes and literals are shown to people."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx


def same_literal(one: Any, two: Any) -> bool:
    """Whether two values are the same node, or equal literals of the same type.

    Lists, tuples and torch.Size are alike; -0.0 and 0.0 differ, nan equals nan. Devices that hold data are
    alike: a graph's are moved to where it is evaluated, so a pattern that says cuda:0 means that place too.
    """
    if isinstance(one, fx.Node) or isinstance(two, fx.Node):
        return one is two
    if isinstance(one, list | tuple):
        return (
            isinstance(two, list | tuple)
            and len(one) == len(two)
            and all(same_literal(a, b) for a, b in zip(one, two, strict=True))
        )
    if isinstance(one, slice) and isinstance(two, slice):
        return same_literal((one.start, one.stop, one.step), (two.start, two.stop, two.step))
    if isinstance(one, dict) and isinstance(two, dict):
        return list(one) == list(two) and all(same_literal(one[k], two[k]) for k in one)
    if type(one) is not type(two):
        return False
    if isinstance(one, torch.Tensor):
        return one is two or (
            one.dtype == two.dtype and one.shape == two.shape and bool(torch.equal(one, two))
        )
    if isinstance(one, torch.device):
        return (one.type == "meta") == (two.type == "meta")
    if isinstance(one, float | complex):
        return repr(one) == repr(two)
    return bool(one == two)


def show(value: Any, view: Any = None) -> str:
    """A value in a message: nodes by name, with their operator where `view` has their forms."""
    if isinstance(value, fx.Node):
        if value.op == "placeholder":
            return f"argument '{value.name}'"
        forms = getattr(view, "forms", None)
        found = (forms(value) if callable(forms) else forms.get(value, ())) if forms is not None else ()
        return f"'{value.name}'" + (f" ({found[0].label})" if found else "")
    if isinstance(value, list | tuple):
        inner = ", ".join(show(item, view) for item in value)
        return f"({inner})" if isinstance(value, tuple) else f"[{inner}]"
    if isinstance(value, torch.device):
        return repr(str(value))
    return repr(value)
