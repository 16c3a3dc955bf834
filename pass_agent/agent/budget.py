"""Limits: of one attempt, and of money and tokens over a whole run."""

from __future__ import annotations

import threading

from pass_agent.errors import ExitReason, Finished
from pass_agent.records import Record, Usage


class Limits(Record):
    """Limits of one attempt; times in seconds, 0 for none. `patience`: evaluations without a gain."""

    max_steps: int = 100
    max_token_limit: int = 128_000  # tokens of one request and its answer
    max_llm_time: float = 7200.0  # one answer's, all tries together, is limited by the client
    max_exec_time: float = 1800.0  # one evaluation
    max_total_time: float = 50_000.0
    patience: int = 10
    format_errors: int = 3  # replies in a row without a usable call


class Ledger:
    """What a run has spent, over all its attempts; shared between threads."""

    def __init__(self, max_cost: float = 0.0, max_total_tokens: int = 0):
        self.max_cost = max_cost
        self.max_total_tokens = max_total_tokens
        self.cost = 0.0
        self.tokens = 0
        self.lock = threading.Lock()

    def add(self, cost: float, tokens: int) -> None:
        with self.lock:
            self.cost += cost
            self.tokens += tokens

    def add_usage(self, usage: Usage) -> None:
        self.add(usage.cost, usage.total + usage.wasted)

    def check(self) -> None:
        """Raise Finished(BUDGET) once a limit is reached; answers on their way may still pass it a little."""
        with self.lock:
            if self.max_cost and self.cost >= self.max_cost:
                raise Finished(ExitReason.BUDGET, f"{self.cost:.4f} of {self.max_cost:g} USD are spent")
            if self.max_total_tokens and self.tokens >= self.max_total_tokens:
                detail = f"{self.tokens} of {self.max_total_tokens} tokens are used"
                raise Finished(ExitReason.BUDGET, detail)
