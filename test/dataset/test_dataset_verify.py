"""Verification: what is no test of a pass is dropped, with its reason; limits are of processor time."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest
from test_dataset_stages import planned

from pass_bench.data.records import TensorMeta
from pass_bench.dataset import pipeline
from pass_bench.dataset import verify as module
from pass_bench.dataset.plan import PlannedGraph
from pass_bench.dataset.verify import reason_not_to_evaluate, reason_to_drop, verify

HEAD = "import torch\n\nclass GraphModule(torch.nn.Module):\n    def forward(self, in_0):\n"


def graph(
    expression: str, uid: str = "1", *, mean: float = 0.5, std: float = 1.0, **changes: object
) -> PlannedGraph:
    meta = TensorMeta("in_0", (64, 32), str(changes.get("dtype", "float32")), mean=mean, std=std)
    code = f"{HEAD}        tmp_0 = {expression}\n        return (tmp_0,)\n"
    return planned(uid, ("op",), code=code, metas=(meta,), **changes)


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("in_0.exp()", None),
        ("in_0.view(7)", "does not run: RuntimeError"),
        ("in_0 * float('inf')", "not finite"),
        ("in_0.log()", "not finite"),
        ("torch.ones_like(in_0)", "constant"),
        ("in_0 * 1.0", "weak"),
        ("in_0 * 1e-09", "weak"),
        ("torch.save(in_0, 'x')", "source: call of torch.save"),
    ],
)
def test_reasons(expression: str, reason: str | None) -> None:
    assert reason_to_drop(graph(expression)) == reason


def test_what_overflows_on_random_inputs_does_not_evaluate() -> None:
    wide = graph("in_0.exp()", mean=0.0, std=9.0, dtype="float16")
    assert reason_to_drop(wide) is None
    assert reason_not_to_evaluate(wide) == "not finite on random inputs"
    assert reason_not_to_evaluate(graph("in_0.exp()")) is None


def test_a_graph_that_kills_its_process_costs_only_itself(tmp_path: Path) -> None:
    tries = tmp_path / "tries"

    def reason(one: PlannedGraph, _: object) -> str | None:
        if one.uid == "2":
            tries.open("a").write("x")
            os.kill(os.getpid(), signal.SIGXCPU)
        return None

    found = verify([graph("in_0", str(i)) for i in range(4)], tmp_path / "v", reason=reason, report=str)
    assert found == {"0": None, "1": None, "2": "kills its process", "3": None}
    assert tries.read_text() == "xx"


def test_a_graph_that_runs_too_long_is_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CPU_SECONDS", 1)

    def reason(one: PlannedGraph, _: object) -> str | None:
        while one.uid == "1":
            pass
        return None

    found = verify([graph("in_0", str(i)) for i in range(3)], tmp_path / "v", reason=reason, report=str)
    assert found == {"0": None, "1": "takes too long", "2": None}


def test_evaluation_goes_to_graphs_that_stand_random_inputs(tmp_path: Path) -> None:
    names = [("a", "b", "c"), ("a", "b", "d")]
    graphs = [
        replace(
            graph("in_0.exp()", f"{n}{i}", mean=0.0, std=9.0 if n == 1 else 1.0, dtype="float16"),
            operators=names[n],
            skeleton=str(n),
        )
        for n in (0, 1)
        for i in range(3)
    ]
    pipeline._save(graphs, tmp_path / "plan.jsonl.zst")
    reasons = pipeline.check(tmp_path, count=2, report=str)
    assert reasons == {"not finite on random inputs": 3}
    parts = pipeline.chosen(tmp_path, count=2)
    assert [one.skeleton for one in parts.evaluation["fusible_subgraphs"]] == ["0"]
    assert {one.skeleton for members in parts.train.values() for one in members} == set()
