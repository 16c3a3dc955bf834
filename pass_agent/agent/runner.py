"""A run: tasks times attempts over worker threads, one output line each, and a summary."""

from __future__ import annotations

import fcntl
import math
import os
import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pass_agent.agent.budget import Ledger
from pass_agent.agent.config import other_number, read_config
from pass_agent.agent.dataset import find_file, find_sample, read_tasks
from pass_agent.agent.prepare import Prepared, begin, load_evaluation, prepare
from pass_agent.agent.settings import RunSettings
from pass_agent.agent.summary import Summary, summarize, write_summary
from pass_agent.errors import AgentError, BadInput, ExitReason
from pass_agent.evaluation.pass_set import PassSet, load_pass_set, write_pass_set
from pass_agent.journal.log import read_journal
from pass_agent.journal.output import Output
from pass_agent.journal.trajectory import conversation, trajectory
from pass_agent.model.base import Model
from pass_agent.model.client import ClientSettings, EndpointModel
from pass_agent.model.prices import Price, find_price
from pass_agent.model.quirks import choose_key
from pass_agent.model.scripted import PREFIX, ScriptedModel
from pass_agent.records import Ended, Task
from pass_agent.runtime.base import Runtime
from pass_agent.runtime.choose import choose_runtime

Report = Callable[[str], None]


