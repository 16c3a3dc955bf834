import torch
import triton
import triton.language as tl


@triton.jit
def unary_kernel(x, y, n, OP: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n, other=0.0).to(tl.float32)
    if OP == 0:
        v = tl.exp(v)
    else:
        v = tl.sigmoid(v)
    tl.store(y + i, v, mask=i < n)


def _exp(x):
    return _unary(x, 0)


def _sigmoid(x):
    return _unary(x, 1)


def _unary(x, op):
    y = torch.empty_like(x)
    unary_kernel[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), OP=op, B=64)
    return y


@torch.fx.wrap
def dispatch(x, route):
    if route == "exp":
        return _exp(x)
    if route == "sigmoid":
        return _sigmoid(x)
    raise NotImplementedError(route)


def pattern(x):
    return torch.sigmoid(x)


def replacement_args(x):
    return (x, "sigmoid")


def replacement_func():
    return dispatch
