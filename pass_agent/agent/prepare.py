"""From a task to an attempt that can run: sample, prompts, tools, evaluator, workspace, journal."""

from __future__ import annotations

import hashlib
import re
import shutil
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pass_agent.agent.attempt import Attempt
from pass_agent.agent.budget import Ledger
from pass_agent.agent.config import AgentConfig
from pass_agent.agent.dataset import PACKAGE
from pass_agent.agent.settings import RunSettings
from pass_agent.agent.state import AttemptState
from pass_agent.errors import BadInput
from pass_agent.evaluation.evaluator import Evaluation, Evaluator, EvaluatorSettings
from pass_agent.evaluation.graph_result import project_root
from pass_agent.evaluation.graph_source import GraphSource, read_graph_source
from pass_agent.evaluation.pass_set import read_pass_set
from pass_agent.evaluation.roofline import peak_bandwidth
from pass_agent.evaluation.sample import PACKAGES, SampleSource, read_sample_source
from pass_agent.journal.log import Journal, Start, read_journal
from pass_agent.journal.replay import clear
from pass_agent.model.base import Model
from pass_agent.prompts.few_shot import choose_example, read_examples
from pass_agent.prompts.problem import Machine, problem_statement, render_prompts
from pass_agent.records import Task
from pass_agent.runtime.base import Runtime
from pass_agent.runtime.device import device_name
from pass_agent.tools.outside import Live, find_commands
from pass_agent.tools.schemas import choose_tools
from pass_agent.tools.workspace import Workspace


@dataclass(frozen=True)
class Prepared:
    """A task whose sample, prompts and tools are known; shared by its attempts."""

    task: Task
    sample: SampleSource
    folder: Path
    sources: dict[str, GraphSource]
    statement: str
    messages: tuple[dict[str, Any], ...]
    tools: tuple[dict[str, Any], ...]
    start_files: dict[str, str]
    evaluator: Evaluator
    model_name: str

    def journal(self, attempt: int) -> Path:
        return self.folder / f"attempt_{attempt}" / "journal.jsonl"


def prepare(
    task: Task, folder: Path, settings: RunSettings, config: AgentConfig, runtime: Runtime, model_name: str
) -> Prepared:
    """Read what a task needs; raises BadInput for a broken sample or configuration."""
    sample = read_sample_source(folder, task.instance_id)
    sources = {listed: read_graph_source(graph, listed) for listed, graph in sample.graphs}
    commands = _commands(runtime, sample, frozenset(config.command_files))
    evaluation = EvaluatorSettings(
        device=settings.device, timeout_s=settings.limits.max_exec_time, environment=settings.environment
    )
    evaluator = Evaluator(sample, runtime, evaluation, settings.folder / "evaluations")
    statement = _statement(task, sample, sources, settings, evaluator.devices)
    system, instance = render_prompts(
        config.system_prompt, config.instance_prompt, {"problem_statement": statement}
    )
    started = read_pass_set(sample.root / "pass_dir").files if settings.start_from == "sample" else {}
    return Prepared(
        task=task,
        sample=sample,
        folder=settings.folder / "tasks" / folder_name(task.instance_id),
        sources=sources,
        statement=statement,
        messages=({"role": "system", "content": system}, {"role": "user", "content": instance}),
        tools=tuple(choose_tools(config.command_files, commands)),
        start_files={name: content.decode("utf-8", "replace") for name, content in started.items()},
        evaluator=evaluator,
        model_name=model_name,
    )


def folder_name(instance_id: str) -> str:
    """A file name for a task, distinct for distinct ids."""
    safe = re.sub(r"[^\w.-]", "_", instance_id)[:80]
    same = safe == instance_id and not safe.startswith(".")
    return safe if same else f"{safe}-{hashlib.sha256(instance_id.encode()).hexdigest()[:8]}"


def _statement(
    task: Task,
    sample: SampleSource,
    sources: dict[str, GraphSource],
    settings: RunSettings,
    devices: tuple[str, ...],
) -> str:
    operators: Counter[str] = Counter()
    for source in sources.values():
        operators |= source.operators
    example, similar = None, False
    device = "cpu" if devices == ("cpu",) else "cuda"
    if settings.few_shot:
        root = project_root(sample.root) or PACKAGE.parent
        examples = read_examples(root / "samples")
        example, similar = choose_example(examples, operators, sample.graph_hashes, device)
    name = device_name() if device == "cuda" else ""
    machine = Machine(device, name, peak_bandwidth(name, settings.bandwidth))
    return problem_statement(task.instance_id, list(sources.values()), machine, example, similar)


_known_commands: dict[tuple[str, ...], frozenset[str]] = {}


def _commands(runtime: Runtime, sample: SampleSource, wanted: frozenset[str]) -> frozenset[str]:
    """Optional commands of the sample's package; asked once for each package and runtime."""
    if not {Path(name).stem for name in wanted} & {"check", "analyze"}:
        return frozenset()
    package = {name: path for name, path in sample.tree().items() if name in PACKAGES}
    key = (runtime.identity, *map(str, package.values()))
    if key not in _known_commands:
        _known_commands[key] = find_commands(runtime, package)
    return _known_commands[key]


def begin(one: Prepared, attempt: int, settings: RunSettings, model: Model, ledger: Ledger) -> Attempt:
    """Make an attempt that starts, or goes on where its journal ends."""
    path = one.journal(attempt)
    told = read_journal(path)
    journal = Journal(path)
    reopened = False
    if told.ended is not None and told.ended.reason in settings.retry:
        journal.reopen()
        told.ended = None
        reopened = True
    start = told.start
    if start is None:
        start = _start(one, attempt, settings)
        journal.start(start)
    workspace = Workspace(one.sample, path.parent)
    state = AttemptState(
        workspace=workspace,
        sources=one.sources,
        pass_sets=settings.folder / "pass_sets",
        tools=frozenset(tool["function"]["name"] for tool in start.tools),
        bandwidth=start.bandwidth,
    )
    if told.ended is None:
        shutil.rmtree(workspace.pass_dir)
        workspace.pass_dir.mkdir()
        clear(state, start.start_files)
    return Attempt(
        start=start,
        told=told,
        state=state,
        model=model,
        outside=Live(one.evaluator),
        journal=journal,
        limits=settings.limits,
        ledger=ledger,
        load=lambda key: load_evaluation(one.evaluator, key),
        reopened=reopened,
    )


def load_evaluation(evaluator: Evaluator, key: str) -> Evaluation:
    """A recorded evaluation; raises BadInput where its file is gone."""
    kept = evaluator.cached(key)
    if kept is None:
        raise BadInput(f"the evaluation {key} is not kept any more", path=evaluator.cache)
    return kept


def _start(one: Prepared, attempt: int, settings: RunSettings) -> Start:
    environment = {
        "runtime": one.evaluator.runtime.name,
        "device": settings.device,
        "timeout_s": settings.limits.max_exec_time,
        "passnet": settings.environment,
    }
    return Start(
        task=one.task,
        attempt=attempt,
        sample=str(one.sample.root),
        sample_hash=one.sample.hash,
        graph_hashes=one.sample.graph_hashes,
        model=one.model_name,
        problem_statement=one.statement,
        messages=one.messages,
        tools=one.tools,
        start_files=one.start_files,
        environment=environment,
        agent={
            "llm_name": one.model_name,
            "llm_base_url": settings.llm_base_url,
            "temperature": settings.temperature,
            "max_tokens": settings.max_tokens,
            "limits": settings.limits.model_dump(),
            "attempts": settings.attempts,
            "start_from": settings.start_from,
        },
        bandwidth=settings.bandwidth,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
    )
