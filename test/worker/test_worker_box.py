"""Boxes that share a cache do not write to the same temporary files in it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pass_bench.guard.sandbox import SandboxReport, SandboxSpec
from pass_bench.worker import box
from pass_bench.worker.messages import CandidateJob


@pytest.mark.parametrize("inside, ending", [(4711, "inductor"), (2, "inductor/4711")])
def test_where_all_boxes_have_the_same_pid_inductor_gets_a_folder_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inside: int, ending: str
) -> None:
    pids = iter((4711, inside))

    def enter(spec: SandboxSpec) -> SandboxReport:
        monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", spec.environment["TORCHINDUCTOR_CACHE_DIR"])
        return SandboxReport("namespaces", warnings=("said",))

    monkeypatch.setattr(box, "enter", enter)
    monkeypatch.setattr(os, "getpid", lambda: next(pids))
    job = CandidateJob(
        sample_path=str(tmp_path),
        graph_path=str(tmp_path),
        pass_dir=str(tmp_path),
        cache_dir=str(tmp_path),
        compiler="inductor",
        device="cpu",
        seed=0,
    )
    assert box.enter_box(job, 3) == ("said",)
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == f"{tmp_path}/{ending}"
