"""A Ray cluster of two nodes on this machine: the same keys and verdicts as the local executor."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tiny_sample import MODEL

from pass_bench.batch.tasks import graph_tasks, sample_tasks
from pass_bench.cli import passbench, run
from pass_bench.results.store import read_store

# Two workers share the cores: three trials would say little.
QUICK = ["--devices", "cpu", "--trials", "20", "--warmup", "1"]
OTHER = MODEL.replace("in_0 + in_1", "in_0 * in_1")

pytestmark = [
    pytest.mark.full,
    pytest.mark.serial,
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        importlib.util.find_spec("ray") is None, reason="Ray is not installed: pip install 'passnet[ray]'"
    ),
]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Start two nodes with one CPU each; returns the address. Their workers import what this process does."""
    import ray
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        nodes.add_node(num_cpus=1)
        nodes.wait_for_nodes()
        yield nodes.address
    finally:
        ray.shutdown()
        nodes.shutdown()


def measured(out: Path) -> dict[str, str]:
    return {
        entry.key: entry.stored.result.verdict.value for entry in read_store(out / "results.jsonl").entries
    }


def test_two_nodes_give_the_keys_and_verdicts_of_one_machine(
    cluster: str, make_sample: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a", "b", "c"):
        make_sample(graphs={"one": MODEL, "two": OTHER}, name=f"set/{name}")
    targets = [str(tmp_path / "set"), "--baseline", "nope", *QUICK]
    assert run(passbench, ["batch", *targets, "--out", str(tmp_path / "local")]) == 0
    remote = [*targets, "--executor", "ray", "--ray-address", cluster, "--out", str(tmp_path / "ray")]
    assert run(passbench, ["batch", *remote]) == 0, capsys.readouterr().err
    local = measured(tmp_path / "local")
    assert len(local) == 12
    reasons = [entry.stored.result.reason for entry in read_store(tmp_path / "ray" / "results.jsonl").entries]
    assert measured(tmp_path / "ray") == local, reasons
    assert run(passbench, ["batch", *remote]) == 0
    assert "0 measured, 12 were there" in capsys.readouterr().out


def meeting_device() -> type:
    """Return an actor's class whose measurements wait for a second one in the same actor."""
    import threading

    from pass_bench.results.records import EnvironmentRecord, GraphResult

    class Meeting:  # local, so that Ray sends the code itself
        def __init__(self, *arguments: Any):
            self._told = arguments[-2:]
            self._both = threading.Barrier(2)

        def environment(self) -> str:
            return EnvironmentRecord(
                harness="1", python="3", torch="2", device="cpu", device_name="x"
            ).model_dump_json()

        def evaluate(self, task: Any) -> str:
            self._both.wait(timeout=60)
            return GraphResult(
                sample="s",
                graph=task.listed,
                index=0,
                compiler="nope",
                device="cpu",
                verdict="correct",
                reason=str(self._told),
            ).model_dump_json()

        def close(self) -> None:
            pass

    return Meeting


def test_as_many_graphs_are_in_work_per_device_as_asked_for(
    cluster: str, make_sample: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pass_bench.batch import ray_executor
    from pass_bench.results.records import EvalSettings

    monkeypatch.setattr(ray_executor, "RayDevice", meeting_device())
    make_sample(graphs=dict.fromkeys("abcd", MODEL), name="set/a")
    tasks = graph_tasks(sample_tasks([tmp_path / "set"], None, None), [("nope", False)])
    settings = EvalSettings(compiler="nope", device="cpu")
    found: list[str] = []
    with ray_executor.RayExecutor(settings, ("nope",), cluster, jobs=2, hush=False) as executor:
        executor.run(tasks, lambda item: found.append(item.result.reason), lambda: False)
    assert found == ["(2, False)"] * 4


def test_gpus_get_the_jobs_of_their_smallest_node() -> None:
    from pass_bench.batch.ray_executor import RayExecutor
    from pass_bench.results.records import EvalSettings

    executor = RayExecutor(EvalSettings(), ("nope",))
    resources = [{"CPU": 32.0, "GPU": 2.0}, {"CPU": 12.0, "GPU": 2.0}, {"CPU": 4.0}]
    executor._ray = SimpleNamespace(nodes=lambda: [{"Alive": True, "Resources": r} for r in resources])
    assert executor._default_jobs() == 3


def test_two_graphs_in_work_give_the_verdicts_of_one(
    cluster: str, make_sample: Callable[..., Path], tmp_path: Path
) -> None:
    make_sample(graphs={"one": MODEL, "two": OTHER}, name="set/a")
    make_sample(graphs={"one": MODEL, "two": OTHER}, name="set/b")
    targets = [str(tmp_path / "set"), "--executor", "ray", "--ray-address", cluster, *QUICK]
    for jobs in ("1", "2"):
        assert run(passbench, ["batch", *targets, "--jobs", jobs, "--out", str(tmp_path / jobs)]) == 0
    assert len(measured(tmp_path / "1")) == 4
    assert measured(tmp_path / "1") == measured(tmp_path / "2")


def test_both_nodes_work(cluster: str) -> None:
    from pass_bench.batch.ray_executor import RayExecutor
    from pass_bench.results.records import EvalSettings

    settings = EvalSettings(compiler="nope", device="cpu")
    with RayExecutor(settings, ("nope",), cluster) as executor:
        assert len(executor.environments()) == 2
        assert len(set(executor.nodes())) == 2
