"""One attempt at a task: ask the model, run its calls, record, until something ends it."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field

from pass_agent.agent.budget import Ledger, Limits
from pass_agent.agent.state import AttemptState, reply_messages
from pass_agent.errors import AgentError, ContextOverflow, ExitReason, Finished, QueryFailed
from pass_agent.evaluation.evaluator import Evaluation
from pass_agent.evaluation.roofline import early_stop
from pass_agent.journal.log import Journal, Start, Told
from pass_agent.journal.replay import recall
from pass_agent.model.base import Model
from pass_agent.records import Ended, Message, Reply, Step
from pass_agent.tools.outside import Outside

BROKEN = 3  # evaluations in a row that fail on our side: the next ones would only cost answers


@dataclass
class Attempt:
    """Runs one attempt, from the start or from where its journal ends."""

    start: Start
    told: Told
    state: AttemptState
    model: Model
    outside: Outside
    journal: Journal
    limits: Limits
    ledger: Ledger
    load: Callable[[str], Evaluation]  # a recorded evaluation by its key
    messages: list[Message] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)
    reopened: bool = False

    def run(self) -> Ended:
        """Run to the end; whatever happens, the journal's last line says how it ended.

        KeyboardInterrupt is let through without an end, so that the attempt can be resumed.
        """
        if self.told.ended is not None:
            return self.told.ended
        try:
            self._recall()
            while True:
                self._step()
        except Finished as finished:
            ended = self._end(finished)
        except Exception as error:
            foreseen = isinstance(error, AgentError)
            what = str(error) if foreseen else traceback.format_exception(error)[-1].strip()
            ended = self._end(Finished(ExitReason.ENV_EXCEPTION, what))
        self.journal.end(ended)
        return ended

    def elapsed(self) -> float:
        """Seconds of work on this attempt, over all resumptions."""
        before = self.told.steps[-1].elapsed if self.told.steps else 0.0
        return before + time.monotonic() - self.began

    def _recall(self) -> None:
        """Bring the state to where the journal ends; a reply without its step is taken up first."""
        self.messages = list(self.start.messages)
        recall(self.state, self.told.steps, self.load, texts=False)
        if self.reopened:
            self.state.broken = 0  # the user says that what failed is mended
        for step in self.told.steps:
            self._remember(step)
        if self.told.steps:
            self._stop_after(self.told.steps[-1])
        if self.told.pending is not None:
            self._answer(self.told.pending)

    def _remember(self, step: Step) -> None:
        self.messages.append(self.model.message(step.reply))
        self.messages += reply_messages(step, self.limits.max_steps - step.index - 1)

    @property
    def taken(self) -> int:
        return len(self.told.steps)

    def _step(self) -> None:
        if self.taken >= self.limits.max_steps:
            raise Finished(ExitReason.ABS_STEP_LIMIT, f"{self.limits.max_steps} steps were taken")
        if self.limits.max_total_time and self.elapsed() > self.limits.max_total_time:
            raise Finished(ExitReason.TRAJ_TIME_LIMIT, f"over {self.limits.max_total_time:g} s")
        self.ledger.check()
        try:
            reply = self.model.query(self.messages, self.start.tools, self.taken)
        except ContextOverflow as error:
            raise Finished(ExitReason.TOKEN_LIMIT, str(error)) from error
        except QueryFailed as error:
            if error.usage is not None:
                self.ledger.add_usage(error.usage)
            raise Finished(ExitReason.LLM_QUERY_ERROR, str(error)) from error
        self.journal.reply(self.taken, reply)
        self.ledger.add_usage(reply.usage)
        self._answer(reply)

    def _answer(self, reply: Reply) -> None:
        before = self.elapsed()
        began = time.monotonic()
        step = self.state.apply(self.taken, reply, self.outside, lambda: before + time.monotonic() - began)
        self.journal.step(step)
        self.told.steps.append(step)
        self.began = time.monotonic()
        self._remember(step)
        self._stop_after(step)

    def _stop_after(self, step: Step) -> None:
        """Raise Finished where the step just taken ends the attempt."""
        state = self.state
        if state.submitted:
            raise Finished(ExitReason.AGENT, "submitted")
        limit = self.limits.max_token_limit
        if limit and step.reply.usage.total >= limit:
            raise Finished(ExitReason.TOKEN_LIMIT, f"{step.reply.usage.total} of {limit} tokens")
        if state.wordless >= self.limits.format_errors:
            if not step.reply.calls and step.reply.finish_reason != "length" and state.best is not None:
                raise Finished(ExitReason.AGENT, "the model stopped calling tools")
            raise Finished(ExitReason.FORMAT_ERROR, f"{state.wordless} replies without a usable call")
        if state.broken >= BROKEN:
            why = state.evaluations[-1].message
            raise Finished(
                ExitReason.ENV_EXCEPTION, f"{BROKEN} evaluations in a row failed on our side: {why}"
            )
        if step.evaluations and state.best is not None:
            stop = early_stop(state.best.graphs, state.rooflines(state.best))
            if stop:
                raise Finished(ExitReason.AGENT, f"nothing is left to win: {stop}", stop)
            if self.limits.patience and state.stale >= self.limits.patience:
                detail = f"{state.stale} evaluations brought nothing better"
                raise Finished(ExitReason.AGENT, detail, "no_progress")

    def _end(self, finished: Finished) -> Ended:
        """Evaluate what was never evaluated, and settle the reward."""
        state = self.state
        note = ""
        if finished.reason != ExitReason.ENV_EXCEPTION:
            try:
                now = state.workspace.pass_set().hash
                known = any(one.pass_set == now and one.status != "infra" for one in state.evaluations)
                if not known:
                    state.evaluate(self.outside)
            except Exception as error:  # the attempt ends all the same, with what it has
                note = f"the last pass set could not be evaluated: {error}"
        best = state.best
        note = (_about_best(best) if best else "") or note or ("" if best else _why_none(state.evaluations))
        return Ended(
            reason=finished.reason,
            detail=finished.detail[:500],
            early_stop=finished.early_stop,
            reward=best.score if best else None,
            reward_note=note,
            best_pass_set=best.pass_set if best else "",
            best_evaluation=best.key if best else "",
            solved=bool(best and best.solved),
            elapsed=self.elapsed(),
        )


def _about_best(best: Evaluation) -> str:
    """What has to be known about the reward of a best evaluation."""
    if best.score is None:
        return "every graph is correct, but Triton was interpreted on the CPU: there is no speed to score"
    left_out = [
        graph.verdict for graph in best.graphs if graph.verdict != "nothing_to_check" and not graph.scored
    ]
    if "infra" in left_out:
        return f"{left_out.count('infra')} graphs were left out of the score: the harness failed on them"
    return f"{len(left_out)} graphs were left out of the score: no speed on this machine" if left_out else ""


def _why_none(evaluations: list[Evaluation]) -> str:
    """Why an attempt has no best evaluation."""
    failures = [result.message for result in evaluations if result.status == "infra"]
    if any(result.status == "unscored" for result in evaluations):
        return "nothing that was evaluated is correct, or has a speed, on this machine"
    return failures[-1] if failures else "nothing was evaluated"
