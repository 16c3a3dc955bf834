"""The allow-list of model.py: real graphs pass, attacks do not, and nothing is ever executed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pass_bench.data.model_source as model_source
from pass_bench.data import check_model_source, read_graph
from pass_bench.errors import BadInput

HEADER = "import torch\nfrom torch import device\nfrom torch import inf\n"


def model(*lines: str, header: str = HEADER, arguments: str = "self, in_0, in_1") -> str:
    body = "\n".join(f"        {line}" for line in lines)
    return f"{header}class GraphModule(torch.nn.Module):\n    def forward({arguments}):\n{body}\n"


def test_all_real_graphs_pass(shared_dir: Path) -> None:
    files = sorted((shared_dir / "graphs").glob("*/model.py"))
    assert len(files) == 26
    for file in files:
        check_model_source(file.read_text(), file)


def test_all_graphs_of_the_repository_pass(repository: Path) -> None:
    files = sorted((repository / "graphs").rglob("model.py"))
    assert files
    for file in files:
        read_graph(file.parent)
        check_model_source(file.read_text(), file)


@pytest.mark.parametrize(
    "line",
    [
        "tmp_0 = in_0 + in_1 * 2.0 @ in_0",
        "tmp_0 = in_0[(Ellipsis, slice(None, 8, None))]; in_1 = None",
        "in_0[(slice(None, None, None), 0)] = in_1",
        "in_0 += in_1",
        "tmp_0, tmp_1 = in_0.split(2, dim=1)",
        "x : 'f32[2]' = in_0 // 2",
        "eq = in_0.__eq__(inf)",
        "x = torch.ops.aten.sym_size.int(in_0, 1)",
        "x = torch.zeros((2, 3), dtype=torch.float32, device=device(type='cuda', index=0))",
        "x = torch.nn.functional.gelu(in_0, approximate='tanh')",
        "x = in_0.to(torch.float16).to(in_1.device)",
        "x = torch.finfo(torch.float16).min",
        "x = torch._C._nn.linear(in_0, in_1, None)",
        "x = torch.functional.einsum('ij,jk->ik', in_0, in_1)",
        "x = torch._C._functorch._vmap_increment_nesting(4, 'error'); "
        "y = torch._C._functorch._vmap_decrement_nesting()",
        "x = max(in_0.size(0), 4); y = int(x)",
        "x = in_0.relu_().abs_()",
        "x = torch.relu_(in_0)",
    ],
)
def test_straight_line_torch_code_passes(line: str) -> None:
    check_model_source(model(line, "return (in_0,)"))


ATTACKS = [
    "import os",
    "x = open('/etc/passwd')",
    "x = __import__('os')",
    "x = eval('1')",
    "exec('x = 1')",
    "x = getattr(in_0, 'numpy')",
    "x = globals()",
    "x = type(in_0)",
    "x = print",
    "x = [].__class__.__base__",
    "x = in_0.__class__",
    "x = in_0.__reduce_ex__(2)",
    "x = in_0.__init__.__globals__",
    "x = in_0.add.__globals__",
    "x = torch.load('/tmp/x')",
    "torch.save(in_0, '/tmp/x')",
    "x = torch.hub.load('a', 'b')",
    "x = torch.utils.cpp_extension.load(name='a', sources=[])",
    "x = torch.serialization.load('/tmp/x')",
    "x = torch.package.PackageImporter('/tmp/x')",
    "x = torch.jit.load('/tmp/x')",
    "x = torch._C.import_ir_module('x')",
    "x = torch.os.system('true')",
    "x = torch.sys.modules",
    "x = torch.builtins.open('/tmp/x')",
    "x = torch.ctypes.CDLL('x')",
    "torch.ops.load_library('/tmp/x.so')",
    "torch.classes.load_library('/tmp/x.so')",
    "x = torch.ops.aten.from_file('/etc/passwd', False, 10)",
    "x = torch.ops.aten.from_file.default('/etc/passwd', False, 10)",
    "x = torch.from_file('/etc/passwd', size=10)",
    "x = torch.ops.aten.add.__call__(in_0, in_1)",
    "x = torch.ops.aten.add.default.__globals__",
    "x = torch.ops.aten.add.default.decompose",
    "x = torch.ops.aten.set_.source_Storage(in_0, in_1)",
    "x = torch.ops.inductor.accumulate_grad_(in_0, in_1)",
    "x = torch.ops",
    "x = torch",
    "x = torch.nn",
    "x = torch.add",
    "x = torch.nn.functional.torch.load('x')",
    "x = torch.nn.functional.importlib.import_module('os')",
    "x = torch.compile(in_0)",
    "x = torch.nn.functional.boolean_dispatch(in_0)",
    "torch.manual_seed(0)",
    "torch.set_num_threads(1)",
    "torch.use_deterministic_algorithms(True)",
    "torch.set_default_dtype(torch.float64)",
    "torch.backends.cuda.matmul.allow_tf32 = True",
    "in_0.data = in_1",
    "torch.add = in_0",
    "torch = in_0",
    "slice = in_0",
    "__builtins__ = in_0",
    "x = in_0.numpy()",
    "x = in_0.data_ptr()",
    "x = in_0.untyped_storage()",
    "x = in_0.register_hook(in_1)",
    "x = in_0.apply_(in_1)",
    "x = in_0.set_(in_1)",
    "x = in_0.resize_(100)",
    "x = in_0.share_memory_()",
    "x = '{0.__class__}'.format(in_0)",
    "x = f'{in_0}'",
    "x = '%s' % in_0",
    "x = b'abc'",
    "x = lambda: 1",
    "x = [y for y in in_0]",
    "x = {**in_0}",
    "x = torch.add(*in_0)",
    "x = torch.add(**in_0)",
    "x = (y := in_0)",
    "x = in_0 if in_1 else in_0",
    "for x in in_0: pass",
    "while True: pass",
    "with in_0: pass",
    "try:\n            pass\n        except in_0: pass",
    "def f(): pass",
    "class A: pass",
    "global x",
    "del in_0",
    "assert in_0",
    "raise in_0",
    "import torch.hub",
    "yield in_0",
    "await in_0",
    "x = unbound",
    "x = self",
    "x = self.__dict__",
    "x = device",
    "x = in_0()",
    "x = in_0.add(in_1)()",
    "x = (torch.add, torch.load)[1]('x')",
    "x = 10 ** 10000000",
    "x = 1 << 10000000000",
    "x = torch._C._functorch._vmap_increment_nesting(4, 'error')",
    "x = torch._C._functorch._vmap_decrement_nesting()",
    "x = torch.sparse_coo_tensor(in_0, in_1)",
    "x = torch.fbgemm_pack_gemm_matrix_fp16(in_0)",
]


@pytest.mark.parametrize("line", ATTACKS)
def test_everything_else_is_refused_with_its_line(line: str) -> None:
    with pytest.raises(BadInput) as error:
        check_model_source(model("y = in_0", line, "return (y,)"), "model.py")
    assert error.value.line is not None or "syntax" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "code",
    [
        "import os\n" + model("return ()"),
        "import torch as t\n" + model("return ()"),
        "from torch import load\n" + model("return ()", header="import torch\n"),
        "from os import *\n" + model("return ()"),
        "from .torch import inf\n" + model("return ()"),
        "x = 1\n" + model("return ()"),
        model("return ()").replace("(torch.nn.Module)", "(torch.nn.Module, metaclass=type)"),
        model("return ()").replace("(torch.nn.Module)", "(torch.load('x'))"),
        model("return ()").replace("class Graph", "@torch.load\nclass Graph"),
        model("return ()").replace("    def forward", "    @torch.compile\n    def forward"),
        model("return ()", arguments="self, in_0=torch.load('x')"),
        model("return ()", arguments="self, *in_0"),
        model("return ()", arguments="self, torch"),
        model("return ()", arguments="self, in_0: torch.load('x')"),
        model("return ()").replace("):\n", ") -> torch.load('x'):\n"),
        model("return ()") + "    def __init__(self): pass\n",
        model("return ()") + "    forward = torch.load\n",
        model("return ()") + "    def forward(self): pass\n",
        model("return ()") + "torch.load('x')\n",
        model("return (" + "-" * 3000 + "in_0,)"),
        model("x = " + "+".join(["in_0"] * 20000)),
        "import torch",
    ],
)
def test_the_frame_around_forward_is_checked_too(code: str) -> None:
    with pytest.raises(BadInput) as error:
        check_model_source(code, "model.py")
    assert "\n" not in str(error.value)


def test_the_list_holds_no_dangerous_name() -> None:
    names = json.loads((Path(model_source.__file__).parent / "torch_names.json").read_text())
    words = ("load", "save", "file", "numpy", "dlpack", "storage", "hook", "compile", "seed", "set_num")
    for kind in ("functions", "methods", "aten"):
        found = [n for n in names[kind] if any(word in n.rsplit(".", 1)[-1] for word in words)]
        assert set(found) <= {
            "torch._functorch.predispatch.lazy_load_decompositions",
            "torch._functorch.vmap.lazy_load_decompositions",
            "storage_offset",
            "sym_storage_offset",
            "torch.Tensor.storage_offset",
        }
    assert not {"numpy", "grad", "grad_fn", "_base", "__dict__"} & set(names["attributes"])


def test_the_list_is_what_the_command_writes() -> None:
    torch = pytest.importorskip("torch")
    from pass_bench.data.regenerate_torch_names import TARGET, collect

    if not torch.__version__.startswith("2.13"):
        pytest.skip(f"the list is written with torch 2.13, here is {torch.__version__}")
    assert collect() == json.loads(TARGET.read_text())


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=60))
def test_any_text_is_accepted_or_refused_in_one_line(text: str) -> None:
    try:
        check_model_source(model("x = " + text.replace("\n", " "), "return (x,)"), "model.py")
    except BadInput as error:
        assert "\n" not in str(error)
