"""Triton: a program per tile of a plane; the gate is one scalar."""

import torch
import triton
import triton.language as tl
from pass_dir._pattern import pattern, replacement_args
from triton.language.extra import libdevice

__all__ = ["DEVICES", "pattern", "replacement_args", "replacement_func"]

DEVICES = ("cuda",)


@triton.jit
def _kernel(gate, x, out, size, BLOCK: tl.constexpr):
    plane = tl.program_id(0)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    start = plane.to(tl.int64) * size
    v = tl.load(x + start + at, mask=inside, other=0.0).to(tl.float32)
    # Eager's exp and division, not the approximations: one neighbour off here is two off after the product.
    g = tl.load(gate + plane).to(tl.float32)
    scale = tl.div_rn(1.0, 1.0 + libdevice.exp(-g)).to(x.dtype.element_ty).to(tl.float32)
    tl.store(out + start + at, v * scale, mask=inside)


@torch.fx.wrap
def squeeze_excite_scale(gate, x):
    out = torch.empty_like(x)
    planes = gate.numel()
    size = x.numel() // planes
    # Eager's compiler fuses exp's last product with the sum 1 + exp(-x): so must this one.
    _kernel[(planes, triton.cdiv(size, 1024))](
        gate, x, out, size, BLOCK=1024, num_warps=4, enable_fp_fusion=True
    )
    return out


def replacement_func():
    return squeeze_excite_scale
