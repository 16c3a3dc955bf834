"""Loading passes: order, helpers, limits, devices, and one line for everything that is wrong."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from pass_bench.data.sample import read_const_names
from pass_bench.errors import BadInput
from pass_bench.fx import rewrite, trace_pattern
from pass_bench.passes import LoadedPasses, load_passes

PASS = """\
import torch
from pass_dir._kernels import {function}

def pattern(x, y):
    return torch.relu(x + {literal})

def replacement_args(x, y):
    return (x, {literal})

def replacement_func():
    return {function}
"""
KERNELS = """\
import torch

@torch.fx.wrap
def one(x, k):
    return torch.full_like(x, 1.0)

def two(x, k):
    from pass_dir._late import value
    return torch.full_like(x, value)

def three(x, k):
    return x
"""


def write(folder: Path, manifest: str = "sorted_output_pass_rule_names.json", **passes: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / manifest).write_text(json.dumps(list(passes)))
    for name, text in passes.items():
        (folder / f"{name}.py").write_text(text)
    (folder / "_kernels.py").write_text(KERNELS)
    (folder / "_late.py").write_text("value = 2.0\n")
    return folder


def three_passes(folder: Path) -> Path:
    return write(
        folder,
        B=PASS.format(function="one", literal=1),
        A=PASS.format(function="two", literal=2),
        C=PASS.format(function="one", literal=3),
    )


def names(loaded: LoadedPasses) -> list[str]:
    return [rule.name for rule in loaded.rules]


def test_passes_come_in_manifest_order_and_run_with_late_imports(tmp_path: Path) -> None:
    loaded = load_passes(three_passes(tmp_path / "elsewhere"))
    assert names(loaded) == ["B", "A", "C"]
    assert loaded.skipped == ()
    done = rewrite(trace_pattern(lambda x: torch.relu(x + 2)), loaded.rules)
    assert [r.replaced for r in done.reports] == [0, 1, 0]
    assert done.module(torch.zeros(2)).tolist() == [2.0, 2.0]


def test_each_directory_has_helpers_of_its_own(tmp_path: Path) -> None:
    first = load_passes(three_passes(tmp_path / "first"))
    folder = three_passes(tmp_path / "second")
    (folder / "_kernels.py").write_text(KERNELS.replace("1.0", "7.0"))
    second = load_passes(folder)
    x = torch.zeros(1)
    assert first.rules[0].replacement_func()(x, 0).item() == 1.0
    assert second.rules[0].replacement_func()(x, 0).item() == 7.0


def test_what_runs_is_the_source_never_a_compiled_file(tmp_path: Path) -> None:
    folder = three_passes(tmp_path / "p")
    load_passes(folder)
    assert not (folder / "__pycache__").exists() or not list((folder / "__pycache__").iterdir())
    import py_compile

    (folder / "evil.py").write_text(KERNELS.replace("1.0", "9.0"))
    cached = folder / "__pycache__" / f"_kernels.{sys.implementation.cache_tag}.pyc"
    py_compile.compile(
        str(folder / "evil.py"),
        cfile=str(cached),
        invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
    )
    assert load_passes(folder).rules[0].replacement_func()(torch.zeros(1), 0).item() == 1.0


def test_the_pattern_limit_keeps_the_first_and_names_the_dropped(tmp_path: Path) -> None:
    loaded = load_passes(three_passes(tmp_path), pattern_limit=2)
    assert names(loaded) == ["B", "A"]
    assert [(r.name, r.skipped) for r in loaded.skipped] == [("C", "pattern limit 2 reached; kept B, A")]


def test_the_function_limit_keeps_passes_of_the_first_functions(tmp_path: Path) -> None:
    loaded = load_passes(three_passes(tmp_path), replacement_func_limit=1)
    assert names(loaded) == ["B", "C"]
    assert [(r.name, r.skipped) for r in loaded.skipped] == [
        ("A", "replacement function limit 1 reached; kept one")
    ]
    assert names(load_passes(tmp_path, replacement_func_limit=0)) == []


def test_const_passes_come_first_and_outside_the_limits(tmp_path: Path) -> None:
    const = write(
        tmp_path / "const", Y=PASS.format(function="one", literal=8), X=PASS.format(function="two", literal=9)
    )
    passes = three_passes(tmp_path / "passes")
    assert names(load_passes(passes, const, pattern_limit=1)) == ["Y", "X", "B"]
    (passes / "sorted_input_pass_rule_names.json").write_text('["X", "Y"]')
    assert names(load_passes(passes, const)) == ["X", "Y", "B", "A", "C"]
    (const / "sorted_input_pass_rule_names.json").write_text('["Y"]')
    assert names(load_passes(passes, const)) == ["Y", "B", "A", "C"]
    for manifest in const.glob("*.json"):
        manifest.unlink()
    (passes / "sorted_input_pass_rule_names.json").unlink()
    assert names(load_passes(passes, const)) == ["X", "Y", "B", "A", "C"]


def test_a_pass_takes_the_place_of_a_const_pass_of_its_name(tmp_path: Path) -> None:
    raising = 'raise RuntimeError("imported")\n'
    const = write(tmp_path / "const", A=raising, X=PASS.format(function="two", literal=9), C=raising)
    loaded = load_passes(three_passes(tmp_path / "passes"), const)
    assert names(loaded) == ["A", "X", "C", "B"]
    assert read_const_names(tmp_path / "passes", const) == ("A", "X", "C")


def test_a_pass_for_another_device_is_not_even_imported(tmp_path: Path) -> None:
    write(
        tmp_path,
        Gpu='DEVICES = ("cuda",)\nraise RuntimeError("imported")\n',
        Cpu='DEVICES: tuple[str, ...] = ("cpu", "cuda")\n' + PASS.format(function="one", literal=1),
    )
    loaded = load_passes(tmp_path, device="cpu")
    assert [(r.name, r.devices) for r in loaded.rules] == [("Cpu", ("cpu", "cuda"))]
    assert [(r.name, r.skipped) for r in loaded.skipped] == [("Gpu", "DEVICES is cuda; this run is on cpu")]
    with pytest.raises(BadInput, match="cannot be imported: RuntimeError: imported"):
        load_passes(tmp_path, device="cuda:0")


GOOD = PASS.format(function="one", literal=1)
BAD: list[tuple[str, str, int | None]] = [
    ("def pattern(x:\n", "syntax error", 1),
    ("import torch\nimport no_such_module\n", "cannot be imported: ModuleNotFoundError: No module named", 2),
    ("from pass_dir._kernels import gone\n", "cannot be imported: ImportError: cannot import name 'gone'", 1),
    ("raise SystemExit(0)\n", "cannot be imported: SystemExit", 1),
    (GOOD.replace("def pattern", "def patern"), "has no pattern", None),
    (GOOD.replace("def replacement_args", "def args"), "has no replacement_args", None),
    (GOOD.replace("def replacement_func", "def func"), "has no replacement_func", None),
    (GOOD + "pattern = 3\n", "pattern is not callable", None),
    (GOOD + "replacement_args = ()\n", "replacement_args is not callable", None),
    (GOOD.replace("    return one", "    return lambda x, k: x"), "returns another object on every call", 10),
    (GOOD.replace("    return one", "    return None"), "replacement_func.. returned None", 10),
    (GOOD.replace("    return one", "    return 1 / 0"), "replacement_func.. raised ZeroDivisionError", 10),
    ("DEVICES = some()\n" + GOOD, "DEVICES is no literal", 1),
    ("DEVICES = 3\n" + GOOD, "DEVICES is no literal", 1),
]


@pytest.mark.parametrize(("text", "message", "line"), BAD, ids=[b[1] for b in BAD])
def test_a_bad_pass_is_one_line_with_file_and_line(
    tmp_path: Path, text: str, message: str, line: int | None
) -> None:
    write(tmp_path, Bad=text)
    with pytest.raises(BadInput, match=message) as caught:
        load_passes(tmp_path)
    assert caught.value.path == tmp_path / "Bad.py"
    assert caught.value.line == line
    assert "\n" not in str(caught.value)


def test_an_error_in_a_helper_names_the_helper(tmp_path: Path) -> None:
    write(tmp_path, Bad=GOOD)
    (tmp_path / "_kernels.py").write_text("import torch\n\nx = 1 / 0\n")
    with pytest.raises(BadInput, match="ZeroDivisionError") as caught:
        load_passes(tmp_path)
    assert (caught.value.path, caught.value.line) == (tmp_path / "_kernels.py", 3)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda folder: (folder / "sorted_output_pass_rule_names.json").unlink(),
        lambda folder: (folder / "sorted_output_pass_rule_names.json").write_text('{"A": 1}'),
        lambda folder: (folder / "sorted_output_pass_rule_names.json").write_text('["Missing"]'),
        lambda folder: (folder / "sorted_output_pass_rule_names.json").write_text('["A"'),
    ],
    ids=["missing", "no list", "missing file", "no JSON"],
)
def test_a_bad_manifest_is_bad_input(tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    three_passes(tmp_path)
    spoil(tmp_path)
    with pytest.raises(BadInput) as caught:
        load_passes(tmp_path)
    assert caught.value.path == tmp_path / "sorted_output_pass_rule_names.json"


def test_relative_imports_and_folders_work(tmp_path: Path) -> None:
    write(tmp_path, A=GOOD.replace("from pass_dir._kernels", "from .inner.deep"))
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "deep.py").write_text("from .._kernels import one\n")
    assert names(load_passes(tmp_path)) == ["A"]
