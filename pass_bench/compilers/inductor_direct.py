"""Inductor's compiled code called without Dynamo's guards: how much of a win is guards, how much kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pass_bench.compilers.base import CallFailed, Compiled


class InductorDirect:
    """Our own capture, compiled by Inductor, behind the check that `pass_mgr_direct` uses."""

    uses_passes = False
    model_only = False
    preload: tuple[str, ...] = ("base", "dynamo", "rewrite", "inductor")
    devices: tuple[str, ...] = ("cpu", "cuda")

    def compile(
        self, module: Any, graph: Any, inputs: Sequence[Any], rules: Sequence[Any], device: str
    ) -> Compiled:
        import torch

        from pass_bench.fx import capture
        from pass_bench.runtime.checked import Checked
        from pass_bench.runtime.fresh import fresh_copies

        gm = capture(module, graph)

        def compiled(kind: tuple[Any, ...]) -> Callable[..., Any]:
            with torch.no_grad():
                return compile_for(gm, fresh_copies(kind))

        checked = Checked(len(inputs), compiled, gm)
        call = checked.prepare(tuple(inputs))
        try:
            with torch.no_grad():
                call(*inputs)
        except Exception as error:
            raise CallFailed(str(error)) from error
        return Compiled(checked.entry)


def compile_for(gm: Any, inputs: Sequence[Any]) -> Callable[..., Any]:
    """Compile a graph for inputs like these, static shapes and all; it returns what the graph returns.

    Inductor hands a tuple back as a list.
    """
    import torch._inductor

    output = next(node for node in gm.graph.nodes if node.op == "output").args[0]
    call: Callable[..., Any] = torch._inductor.compile(gm, list(inputs))
    if not isinstance(output, tuple):
        return call

    def as_tuple(*arguments: Any) -> tuple[Any, ...]:
        return tuple(call(*arguments))

    return as_tuple
