"""Submission archives: what is in them, what is refused, when claims hold."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from pass_bench.batch.archive import MANIFEST, STORE, pack, unpack
from pass_bench.batch.claims import Claim, choose, hold, mean_ratio
from pass_bench.batch.submission_commands import print_claims
from pass_bench.errors import BadInput, HarnessFailure
from pass_bench.results.records import Comparison, GraphResult, TimingStats
from pass_bench.results.store import Store, StoredResult
from pass_bench.results.verdict import Verdict


def result(
    speedup: float, verdict: Verdict = Verdict.CORRECT, half: float = 0.01, index: int = 0
) -> GraphResult:
    def stats(median: float) -> TimingStats:
        return TimingStats(trials=100, median_us=median, q25_us=median, q75_us=median, min_us=median)

    return GraphResult(
        sample="a",
        graph=f"graphs/{index}",
        index=index,
        compiler="pass_mgr_direct",
        device="cpu",
        verdict=verdict,
        e2e=Comparison(
            eager=stats(speedup),
            compiled=stats(1.0),
            speedup=speedup,
            low=speedup - half,
            high=speedup + half,
        ),
    )


@pytest.fixture
def packed(make_sample: Callable[..., Path], tmp_path: Path) -> Path:
    make_sample(name="a")
    with Store(tmp_path / "results.jsonl") as store:
        store.append("k", StoredResult(submission="mine", result=result(2.0)))
    pack(tmp_path / "results.jsonl", None, tmp_path, "mine", tmp_path / "mine.tar.xz")
    return tmp_path / "mine.tar.xz"


def test_an_archive_comes_apart_as_it_was_and_is_reproducible(packed: Path, tmp_path: Path) -> None:
    unpacked = unpack(packed, tmp_path / "out")
    assert unpacked.manifest.submission == "mine"
    assert unpacked.manifest.samples == ("a",)
    assert sorted(unpacked.manifest.files) == [
        "passes/a/AddRelu.py",
        "passes/a/sorted_output_pass_rule_names.json",
        "results.jsonl",
    ]
    assert unpacked.store.read_bytes() == (tmp_path / "results.jsonl").read_bytes()
    first = packed.read_bytes()
    pack(tmp_path / "results.jsonl", None, tmp_path, "mine", packed)
    assert packed.read_bytes() == first


def rewrite(archive: Path, change: Callable[[dict[str, bytes]], None]) -> None:
    with tarfile.open(archive) as opened:
        contents = {entry.name: opened.extractfile(entry).read() for entry in opened}  # type: ignore[union-attr]
    change(contents)
    with tarfile.open(archive, "w:xz") as opened:
        for name, data in contents.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            opened.addfile(entry, io.BytesIO(data))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda c: c.update({STORE: c[STORE] + b"\n"}), "results.jsonl is not what submission.json says"),
        (lambda c: c.pop(STORE), "results.jsonl is missing"),
        (lambda c: c.update({MANIFEST: b"{}"}), "no sound submission.json"),
        (lambda c: c.update({"passes/a/Extra.py": b""}), "passes/a/Extra.py is not what"),
        (lambda c: c.update({"../escape.py": b""}), "cannot be unpacked"),
    ],
)
def test_a_changed_archive_is_refused(
    packed: Path, tmp_path: Path, change: Callable[[dict[str, bytes]], None], words: str
) -> None:
    rewrite(packed, change)
    with pytest.raises(BadInput, match=words):
        unpack(packed, tmp_path / "out")
    assert not (tmp_path / "escape.py").exists()


def test_what_is_no_archive_is_bad_input(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("hello")
    for name in ("x", "nothing"):
        with pytest.raises(BadInput):
            unpack(tmp_path / name, tmp_path / "out")


def test_findings_follow_the_intervals() -> None:
    assert Claim(result(2.0), result(2.01)).finding == "holds"
    assert Claim(result(2.0), result(1.5)).finding == "slower"
    assert Claim(result(2.0), result(2.5)).finding == "faster"
    assert Claim(result(2.0), result(1.96)).finding == "holds"  # 1.97 is above 0.98 x 1.99
    assert Claim(result(2.0), result(2.0, Verdict.ACCURACY)).finding == "verdict"


def test_claims_hold_unless_a_verdict_is_worse_or_many_speeds_are() -> None:
    good = [Claim(result(2.0), result(2.0))] * 19
    assert hold(good)
    assert hold([*good, Claim(result(2.0), result(1.0))])  # 1 of 20 is 5 %
    assert not hold([*good[1:], *[Claim(result(2.0), result(1.0))] * 2])
    assert not hold([*good, Claim(result(2.0), result(2.0, Verdict.ACCURACY))])
    assert hold([*good, Claim(result(2.0, Verdict.ACCURACY), result(2.0))])
    assert mean_ratio([Claim(result(2.0), result(1.0)), Claim(result(1.0), result(2.0))]) == pytest.approx(
        1.0
    )


@pytest.mark.parametrize(
    ("claimed", "found", "holds"),
    [
        (Verdict.CORRECT, Verdict.RUNTIME_FAIL, False),
        (Verdict.CORRECT, Verdict.PASS_MISS, False),
        (Verdict.CORRECT, Verdict.TIMEOUT, False),
        (Verdict.CORRECT, Verdict.NOTHING_TO_CHECK, False),
        (Verdict.CORRECT, Verdict.UNSUPPORTED_ON_CPU, False),  # it was claimed on a CPU
        (Verdict.CORRECT, Verdict.INFRA, True),
        (Verdict.RUNTIME_FAIL, Verdict.ACCURACY, True),
        (Verdict.ACCURACY, Verdict.RUNTIME_FAIL, True),
        (Verdict.PASS_MISS, Verdict.CORRECT, True),
    ],
)
def test_only_a_claim_better_than_what_was_found_fails(claimed: Verdict, found: Verdict, holds: bool) -> None:
    assert hold([Claim(result(2.0, claimed), result(2.0, found))]) is holds


def test_what_was_not_measured_for_our_reasons_is_left_out() -> None:
    lost = Claim(result(2.0), result(1.0, Verdict.INFRA))
    assert lost.left_out and lost.finding == "left out"
    slower = Claim(result(2.0), result(1.0))
    assert not hold([*[Claim(result(2.0), result(2.0))] * 18, slower, lost])  # 1 of 19 is more than 5 %
    on_gpu = result(2.0).model_copy(update={"device": "cuda"})
    assert Claim(on_gpu, result(1.0, Verdict.UNSUPPORTED_ON_CPU)).left_out
    assert not Claim(result(2.0), result(1.0, Verdict.UNSUPPORTED_ON_CPU)).left_out


def test_how_many_were_left_out_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    lost = Claim(result(2.0), result(1.0, Verdict.INFRA))
    print_claims([Claim(result(2.0), result(2.0)), lost], "mine", 7)
    said = capsys.readouterr().out
    assert "1 of 2 graphs are left out" in said
    assert "mine: the claims hold on 1 graphs" in said
    assert "measured / claimed speedup 1.000" in said
    with pytest.raises(HarnessFailure, match="no claim could be measured again: infra"):
        print_claims([lost], "mine", 7)


def test_a_random_part_is_at_least_one_and_only_of_what_counts() -> None:
    results = [result(2.0, index=i) for i in range(40)] + [result(1.0, Verdict.INFRA, index=99)]
    assert len(choose(results, 0.1, 7)) == 4
    assert choose(results, 0.1, 7) == choose(results, 0.1, 7) != choose(results, 0.1, 8)
    assert len(choose(results[:1], 0.01, 0)) == 1
    assert {r.index for r in choose(results, 1.0, 0)} == set(range(40))
