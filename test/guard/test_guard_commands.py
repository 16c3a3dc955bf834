"""`passbench check` and the table of `passbench selftest`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from pass_bench.cli import passbench
from pass_bench.errors import BadInput
from pass_bench.guard.commands import put_table
from pass_bench.guard.redteam import table
from pass_bench.guard.redteam.cases import read_case, write_sample
from pass_bench.guard.redteam.runner import Outcome

SUITE = Path(__file__).resolve().parent.parent / "redteam"


def sample_of(name: str, folder: Path) -> Path:
    folder.chmod(0o755)
    kind = "honest" if (SUITE / "honest" / f"{name}.py").exists() else "hostile"
    return write_sample(read_case(SUITE / kind / f"{name}.py"), folder)


def test_check_says_where_passes_match(tmp_path: Path) -> None:
    result = CliRunner().invoke(
        passbench, ["check", str(sample_of("helper_module", tmp_path)), "--json"], standalone_mode=False
    )
    assert result.return_value == 0, result.output
    report = json.loads(result.output)
    graphs = [(graph["device"], graph["passes"][0]["replaced"]) for graph in report["graphs"]]
    assert graphs == [("cpu", 1), ("cuda", 1)] and report["violations"] == []


def test_check_locates_a_broken_rule_and_runs_nothing(tmp_path: Path) -> None:
    sample = sample_of("torch_in_a_helper", tmp_path)
    result = CliRunner().invoke(passbench, ["check", str(sample)], standalone_mode=False)
    assert result.return_value == 2
    assert f"{sample}/pass_dir/_helper.py:7: torch-compute: torch.nn.functional.gelu" in result.output


def test_check_looks_at_const_passes_too(tmp_path: Path) -> None:
    sample = sample_of("helper_module", tmp_path)
    (sample / "pass_dir").rename(sample / "const_pass_dir")
    (sample / "pass_dir").mkdir()
    (sample / "pass_dir" / "sorted_output_pass_rule_names.json").write_text("[]")
    result = CliRunner().invoke(passbench, ["check", str(sample), "--json"], standalone_mode=False)
    assert (result.return_value, json.loads(result.output)["passes"]) == (0, ["helper_module"])
    (sample / "const_pass_dir" / "helper_module.py").write_text("import os\n")
    result = CliRunner().invoke(passbench, ["check", str(sample)], standalone_mode=False)
    assert result.return_value == 2 and "const_pass_dir/helper_module.py:1: forbidden-import" in result.output


def test_check_explains_what_does_not_match(tmp_path: Path) -> None:
    sample = sample_of("cpp_fused", tmp_path)
    file = sample / "pass_dir" / "cpp_fused.py"
    file.write_text(file.read_text().replace("torch.nn.functional.gelu(x * w + b)", "torch.relu(x * w + b)"))
    result = CliRunner().invoke(passbench, ["check", str(sample)], standalone_mode=False)
    assert result.return_value == 2 and "cpp_fused: no match" in result.output and "relu" in result.output


def test_check_keeps_a_hostile_import_in_its_box(tmp_path: Path) -> None:
    sample = sample_of("cpp_fused", tmp_path)
    file = sample / "pass_dir" / "cpp_fused.py"
    file.write_text(file.read_text() + "\nraise SystemExit('gone')\n")
    result = CliRunner().invoke(passbench, ["check", str(sample)], standalone_mode=False)
    assert isinstance(result.exception, BadInput) or "An evaluation would not run" in result.output


def outcome(name: str, compiler: str, verdict: str, *rules: str, good: bool = True) -> Outcome:
    kind = "honest" if (SUITE / "honest" / f"{name}.py").exists() else "hostile"
    return Outcome(read_case(SUITE / kind / f"{name}.py"), compiler, verdict, rules, "", good, 1.0)


def test_the_table_counts_and_marks() -> None:
    outcomes = [
        outcome("zeros", "source", "passes"),
        outcome("zeros", "pass_mgr", "accuracy"),
        outcome("clock_replaced", "source", "rejected", "forbidden-import"),
        outcome("clock_replaced", "pass_mgr", "correct", good=False),
        outcome("cpp_fused", "source", "passes"),
        outcome("cpp_fused", "pass_mgr", "correct"),
    ]
    assert table.summary(outcomes) == (
        "2 hostile passes: 1 break a source rule, 1 are caught with the source rules off. "
        "1 honest look-alikes: 0 touched. Outcomes other than expected: 1."
    )
    text = table.markdown(outcomes)
    assert "| `zeros` | Returns zeros. | KernelBench leaderboards | passes | accuracy |" in text
    assert "UNEXPECTED correct" in text


def test_the_table_goes_between_its_marks(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- a -->\nold\n<!-- b -->\nafter\n")
    put_table(page, "new", "<!-- a -->", "<!-- b -->")
    assert page.read_text() == "before\n<!-- a -->\n\nnew\n<!-- b -->\nafter\n"
    with pytest.raises(BadInput, match="no place for the table"):
        put_table(page, "new", "<!-- c -->", "<!-- b -->")
