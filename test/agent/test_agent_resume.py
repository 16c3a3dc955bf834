"""Interrupted runs are taken up where they were, and finished ones are replayed."""

from __future__ import annotations

from typing import Any

import pytest
from agent_bench import BETTER, Bench, observation
from agent_fixtures import SUBMIT, call, passagent

from pass_agent.errors import BadInput
from pass_agent.journal.log import read_journal


def test_the_same_run_again_needs_leave_and_does_nothing_twice(bench: Bench) -> None:
    turns = [*BETTER, SUBMIT]
    bench.run(turns)
    with pytest.raises(BadInput, match="an earlier run is here"):
        bench.run(turns)
    before = (bench.folder / "traj/exp.jsonl").read_bytes()
    bench.run(turns, resume=True)
    assert (bench.folder / "traj/exp.jsonl").read_bytes() == before


@pytest.mark.parametrize("kept", range(1, 10))
def test_a_journal_cut_anywhere_is_resumed_exactly(bench: Bench, kept: int) -> None:
    """`kept` whole lines, and half of the next."""
    turns = [*BETTER, SUBMIT]
    bench.run(turns)
    (whole,) = bench.lines()
    lines = bench.journal().read_bytes().splitlines(keepends=True)
    assert len(lines) == 12  # start, five replies and steps, end
    bench.journal().write_bytes(b"".join(lines[:kept]) + lines[kept][: len(lines[kept]) // 2])
    (bench.folder / "traj/exp.jsonl").write_bytes(b'{"torn')
    bench.run(turns, resume=True)
    (again,) = bench.lines()
    assert strip_times(again) == strip_times(whole)
    assert len(read_journal(bench.journal()).steps) == 5


def test_an_attempt_survives_other_wording_but_not_other_files(bench: Bench) -> None:
    turns = [*BETTER, SUBMIT]
    bench.run(turns)
    lines = bench.journal().read_text().splitlines(keepends=True)
    begun = "".join(lines[:7])
    bench.journal().write_text(begun.replace("graphs correct", "graphs are right"))
    (bench.folder / "traj/exp.jsonl").unlink()
    bench.run(turns, resume=True)
    (line,) = bench.lines()
    assert (line["exit_reason"], line["reward"]) == ("agent", pytest.approx(3.0))
    assert "graphs are right" in observation(line, 1)
    bench.journal().write_text(begun.replace("# speedup: 1.5", "# speedup: 9.5"))
    (bench.folder / "traj/exp.jsonl").unlink()
    bench.run(turns, resume=True)
    assert bench.lines()[0]["exit_reason"] == "env_exception"
    assert "step 0 does not replay: pass_dir holds" in bench.lines()[0]["exit_detail"]


def strip_times(value: Any) -> Any:
    """A trajectory without what may differ between two runs of the same script."""
    if isinstance(value, dict):
        return {key: strip_times(one) for key, one in value.items() if "time" not in key and key != "seconds"}
    return [strip_times(one) for one in value] if isinstance(value, list) else value


def test_a_changed_sample_is_not_mixed_into_an_unfinished_attempt(bench: Bench) -> None:
    bench.run([*BETTER, SUBMIT])
    lines = bench.journal().read_bytes().splitlines(keepends=True)
    bench.journal().write_bytes(b"".join(lines[:5]))
    (bench.samples[0] / "graphs/model/sub_0/model.py").write_text("changed")
    with pytest.raises(BadInput, match="was changed since"):
        bench.run([*BETTER, SUBMIT], resume=True)


def test_replay_is_exact_and_notices_a_changed_journal(bench: Bench) -> None:
    bench.run([*BETTER, call("file_editor", command="view", path="pass_dir/one.py"), SUBMIT])
    folder = bench.journal().parent
    ran = passagent("replay", folder)
    assert (ran.returncode, ran.stdout) == (0, "6 steps replay exactly\n")
    again = passagent("replay", folder, "--evaluate")
    assert "best score 3, recorded 3" in again.stdout
    bench.journal().write_text(bench.journal().read_text().replace("# speedup: 3.0", "# speedup: 9.0"))
    ran = passagent("replay", folder)
    assert ran.returncode == 2
    assert "step 2 does not replay" in ran.stderr
