"""The store: kills, damage, full disks, two writers, keys, merging, retries."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pass_bench.errors import BadInput, HarnessFailure
from pass_bench.results.keys import (
    environment_id,
    graph_id,
    measured_key,
    pass_set_id,
    result_key,
    settings_id,
)
from pass_bench.results.records import EnvironmentRecord, EvalSettings, GraphResult
from pass_bench.results.store import (
    Store,
    StoredResult,
    merge_stores,
    needs_retry,
    read_results,
    read_store,
)
from pass_bench.results.verdict import Verdict


def result(graph: str = "g", verdict: Verdict = Verdict.CORRECT, **fields: object) -> GraphResult:
    return GraphResult(
        sample="s", graph=graph, index=0, compiler="nope", device="cpu", verdict=verdict, **fields
    )


def write(path: Path, *graphs: str, measured_at: str = "", verdict: Verdict = Verdict.CORRECT) -> Path:
    with Store(path) as store:
        for graph in graphs:
            stored = StoredResult(measured_at=measured_at, result=result(graph, verdict))
            store.append(graph, stored)
    return path


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "results.jsonl"
    one = result("a", reason='quote " and\nline, ünïcode, \u2028', log_tail="\x00\x1b[31m")
    with Store(path) as store:
        store.append("k1", StoredResult(submission="mine", result=one))
        store.append("k2", StoredResult(result=result("b")))
    contents = read_store(path)
    assert [entry.key for entry in contents.entries] == ["k1", "k2"]
    assert contents.entries[0].stored.submission == "mine"
    assert read_results(path) == (one, result("b"))
    for line in path.read_text().split("\n")[:-1]:
        assert set(json.loads(line)) == {"crc", "kind", "key", "data"}


def test_nan_and_inf_survive(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    regimes = [{"regime": "recorded", "seed": 1, "tensors": [_tensor(float("nan"))]}]
    with Store(path) as store:
        one = GraphResult.model_validate({**result().model_dump(), "regimes": regimes})
        store.append("k", StoredResult(result=one))
    tensor = read_results(path)[0].regimes[0].tensors[0]
    assert tensor.max_diff != tensor.max_diff and tensor.mean_diff == float("inf")


def _tensor(max_diff: float) -> dict[str, object]:
    return {
        "where": "output[0]",
        "dtype": "float32",
        "compiled_dtype": "float32",
        "shape": (1,),
        "passes_from": None,
        "max_diff": max_diff,
        "mean_diff": float("inf"),
    }


@pytest.mark.parametrize("cut", [1, 5, 40, 200])
def test_a_torn_last_line_is_dropped_and_said(tmp_path: Path, cut: int) -> None:
    path = write(tmp_path / "r.jsonl", "a", "b", "c")
    data = path.read_bytes()
    path.write_bytes(data[:-cut])
    said: list[str] = []
    kept = [r.graph for r in read_store(path, said.append).results]
    assert kept == (["a", "b", "c"] if cut == 1 else ["a", "b"])
    said.clear()
    with Store(path, said.append) as store:
        assert len(said) == (cut > 1) and all("torn" in text for text in said)
        assert store.done() == set(kept)
        if cut > 1:
            store.append("c", StoredResult(result=result("c")))
    assert path.read_bytes() == data


def test_a_damaged_line_in_the_middle_costs_only_itself(tmp_path: Path) -> None:
    path = write(tmp_path / "r.jsonl", "a", "b", "c")
    lines = path.read_bytes().split(b"\n")
    lines[1] = lines[1].replace(b'"correct"', b'"infra"  ')
    path.write_bytes(b"\n".join(lines))
    said: list[str] = []
    assert [r.graph for r in read_store(path, said.append).results] == ["a", "c"]
    assert said == [f"{path}:2: the line is damaged; dropped"]


@pytest.mark.parametrize("text", ['{"a": 1}\n', "hello\n", '{"crc":"00000000","kind":"result"}\n'])
def test_other_files_are_not_stores(tmp_path: Path, text: str) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(text)
    with pytest.raises(BadInput, match="not a store"):
        read_store(path)
    with pytest.raises(BadInput):
        Store(path)
    assert path.read_text() == text
    with pytest.raises(BadInput, match="no such store"):
        read_store(tmp_path / "none.jsonl")


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    with Store(path), pytest.raises(HarnessFailure, match="another run"):
        Store(path)
    Store(path).close()


def test_full_disk_is_our_failure_and_leaves_a_readable_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    path = write(tmp_path / "r.jsonl", "a")
    real, calls = os.write, []

    def full(file: int, data: bytes) -> int:
        calls.append(1)
        if len(calls) > 1:
            raise OSError(28, "No space left on device")
        return real(file, bytes(data)[:50])

    with Store(path) as store:
        monkeypatch.setattr(os, "write", full)
        with pytest.raises(HarnessFailure, match="No space left"):
            store.append("b", StoredResult(result=result("b")))
        monkeypatch.undo()
    assert [r.graph for r in read_results(path)] == ["a"]
    assert HarnessFailure.exit_code == 3


def test_the_last_result_of_a_key_counts(tmp_path: Path) -> None:
    path = write(tmp_path / "r.jsonl", "a", verdict=Verdict.INFRA)
    write(path, "a")
    assert [r.verdict for r in read_results(path)] == [Verdict.CORRECT]


def test_retry_selects_by_verdict(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    with Store(path) as store:
        for verdict in Verdict:
            store.append(verdict.value, StoredResult(result=result(verdict.value, verdict)))
        everything = {verdict.value for verdict in Verdict}
        assert store.done() == everything
        assert store.done(["infra"]) == everything - {"infra"}
        assert store.done(["failed"]) == {"correct", "nothing_to_check", "unsupported_on_cpu"}
    assert needs_retry(Verdict.TIMEOUT, ["failed"]) and not needs_retry(Verdict.TIMEOUT, ["infra"])


def test_merging_prefers_scored_then_later(tmp_path: Path) -> None:
    one = write(tmp_path / "1.jsonl", "a", "b", measured_at="2026-01-01")
    two = write(tmp_path / "2.jsonl", "a", "c", measured_at="2026-01-02", verdict=Verdict.INFRA)
    three = write(tmp_path / "3.jsonl", "b", measured_at="2026-01-03", verdict=Verdict.TIMEOUT)
    target = tmp_path / "all.jsonl"
    assert merge_stores([one, two, three], target) == 4
    found = {r.graph: r.verdict for r in read_results(target)}
    assert found == {"a": Verdict.CORRECT, "b": Verdict.TIMEOUT, "c": Verdict.INFRA}
    assert merge_stores([one, two, three], target) == 0


def environment(**fields: object) -> EnvironmentRecord:
    basic = {"harness": "1", "python": "3.12", "torch": "2.13", "device": "cuda", "device_name": "H100"}
    return EnvironmentRecord.model_validate({**basic, **fields})


def test_environments_are_written_once(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    for _ in range(2):
        with Store(path) as store:
            name = store.add_environment(environment(commit="abc"))
    assert read_store(path).environments == {name: environment(commit="abc")}
    assert path.read_text().count("\n") == 1


def test_what_identifies_an_environment_and_settings() -> None:
    same = {environment_id(environment(commit=c, calibration={"aa": 1.0})) for c in ("a", "b")}
    assert same == {environment_id(environment())}
    assert environment_id(environment(torch="2.14")) not in same
    assert settings_id(EvalSettings()) == settings_id(EvalSettings(timeout_s=1))
    assert settings_id(EvalSettings()) != settings_id(EvalSettings(compat=True))


def test_the_device_that_was_used_counts_and_not_the_one_asked_for() -> None:
    def key(asked: str, used: str) -> str:
        return measured_key(
            sample="s",
            graph="g",
            position=0,
            passes="p",
            settings=EvalSettings.model_validate({"device": asked}),
            environment=environment(device=used),
        )

    assert key("auto", "cuda") == key("cuda", "cuda") != key("cpu", "cpu") == key("auto", "cpu")


def test_samples_that_share_a_graph_have_keys_of_their_own() -> None:
    keys = {
        measured_key(
            sample=sample,
            graph="g",
            position=0,
            passes="",
            settings=EvalSettings(compiler="nope"),
            environment=environment(),
        )
        for sample in ("one", "two")
    }
    assert len(keys) == 2


def test_results_are_read_by_key(tmp_path: Path) -> None:
    write(tmp_path / "r.jsonl", "a", "b", verdict=Verdict.INFRA)
    write(tmp_path / "r.jsonl", "a")
    with Store(tmp_path / "r.jsonl") as store:
        assert store.results(["a"]) == [result("a")]
        assert store.results([]) == []


def test_ids_of_graphs_and_pass_sets_are_of_contents(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.py").write_text("1")
        (tmp_path / name / "graph_net.json").write_text(name)
    assert graph_id(tmp_path / "a") == graph_id(tmp_path / "b")
    (tmp_path / "b" / "model.py").write_text("22")
    assert graph_id(tmp_path / "a") != graph_id(tmp_path / "b")
    before = pass_set_id(tmp_path / "a", None)
    assert before != pass_set_id(None, tmp_path / "a") != pass_set_id(None)
    (tmp_path / "a" / "__pycache__").mkdir()
    (tmp_path / "a" / "__pycache__" / "x.pyc").write_text("")
    assert pass_set_id(tmp_path / "a") == before
    (tmp_path / "a" / "helper.py").write_text("")
    assert pass_set_id(tmp_path / "a") != before
    assert pass_set_id(tmp_path / "none") == pass_set_id()


def test_every_part_changes_the_key() -> None:
    parts = {"graph": "g", "position": 0, "passes": "p", "settings": "s", "environment": "e", "harness": "h"}
    keys = {result_key(**parts)}  # type: ignore[arg-type]
    for name in parts:
        keys.add(result_key(**{**parts, name: 9}))  # type: ignore[arg-type]
    assert len(keys) == 7
