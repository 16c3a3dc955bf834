"""A chat-completions endpoint, over the openai package: retries, total time limits, usage."""

from __future__ import annotations

import importlib
import json
import math
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import tenacity

from pass_agent.errors import ContextOverflow, QueryFailed
from pass_agent.model.base import Tool
from pass_agent.model.parse import assistant_message, read_reply
from pass_agent.model.prices import Price
from pass_agent.model.quirks import find_quirk, protocol_model, request_body
from pass_agent.records import Message, Record, Reply, Usage
from pass_agent.text import clean_json

BODY_LIMIT = 32 << 20
TOO_LONG = ("context_length", "context length", "maximum context", "too many tokens", "prompt is too long")
RETRY_AFTER_LIMIT = 300.0


class ClientSettings(Record):
    """One endpoint. Times in seconds: `timeout` for one try, `total_s` for all tries of one answer together,
    `wait_s` the first pause between tries.
    """

    model: str
    base_url: str = ""
    api_key: str = ""
    temperature: float = 1.0
    max_tokens: int = 16384
    max_retries: int = 5
    timeout: float = 600.0
    total_s: float = 7200.0
    wait_s: float = 1.0
    wait_max_s: float = 60.0
    price: Price | None = None


class Unusable(Exception):
    """An answer that arrived but says nothing: no JSON, no choices, cut off; worth another try."""

    def __init__(self, why: str, retry_after: float | None = None, answer: dict[str, Any] | None = None):
        super().__init__(why)
        self.retry_after = retry_after
        self.answer = answer  # what arrived, since it is paid for


class EndpointModel:
    """Queries one endpoint; safe to share between threads."""

    def __init__(self, settings: ClientSettings, sleep: Callable[[float], None] = time.sleep):
        import openai

        self.settings = settings
        self.name = settings.model
        self.model = protocol_model(settings.model)
        self.quirk = find_quirk(settings.model, settings.base_url)
        self.sleep = sleep
        self.client = openai.OpenAI(
            base_url=settings.base_url or self.quirk.base_url or None,
            api_key=settings.api_key or "none",  # local endpoints want none
            max_retries=0,
            timeout=openai.Timeout(settings.timeout, connect=min(settings.timeout, 20.0)),
        )

    def message(self, reply: Reply) -> Message:
        return assistant_message(reply, self.quirk.reasoning_field, extra=True)

    def query(self, messages: Sequence[Message], tools: Sequence[Tool], answered: int) -> Reply:
        settings = self.settings
        body = request_body(
            self.quirk, self.model, messages, tools, settings.temperature, settings.max_tokens
        )
        started = time.monotonic()
        wasted: list[Usage] = []

        def count(state: tenacity.RetryCallState) -> None:
            error = state.outcome.exception() if state.outcome else None
            if isinstance(error, Unusable) and error.answer is not None:
                wasted.append(read_usage(error.answer, messages, settings.price))

        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(Unusable),
            stop=tenacity.stop_after_attempt(settings.max_retries + 1)
            | tenacity.stop_after_delay(settings.total_s),
            after=count,
            wait=self._wait,
            sleep=self.sleep,
            reraise=True,
        )
        try:
            answer = retrying(self._ask, clean_json(body))
        except Unusable as error:
            tries = int(retrying.statistics.get("attempt_number", 1))
            what = f"no usable answer in {tries} tries; the last: {error}"
            raise QueryFailed(what, add_wasted(Usage(), wasted)) from error
        tries = int(retrying.statistics.get("attempt_number", 1))
        usage = add_wasted(read_usage(answer, messages, settings.price), wasted)
        seconds = time.monotonic() - started
        quirk = self.quirk
        return read_reply(answer["choices"][0], usage, seconds, tries, quirk.passed_back, quirk.call_fields)

    def _wait(self, state: tenacity.RetryCallState) -> float:
        """What the endpoint asks for, else doubling pauses with full jitter."""
        error = state.outcome.exception() if state.outcome else None
        asked = getattr(error, "retry_after", None)
        if asked is not None:
            return float(min(max(asked, 0.0), RETRY_AFTER_LIMIT))
        jittered = tenacity.wait_random_exponential(self.settings.wait_s, self.settings.wait_max_s)
        return float(jittered(state))

    def _ask(self, body: dict[str, Any]) -> dict[str, Any]:
        """One try: Unusable where another may help, QueryFailed where it cannot."""
        import openai

        try:
            with self.client.chat.completions.with_streaming_response.create(**body) as response:
                text = self._read(response.iter_bytes())
        except openai.APIStatusError as error:
            raise _refusal(error) from error
        except (openai.APIConnectionError, *transport_errors()) as error:  # type: ignore[misc]
            raise Unusable(f"{type(error).__name__}: {error}") from error
        except openai.OpenAIError as error:
            raise QueryFailed(f"{type(error).__name__}: {error}") from error
        return _checked(text)

    def _read(self, chunks: Any) -> bytes:
        """Read the body within the whole answer's time: a drip of bytes would never time out by itself."""
        deadline = time.monotonic() + self.settings.timeout
        parts: list[bytes] = []
        size = 0
        for chunk in chunks:
            parts.append(chunk)
            size += len(chunk)
            if size > BODY_LIMIT:
                raise Unusable(f"the answer is larger than {BODY_LIMIT >> 20} MiB")
            if time.monotonic() > deadline:
                raise Unusable(f"the answer did not end within {self.settings.timeout:g} s")
        return b"".join(parts)


