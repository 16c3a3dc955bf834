"""Evaluations in real containers of a real engine, with everything that can go wrong in one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agent_fixtures import (
    EVALUATE,
    MANIFEST,
    SUBMIT,
    make_dataset,
    make_sample,
    make_script,
    pass_text,
    write_pass,
)
from docker_engine import IMAGE, host_mounts, import_skeleton, running_engine, why_no_engine

from pass_agent.errors import BadInput
from pass_agent.evaluation.evaluator import Evaluation, Evaluator, EvaluatorSettings
from pass_agent.evaluation.pass_set import PassSet
from pass_agent.evaluation.sample import read_sample_source
from pass_agent.runtime.choose import choose_runtime
from pass_agent.runtime.containers import LABEL
from pass_agent.runtime.docker_runtime import DockerRuntime, DockerSettings, gpu_requests

pytestmark = [pytest.mark.serial]


@pytest.fixture(scope="module")
def engine() -> Iterator[Any]:
    """A client of an engine that lives as long as this module's tests."""
    why = why_no_engine()
    if why:
        pytest.skip(why)
    import docker

    with running_engine() as address:
        before = os.environ.get("DOCKER_HOST")
        os.environ["DOCKER_HOST"] = address
        client = docker.from_env()
        import_skeleton(client)
        try:
            yield client
        finally:
            for container in client.containers.list(all=True, ignore_removed=True):
                container.remove(force=True)
            client.close()
            os.environ.pop("DOCKER_HOST")
            if before is not None:
                os.environ["DOCKER_HOST"] = before


def settings(**more: Any) -> DockerSettings:
    return DockerSettings(image=IMAGE, mounts=host_mounts(), memory="512m", shm="16m", gpus="none", **more)


def evaluate(folder: Path, timeout_s: float = 60.0, **marks: Any) -> Evaluation:
    sample = read_sample_source(make_sample(folder / "sample", graphs=1))
    runtime = DockerRuntime(settings(), "test")
    evaluator = Evaluator(
        sample, runtime, EvaluatorSettings(timeout_s=timeout_s), folder / "cache", devices=("cpu",)
    )
    files = {"one.py": pass_text(**marks).encode(), MANIFEST: b'["one"]', "big.py": b"#" * 3_000_000}
    return evaluator.evaluate(PassSet(files))[0]


def containers(client: Any) -> list[Any]:
    return list(client.containers.list(all=True, filters={"label": LABEL}, ignore_removed=True))


def evaluating(client: Any) -> list[Any]:
    """Containers in which an evaluation runs right now."""
    import docker.errors

    found = []
    for container in containers(client):
        try:
            if "harness.py" in str(container.top(ps_args="-eww -o pid,args")):
                found.append(container)
        except docker.errors.APIError:  # not running yet, or no longer
            continue
    return found


def wait_for(condition: Any, timeout_s: float = 60.0) -> Any:
    deadline = time.monotonic() + timeout_s
    while not (value := condition()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)
    return value


def test_an_evaluation_in_a_container(engine: Any, tmp_path: Path) -> None:
    result = evaluate(tmp_path, speedup=2.0, print="\u00fcber")
    assert (result.status, result.score) == ("scored", pytest.approx(2.0)), result.message
    assert result.log == "über\n"
    assert containers(engine) == []


def test_a_hanging_evaluation_is_ended_inside_the_container(engine: Any, tmp_path: Path) -> None:
    started = time.monotonic()
    result = evaluate(tmp_path, timeout_s=2.0, sleep=100, children=1)
    assert result.status == "infra"
    assert "did not end within 2 s" in result.message
    assert time.monotonic() - started < 30
    assert containers(engine) == []


def test_processes_that_fled_do_not_hold_a_finished_evaluation(engine: Any, tmp_path: Path) -> None:
    started = time.monotonic()
    assert evaluate(tmp_path, speedup=2.0, children=1).score == pytest.approx(2.0)
    assert time.monotonic() - started < 60


def test_a_container_killed_during_an_evaluation_is_infra(engine: Any, tmp_path: Path) -> None:
    def kill() -> None:
        wait_for(lambda: evaluating(engine))[0].kill()

    killer = threading.Thread(target=kill)
    killer.start()
    result = evaluate(tmp_path, sleep=100)
    killer.join()
    assert result.status == "infra"
    assert "container" in result.message
    wait_for(lambda: containers(engine) == [])


def test_limits_and_labels_are_set(engine: Any) -> None:
    box = DockerRuntime(settings(cpus=1.0, pids=100), "my-run").open()
    try:
        box.container.reload()
        host = box.container.attrs["HostConfig"]
        assert (host["Memory"], host["PidsLimit"], host["NetworkMode"]) == (512 << 20, 100, "none")
        assert host["NanoCpus"] == 10**9
        assert host["Privileged"] is False
        assert box.container.labels[f"{LABEL}.run"] == "my-run"
    finally:
        box.close()
    box.close()  # closing what is gone is no error


def test_an_evaluation_sees_exactly_the_gpu_that_it_holds(engine: Any) -> None:
    assert DockerRuntime(settings()).devices("") == ("cpu",)
    two = DockerRuntime(settings().model_copy(update={"gpus": "0, 3"}))
    assert two.devices("") == ("0", "3")
    assert two.devices("cpu") == ("cpu",)
    assert gpu_requests("") == gpu_requests("cpu") == []
    (one,) = gpu_requests("3")
    assert (one["DeviceIDs"], one["Count"], one["Capabilities"]) == (["3"], 0, [["gpu"]])
    (every,) = gpu_requests("all")
    assert (every["DeviceIDs"], every["Count"]) == ([], -1)