@dataclass
class Runner:
    """Everything that the attempts of one run share."""

    settings: RunSettings
    report: Report = print
    results: dict[tuple[str, int], Ended] = field(default_factory=dict)
    unrecorded: list[str] = field(default_factory=list)  # attempts that left no trajectory, and why
    lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self) -> Summary:
        """Run all attempts that are not done; returns the summary that is also written.

        Raises BadInput before anything is started: a bad dataset, sample, configuration or flag.
        """
        settings = self.settings
        dataset = find_file(settings.dataset)
        tasks = read_tasks(dataset)[settings.start_idx :][: settings.k or None]
        if not tasks:
            raise BadInput(f"--start-idx {settings.start_idx} is behind the last task", path=dataset)
        self.config = read_config(find_file(settings.config))
        self.price = self._price()
        samples = [find_sample(task, dataset) for task in tasks]
        self.model = None if self._llm.startswith(PREFIX) else self._endpoint()
        if self.model is None:
            for task in tasks:
                self._model(task)
        with _alone(settings.folder, settings.resume):
            runtimes = self._runtimes(tasks)
            self.output = Output(settings.traj_dir, settings.exp_name)
            self.ledger = Ledger(settings.max_cost, settings.max_total_tokens)
            prepared = [
                prepare(task, sample, settings, self.config, runtimes[task.docker_image], self._llm)
                for task, sample in zip(tasks, samples, strict=True)
            ]
            self._take_up(prepared)
            try:
                with _interruptible():
                    self._run_all(prepared)
            except KeyboardInterrupt:
                for runtime in set(runtimes.values()):
                    runtime.clean(own=True)
                self.report("interrupted; go on with --resume")
                os._exit(130)  # worker threads wait for models and evaluations that nobody wants now
            return self._summary(prepared)

    @property
    def _llm(self) -> str:
        name = self.settings.llm_name or self.config.llm_name
        if not name:
            raise BadInput("--llm-name is missing, here and in the configuration")
        return name

    def _price(self) -> Price | None:
        price = self.settings.price or find_price(self._llm)
        if price is None and self.settings.max_cost and not self._llm.startswith(PREFIX):
            raise BadInput(f"--max-cost: the price of {self._llm} is not known; state it with --price")
        return price

    def _endpoint(self) -> EndpointModel:
        settings, base_url = self.settings, self.settings.llm_base_url or self.config.llm_base_url
        key = choose_key(self._llm, settings.api_key, settings.anthropic_api_key)
        if not key and not base_url:
            raise BadInput(f"no key for {self._llm}, and no --llm-base-url of an endpoint that wants none")
        return EndpointModel(
            ClientSettings(
                model=self._llm,
                base_url=base_url,
                api_key=key,
                temperature=settings.temperature,
                max_tokens=settings.max_tokens,
                max_retries=int(other_number(self.config, "max_retries", 5)),
                timeout=other_number(self.config, "timeout", 600),
                total_s=settings.limits.max_llm_time or math.inf,
                wait_s=other_number(self.config, "wait", 1),
                price=self.price,
            )
        )

    def _model(self, task: Task) -> Model:
        if self.model is not None:
            return self.model
        path = find_file(Path(self._llm.removeprefix(PREFIX)))
        return ScriptedModel(path, task.instance_id, self.price)

    def _runtimes(self, tasks: list[Task]) -> dict[str, Runtime]:
        """The runtime of every image that a task names, cleaned of what a dead run left."""
        settings = self.settings
        found: dict[str, Runtime] = {}
        for image in dict.fromkeys(task.docker_image for task in tasks):
            docker = settings.docker.model_copy(update={"image": settings.docker.image or image})
            boxes = settings.folder / "boxes"
            runtime, told = choose_runtime(
                settings.runtime, boxes, settings.sandbox, docker, settings.exp_name
            )
            self.report(f"runtime: {told}")
            left = runtime.clean()
            if left:
                self.report(f"removed {left} boxes that a dead run had left")
            found[image] = runtime
        return found

    def _take_up(self, prepared: list[Prepared]) -> None:
        """Count what earlier runs of this experiment spent, and refuse to mix two versions of a sample."""
        for one in prepared:
            for attempt in range(self.settings.attempts):
                told = read_journal(one.journal(attempt))
                self.ledger.add(*told.spent)
                if told.start and not told.ended and told.start.sample_hash != one.sample.hash:
                    what = "the sample or its pass_bench was changed since this attempt began"
                    raise BadInput(what, path=one.journal(attempt))

    def _run_all(self, prepared: list[Prepared]) -> None:
        units = [(one, attempt) for one in prepared for attempt in range(self.settings.attempts)]
        pool = ThreadPoolExecutor(max(1, self.settings.max_workers), "attempt")
        futures: dict[Future[Ended], tuple[Prepared, int]] = {
            pool.submit(self._run_one, one, attempt): (one, attempt) for one, attempt in units
        }
        try:
            for done, future in enumerate(as_completed(futures), 1):
                one, attempt = futures[future]
                ended = future.result()
                self.results[one.task.instance_id, attempt] = ended
                self.report(f"[{done}/{len(units)}] {describe_end(one.task, attempt, ended)}")
                self._settle(one)
        finally:
            # Not waited for: after an interrupt the threads may still hang on a model's answer.
            pool.shutdown(wait=False, cancel_futures=True)

    def _run_one(self, one: Prepared, attempt: int) -> Ended:
        """Run one attempt; what goes wrong around it costs this attempt and no other."""
        try:
            return self._attempt(one, attempt)
        except Exception as error:  # a broken journal, a full disk: its journal says how far it came
            foreseen = isinstance(error, AgentError)
            detail = str(error) if foreseen else traceback.format_exception(error)[-1].strip()
            with self.lock:
                self.unrecorded.append(f"{one.task.instance_id} attempt {attempt}: {detail}")
            return Ended(reason=ExitReason.ENV_EXCEPTION, detail=detail[:500], reward_note=detail[:500])

    def _attempt(self, one: Prepared, attempt: int) -> Ended:
        settings = self.settings
        run = begin(one, attempt, settings, self._model(one.task), self.ledger)
        try:
            ended = run.run()
        finally:
            run.journal.close()
        key = (one.task.instance_id, attempt)
        if key not in self.output.written or run.reopened:
            self._write(one, attempt, ended)
        return ended

    def _write(self, one: Prepared, attempt: int, ended: Ended) -> None:
        told = read_journal(one.journal(attempt))
        best = self._best_set(ended)
        max_steps = self.settings.limits.max_steps
        keys = {key for step in told.steps for key in step.evaluations} | {ended.best_evaluation} - {""}
        evaluations = {key: load_evaluation(one.evaluator, key) for key in keys}
        line = trajectory(told, self.settings.exp_name, best, evaluations)
        assert told.start is not None
        messages = conversation(told.start, told.steps, max_steps)
        self.output.add((one.task.instance_id, attempt), line, messages)

    def _best_set(self, ended: Ended) -> PassSet | None:
        if not ended.best_pass_set:
            return None
        return load_pass_set(ended.best_pass_set, self.settings.folder / "pass_sets")

    def _settle(self, one: Prepared) -> None:
        """Once a task's attempts are over: its best pass set goes into `pass_dir/`."""
        name = one.task.instance_id
        ended = [self.results.get((name, attempt)) for attempt in range(self.settings.attempts)]
        if any(end is None for end in ended):
            return
        worth = [end for end in ended if end is not None and end.best_pass_set]
        if not worth:
            return
        best = self._best_set(max(worth, key=_worth))
        if best is not None:
            write_pass_set(best, one.folder / "pass_dir")
            if self.settings.apply:
                write_pass_set(best, one.sample.root / "pass_dir")

    def _summary(self, prepared: list[Prepared]) -> Summary:
        names = [one.task.instance_id for one in prepared]
        summary = summarize(names, self.settings.attempts, self.results, self.ledger.cost, self.ledger.tokens)
        write_summary(summary, self.settings.folder / "summary.json")
        return summary


def _worth(ended: Ended) -> float:
    """What attempts are compared by: the reward; a correct set without one counts as fast as eager."""
    return float(ended.solved) if ended.reward is None else ended.reward


def describe_end(task: Task, attempt: int, ended: Ended) -> str:
    """One line for people about a finished attempt."""
    reward = "no reward" if ended.reward is None else f"reward {ended.reward:.4g}"
    stop = f", {ended.early_stop}" if ended.early_stop else ""
    note = f" ({ended.reward_note})" if ended.reward_note else ""
    return f"{task.instance_id} attempt {attempt}: {ended.reason}{stop}, {reward}{note}"


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let SIGTERM, as batch systems send it, end a run like Ctrl-C."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _alone(folder: Path, resume: bool) -> Iterator[None]:
    """Hold an experiment's folder; two runs never share one, and an old one is only used to resume it."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "run.lock").open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BadInput("another run is working in this folder", path=folder) from error
        if not resume and any(folder.glob("tasks/*")):
            raise BadInput("an earlier run is here; use --resume or another --exp-name", path=folder)
        yield
