"""The endpoint client over real HTTP, against a server that misbehaves in every way we know."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from pass_agent.errors import ContextOverflow, QueryFailed
from pass_agent.model.client import ClientSettings, EndpointModel, retry_after
from pass_agent.model.prices import Price
from pass_agent.model.script import Script, Turn
from pass_agent.model.server import ScriptServer, serving

ASK = [{"role": "system", "content": "s"}, {"role": "user", "content": "Task: t\nhello"}]


def script(*faults: dict, **turn: object) -> Script:
    return Script.model_validate({"default": [{"content": "fine", "faults": faults, **turn}]})


def client(server: ScriptServer, **settings: object) -> EndpointModel:
    chosen = {"model": "openai/test", "wait_s": 0.01, "wait_max_s": 0.02, "timeout": 5.0, **settings}
    return EndpointModel(ClientSettings(base_url=server.url, **chosen))


@pytest.mark.parametrize(
    "fault",
    [
        {"status": 429, "retry_after": 0.01},
        {"status": 500},
        {"status": 503},
        {"status": 408},
        {"body": "this is not JSON"},
        {"body": '{"choices": '},
        {"body": '{"choices": []}'},
        {"body": '{"choices": null, "error": {"message": "overloaded"}}'},
        {"body": '{"choices": [{"message": {"role": "assistant", "content": null}}]}'},
        {"body": "[1, 2]"},
        {"body": ""},
        {"disconnect": True},
    ],
    ids=lambda fault: json.dumps(fault)[:40],
)
def test_a_passing_fault_costs_one_more_try(fault: dict) -> None:
    with serving(script(fault, fault)) as server:
        reply = client(server).query(ASK, [], 0)
    assert reply.content == "fine"
    assert reply.tries == 3


def test_the_endpoint_says_how_long_to_wait() -> None:
    waits: list[float] = []
    with serving(script({"status": 429, "retry_after": 7})) as server:
        model = client(server)
        model.sleep = waits.append
        model.query(ASK, [], 0)
    assert waits == [7.0]


def test_a_permanent_fault_ends_after_all_tries() -> None:
    with serving(script(*[{"status": 500}] * 9)) as server, pytest.raises(QueryFailed, match=r"3 tries.*500"):
        client(server, max_retries=2).query(ASK, [], 0)


@pytest.mark.parametrize("status", [400, 401, 403, 404])
def test_a_refusal_is_not_tried_again(status: int) -> None:
    with serving(script({"status": status})) as server:
        with pytest.raises(QueryFailed, match=str(status)):
            client(server).query(ASK, [], 0)
        assert server.tries["t", 0] == 1


def test_a_conversation_that_is_too_long_has_its_own_error() -> None:
    body = '{"error": {"message": "This model\'s maximum context length is 8192 tokens"}}'
    with serving(script({"status": 400, "body": body})) as server, pytest.raises(ContextOverflow):
        client(server).query(ASK, [], 0)


def test_an_exhausted_account_is_not_tried_again() -> None:
    body = '{"error": {"message": "You exceeded your quota", "code": "insufficient_quota"}}'
    with serving(script({"status": 429, "body": body})) as server:
        with pytest.raises(QueryFailed, match="quota"):
            client(server).query(ASK, [], 0)
        assert server.tries["t", 0] == 1


@pytest.mark.parametrize("fault", [{"hang": 20}, {"drip": 20}], ids=["silent", "dripping"])
def test_an_answer_that_never_ends_is_given_up(fault: dict) -> None:
    with serving(script(fault)) as server:
        started = time.monotonic()
        reply = client(server, timeout=0.6).query(ASK, [], 0)
    assert reply.content == "fine"
    assert time.monotonic() - started < 5


def test_an_endpoint_that_is_not_there_fails_after_retries() -> None:
    with serving(script()) as server:
        model = client(server, max_retries=1)
    with pytest.raises(QueryFailed, match="2 tries"):
        model.query(ASK, [], 0)


def test_lone_surrogates_and_two_megabytes_become_storable_text() -> None:
    with serving(script(content="\ud800bad " + "x" * 2_000_000)) as server:
        reply = client(server).query(ASK, [], 0)
    reply.model_dump_json().encode("utf-8")
    assert reply.content.startswith("?bad ")
    assert len(reply.content) < 101_000
    assert "2000005 characters" in reply.note


def test_surrogates_in_our_own_messages_can_be_sent() -> None:
    with serving(script()) as server:
        server.keep_bodies = True
        client(server).query([*ASK, {"role": "user", "content": "\udfff!"}], [], 0)
        assert server.bodies[0]["messages"][-1]["content"] == "?!"


def test_usage_and_cost_are_counted() -> None:
    price = Price(prompt=1.0, completion=10.0)
    with serving(script(usage={"prompt": 1000, "completion": 100})) as server:
        reply = client(server, price=price).query(ASK, [], 0)
    assert (reply.usage.prompt, reply.usage.completion, reply.usage.total) == (1000, 100, 1100)
    assert reply.usage.cost == pytest.approx(0.002)
    assert not reply.usage.estimated


def test_usage_is_estimated_where_none_is_reported() -> None:
    with serving(script()) as server:
        reply = client(server).query(ASK, [], 0)
    assert reply.usage.estimated
    assert reply.usage.prompt > 10


def test_the_model_name_is_sent_without_its_prefix() -> None:
    with serving(script()) as server:
        server.keep_bodies = True
        client(server, model="openai/glm-4.7", temperature=0.5).query(ASK, [{"type": "function"}], 0)
        body = server.bodies[0]
    assert body["model"] == "glm-4.7"
    assert body["temperature"] == 0.5
    assert "parallel_tool_calls" not in body


def test_cache_marks_are_sent_to_claude_only() -> None:
    with serving(script()) as server:
        server.keep_bodies = True
        client(server, model="anthropic/claude-sonnet-4-5").query(ASK, [], 0)
        marked = server.bodies[0]["messages"]
    assert marked[0]["content"][0]["cache_control"] == {"type": "ephemeral"}
    assert marked[-1]["content"][0]["text"] == ASK[-1]["content"]


def test_reasoning_goes_back_where_the_provider_wants_it() -> None:
    turn = {"reasoning": "because"}
    with serving(script(**turn)) as server:
        wants, plain = client(server, model="openai/glm-4.7"), client(server, model="openai/llama")
        reply = wants.query(ASK, [], 0)
    assert wants.message(reply)["reasoning_content"] == "because"
    assert "reasoning_content" not in plain.message(reply)


def test_the_server_serves_the_turn_that_the_conversation_is_at() -> None:
    turns = Script(default=(Turn(content="first"), Turn(content="second")))
    with serving(turns) as server:
        model = client(server)
        assert model.query([*ASK, {"role": "assistant", "content": "first"}], [], 0).content == "second"
        assert model.query(ASK, [], 0).content == "first"
        too_far = [*ASK, *[{"role": "assistant", "content": "x"}] * 2]
        with pytest.raises(QueryFailed, match="script ends"):
            model.query(too_far, [], 0)


def message_body(message: dict, **more: object) -> dict:
    """A fault that is no fault: a whole answer in the server's own words."""
    answer = {"choices": [{"message": {"role": "assistant", **message}, "finish_reason": "stop"}], **more}
    return {"body": json.dumps(answer)}


