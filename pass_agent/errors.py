"""The named errors of pass_agent; control flow inside an attempt uses `Finished`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Any


class ExitReason(StrEnum):
    """Why an attempt ended."""

    AGENT = "agent"  # the model submitted, or an early stop says that nothing is left to win
    TOKEN_LIMIT = "token_limit"
    ABS_STEP_LIMIT = "abs_step_limit"
    TRAJ_TIME_LIMIT = "traj_time_limit"
    LLM_QUERY_ERROR = "llm_query_error"
    ENV_EXCEPTION = "env_exception"
    FORMAT_ERROR = "format_error"
    BUDGET = "budget"


class AgentError(Exception):
    """Base of every error that the command line reports as one line without a traceback."""

    exit_code = 3


class BadInput(AgentError):
    """A file, flag or sample is not what was expected. Exit code 2."""

    exit_code = 2

    def __init__(self, what: str, *, path: Path | str | None = None, line: int | None = None):
        where = "" if path is None else (f"{path}:{line}: " if line is not None else f"{path}: ")
        super().__init__(where + what)


class RunIncomplete(AgentError):
    """A run is over, and some of its attempts left no trajectory."""


class RuntimeLost(AgentError):
    """The place where an evaluation ran went away: container killed, daemon gone, no disk space."""


class QueryFailed(AgentError):
    """The endpoint gave no usable answer after all retries, or refused the request.

    `usage`: what the unusable answers cost all the same, a `pass_agent.records.Usage` or None.
    """

    def __init__(self, what: str, usage: Any = None):
        super().__init__(what)
        self.usage = usage


class ContextOverflow(QueryFailed):
    """The endpoint says that the conversation is longer than the model's context."""


class Finished(Exception):
    """Ends an attempt: carries the exit reason, one line of detail and, for early stops, their name."""

    def __init__(self, reason: ExitReason, detail: str = "", early_stop: str = ""):
        self.reason = reason
        self.detail = detail
        self.early_stop = early_stop
        super().__init__(f"{reason}: {detail}" if detail else str(reason))
