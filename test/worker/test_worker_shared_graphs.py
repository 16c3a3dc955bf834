"""Real graphs under the control compiler: identical code must be judged identical."""

from __future__ import annotations

from pathlib import Path

import pytest

from pass_bench.data import read_sample
from pass_bench.results.records import EvalSettings, GraphResult
from pass_bench.results.verdict import Verdict
from pass_bench.worker.evaluate import Evaluator

FAILS = "gn_test_mobilenetv4_swapped_meta"
HAS_NAN = "gn_test_error_model"
# Over half a second a call on two cores: in the full run only.
SLOW = {
    "gn_torchvision_mc3_18",
    "gn_others_pigu_hybrid",
    "gn_hf_anton-l_distilhubert-ft-common-language",
    "gn_ultralytics_yolov3-tinyu",
    "gn_torchgeometric_GAT",
    "gn_torchvision_squeezenet1_0",
    "gn_torchgeometric_GAE",
}


def names_in(shared: Path) -> list[str]:
    return sorted(folder.name for folder in (shared / "graphs").iterdir() if folder.is_dir())


def evaluate(names: list[str], shared: Path, folder: Path) -> dict[str, GraphResult]:
    (folder / "graphs").symlink_to(shared / "graphs")
    (folder / "graph_list.txt").write_text("".join(f"graphs/{name}\n" for name in names))
    settings = EvalSettings(
        compiler="nope", device="cpu", warmup=0, trials=3, time_budget_s=0.0, timeout_s=300
    )
    with Evaluator(settings) as evaluator:
        return dict(zip(names, evaluator.evaluate(read_sample(folder)), strict=True))


def check(results: dict[str, GraphResult]) -> None:
    for name, result in results.items():
        if name == FAILS:
            assert result.verdict is Verdict.EAGER_FAIL
            assert "conv2d(float32[" in result.reason and "float32[384], None" in result.reason
            continue
        assert (name, result.verdict, result.reason) == (name, Verdict.CORRECT, "")
        assert result.passes_from == -10 and not result.nonfinite
        assert result.e2e is not None and result.e2e.eager.trials >= 3
        assert result.memory is not None
    if HAS_NAN in results:
        # Eager gives NaN and identical code the same NaN: correct, with a warning.
        nan = results[HAS_NAN]
        assert "eager's outputs have NaN or inf on the recorded inputs" in nan.warnings


def test_small_shared_graphs_run_under_nope(shared_dir: Path, tmp_path: Path) -> None:
    names = [name for name in names_in(shared_dir) if name not in SLOW]
    results = evaluate(names, shared_dir, tmp_path)
    assert FAILS in results and HAS_NAN in results and len(results) == 19
    check(results)


@pytest.mark.full
def test_all_shared_graphs_run_under_nope(shared_dir: Path, tmp_path: Path) -> None:
    results = evaluate(names_in(shared_dir), shared_dir, tmp_path)
    assert len(results) == 26
    check(results)
