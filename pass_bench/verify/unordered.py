"""Which operators of a graph add in no fixed order on a GPU, so that eager itself differs from run to run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

# Those that add floating-point numbers with atomics, from the notes of torch.use_deterministic_algorithms.
UNORDERED = frozenset(
    {"scatter_add", "scatter_add_", "scatter_reduce", "scatter_reduce_", "index_add", "index_add_"}
    | {"index_reduce", "index_reduce_", "histc", "_histogramdd_from_bin_tensors", "bincount"}
    | {"grid_sampler_2d_backward", "_ctc_loss", "_embedding_bag_dense_backward"}
)
ACCUMULATING = frozenset({"index_put", "index_put_", "_unsafe_index_put", "_index_put_impl_", "put", "put_"})


class UnorderedSums(TorchDispatchMode):
    """Notes in `names` which operators that run inside add floating-point numbers in no fixed order.

    `devices`: the types of devices on which they do; a CPU adds in a fixed order.
    """

    def __init__(self, devices: tuple[str, ...] = ("cuda",)):
        super().__init__()
        self._devices = devices
        self.names: set[str] = set()

    def __torch_dispatch__(
        self,
        func: Any,
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        call: Callable[..., Any] = func
        name = func.overloadpacket.__name__
        if name in UNORDERED or (name in ACCUMULATING and _accumulates(func, args, kwargs or {})):
            tensors = (x for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor))
            if any(x.is_floating_point() and x.device.type in self._devices for x in tensors):
                self.names.add(name)
        return call(*args, **(kwargs or {}))


def _accumulates(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether an index_put or a put adds, rather than writes."""
    names = [argument.name for argument in func._schema.arguments]
    place = names.index("accumulate")
    return bool(kwargs.get("accumulate", args[place] if place < len(args) else False))