def test_files_go_in_and_come_out_by_archive(engine: Any, tmp_path: Path) -> None:
    (tmp_path / "tree" / "sub").mkdir(parents=True)
    (tmp_path / "tree" / "sub" / "x").write_text("from a folder")
    box = DockerRuntime(settings()).open()
    try:
        box.put({"a/b.txt": b"\x00\xff bytes", "tree": tmp_path / "tree"})
        script = (
            "cat a/b.txt > ../out/b; mkdir ../out/d; cat tree/sub/x > ../out/d/x; ln -s /etc/passwd ../out/l"
        )
        ran = box.run(["sh", "-c", script], {}, 30)
        assert (ran.code, ran.lost) == (0, "")
        assert box.get() == {"b": b"\x00\xff bytes", "d/x": b"from a folder"}
        assert box.run(["sh", "-c", "exit 7"], {}, 30).code == 7
        assert box.run(["no-such-program"], {}, 30).code == 127
    finally:
        box.close()


def test_auto_takes_docker_where_the_image_is(engine: Any, tmp_path: Path) -> None:
    runtime, told = choose_runtime("auto", tmp_path, "auto", settings(), "x")
    assert (runtime.name, told) == ("docker", f"docker, image {IMAGE}")
    runtime, told = choose_runtime("auto", tmp_path, "auto", DockerSettings(image="none:none"), "x")
    assert runtime.name == "local"
    assert "no Docker image none:none" in told
    with pytest.raises(BadInput, match="no Docker image"):
        choose_runtime("docker", tmp_path, "auto", DockerSettings(image="none:none"), "x")


def test_a_killed_runner_leaves_a_container_that_resume_and_clean_remove(engine: Any, tmp_path: Path) -> None:
    dataset = make_dataset(tmp_path / "data.jsonl", [make_sample(tmp_path / "task", graphs=1)])
    script = make_script(tmp_path / "s.json", [write_pass(speedup=2.0, sleep=5), EVALUATE, SUBMIT])
    mounts = [part for mount in host_mounts() for part in ("--docker-mount", mount)]
    arguments = [
        "run", "--runtime", "docker", "--docker-image", IMAGE, *mounts, "--docker-memory", "512m",
        "--gpus", "none", "--dataset", dataset, "--traj-dir", tmp_path / "traj", "--exp-name", "exp",
        "--llm-name", f"scripted:{script}", "--no-few-shot", "--resume",
    ]  # fmt: skip
    command = [sys.executable, "-m", "pass_agent.cli"]

    def kill_during_evaluation() -> None:
        runner = subprocess.Popen([*command, *map(str, arguments)], stdout=subprocess.PIPE)
        wait_for(lambda: evaluating(engine))
        runner.kill()
        runner.communicate()
        assert len(containers(engine)) == 1

    kill_during_evaluation()
    cleaned = subprocess.run(
        [*command, "clean", "--traj-dir", tmp_path], capture_output=True, text=True, timeout=60
    )
    assert "1 containers removed" in cleaned.stdout
    assert containers(engine) == []
    kill_during_evaluation()
    last = subprocess.run([*command, *map(str, arguments)], capture_output=True, text=True, timeout=120)
    assert last.returncode == 0, last.stderr
    assert "removed 1 boxes that a dead run had left" in last.stdout
    assert "reward 2" in last.stdout
    assert containers(engine) == []


@pytest.mark.full
def test_a_plain_debian_image_is_enough_for_the_runtime(engine: Any, tmp_path: Path) -> None:
    """An image straight from debootstrap, nothing mounted: all the runtime needs is a shell."""
    if shutil.which("debootstrap") is None:
        pytest.skip("no debootstrap: apt-get install debootstrap")
    root = Path(os.environ.get("PASSAGENT_TEST_ROOTFS", tmp_path / "rootfs"))
    if not (root / "bin").exists():
        made = subprocess.run(
            ["debootstrap", "--variant=minbase", "bookworm", root], capture_output=True, text=True
        )
        if made.returncode != 0:
            pytest.skip(f"debootstrap found no packages: {made.stdout[-200:]}")
    archive = tmp_path / "image.tar"
    subprocess.run(["tar", "-C", root, "-cf", archive, "."], check=True)
    engine.api.import_image_from_file(str(archive), repository="passagent-debian", tag="latest")
    box = DockerRuntime(DockerSettings(image="passagent-debian:latest", gpus="none", memory="256m")).open()
    try:
        box.put({"entry.sh": b'(setsid sleep 300 &)\nid -u > "$OUT/uid"\nsleep "$1"\n'})
        ran = box.run(["bash", "entry.sh", "0"], {"OUT": box.out}, 60)
        assert (ran.code, ran.lost, box.get()) == (0, "", {"uid": b"0\n"})
        ran = box.run(["bash", "entry.sh", "300"], {"OUT": box.out}, 2)
        assert ran.timed_out
        assert "sleep 300" not in str(box.container.top(ps_args="-eww -o pid,args"))
    finally:
        box.close()
    assert containers(engine) == []
