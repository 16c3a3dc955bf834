"""What passes compiled is there in the next run, and only for the very same passes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pass_bench.data import read_sample
from pass_bench.results.records import EvalSettings
from pass_bench.results.verdict import Verdict
from pass_bench.worker import pass_cache
from pass_bench.worker.evaluate import Evaluator
from pass_bench.worker.pass_cache import PassCacheStore, pass_set_key, store_folder
from pass_bench.worker.precompile import compile_in_parallel

FAST = EvalSettings(device="cpu", warmup=2, trials=5, time_budget_s=2.0, guards=False)


@pytest.fixture
def store(tmp_path: Path) -> PassCacheStore:
    (tmp_path / "store").mkdir()
    return PassCacheStore(tmp_path / "store")


def filled(run: Path) -> Path:
    """A run's folder with a kernel and a group file of Triton's."""
    (run / "triton" / "ABC").mkdir(parents=True)
    (run / "triton" / "ABC" / "k.cubin").write_bytes(b"\x7fELF" + run.name.encode())
    paths = {"k.cubin": str(run / "triton" / "ABC" / "k.cubin")}
    (run / "triton" / "ABC" / "__grp__k.json").write_text(json.dumps({"child_paths": paths}))
    (run / "kernels").mkdir()
    (run / "kernels" / "add.so").write_bytes(b"so")
    (run / "notes.txt").write_text("not kept")
    return run


def test_what_is_kept_comes_back_with_its_paths(store: PassCacheStore, tmp_path: Path) -> None:
    store.keep("key", filled(tmp_path / "first"))
    second = tmp_path / "second"
    second.mkdir()
    assert store.restore("key", second, None)
    group = json.loads((second / "triton" / "ABC" / "__grp__k.json").read_text())
    assert group["child_paths"] == {"k.cubin": str(second / "triton" / "ABC" / "k.cubin")}
    assert (second / "triton" / "ABC" / "k.cubin").read_bytes() == b"\x7fELFfirst"
    assert (second / "kernels" / "add.so").exists()
    assert not (second / "notes.txt").exists()
    assert not store.restore("other", second, None)
    assert not store.restore(None, second, None)


def test_a_later_run_takes_the_place_of_an_earlier_one(store: PassCacheStore, tmp_path: Path) -> None:
    store.keep("key", filled(tmp_path / "first"))
    store.keep("key", filled(tmp_path / "second"))
    third = tmp_path / "third"
    third.mkdir()
    store.restore("key", third, None)
    assert (third / "triton" / "ABC" / "k.cubin").read_bytes() == b"\x7fELFsecond"
    assert [path.name for path in (tmp_path / "store").iterdir()] == ["key"]
    (tmp_path / "empty").mkdir()
    store.keep("key", tmp_path / "empty")  # nothing compiled: what there was stays
    assert (tmp_path / "store" / "key" / "kernels" / "add.so").exists()


def test_no_link_is_followed_out_of_a_run(store: PassCacheStore, tmp_path: Path) -> None:
    run, secret = filled(tmp_path / "run"), tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("sk-1")
    (run / "triton" / "file").symlink_to(secret / "key")
    (run / "triton" / "folder").symlink_to(secret)
    os.mkfifo(run / "triton" / "pipe")
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "triton").symlink_to(secret)
    store.keep("key", run)
    store.keep("linked", tmp_path / "linked")
    kept = sorted(path.name for path in (tmp_path / "store").rglob("*") if path.is_file())
    assert kept == ["__grp__k.json", "add.so", "k.cubin"]


def test_limits(store: PassCacheStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pass_cache, "MOST_FILES", 2)
    monkeypatch.setattr(pass_cache, "MOST_SETS", 2)
    for number in range(4):
        store.keep(f"key{number}", filled(tmp_path / f"run{number}"))
        os.utime(tmp_path / "store" / f"key{number}", (number, number))
    kept = sorted(path.name for path in (tmp_path / "store").iterdir())
    assert len(kept) == 2
    assert "key3" in kept
    assert len([path for path in (tmp_path / "store" / "key3").rglob("*") if path.is_file()]) == 2
    monkeypatch.setattr(pass_cache, "MOST_BYTES", 1)
    store.keep("large", filled(tmp_path / "large"))
    assert not (tmp_path / "store" / "large").exists()


def test_the_key_is_the_content(tmp_path: Path) -> None:
    sample, passes, const = tmp_path / "sample", tmp_path / "passes", tmp_path / "const"
    for folder in (sample, passes, const):
        folder.mkdir()
    (passes / "a.py").write_text("a")
    (const / "a.py").write_text("a")
    key = pass_set_key(sample, [passes], "torch 2")
    assert key == pass_set_key(sample, [passes], "torch 2")
    assert key == pass_set_key(sample, [const], "torch 2")
    others = [
        pass_set_key(passes, [passes], "torch 2"),
        pass_set_key(sample, [passes], "torch 3"),
        pass_set_key(sample, [passes, const], "torch 2"),
        pass_set_key(sample, [passes], "torch 2", ""),
    ]
    (passes / "a.py").write_text("b")
    others.append(pass_set_key(sample, [passes], "torch 2"))
    (passes / "a.py").write_text("a")
    (passes / "b.py").symlink_to("a.py")
    others.append(pass_set_key(sample, [passes], "torch 2"))
    assert len({key, *others}) == 7
    (passes / "c.py").symlink_to(const / "a.py")
    assert pass_set_key(sample, [passes], "torch 2") is None


def test_the_store_can_be_elsewhere_or_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PASSNET_PASS_CACHE", str(tmp_path / "here"))
    assert store_folder() == tmp_path / "here"
    monkeypatch.setenv("PASSNET_PASS_CACHE", "off")
    assert store_folder() is None
    monkeypatch.delenv("PASSNET_PASS_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert store_folder() == tmp_path / "passnet" / "passes"


def kernels_in(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in folder.rglob("*.so")}


def test_a_second_run_compiles_nothing(
    make_sample: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PASSNET_PASS_CACHE", str(tmp_path / "store"))
    sample = read_sample(make_sample())
    compiled = []
    for _ in range(2):
        with Evaluator(FAST) as evaluator:
            (result,) = evaluator.evaluate(sample, only=[0])
        assert result.verdict is Verdict.CORRECT, result.reason
        compiled.append(kernels_in(tmp_path / "store"))
    assert len(compiled[0]) == 1
    assert compiled[1] == compiled[0]  # the file is the one that the first run made
    text = next(sample.pass_dir.glob("*.py"))
    text.write_text(text.read_text() + "\n# another pass set\n")
    with Evaluator(FAST) as evaluator:
        evaluator.evaluate(sample, only=[0])
    assert len(list((tmp_path / "store").iterdir())) == 2


def test_graphs_compile_in_children_at_once(
    make_sample: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PASSNET_PASS_CACHE", "off")
    sample = read_sample(make_sample())
    with Evaluator(FAST) as evaluator:
        job = evaluator._job(sample, sample.graphs[0].path, sample.pass_dir, None)
        broken = job.model_copy(update={"graph_path": str(tmp_path / "nowhere")})
        assert evaluator._zygote is not None
        assert compile_in_parallel(evaluator._zygote, [job, job, broken], 60.0) == 2
        assert len(kernels_in(Path(job.cache_dir))) == 1
        assert evaluator.precompile(sample) == 0  # nothing to do on the CPU
