"""Source rules: what they report, with file, line and rule, and the honest styles that they leave alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pass_bench.errors import BadInput
from pass_bench.guard.native_rules import check_native
from pass_bench.guard.source_rules import check_pass_dir, load_plugins

FRAME = """import torch
{top}
def pattern(x, y):
    return torch.relu(torch.matmul(x, y))
def replacement_args(x, y):
    return (x, y)
@torch.fx.wrap
def fused(x, y):
    out = torch.empty_like(x)
{body}
    return out
def replacement_func():
    return fused
"""


def write(folder: Path, passes: dict[str, str], **others: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "sorted_output_pass_rule_names.json").write_text(json.dumps(list(passes)))
    for name, text in {**passes, **{k.replace("__", "."): v for k, v in others.items()}}.items():
        (folder / (name if "." in name else f"{name}.py")).write_text(text)
    return folder


def rules(folder: Path, top: str = "", body: str = "    pass") -> list[tuple[str, int | None]]:
    pass_dir = write(folder / "pass_dir", {"P": FRAME.format(top=top, body=body)})
    return [(violation.rule, violation.line) for violation in check_pass_dir(pass_dir, plugins=())]


IN_BODY = {  # replacement body -> rule; the body starts at line 10
    "    out = torch.matmul(x, y)": "torch-compute",
    "    out = x @ y": "torch-compute",
    "    out = x.matmul(y)": "torch-compute",
    "    out = x.add_(y)": "torch-compute",
    "    out += 1": "torch-compute",
    "    out = -out": "torch-compute",
    "    out[0] = x.shape[0]": "torch-compute",
    "    out = torch.nn.functional.relu(x)": "torch-compute",
    "    out = torch.ops.aten.relu(x)": "torch-compute",
    "    out = torch._C._nn.gelu(x)": "torch-compute",
    "    out = torch.Tensor.relu(x)": "torch-compute",
    "    out = getattr(torch, 'matmul')(x, y)": "torch-compute",
    "    out = getattr(x, 'matmul')(y)": "torch-compute",
    "    out = getattr(torch, 'mat' + 'mul')(x, y)": "forbidden-builtin",
    "    g = getattr": "forbidden-builtin",
    "    mods = [torch]": "module-as-value",
    "    out = vars(torch)": "forbidden-builtin",
    "    out = torch.__dict__['relu'](x)": "dunder",
    "    out = x.__matmul__(y)": "dunder",
    "    out = (lambda: 0).__globals__": "dunder",
    "    out = eval('x')": "forbidden-builtin",
    "    exec('x')": "forbidden-builtin",
    "    out = __import__('os')": "forbidden-builtin",
    "    out = torch.compile(x)": "torch-compute",
    "    out = torch.os": "forbidden-import",
    "    torch.matmul = None": "patched-module",
    "    torch.Tensor.relu = None": "patched-module",
    "    torch.__dict__['relu'] = None": "patched-module",
    "    setattr(torch, 'relu', None)": "forbidden-builtin",
    "    del torch.relu": "patched-module",
    "    torch.set_num_threads(1)": "torch-state",
    "    torch.backends.cudnn.benchmark = True": "torch-state",
    "    torch.manual_seed(0)": "torch-state",
    "    s = torch.cuda.Stream()": "stream",
    "    g = torch.cuda.CUDAGraph()": "stream",
    "    open('/etc/hostname')": "forbidden-builtin",
    "    (i for i in ()).gi_frame": "dunder",
    "    import os": "forbidden-import",
    "    from torch import matmul as m": "torch-compute",
    "    class T(torch.Tensor): pass": "tensor-subclass",
}
AT_TOP = {
    "import os": "forbidden-import",
    "import numpy as np": "forbidden-import",
    "import ctypes": "forbidden-import",
    "import gc": "forbidden-import",
    "import threading": "forbidden-import",
    "from sys import modules": "forbidden-name",
    "import inspect; inspect.stack()": "forbidden-name",
    "import operator; op = operator.methodcaller('relu')": "forbidden-name",
    "import operator; op = operator.matmul": "forbidden-name",
    "from torch import *": "star-import",
    "from torch.nn import functional as F; relu = F.relu": "torch-compute",
    "import functools; mm = functools.partial(torch.matmul)": "torch-compute",
    "t = torch; u = t; mm = u.mm": "torch-compute",
    "import pass_bench.worker": "harness-import",
    "from pass_bench import timing": "harness-import",
    "from pass_bench.kernels import _cache": "harness-import",
    "from pass_bench.kernels.cpp import functools": "ok",
    "import typing as t; def_type: t.Optional[int] = None; T = t.TypeVar('T')": "ok",
    "from typing import Any, Callable, NamedTuple, Protocol, cast": "ok",
    "from typing_extensions import Self, TypedDict": "ok",
    "import logging; log = logging.getLogger(__name__); log.debug('ready')": "ok",
    "import string; TEXT = string.Template('$n kernels').substitute(n=2) + string.digits": "ok",
    "import contextlib\nwith contextlib.nullcontext(1) as one: used = [i for i, _ in enumerate('ab')]": "ok",
    "__name__ = '__main__'": "dunder",
    "import triton; triton.jit = None": "patched-module",
    "import math; math.sqrt = None": "patched-module",
    "import dataclasses; dataclasses.sys": "forbidden-import",
    "import math\nfor math.floor in (abs,): pass": "patched-module",
    "import math\nfor i, (math.floor, *math.args) in (): pass": "patched-module",
    "import math\nasync def f():\n    async for math.floor in g(): pass": "patched-module",
    "import math, contextlib\nwith contextlib.nullcontext(abs) as math.floor: pass": "patched-module",
    "import math\nused = [0 for math.floor in (abs,)]": "patched-module",
    "import math\nused = {0: 0 for math.table['x'] in (abs,)}": "patched-module",
    "import string; string.Formatter().get_field('0.matmul', (1,), {})": "forbidden-name",
    "from string import Formatter as F": "forbidden-name",
    "import typing; typing.get_type_hints(f)": "forbidden-name",
    "import typing; typing.ForwardRef('f()')": "forbidden-name",
    "from typing_extensions import get_type_hints": "forbidden-name",
    "import logging; logging.FileHandler('/tmp/x')": "forbidden-name",
    "import logging; logging.basicConfig(filename='/tmp/x')": "forbidden-name",
    "import string; used = [string]": "module-as-value",
    "def helper(x): return torch.relu(x)\nused = helper": "torch-compute",
    "SRC = '#include <torch/extension.h>'": "native-include",
    'SRC = \'extern "C" void f(float* x) { system("id"); }\'': "native-process",
}


@pytest.mark.parametrize("body", IN_BODY)
def test_a_replacement_that_breaks_a_rule_is_located(tmp_path: Path, body: str) -> None:
    assert (IN_BODY[body], 10) in rules(tmp_path, body=body)


@pytest.mark.parametrize("top", AT_TOP)
def test_module_level_code_that_breaks_a_rule_is_named(tmp_path: Path, top: str) -> None:
    found = [rule for rule, _ in rules(tmp_path, top=top)]
    assert (AT_TOP[top] in found) if AT_TOP[top] != "ok" else not found


HONEST_BODIES = """
n = x.numel()
M, N = x.shape[0], x.shape[-1]
grid = ((n + 127) // 128,)
w = y.to(torch.float32).contiguous().view(-1)
out = torch.zeros(x.shape, dtype=x.dtype, device=x.device)
strides = x.stride() + (1,)
same = x.dtype == torch.float16 and x.is_cuda and x.is_contiguous()
scale = 1.0 / math.sqrt(N)
sm = torch.cuda.get_device_properties(x.device).multi_processor_count
_table[(x.shape, x.dtype)] = out
_seen.add(x.dtype)
words = "a b".split() + sorted(_seen, key=str)
kernel[grid](x, out, n, BLOCK=triton.next_power_of_2(N), num_warps=4 if N < 2048 else 8)
out = out.reshape(M, N).transpose(0, 1)
eps = operator.mul(2, 1e-5) + functools.reduce(operator.add, [1, 2])
version = getattr(torch.version, "hip", None)
assert x.shape == y.shape, f"{x.shape}"
bits = torch.finfo(x.dtype).max + x.element_size() * 8
with torch.cuda.device(x.device): pass
i = torch.iinfo(torch.int32).max
p = x.data_ptr() % 16 == 0
out = torch.full_like(x, float("inf"))
_best["config"] = max(_best.values(), default=0)
""".strip().splitlines()
HONEST_TOP = """
import functools, math, operator
from typing import Any
import triton
import triton.language as tl
from pass_bench.kernels import cpp_kernel, cuda_kernel
_table, _seen, _best = {}, set(), {}
DEVICES = ("cpu", "cuda")
@triton.autotune(configs=[triton.Config({"BLOCK": 128}, num_warps=4)], key=["n"])
@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def kernel(x, y, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n).to(tl.float32)
    v = v * tl.sigmoid(v) + tl.sum(v, axis=0) - v.sum()
    tl.store(y + i, tl.dot(v, v) if EVEN else -v, mask=i < n)
@functools.lru_cache
def blocks(n: int) -> int:
    return triton.cdiv(n, 128)
add = cpp_kernel('void add(const float* x, float* y, int64_t n) { for (int64_t i = 0; i < n; ++i) '
                 'y[i] = std::exp(x[i]); }', "add(const float* x, float* y, int64_t n)")
def _eager(x, y):
    return torch.relu(x @ y)
"""


@pytest.mark.parametrize("line", HONEST_BODIES)
def test_honest_styles_are_left_alone(tmp_path: Path, line: str) -> None:
    assert rules(tmp_path, top=HONEST_TOP, body="    " + line) == []


def test_code_that_only_patterns_reach_may_compute(tmp_path: Path) -> None:
    shared = "import torch\ndef gate(x):\n    return x * torch.sigmoid(x)\n"
    text = FRAME.format(
        top="from pass_dir._shared import gate\nimport torch.nn.functional as F", body="    pass"
    )
    text = text.replace("torch.relu(torch.matmul(x, y))", "F.relu(gate(x) @ y) + x.mul(2)")
    assert check_pass_dir(write(tmp_path / "a", {"P": text}, _shared=shared), plugins=()) == ()
    used = text.replace("    pass", "    out = gate(x)")
    (violation,) = check_pass_dir(write(tmp_path / "b", {"P": used}, _shared=shared), plugins=())
    assert (violation.rule, Path(violation.file).name, violation.line) == ("torch-compute", "_shared.py", 3)


def test_helpers_are_followed_however_they_are_imported(tmp_path: Path) -> None:
    top = "from . import _a"
    files = {"_a": "from pass_dir._b import f\n", "_b": "import os\ndef f(): pass\n"}
    found = check_pass_dir(
        write(tmp_path / "p", {"P": FRAME.format(top=top, body="    _a.f()")}, **files), ()
    )
    assert [(v.rule, Path(v.file).name) for v in found] == [("forbidden-import", "_b.py")]
    assert "torch" not in found[0].why


def test_a_graph_module_pattern_is_fine(tmp_path: Path) -> None:
    text = "import torch\ndef _p(x):\n    return torch.relu(x)\npattern = torch.fx.symbolic_trace(_p)\n"
    text += "def replacement_args(x): return (x,)\ndef f(x): return torch.empty_like(x)\n"
    text += "def replacement_func(): return f\npattern.__signature__ = None\n"
    assert check_pass_dir(write(tmp_path / "p", {"P": text}), plugins=()) == ()


def test_compiled_modules_and_leaving_links_are_reported(tmp_path: Path) -> None:
    (tmp_path / "elsewhere.py").write_text("x = 1\n")
    top = "from pass_dir import fast, linked"
    pass_dir = write(tmp_path / "p", {"P": FRAME.format(top=top, body="    pass")}, fast__so="ELF")
    (pass_dir / "linked.py").symlink_to(tmp_path / "elsewhere.py")
    assert {v.rule for v in check_pass_dir(pass_dir, ())} == {"forbidden-import", "unreadable"}


def test_bad_files_are_bad_input(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"P.py:1: not Python"):
        check_pass_dir(write(tmp_path / "p", {"P": "def ("}), ())
    (tmp_path / "p" / "P.py").write_bytes(b"\xff\xfe")
    with pytest.raises(BadInput, match="not UTF-8"):
        check_pass_dir(tmp_path / "p", ())
    with pytest.raises(BadInput, match="no such pass directory"):
        check_pass_dir(tmp_path / "nothing", ())


def test_plugins_add_rules_under_either_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checker = tmp_path / "checker.py"
    checker.write_text("def validate_pass_source(s):\n    return ['no fused'] if 'fused' in s else []\n")
    pass_dir = write(tmp_path / "p", {"P": FRAME.format(top="", body="    pass")})
    for name in ("PASSNET_CUSTOM_PASS_SOURCE_CHECKER_PATH", "AI4C_CUSTOM_PASS_SOURCE_CHECKER_PATH"):
        with monkeypatch.context() as patch:
            patch.setenv(name, f":{checker}:")
            assert [(v.rule, v.why) for v in check_pass_dir(pass_dir)] == [("custom", "no fused")]
    with pytest.raises(BadInput, match=r"cannot use /nowhere.py"):
        load_plugins({"PASSNET_CUSTOM_PASS_SOURCE_CHECKER_PATH": "/nowhere.py"})


NATIVE = {
    "#include <torch/extension.h>": ("native-include", 1),
    "// #include <fstream>\n#include <fstream>": ("native-include", 2),
    "void f() { std::thread t; }": ("native-process", 1),
    "void f() { popen(0, 0); }": ("native-process", 1),
    'void f() {\n fopen("x", "r"); }': ("native-file", 2),
    "auto p = dlsym(0, 0);": ("native-loader", 1),
    "void f() { clock_gettime(0, 0); }": ("native-clock", 1),
    "void f() { cudaStreamCreate(&s); }": ("native-stream", 1),
    "cudaStreamAttrValue v; v.accessPolicyWindow.num_bytes = 1;": ("native-stream", 1),
    "__attribute__((constructor)) void f() {}": ("native-hook", 1),
    "void f() { omp_set_num_threads(1); }": ("native-hook", 1),
    'void f() { asm volatile("syscall"); }': ("native-assembly", 1),
    "void f() { PyRun_SimpleString(0); }": ("native-hook", 1),
    "auto x = at::relu(y);": ("native-hook", 1),
}


@pytest.mark.parametrize("text", NATIVE)
def test_native_text_is_checked(text: str) -> None:
    assert NATIVE[text] in [(rule, line) for rule, _, line in check_native(text)]


def test_honest_native_text_passes() -> None:
    text = """
    #include <cmath>
    #include "pn_kernel.h"
    // opens nothing: system( fopen( are words in a comment
    static inline float read(const float* p) { return *p; }
    template <typename T> void k(const T* x, T* y, int64_t n) {
      pn::parallel_for(n, [&](int64_t i) { y[i] = pn::round<T>(std::exp(read(x + i))); });
      #pragma omp parallel for
      for (int64_t i = 0; i < n; ++i) y[i] = x[i] * 1e-5f;
    }
    extern "C" __global__ void g(const float* x) { __syncthreads(); __nanosleep(0); }
    """
    assert list(check_native(text)) == []
