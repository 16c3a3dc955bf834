"""Replacement functions that no plan can stand for, each for another reason."""

import random
import time

import torch
import triton
import triton.language as tl

CALLS = 0
BUFFERS = {}
TABLE = torch.tensor([1.0, 2.0])
FACTORS = [2.0]


@triton.jit
def scale_kernel(x, y, n, s, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, tl.load(x + i, mask=i < n) * s, mask=i < n)


def _scaled(x, s):
    y = torch.empty_like(x)
    scale_kernel[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), s, B=64)
    return y


def reads_an_element(x):
    return _scaled(x, x[0, 0].item())


def branches_on_data(x):
    if x.sum() > 0:
        return _scaled(x, 2.0)
    return _scaled(x, 3.0)


def counts_its_calls(x):
    global CALLS
    CALLS += 1
    return _scaled(x, float(CALLS))


def keeps_a_buffer(x):
    if x.shape not in BUFFERS:
        BUFFERS[x.shape] = torch.empty_like(x)
    return _scaled(x, 2.0) + BUFFERS[x.shape].fill_(1.0)


def draws_in_python(x):
    return _scaled(x, random.random())


def draws_with_torch(x):
    return _scaled(x, 2.0) * torch.rand_like(x)


def reads_the_clock(x):
    return _scaled(x, time.time() * 1e-12)


def prints(x):
    print("scaling")
    return _scaled(x, 2.0)


def uses_a_global_tensor(x):
    return _scaled(x, 2.0) * TABLE[1]


def appends_to_a_global(x):
    FACTORS.append(FACTORS[-1] + 1.0)
    return _scaled(x, FACTORS[-1])


def picks_elements(x):
    return _scaled(x[x > 0], 2.0)


def looks_at_the_address(x):
    return _scaled(x, 2.0 if x.data_ptr() % 64 == 0 else 3.0)


def opens_a_file(x):
    with open("/dev/null") as file:  # noqa: PTH123
        file.read()
    return _scaled(x, 2.0)


def keeps_state_on_itself(x):
    keeps_state_on_itself.calls = getattr(keeps_state_on_itself, "calls", 0) + 1
    return _scaled(x, float(keeps_state_on_itself.calls))


def evaluates_text(x):
    return _scaled(x, eval("1 + 1"))


def asks_for_the_seed(x):
    return _scaled(x, float(torch.initial_seed() % 7))


def has_a_mutable_default(x, seen=[]):  # noqa: B006
    seen.append(1)
    return _scaled(x, float(len(seen)))


def takes_numpy(x):
    return _scaled(x, float(x.numpy().sum()) if x.device.type == "cpu" else 1.0)


def returns_a_set(x):
    return {_scaled(x, 2.0)}


REASONS = {
    reads_an_element: "takes a value from item(), which may depend on data",
    branches_on_data: "takes a value from __bool__(), which may depend on data",
    counts_its_calls: "counts_its_calls assigns the global CALLS",
    keeps_a_buffer: "uses the container BUFFERS, which holds more than constants",
    draws_in_python: "uses random.random, which is not known to be free of effects",
    draws_with_torch: "draws random numbers with rand_like()",
    reads_the_clock: "uses time.time, which is not known to be free of effects",
    prints: "uses print, which is not known to be free of effects",
    uses_a_global_tensor: "uses the module-level tensor TABLE",
    appends_to_a_global: "it does something else every time it is recorded",
    picks_elements: "calls __getitem__(), whose result's shape or value depends on data",
    looks_at_the_address: "takes a value from data_ptr(), which may depend on data",
    opens_a_file: "uses open, which is not known to be free of effects",
    keeps_state_on_itself: "keeps_state_on_itself assigns the attribute calls",
    evaluates_text: "uses eval, which is not known to be free of effects",
    asks_for_the_seed: "calls torch.random.initial_seed",
    has_a_mutable_default: "has_a_mutable_default has a mutable default",
    takes_numpy: "takes a value from numpy(), which may depend on data",
    returns_a_set: "returns a set",
}
