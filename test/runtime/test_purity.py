"""What host code may do and still be planned, and the reason given where it may not."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest
import torch
from runtime_triples import identical, load_idiom
from torch import fx

from pass_bench.runtime import build_direct
from pass_bench.runtime.fresh import fresh_copies
from pass_bench.runtime.purity import Impure, examine

IMPURE = load_idiom("impure_functions", Path(__file__).parent / "unplanned")


def graph_of(function: Any) -> fx.GraphModule:
    graph = fx.Graph()
    graph.output(graph.call_function(function, (graph.placeholder("x"),)))
    return fx.GraphModule(torch.nn.Module(), graph)


@pytest.mark.parametrize("name", [function.__name__ for function in IMPURE.REASONS])
def test_impure_functions_run_as_written(name: str) -> None:
    function = getattr(IMPURE, name)
    direct = build_direct(graph_of(function), [])
    for call in range(6):
        torch.manual_seed(call)
        with torch.no_grad():
            direct(torch.randn(4, 8))
    assert direct.report().planned == ()
    assert direct.report().unplanned == (f"{name} runs as written: {IMPURE.REASONS[function]}",)


def module_from(tmp_path: Path, name: str, text: str) -> ModuleType:
    path = tmp_path / f"{name}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def test_a_changed_global_is_noticed(tmp_path: Path) -> None:
    module = module_from(
        tmp_path,
        "changing_globals",
        "import torch\n"
        "FACTOR = 2.0\n"
        "TABLE = {'shift': 1.0}\n"
        "def helper(x):\n    return torch.mul(x, FACTOR)\n"
        "def function(x):\n    return torch.add(helper(x), TABLE['shift'])\n",
    )
    direct = build_direct(graph_of(module.function), [])
    x = torch.ones(2)
    for _ in range(4):
        assert direct(x).tolist() == [3, 3]
    assert direct.report().planned == ("function",)
    module.FACTOR = 5.0
    for _ in range(4):
        assert direct(x).tolist() == [6, 6]
    module.TABLE["shift"] = 0.5
    for _ in range(4):
        assert direct(x).tolist() == [5.5, 5.5]
    module.helper = lambda x: x * 0
    for _ in range(4):
        assert direct(x).tolist() == [0.5, 0.5]
    assert direct.report().planned == ("function",)


def test_an_enclosing_variable_that_changes_is_noticed(tmp_path: Path) -> None:
    module = module_from(
        tmp_path,
        "changing_cell",
        "import torch\n"
        "def make():\n"
        "    factor = 2.0\n"
        "    def function(x):\n        return torch.mul(x, factor)\n"
        "    def change(value):\n        nonlocal factor\n        factor = value\n"
        "    return function, change\n"
        "function, change = make()\n",
    )
    direct = build_direct(graph_of(module.function), [])
    for _ in range(4):
        assert direct(torch.ones(2)).tolist() == [2, 2]
    module.change(7.0)
    assert direct(torch.ones(2)).tolist() == [7, 7]
    with pytest.raises(Impure, match="assigns factor of an enclosing function"):
        examine(module.change)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("torch.cuda.synchronize(); return x", "calls torch.cuda.synchronize"),
        ("m = torch; return m.relu(x)", "uses the module torch as a value"),
        ("import os; return torch.mul(x, len(os.environ))", "not known to be free of effects"),
        ("import random as r; return torch.mul(x, r.random())", "not known to be free of effects"),
        ("return torch.compile(torch.relu)(x)", "calls torch.compile"),
        ("return (lambda y: print(y))(x)", "uses print"),
        ("return [setattr(x, 'a', i) for i in range(2)]", "uses setattr"),
        ("x.mark = 1; return x", "assigns the attribute mark"),
        ("return torch.mul(x, x.__dict__.get('k', 1))", "looks at __dict__"),
        ("return undefined_name(x)", "uses undefined_name, which is not defined"),
        ("with torch.inference_mode():\n        return x + 1", "not known to be free of effects"),
    ],
)
def test_reasons(tmp_path: Path, body: str, why: str) -> None:
    module = module_from(tmp_path, "one_function", f"import torch\ndef function(x):\n    {body}\n")
    with pytest.raises(Impure, match=why):
        examine(module.function)


def test_allowed_host_code(tmp_path: Path) -> None:
    module = module_from(
        tmp_path,
        "allowed",
        "import math\nimport torch\nimport torch.nn.functional as F\n"
        "def function(x, *rest, eps=1e-5, **options):\n"
        "    import operator as op\n"
        "    n = max(x.numel(), 1)\n"
        "    if not isinstance(x, torch.Tensor) or x.dim() > 8:\n"
        "        raise ValueError(f'{n}')\n"
        "    sizes = {k: v for k, v in enumerate(x.shape)}\n"
        "    s = op.mul(math.sqrt(n), torch.finfo(torch.float32).eps)\n"
        "    y = F.relu(torch.ops.aten.add(x, s)) if sizes else x\n"
        "    with torch.no_grad():\n"
        "        return tuple(part * eps for part in y.chunk(2))\n",
    )
    assert [read.name for read in examine(module.function).reads] == []
    direct = build_direct(graph_of(module.function), [])
    for _ in range(4):
        x = torch.randn(4, 2)
        assert identical(direct(*fresh_copies([x])), module.function(x))
    assert direct.report().planned == ("function",)


def test_decorators(tmp_path: Path) -> None:
    module = module_from(
        tmp_path,
        "decorated",
        "import torch\n"
        "@torch.no_grad()\ndef fine(x):\n    return x + 1\n"
        "@torch.inference_mode()\ndef not_fine(x):\n    return x + 1\n",
    )
    assert isinstance(module.fine, FunctionType)
    examine(module.fine)
    with pytest.raises(Impure, match="wrapped in a context other than no_grad"):
        examine(module.not_fine)
