"""What a call may do, told from the schema of its operator and its literal flags alone."""

from __future__ import annotations

from dataclasses import dataclass
from types import FunctionType
from typing import Any

import torch
from torch import fx

from pass_bench.fx.canonical import Form, forms
from pass_bench.fx.trace import leaves

# Flags of torch.nn.functional that, unless they have the value given, make a call write to its arguments.
_QUIET = {"inplace": False, "out": None, "max_norm": None}
_TRAINING = ("training", "train", "use_input_stats")


@dataclass(frozen=True)
class Effect:
    """Nodes whose tensors the call may write to; `may_alias`: its result may share memory with arguments."""

    writes: tuple[fx.Node, ...] = ()
    may_alias: bool = True
    random: bool = False


def effect_of(node: fx.Node) -> Effect:
    """The effect of a call node, erring on the side of more effect."""
    if node.op == "call_module":
        return Effect(tuple(node.all_input_nodes), True, True)
    readings = forms(node)
    for form in reversed(readings):  # the last ones are those nearest to an operator with a schema
        if isinstance(form.key, str):
            return _of_operator(form)
    return _of_function(node, readings[0])


def _of_operator(form: Form) -> Effect:
    namespace, _, name = str(form.key).partition("::")
    packet = getattr(getattr(torch.ops, namespace), name)
    overloads = [getattr(packet, o) for o in packet.overloads() if o in form.overloads or not form.overloads]
    overloads = overloads or [getattr(packet, o) for o in packet.overloads()]
    writes: list[fx.Node] = []
    alias = False
    for overload in overloads:
        for argument in overload._schema.arguments:
            if argument.alias_info is not None:
                alias = True
                if argument.alias_info.is_write and argument.name in form.arguments:
                    writes += nodes_in(form.arguments[argument.name])
        alias = alias or _is_composite(overload)
    random = any(torch.Tag.nondeterministic_seeded in o.tags for o in overloads) and not _draws_nothing(form)
    return Effect((*writes, *_flagged(form)), alias, random)


def _is_composite(overload: torch._ops.OpOverload) -> bool:
    """Whether an operator is made of others, which may return their input; TorchScript's own are taken so."""
    try:
        return torch._C._dispatch_has_kernel_for_dispatch_key(overload.name(), "CompositeImplicitAutograd")
    except RuntimeError:
        return True


def _of_function(node: fx.Node, form: Form) -> Effect:
    target: Any = node.target
    if isinstance(target, FunctionType) and str(target.__module__).split(".")[0] == "torch":
        random = "dropout" in str(target.__name__) or "dropout_p" in form.arguments
        return Effect(_flagged(form), True, random and not _draws_nothing(form))
    name = str(getattr(target, "__name__", target))
    if name == "setitem":
        return Effect(tuple(nodes_in(node.args[0])), True)
    if target in (getattr,) or name == "getitem" or (node.op == "call_method" and not name.endswith("_")):
        return Effect()
    if str(getattr(target, "__module__", "")).split(".")[0] in ("torch", "math", "_operator", "builtins"):
        return Effect()
    return Effect(tuple(node.all_input_nodes), True, True)


def _flagged(form: Form) -> tuple[fx.Node, ...]:
    """Arguments written because of a flag: all of them for `inplace=True`, the statistics in training."""
    values = {**form.defaults, **form.arguments}
    if any(flag in values and values[flag] is not quiet for flag, quiet in _QUIET.items()):
        return tuple(nodes_in(list(form.arguments.values())))
    if any(values.get(flag, False) is not False for flag in _TRAINING):
        return tuple(nodes_in([values.get("running_mean"), values.get("running_var")]))
    return ()


def _draws_nothing(form: Form) -> bool:
    values = {**form.defaults, **form.arguments}
    if any(values.get(flag) is False for flag in _TRAINING):
        return True
    return values.get("dropout_p") == 0.0


def nodes_in(value: Any) -> list[fx.Node]:
    """The nodes in nested arguments."""
    return [leaf for leaf in leaves(value) if isinstance(leaf, fx.Node)]
