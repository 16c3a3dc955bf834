import torch
import triton
import triton.language as tl


@triton.jit
def gelu_kernel(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n, other=0.0).to(tl.float32)
    tl.store(y + i, 0.5 * v * (1.0 + tl.erf(v * 0.7071067811865476)), mask=i < n)


@torch.fx.wrap
def scaled_gelu(x, y):
    h = torch.add(x, y) * 2
    out = torch.empty_like(h)
    gelu_kernel[(triton.cdiv(h.numel(), 64),)](h, out, h.numel(), B=64)
    return torch.cat([out, h], dim=-1).transpose(0, 1)


def pattern(x, y):
    h = torch.add(x, y) * 2
    return torch.cat([torch.nn.functional.gelu(h), h], dim=-1).transpose(0, 1)


def replacement_args(x, y):
    return (x, y)


def replacement_func():
    return scaled_gelu
