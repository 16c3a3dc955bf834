"""The state of one attempt: files, evaluations, conversation. Replies go in, steps come out."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pass_agent.agent.feedback import describe
from pass_agent.errors import BadInput, RuntimeLost
from pass_agent.evaluation.evaluator import Evaluation
from pass_agent.evaluation.graph_source import GraphSource
from pass_agent.evaluation.pass_set import store_pass_set
from pass_agent.evaluation.roofline import Roofline, measure
from pass_agent.records import Message, Observation, Reply, Step, ToolCall
from pass_agent.tools.file_editor import FileEditor
from pass_agent.tools.observation import capped
from pass_agent.tools.outside import Outside
from pass_agent.tools.workspace import Refused, Workspace

NO_CALL = (
    "No tool was called. Call file_editor to write passes and pass_evaluator to evaluate them{submit}; "
    "or answer with code blocks, each with a line that names its file, such as `# pass_dir/my_pass.py`."
)
CUT_OFF = "The answer was cut off at the output limit. Do less in one answer, and keep files short."


@dataclass
class AttemptState:
    """Applies replies to a workspace.

    The same replies and the same outside give the same steps: that is what resuming and replaying rest on.
    """

    workspace: Workspace
    sources: Mapping[str, GraphSource]
    pass_sets: Path  # where evaluated pass sets are kept by hash
    tools: frozenset[str]
    bandwidth: float = 0.0
    evaluations: list[Evaluation] = field(default_factory=list)
    best: Evaluation | None = None
    submitted: bool = False
    wordless: int = 0  # replies in a row without a call that could be run
    stale: int = 0  # evaluations of new pass sets in a row that brought nothing better
    broken: int = 0  # evaluations in a row that failed on our side

    def __post_init__(self) -> None:
        self.editor = FileEditor(self.workspace)

    def apply(self, index: int, reply: Reply, outside: Outside, elapsed: Callable[[], float]) -> Step:
        """Run the calls of one reply; every call is answered, in order."""
        started = time.monotonic()
        known = len(self.evaluations)
        observations = tuple(
            self._observe(f"{index}_{number}", call, outside, reply.finish_reason)
            for number, call in enumerate(reply.calls)
        )
        message = ""
        if not reply.calls:
            message = CUT_OFF if reply.finish_reason == "length" else self._no_call()
        usable = any(not call.error for call in reply.calls)
        self.wordless = 0 if usable else self.wordless + 1
        return Step(
            index=index,
            reply=reply,
            observations=observations,
            message=message,
            pass_set=self.workspace.pass_set().hash,
            evaluations=tuple(result.key for result in self.evaluations[known:]),
            env_seconds=time.monotonic() - started,
            elapsed=elapsed(),
        )

    def _no_call(self) -> str:
        return NO_CALL.format(submit=", or submit when you are done" if "submit" in self.tools else "")

    def _observe(self, label: str, call: ToolCall, outside: Outside, finish: str) -> Observation:
        failed = True
        try:
            text = self._call(call, outside)
            failed = False
        except (Refused, BadInput) as error:
            text = f"Error: {CUT_OFF if call.error and finish == 'length' else error}"
        except RuntimeLost as error:
            text = f"This tool failed on our side: {error}. You may try again."
        text = capped(text, self.workspace.observations, f"{label}.txt")
        return Observation(call_id=call.id, name=call.name, text=text, failed=failed)

    def _call(self, call: ToolCall, outside: Outside) -> str:
        if call.error:
            raise Refused(f"{call.error}. Nothing was done; send the call again with valid arguments.")
        if call.name not in self.tools:
            raise Refused(f"there is no tool {call.name}; there are {', '.join(sorted(self.tools))}")
        if self.submitted:
            raise Refused("not run: the task was submitted before")
        if call.name == "file_editor":
            return self.editor(call.arguments)
        if call.name == "pass_evaluator":
            return self.evaluate(outside)
        if call.name == "submit":
            self.submitted = True
            return "Submitted."
        return outside.command(call.name, self.workspace.pass_set())

    def evaluate(self, outside: Outside) -> str:
        """Evaluate the current pass set and return the feedback."""
        pass_set = self.workspace.pass_set()
        before = [result for result in self.evaluations if result.status != "infra"]
        seen = any(result.pass_set == pass_set.hash and not result.infra for result in before)
        result = outside.evaluate(pass_set)
        self.evaluations.append(result)
        best = self.best
        last = before[-1] if before else None
        self.broken = self.broken + 1 if result.status == "infra" else 0
        if result.status != "infra":
            store_pass_set(pass_set, self.pass_sets)
            if not seen:
                self._compare(result)
        return describe(result, self.rooflines(result), last, best, seen)

    def _compare(self, result: Evaluation) -> None:
        gained = is_better(result, self.best)
        # Within a percent it is luck: still the best, yet no progress.
        clearly = gained and (self.best is None or (result.rank or 0) > 1.01 * (self.best.rank or 0))
        self.stale = 0 if clearly else self.stale + 1
        if gained:
            self.best = result

    def rooflines(self, result: Evaluation) -> tuple[Roofline, ...]:
        return tuple(measure(graph, self.sources.get(graph.graph), self.bandwidth) for graph in result.graphs)


def is_better(result: Evaluation, best: Evaluation | None) -> bool:
    """Whether a result beats the best so far; one that cannot be ranked never does."""
    if result.rank is None:
        return False
    return best is None or best.rank is None or result.rank > best.rank


def reply_messages(step: Step, steps_left: int) -> list[Message]:
    """What the conversation gets after a step: one tool message a native call, else one user message."""
    note = f"\n\n[steps left: {steps_left}]"
    native = [call for call in step.reply.calls if call.source == "native"]
    if not native:
        texts = [observation.text for observation in step.observations] or [step.message]
        return [{"role": "user", "content": "\n\n".join(texts) + note}]
    messages: list[Message] = [
        {"role": "tool", "tool_call_id": observation.call_id, "content": observation.text}
        for observation in step.observations
    ]
    messages[-1]["content"] += note
    return messages
