"""Reading answers: tool calls, broken arguments, code blocks."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pass_agent.model.parse import assistant_message, read_arguments, read_calls, read_reply, read_text_calls
from pass_agent.records import Usage


def native(arguments: object, name: object = "file_editor", identifier: object = "c1") -> dict:
    return {"id": identifier, "type": "function", "function": {"name": name, "arguments": arguments}}


@pytest.mark.parametrize(
    ("sent", "arguments", "error"),
    [
        ('{"path": "a"}', {"path": "a"}, ""),
        ({"path": "a"}, {"path": "a"}, ""),
        ('"{\\"path\\": \\"a\\"}"', {"path": "a"}, ""),
        ("", {}, ""),
        (None, {}, ""),
        ('{"text": "two\nlines"}', {"text": "two\nlines"}, ""),
        ('{"path": "a"', {}, "not valid JSON"),
        ("[1]", {}, "must be a JSON object, not list"),
        ("7", {}, "must be a JSON object, not int"),
        ("[" * 100_000, {}, "not valid JSON"),
    ],
)
def test_arguments_are_read_or_say_why_not(sent: object, arguments: dict, error: str) -> None:
    got, why = read_arguments(sent)
    assert got == arguments
    assert error in why
    assert bool(error) == bool(why)


def test_broken_arguments_do_not_go_back_to_the_model() -> None:
    choice = {
        "message": {"content": None, "tool_calls": [native('{"path": ')]},
        "finish_reason": "tool_calls",
    }
    reply = read_reply(choice, Usage(), 0.0, 1)
    assert "not valid JSON" in reply.calls[0].error
    sent_back = assistant_message(reply)["tool_calls"][0]["function"]["arguments"]
    assert json.loads(sent_back) == {}


def test_ids_and_names_are_made_valid() -> None:
    calls = read_calls(
        [native("{}", identifier=""), native("{}", identifier="x"), native("{}", identifier="x")]
    )
    assert [call.id for call in calls] == ["call_0", "x", "x_2"]
    (odd,) = read_calls([native("{}", name="run this!")])
    assert (odd.name, odd.error) == ("invalid_tool", "'run this!' is no tool name")


def test_code_blocks_become_files_a_manifest_and_an_evaluation() -> None:
    answer = (
        "Here it is.\n\n`pass_dir/fuse.py`:\n```python\ndef pattern(x):\n    return x\n```\n\nand\n"
        "```python\n# helper.py\nA = 1\n```\n"
    )
    calls = read_text_calls(answer)
    assert [(call.name, call.arguments.get("path")) for call in calls] == [
        ("file_editor", "pass_dir/fuse.py"),
        ("file_editor", "pass_dir/helper.py"),
        ("file_editor", None),
        ("pass_evaluator", None),
    ]
    assert calls[0].arguments["file_text"] == "def pattern(x):\n    return x\n"
    assert calls[2].arguments == {"command": "register", "passes": ["fuse"]}


def test_a_block_without_a_name_is_a_pass_only_if_it_looks_like_one() -> None:
    assert read_text_calls("```python\nprint(1)\n```") == ()
    (create, register, _) = read_text_calls("```python\ndef pattern(x):\n    return x\n```")
    assert create.arguments["path"] == "pass_dir/model_pass.py"
    assert register.arguments["passes"] == ["model_pass"]


def test_markup_and_json_calls_are_read() -> None:
    markup = "<function=file_editor>\n<parameter=command>view</parameter>\n<parameter=path>a</parameter>\n"
    markup += "<parameter=view_range>[1, 3]</parameter>\n</function>"
    (call,) = read_text_calls(markup)
    assert call.arguments == {"command": "view", "path": "a", "view_range": [1, 3]}
    (call,) = read_text_calls('```json\n{"name": "submit", "arguments": {}}\n```')
    assert (call.name, call.source) == ("submit", "text")
    tagged = '<tool_call>\n{"name": "submit", "arguments": {}}\n</tool_call>'
    assert [call.name for call in read_text_calls(f"{tagged} and {tagged}")] == ["submit", "submit"]
    assert read_text_calls('<tool_call>{"name": 3}</tool_call>') == ()


def test_a_cut_off_answer_is_not_read_as_a_call() -> None:
    choice = {"message": {"content": "```python\n# a.py\nx = 1\n```"}, "finish_reason": "length"}
    assert read_reply(choice, Usage(), 0.0, 1).calls == ()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(JSON, JSON, st.text(max_size=200))
def test_no_answer_breaks_the_reader(message: object, calls: object, content: str) -> None:
    for sent in (message, {"content": content, "tool_calls": calls if isinstance(calls, list) else None}):
        if isinstance(sent, dict):
            reply = read_reply({"message": sent, "finish_reason": "stop"}, Usage(), 0.0, 1)
            json.dumps(assistant_message(reply)).encode("utf-8")


@given(st.text(alphabet='`<>=/functiopramejs\n{}" :pd.y_', max_size=300))
def test_no_plain_answer_breaks_the_reader(content: str) -> None:
    for call in read_text_calls(content):
        assert call.source == "text"
