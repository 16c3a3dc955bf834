"""Moves a case that is written for the CPU to a GPU: its C++ kernels become CUDA kernels of one thread.

What a case does is in its Python; its kernels are plain loops, which one CUDA thread runs as they are. That
is slow, so the graph is made small; slow is no offence.
"""

from __future__ import annotations

from dataclasses import replace

from pass_bench.guard.redteam.graphs import TargetGraph

IMPORT = "from pass_bench.kernels import cpp_kernel\n"
MOST = 16  # elements along a dimension
SHIM = '''from pass_bench.kernels import cuda_kernel


def cpp_kernel(source, signature):
    """The same loops as a CUDA kernel of one thread."""
    name = signature.partition("(")[0].split()[-1]
    text = source.replace(f"void {name}(", f"__global__ void {name}(", 1).replace("std::erf(", "erff(")
    kernel = cuda_kernel(text, signature)

    def launch(*args):
        kernel[1, 1](*args)

    return launch
'''


def needs_translation(text: str) -> bool:
    """Whether a pass makes C++ kernels."""
    return IMPORT in text


def to_cuda(text: str) -> str:
    """The source of a pass with its C++ kernels turned into CUDA kernels."""
    return text.replace(IMPORT, SHIM, 1)


def smaller(graph: TargetGraph) -> TargetGraph:
    """The same graph with at most 16 elements along each dimension."""
    metas = (replace(meta, shape=tuple(min(size, MOST) for size in meta.shape)) for meta in graph.metas)
    return replace(graph, metas=tuple(metas))
