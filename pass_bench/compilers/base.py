"""What a compiler is: something that turns a graph and its passes into a callable."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from pass_bench.results.records import PassReport

if TYPE_CHECKING:
    import torch

    from pass_bench.data import Graph
    from pass_bench.passes import PassRule


@dataclass(frozen=True)
class Compiled:
    """A callable that takes the graph's arguments in signature order, and what went into it.

    `reports` has one entry per pass; `graph_breaks` counts the places where capture had to cut the graph;
    `note` is one line for people.
    """

    call: Callable[..., Any]
    reports: tuple[PassReport, ...] = ()
    graph_breaks: int = 0
    note: str = ""


def first_call(call: Callable[..., Any], inputs: Sequence[Any]) -> None:
    """Run a `torch.compile` callable once, so that it compiles; raises CallFailed if the call fails."""
    import torch
    from torch._dynamo.exc import TorchDynamoException

    try:
        with torch.no_grad():
            call(*inputs)
    except TorchDynamoException:
        raise
    except Exception as error:
        if type(error).__module__.startswith("torch._inductor"):
            raise
        raise CallFailed(str(error)) from error


class CallFailed(Exception):
    """The graph compiled, and its first call raised: a run-time failure, not one of compilation."""


class Compiler(Protocol):
    """One way to run a graph.

    `uses_passes`: whether passes are applied, so that a graph on which none matched is a miss.
    `model_only`: whether it runs the model as it is, so that one process can serve for many graphs.
    `preload`: groups of modules that the zygote should import beforehand (worker/zygote.py).
    `devices`: the types of devices that it compiles for.
    """

    uses_passes: bool
    model_only: bool
    preload: tuple[str, ...]
    devices: tuple[str, ...]

    def compile(
        self,
        module: torch.nn.Module,
        graph: Graph,
        inputs: Sequence[Any],
        rules: Sequence[PassRule],
        device: str,
    ) -> Compiled:
        """Compile for these example inputs, which may be used up.

        Raises CallFailed if the first call raises; any other exception is a compile failure.
        """
        ...