@lru_cache(maxsize=1)
def transport_errors() -> tuple[type[Exception], ...]:
    """What breaks while a body is read: openai's HTTP library is httpx in older versions, httpx2 in newer."""
    found = []
    for name in ("httpx", "httpx2"):
        try:
            found.append(importlib.import_module(name).HTTPError)
        except ImportError:
            continue
    return tuple(found)


def _refusal(error: Any) -> Exception:
    """Which of our errors an HTTP status is."""
    status, text = error.status_code, str(error.message)[:500]
    lowered = text.lower()
    if status in (400, 413, 422) and any(word in lowered for word in TOO_LONG):
        return ContextOverflow(text)
    exhausted = "insufficient_quota" in lowered or getattr(error, "code", "") == "insufficient_quota"
    if status in (408, 409, 425, 429) or status >= 500:
        if exhausted:
            return QueryFailed(f"HTTP {status}: {text}")
        return Unusable(f"HTTP {status}: {text}", retry_after(error.response.headers))
    return QueryFailed(f"HTTP {status}: {text}")


def retry_after(headers: Any) -> float | None:
    """Seconds to wait, from `retry-after-ms` or `Retry-After` (seconds or a date), if one of them says."""
    from email.utils import parsedate_to_datetime

    try:
        if headers.get("retry-after-ms"):
            asked = float(headers["retry-after-ms"]) / 1000
        elif (value := headers.get("retry-after")) is None:
            return None
        elif value.strip().replace(".", "", 1).isdigit():
            asked = float(value)
        else:
            asked = parsedate_to_datetime(value).timestamp() - time.time()
    except (ValueError, TypeError, OverflowError):
        return None
    return asked if math.isfinite(asked) else None


def _checked(text: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(text.decode("utf-8", "replace"))
    except (ValueError, RecursionError) as error:
        raise Unusable(f"the answer is not JSON: {str(error)[:120]}") from error
    if not isinstance(answer, dict):
        raise Unusable("the answer is no JSON object")
    choices = answer.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        said = (answer.get("error") or {}) if isinstance(answer.get("error"), dict) else {}
        why = f"the answer has no choices{': ' + str(said.get('message'))[:200] if said else ''}"
        raise Unusable(why, answer=answer)
    message = choices[0].get("message")
    if not isinstance(message, dict) or not any(
        message.get(field) for field in ("content", "tool_calls", "reasoning_content", "reasoning", "refusal")
    ):
        raise Unusable("the answer is empty", answer=answer)
    return answer


def read_usage(answer: dict[str, Any], messages: Sequence[Message], price: Price | None) -> Usage:
    """Tokens and cost of an answer; where the endpoint counts none, four characters count as a token.

    The cost is by `price`; without one it is what the endpoint says (`usage.cost`, USD), or 0.
    """
    sent = answer.get("usage")
    sent = sent if isinstance(sent, dict) else {}
    prompt, completion = _count(sent.get("prompt_tokens")), _count(sent.get("completion_tokens"))
    estimated = prompt == 0 and completion == 0
    if estimated:
        prompt = sum(len(json.dumps(message)) for message in messages) // 4
        completion = len(json.dumps(answer.get("choices"))) // 4
    details = sent.get("prompt_tokens_details")
    cached = _count(details.get("cached_tokens")) if isinstance(details, dict) else 0
    cached = min(cached or _count(sent.get("prompt_cache_hit_tokens")), prompt)
    cost = price.cost(prompt, completion, cached) if price else _money(sent.get("cost"))
    return Usage(prompt=prompt, completion=completion, cached=cached, cost=cost, estimated=estimated)


def add_wasted(usage: Usage, wasted: Sequence[Usage]) -> Usage:
    """Add the tokens and the cost of answers that had to be asked for again."""
    counted = [one for one in wasted if not one.estimated]
    more = {
        "cost": usage.cost + sum(one.cost for one in counted),
        "wasted": sum(one.total for one in counted),
    }
    return usage.model_copy(update=more)


def _money(value: Any) -> float:
    known = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if known and 0 <= value < float("inf") else 0.0


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
