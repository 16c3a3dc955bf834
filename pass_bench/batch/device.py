"""One device of this machine: its warm workers, and the evaluation of one graph on it."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from types import TracebackType

from pass_bench.batch.tasks import GraphTask, SampleTask
from pass_bench.compilers import compiler_named
from pass_bench.errors import BadInput
from pass_bench.results.records import EnvironmentRecord, EvalSettings, GraphResult
from pass_bench.results.verdict import Verdict
from pass_bench.worker.cores import Cores
from pass_bench.worker.evaluate import Evaluator


class DeviceWorkers:
    """Workers of one device: one zygote for all compilers and for all threads that prepare and time graphs.

    `visible` is the value of CUDA_VISIBLE_DEVICES for them, None for all.
    """

    def __init__(
        self,
        settings: EvalSettings,
        compilers: tuple[str, ...],
        visible: str | None = None,
        hush: bool = True,
    ):
        first, *others = compilers
        host = Evaluator(settings.model_copy(update={"compiler": first}), visible, guests=others, hush=hush)
        self._evaluators = {first: host}
        for name in others:
            guest = settings.model_copy(update={"compiler": name})
            self._evaluators[name] = Evaluator(guest, visible, host=host)
        self._stack = ExitStack()
        self._checks: dict[tuple[str, str], tuple[str, ...] | BadInput] = {}
        self._lock = threading.Lock()

    def __enter__(self) -> DeviceWorkers:
        try:
            for evaluator in self._evaluators.values():
                self._stack.enter_context(evaluator)
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def environment(self) -> EnvironmentRecord:
        """The machine and versions of these workers."""
        environment = next(iter(self._evaluators.values())).environment
        assert environment is not None
        return environment

    @property
    def cores(self) -> Cores | None:
        """Which processors are set aside for the graph that is timed, if any are."""
        return next(iter(self._evaluators.values())).cores

    def shrink(self) -> None:
        """End the workers that nobody needs once one thread fewer calls `evaluate`."""
        next(iter(self._evaluators.values())).shrink()  # the others use the first one's

    def evaluate(self, task: GraphTask) -> GraphResult:
        """Measure one graph; what is wrong with a submission costs its graphs their verdict, nothing else."""
        evaluator = self._evaluators[task.compiler]
        owner = task.owner
        if not compiler_named(task.compiler).uses_passes:
            return evaluator.evaluate_graph(owner.sample, task.index, names=())
        if owner.pass_dir is None:
            return self._failed(
                task, evaluator, Verdict.PASS_MISS, "the submission has no passes for this sample"
            )
        names = self._names(owner, evaluator, task.compiler)
        if isinstance(names, BadInput):
            return self._failed(task, evaluator, Verdict.COMPILE_FAIL, str(names))
        if not names:
            return self._failed(task, evaluator, Verdict.PASS_MISS, "the manifest lists no pass")
        const = owner.sample.const_pass_dir
        return evaluator.evaluate_graph(
            owner.sample, task.index, names=names, pass_dir=owner.pass_dir, const_pass_dir=const
        )

    def _names(self, owner: SampleTask, evaluator: Evaluator, compiler: str) -> tuple[str, ...] | BadInput:
        """Check a pass set once and remember what came out."""
        place = (compiler, f"{owner.name}\0{owner.pass_dir}")
        with self._lock:
            if place not in self._checks:
                try:
                    self._checks[place] = evaluator.check(
                        owner.sample, owner.pass_dir, owner.sample.const_pass_dir
                    )
                except BadInput as error:
                    self._checks[place] = error
            return self._checks[place]

    def _failed(self, task: GraphTask, evaluator: Evaluator, verdict: Verdict, reason: str) -> GraphResult:
        return GraphResult(
            sample=task.owner.name,
            graph=task.listed,
            index=task.index,
            compiler=task.compiler,
            device=evaluator.device,
            device_name=self.environment.device_name,
            verdict=verdict,
            reason=reason[:1000],
        )