def test_a_providers_own_fields_go_back_to_it_and_to_nobody_else() -> None:
    signature = {"google": {"thought_signature": "c2ln"}}
    call = {"id": "c", "type": "function", "function": {"name": "submit", "arguments": "{}"}}
    body = message_body({"content": "", "tool_calls": [{**call, "extra_content": signature}]})
    with serving(script(body, body)) as server:
        gemini = client(server, model="openai/gemini-3-pro")
        sent_back = gemini.message(gemini.query(ASK, [], 0))
        assert sent_back["tool_calls"][0]["extra_content"] == signature
        plain = client(server, model="openai/llama")
        assert "extra_content" not in plain.message(plain.query(ASK, [], 0))["tool_calls"][0]


@pytest.mark.parametrize("model", ["openai/deepseek-chat", "openai/deepseek-reasoner", "openai/kimi-k2"])
def test_reasoning_stays_with_the_calls_that_came_of_it(model: str) -> None:
    with serving(script(reasoning="because")) as server:
        wants = client(server, model=model)
        assert wants.message(wants.query(ASK, [], 0))["reasoning_content"] == "because"


def test_answers_that_could_not_be_used_are_paid_for() -> None:
    usage = {"prompt_tokens": 1000, "completion_tokens": 0}
    empty = message_body({"content": None}, usage=usage)
    price = Price(prompt=1.0, completion=10.0)
    with serving(script(empty, empty, usage={"prompt": 1000, "completion": 100})) as server:
        reply = client(server, price=price).query(ASK, [], 0)
        assert (reply.usage.total, reply.usage.wasted) == (1100, 2000)
        assert reply.usage.cost == pytest.approx(0.002 + 0.002)
    with serving(script(empty, empty)) as server, pytest.raises(QueryFailed) as failed:
        client(server, price=price, max_retries=1).query(ASK, [], 0)
    assert (failed.value.usage.total, failed.value.usage.wasted) == (0, 2000)
    assert failed.value.usage.cost == pytest.approx(0.002)


def test_cost_and_cached_tokens_in_other_words() -> None:
    usage = {"prompt_tokens": 10, "completion_tokens": 1, "prompt_cache_hit_tokens": 8, "cost": 0.5}
    with serving(script(*[message_body({"content": "x"}, usage=usage)] * 2)) as server:
        reply = client(server).query(ASK, [], 0)
        assert (reply.usage.cached, reply.usage.cost) == (8, 0.5)
        priced = client(server, price=Price(prompt=1e6, completion=1e6, cached=0.0)).query(ASK, [], 0)
        assert priced.usage.cost == pytest.approx(3.0)


def test_all_tries_of_one_answer_have_a_limit_together() -> None:
    with serving(script(*[{"status": 500}] * 50)) as server:
        started = time.monotonic()
        with pytest.raises(QueryFailed, match="no usable answer"):
            client(server, max_retries=40, wait_s=0.2, wait_max_s=0.4, total_s=0.5).query(ASK, [], 0)
        assert time.monotonic() - started < 5


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "250"}, 0.25),
        ({"retry-after-ms": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "\u00b2"}, None),
        ({"retry-after": "soon"}, None),
        ({}, None),
    ],
)
def test_retry_after_is_read_in_every_spelling(headers: dict, wait: float | None) -> None:
    assert retry_after(headers) == wait


def test_retry_after_may_be_a_date() -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=60))
    assert 55 < (retry_after({"retry-after": date}) or 0) <= 60


def test_an_endless_wait_is_cut_short() -> None:
    waits: list[float] = []
    with serving(script({"status": 429, "retry_after": 86400})) as server:
        model = client(server)
        model.sleep = waits.append
        model.query(ASK, [], 0)
    assert waits == [300.0]
