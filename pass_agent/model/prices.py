"""What tokens cost: USD per million, by model name; the user may state other prices."""

from __future__ import annotations

import re

from pass_agent.records import Record


class Price(Record):
    """USD per million tokens; cached prompt tokens cost `cached`, or as much as others where unknown."""

    prompt: float
    completion: float
    cached: float | None = None

    def cost(self, prompt: int, completion: int, cached: int = 0) -> float:
        """USD for one answer; `cached` tokens are a part of `prompt`."""
        rate = self.prompt if self.cached is None else self.cached
        return ((prompt - cached) * self.prompt + cached * rate + completion * self.completion) / 1e6


# List prices as published by the providers; they change, so `--price` overrides them.
PRICES: tuple[tuple[str, Price], ...] = (
    (r"gpt-5-nano", Price(prompt=0.05, completion=0.4, cached=0.005)),
    (r"gpt-5-mini", Price(prompt=0.25, completion=2.0, cached=0.025)),
    (r"gpt-5", Price(prompt=1.25, completion=10.0, cached=0.125)),
    (r"gpt-4\.1-mini", Price(prompt=0.4, completion=1.6, cached=0.1)),
    (r"gpt-4\.1", Price(prompt=2.0, completion=8.0, cached=0.5)),
    (r"claude.*opus-4-[5-9]", Price(prompt=5.0, completion=25.0, cached=0.5)),
    (r"claude.*sonnet", Price(prompt=3.0, completion=15.0, cached=0.3)),
    (r"claude.*haiku", Price(prompt=1.0, completion=5.0, cached=0.1)),
    (r"deepseek", Price(prompt=0.28, completion=0.42, cached=0.028)),
    (r"glm-4\.[67]", Price(prompt=0.6, completion=2.2, cached=0.11)),
)


def find_price(model: str) -> Price | None:
    """The price of a model by its name, None where it is not known."""
    for pattern, price in PRICES:
        if re.search(pattern, model.lower()):
            return price
    return None
