"""Run the steps of a journal again without the model: for resuming, and to check what decided them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pass_agent.agent.state import AttemptState
from pass_agent.errors import BadInput
from pass_agent.evaluation.evaluator import Evaluation
from pass_agent.evaluation.pass_set import PassSet, write_pass_set
from pass_agent.records import Step
from pass_agent.tools.outside import Outside, Recorded
from pass_agent.tools.schemas import OPTIONAL


def recall(
    state: AttemptState, steps: Sequence[Step], load: Callable[[str], Evaluation], texts: bool = True
) -> None:
    """Bring a fresh state to the end of `steps`, with recorded evaluations.

    Raises BadInput where a step does not come out as recorded: then something else was changed. Without
    `texts` only files and evaluations have to agree: a newer version may word its answers differently, and
    the model has read the recorded ones.
    """
    for step in steps:
        again = state.apply(step.index, step.reply, recorded(step, load), lambda: 0.0)
        difference = compare(step, again, texts)
        if difference:
            raise BadInput(f"step {step.index} does not replay: {difference}")


def recorded(step: Step, load: Callable[[str], Evaluation]) -> Recorded:
    """The outside of one recorded step."""
    texts: dict[str, list[str]] = {name: [] for name in OPTIONAL}
    for observation in step.observations:
        if observation.name in texts:
            texts[observation.name].append(observation.text)
    return Recorded([load(key) for key in step.evaluations], texts)


def replay_live(
    state: AttemptState, steps: Sequence[Step], outside: Outside, report: Callable[[Step, Step], None]
) -> None:
    """Run the steps with real evaluations; `report` gets (recorded, again), whose times may differ."""
    for step in steps:
        report(step, state.apply(step.index, step.reply, outside, lambda: 0.0))


def compare(step: Step, again: Step, texts: bool = True) -> str:
    """The first difference between a recorded step and its replay; "" where there is none."""
    if step.pass_set != again.pass_set:
        return f"pass_dir holds {again.pass_set}, not {step.pass_set}"
    if step.evaluations != again.evaluations:
        return "other evaluations were asked for"
    if not texts:
        return ""
    for one, other in zip(step.observations, again.observations, strict=True):
        if one.name not in OPTIONAL and one.text != other.text:
            return f"{one.name} answers {other.text[:80]!r}, not {one.text[:80]!r}"
    return "" if step.message == again.message else "the message differs"


def clear(state: AttemptState, start_files: dict[str, str]) -> None:
    """Lay the pass_dir of the beginning."""
    files = {name: text.encode() for name, text in start_files.items()}
    write_pass_set(PassSet(files), state.workspace.pass_dir)
