"""A Ray cluster of two nodes on this machine: the same keys and verdicts as the local executor."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tiny_sample import MODEL

from pass_bench.cli import passbench, run
from pass_bench.results.store import read_store

QUICK = ["--devices", "cpu", "--trials", "3", "--warmup", "1"]
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
    assert measured(tmp_path / "ray") == local
    assert run(passbench, ["batch", *remote]) == 0
    assert "0 measured, 12 were there" in capsys.readouterr().out


def test_both_nodes_work(cluster: str) -> None:
    from pass_bench.batch.ray_executor import RayExecutor
    from pass_bench.results.records import EvalSettings

    settings = EvalSettings(compiler="nope", device="cpu")
    with RayExecutor(settings, ("nope",), cluster) as executor:
        assert len(executor.environments()) == 2
        assert len(set(executor.nodes())) == 2
