import torch
import triton
import triton.language as tl


@triton.jit
def persistent_kernel(x, y, n, PROGRAMS: tl.constexpr, B: tl.constexpr):
    for start in range(tl.program_id(0) * B, n, PROGRAMS * B):
        i = start + tl.arange(0, B)
        tl.store(y + i, tl.load(x + i, mask=i < n) - 1, mask=i < n)


def _programs(device):
    if device.type != "cuda":
        return 3
    return torch.cuda.get_device_properties(device).multi_processor_count


@torch.fx.wrap
def decrement(x):
    y = torch.empty_like(x)
    programs = min(_programs(x.device), triton.cdiv(x.numel(), 16))
    persistent_kernel[(programs,)](x, y, x.numel(), PROGRAMS=programs, B=16)
    return y


def pattern(x):
    return x - 1


def replacement_args(x):
    return (x,)


def replacement_func():
    return decrement
