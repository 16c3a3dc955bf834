"""Runs tasks on a Ray cluster: the same evaluation, one actor per device."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from pass_bench.batch.executor import Measured, OnMeasured, default_jobs
from pass_bench.batch.local import STAGGER_S
from pass_bench.batch.tasks import GraphTask
from pass_bench.errors import BadInput, HarnessFailure
from pass_bench.results.records import EnvironmentRecord, EvalSettings


class RayDevice:
    """The actor: the workers of one device of its node. Samples must lie at the same paths on every node.

    Up to `jobs` calls of `evaluate` come at once, each in a thread of its own: see `LocalExecutor`.
    """

    def __init__(
        self,
        settings: str,
        compilers: tuple[str, ...],
        on_gpu: bool,
        threads: str | None,
        jobs: int,
        hush: bool,
    ):
        from pass_bench.batch.device import DeviceWorkers

        # Ray sets this to the CPUs asked for, which would make the CPU's part another measurement.
        os.environ.pop("OMP_NUM_THREADS", None)
        if threads is not None:
            os.environ["OMP_NUM_THREADS"] = threads
        visible = os.environ.get("CUDA_VISIBLE_DEVICES") if on_gpu else None
        parsed = EvalSettings.model_validate_json(settings)
        self._workers = DeviceWorkers(parsed, compilers, visible, hush)
        self._workers.__enter__()
        self._starts = iter(range(jobs if self._workers.environment.device == "cuda" else 0))

    def environment(self) -> str:
        """The environment record as JSON."""
        return self._workers.environment.model_dump_json()

    def evaluate(self, task: GraphTask) -> str:
        """Measure one graph; returns the result as JSON."""
        time.sleep(next(self._starts, 0) * STAGGER_S)
        if self._workers.cores is not None:
            os.sched_setaffinity(0, self._workers.cores.rest)  # of this thread
        return self._workers.evaluate(task).model_dump_json()

    def node(self) -> str:
        """The id of the node that it runs on."""
        import ray

        return str(ray.get_runtime_context().get_node_id())

    def close(self) -> None:
        """End the workers."""
        self._workers.__exit__(None, None, None)


class RayExecutor:
    """One actor per GPU of the cluster (`num_gpus=1`), or one per node on the CPU.

    `address` joins a running cluster; None follows RAY_ADDRESS, else starts Ray on this machine. `jobs`
    graphs are in work per actor, None for the default of the kind of device. `hush`: see `Evaluator`.
    """

    def __init__(
        self,
        settings: EvalSettings,
        compilers: tuple[str, ...],
        address: str | None = None,
        jobs: int | None = None,
        hush: bool = True,
    ):
        try:
            import ray
        except ImportError:
            raise BadInput(
                "--executor ray: Ray is not installed", expected="pip install 'passnet[ray]'"
            ) from None
        self._ray: Any = ray
        self._settings = settings
        self._compilers = compilers
        self._address = address
        self._jobs = jobs
        self._hush = hush
        self._actors: list[Any] = []
        self._environments: dict[int, EnvironmentRecord] = {}
        self._started = False

    def __enter__(self) -> RayExecutor:
        ray = self._ray
        if not ray.is_initialized():
            root = str(Path(__file__).resolve().parents[2])
            try:
                ray.init(
                    address=self._address,
                    log_to_driver=False,
                    logging_level="ERROR",
                    runtime_env={"env_vars": {"PYTHONPATH": root}},
                )
            except (ConnectionError, RuntimeError) as error:
                raise HarnessFailure(f"cannot reach Ray: {error}") from None
            self._started = True
        try:
            self._start_actors()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the actors, and Ray if it was started here."""
        for actor in self._actors:
            try:
                self._ray.get(actor.close.remote(), timeout=10)
            except Exception:  # an actor that is gone needs no closing
                pass
            self._ray.kill(actor)
        self._actors = []
        if self._started:
            self._ray.shutdown()
            self._started = False

    def _start_actors(self) -> None:
        ray = self._ray
        gpus = int(ray.cluster_resources().get("GPU", 0))
        if self._settings.device == "cuda" and not gpus:
            raise BadInput("--devices: the Ray cluster has no GPU", expected="cpu or auto there")
        on_gpu = self._settings.device != "cpu" and gpus > 0
        jobs = self._jobs = self._jobs or (self._default_jobs() if on_gpu else default_jobs(0))
        threads = os.environ.get("OMP_NUM_THREADS")
        arguments = (self._settings.model_dump_json(), self._compilers, on_gpu, threads, jobs, self._hush)
        actor_class = ray.remote(max_concurrency=jobs)(RayDevice)
        if on_gpu:
            self._actors = [
                actor_class.options(num_gpus=1, num_cpus=1).remote(*arguments) for _ in range(gpus)
            ]
        else:
            from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

            nodes = sorted(
                node["NodeID"] for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")
            )
            self._actors = [
                actor_class.options(
                    num_cpus=1, scheduling_strategy=NodeAffinitySchedulingStrategy(node_id=node, soft=False)
                ).remote(*arguments)
                for node in nodes
            ]
        try:
            texts = ray.get([actor.environment.remote() for actor in self._actors])
        except ray.exceptions.RayError as error:
            raise HarnessFailure(f"a Ray worker could not start: {str(error).splitlines()[-1]}") from None
        for place, text in enumerate(texts):
            self._environments[place] = EnvironmentRecord.model_validate_json(text)

    def _default_jobs(self) -> int:
        """The least of the defaults of the nodes with GPUs: which actor comes to lie where is not known."""
        resources = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        return min(default_jobs(int(r["GPU"]), int(r.get("CPU", 1))) for r in resources if r.get("GPU"))

    def nodes(self) -> list[str]:
        """The node of each device."""
        return [str(node) for node in self._ray.get([actor.node.remote() for actor in self._actors])]

    def environments(self) -> Sequence[EnvironmentRecord]:
        return [self._environments[place] for place in range(len(self._actors))]

    def run(self, tasks: Sequence[GraphTask], on_measured: OnMeasured, stop: Callable[[], bool]) -> None:
        from pass_bench.results.records import GraphResult

        ray = self._ray
        waiting = deque(tasks)
        running: dict[Any, tuple[int, GraphTask]] = {}
        idle = list(range(len(self._actors))) * (self._jobs or 1)
        while waiting or running:
            while idle and waiting and not stop():
                place, task = idle.pop(0), waiting.popleft()
                running[self._actors[place].evaluate.remote(task)] = (place, task)
            if not running:
                break
            ready, _ = ray.wait(list(running), num_returns=1, timeout=0.5)
            for reference in ready:
                place, task = running.pop(reference)
                try:
                    text = ray.get(reference)
                except ray.exceptions.RayError as error:
                    raise HarnessFailure(f"lost a Ray worker: {str(error).splitlines()[-1]}") from None
                idle.append(place)
                on_measured(Measured(task, GraphResult.model_validate_json(text), self._environments[place]))
