"""Runs small kernels under the corrected interpreter and prints what came out as JSON."""

from __future__ import annotations

import json

from pass_bench.kernels import interpreter

interpreter.enable()

import torch  # noqa: E402
import triton  # noqa: E402
import triton.language as tl  # noqa: E402
from triton.language.extra import libdevice  # noqa: E402

N = 256


@triton.jit
def apply(x, y, out, OP: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    a = tl.load(x + at)
    b = tl.load(y + at)
    if OP == 0:
        r = a + b
    elif OP == 1:
        r = a - b
    elif OP == 2:
        r = a * b
    elif OP == 3:
        r = (a / b).to(x.dtype.element_ty)
    elif OP == 4:
        r = -a
    elif OP == 5:
        r = tl.maximum(a, b)
    elif OP == 6:
        r = tl.minimum(a, b)
    elif OP == 7:
        r = tl.where(a > b, a, b)
    elif OP == 8:
        r = tl.abs(a)
    elif OP == 9:
        r = tl.where(a == a, tl.max(a, axis=0), b)
    elif OP == 10:
        r = tl.where(a == a, tl.sum(a.to(tl.float32), axis=0).to(x.dtype.element_ty), b)
    elif OP == 11:
        r = (a.to(tl.float32) * b.to(tl.float32)).to(x.dtype.element_ty) + a
    elif OP == 12:
        r = tl.sqrt(tl.abs(a).to(tl.float32)).to(x.dtype.element_ty)
    else:
        r = tl.where(a <= b, a * 2.0, b)
    tl.store(out + at, r)


def expected(op: int, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (
        lambda: a + b,
        lambda: a - b,
        lambda: a * b,
        lambda: a / b,
        lambda: -a,
        lambda: torch.maximum(a, b),
        lambda: torch.minimum(a, b),
        lambda: torch.where(a > b, a, b),
        lambda: a.abs(),
        lambda: a.max().expand(N),
        lambda: a.float().sum().to(a.dtype).expand(N),
        lambda: a * b + a,
        lambda: a.abs().sqrt(),
        lambda: torch.where(a <= b, a * 2, b),
    )[op]()


@triton.jit
def convert(x, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at).to(out.dtype.element_ty))


@triton.autotune(configs=[triton.Config({"BLOCK": 8}), triton.Config({"BLOCK": 4})], key=["n"])
@triton.jit
def tuned(out, n, BLOCK: tl.constexpr):
    tl.store(out, BLOCK)


@triton.jit
def with_libdevice(x, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(x + at, libdevice.tanh(tl.load(x + at)))


@triton.jit
def with_assembly(x, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    v = tl.inline_asm_elementwise(
        "ex2.approx.f32 $0, $1;", "=f,f", [tl.load(x + at)], dtype=tl.float32, is_pure=True, pack=1
    )
    tl.store(x + at, v)


@triton.jit
def with_mistake(x, BLOCK: tl.constexpr):
    tl.store(x + tl.arange(0, BLOCK), tl.no_such_function(x))


def reason(kernel: object) -> str | None:
    try:
        kernel[(1,)](torch.zeros(8), BLOCK=8)  # type: ignore[index]
    except Exception as error:
        return interpreter.unsupported_reason(error)
    raise AssertionError("it ran")


def main() -> None:
    torch.manual_seed(0)
    result: dict[str, object] = {}
    for dtype in (torch.float16, torch.bfloat16):
        a, b = torch.randn(2, N).to(dtype)
        equal = {}
        for op in range(14):
            out = torch.empty_like(a)
            apply[(1,)](a, b, out, OP=op, BLOCK=N)
            equal[str(op)] = torch.equal(out, expected(op, a, b))
        result[str(dtype).removeprefix("torch.")] = equal
    values = torch.tensor(
        [1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-20, float("inf"), 1e-40, -3.38e38, 0.1, -0.0]
    )
    conversions = {}
    for dtype in (torch.float16, torch.bfloat16):
        out = torch.empty(8, dtype=dtype)
        convert[(1,)](values, out, BLOCK=8)
        conversions[str(dtype).removeprefix("torch.")] = torch.equal(out, values.to(dtype))
    integers = torch.tensor([0, 1, -1, 257, 259, 1000, -1001, 30000], dtype=torch.int32)
    out = torch.empty(8, dtype=torch.bfloat16)
    convert[(1,)](integers, out, BLOCK=8)
    conversions["from int"] = torch.equal(out, integers.to(torch.bfloat16))
    back = torch.empty(8, dtype=torch.int32)
    convert[(1,)](out, back, BLOCK=8)
    conversions["to int"] = torch.equal(back, out.to(torch.int32))
    result["conversions"] = conversions
    block = torch.zeros(1, dtype=torch.int32)
    tuned[(1,)](block, 1)
    result["autotune"] = {"BLOCK": block.item()}
    result["unsupported"] = {
        "libdevice": reason(with_libdevice),
        "inline assembly": reason(with_assembly),
        "a mistake": reason(with_mistake),
    }
    print(json.dumps(result))


main()
