"""From what a model sent to a Reply: arguments parsed, text cleaned and capped, code blocks read."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from pass_agent.evaluation.pass_set import MANIFEST
from pass_agent.records import Message, Reply, ToolCall, Usage
from pass_agent.text import cap, clean, clean_json

CONTENT_LIMIT = 100_000
CALL_LIMIT = 16  # more calls in one answer are a runaway, not a plan
NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
FENCE = re.compile(r"^```[ \t]*([\w+-]*)[ \t]*([^\n`]*)\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)
XML_CALL = re.compile(r"<function=([\w-]+)>(.*?)</function>", re.DOTALL)
TAGGED_CALL = re.compile(r"<tool_call>\s*(\{.*?\})\s*</tool_call>", re.DOTALL)
XML_ARGUMENT = re.compile(r"<parameter=([\w-]+)>\n?(.*?)\n?</parameter>", re.DOTALL)
PATH_HINT = re.compile(r"(?:pass_dir/)?[\w./-]+\.(?:py|json|cpp|cu|h)")
DEFAULT_FILE = "pass_dir/model_pass.py"


def read_reply(
    choice: dict[str, Any],
    usage: Usage,
    seconds: float,
    tries: int,
    passed_back: Sequence[str] = (),
    call_fields: Sequence[str] = (),
) -> Reply:
    """Make a Reply of one `choices` entry; never raises for odd content.

    `passed_back` and `call_fields` name the provider's own fields that are kept as they are.
    """
    message = choice.get("message") or {}
    content = _text(message.get("content")) or _text(message.get("refusal"))
    notes = []
    if len(content) > CONTENT_LIMIT:
        notes.append(f"the answer was cut from {len(content)} characters")
    native = read_calls(message.get("tool_calls") or [], call_fields)
    if len(native) > CALL_LIMIT:
        notes.append(f"{len(native) - CALL_LIMIT} tool calls too many were dropped")
    finish = str(choice.get("finish_reason") or "stop")
    content = cap(clean(content), CONTENT_LIMIT)
    calls = native[:CALL_LIMIT] or (() if finish == "length" else read_text_calls(content))
    return Reply(
        content=content,
        reasoning=cap(
            clean(_text(message.get("reasoning_content") or message.get("reasoning"))), CONTENT_LIMIT
        ),
        extra=_kept(message, passed_back),
        calls=calls,
        finish_reason=finish,
        usage=usage,
        seconds=seconds,
        tries=tries,
        note="; ".join(notes),
    )


def _text(value: Any) -> str:
    """Content as text; some endpoints send a list of parts."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "".join(str(part.get("text") or "") for part in value if isinstance(part, dict))
    return ""


def _kept(value: Any, names: Sequence[str]) -> dict[str, Any]:
    """The named fields that are there, unless they are so large that they are no signature."""
    found = {name: clean_json(value[name]) for name in names if isinstance(value, dict) and value.get(name)}
    return found if len(json.dumps(found)) <= CONTENT_LIMIT else {}


def read_calls(sent: Sequence[Any], fields: Sequence[str] = ()) -> tuple[ToolCall, ...]:
    """Read native tool calls; ids are made unique, arguments that are no JSON object become `error`."""
    calls: list[ToolCall] = []
    for at, item in enumerate(sent):
        function = item.get("function") if isinstance(item, dict) else None
        function = function if isinstance(function, dict) else {}
        identifier = clean(str(item.get("id") or "")) if isinstance(item, dict) else ""
        if not identifier or any(call.id == identifier for call in calls):
            identifier = f"{identifier or 'call'}_{at}"
        name = str(function.get("name") or "")
        arguments, error = read_arguments(function.get("arguments"))
        if not NAME.fullmatch(name):
            name, error = "invalid_tool", error or f"{clean(name)[:60]!r} is no tool name"
        extra = _kept(item, fields)
        calls.append(ToolCall(id=identifier, name=name, arguments=arguments, error=error, extra=extra))
    return tuple(calls)


def read_arguments(sent: Any) -> tuple[dict[str, Any], str]:
    """Return (arguments, error); JSON inside JSON is unwrapped, an empty text means no arguments."""
    value = sent
    for _ in range(2):
        if isinstance(value, str):
            if not value.strip():
                return {}, ""
            try:
                value = json.loads(value, strict=False)
            except (ValueError, RecursionError) as problem:
                return {}, f"the arguments are not valid JSON: {clean(str(problem))[:200]}"
    if value is None:
        return {}, ""
    if not isinstance(value, dict):
        return {}, f"the arguments must be a JSON object, not {type(value).__name__}"
    return clean_json(value), ""


def read_text_calls(content: str) -> tuple[ToolCall, ...]:
    """Read calls out of a plain answer.

    Three forms: `<function=...>` markup; {"name": ..., "arguments": ...} in a JSON block or between
    `<tool_call>` tags, as models write it whose server does not read their calls; code blocks, each a file
    of pass_dir (named in the fence, the line before or the first line), followed by an evaluation.
    """
    calls = [
        _call(at, name, {key: _literal(value) for key, value in XML_ARGUMENT.findall(body)})
        for at, (name, body) in enumerate(XML_CALL.findall(content))
    ]
    tagged = [_json_call(body) for body in TAGGED_CALL.findall(content)]
    calls += [_call(len(calls) + at, *named) for at, named in enumerate(filter(None, tagged))]
    if calls:
        return tuple(calls[:CALL_LIMIT])
    files: dict[str, str] = {}
    for block in FENCE.finditer(content):
        language, hint, body = block.group(1), block.group(2), block.group(3)
        if language in ("json", "tool_call", ""):
            named = _json_call(body)
            if named is not None:
                calls.append(_call(len(calls), *named))
                continue
        path = _file_name(language, hint, body, content[: block.start()])
        if path:
            files[path] = body
    if calls or not files:
        return tuple(calls[:CALL_LIMIT])
    for path, body in files.items():
        calls.append(_call(len(calls), "file_editor", {"command": "create", "path": path, "file_text": body}))
    if not any(path.endswith(MANIFEST) for path in files):
        stems = [path.rsplit("/", 1)[-1][:-3] for path, body in files.items() if "def pattern" in body]
        calls.append(_call(len(calls), "file_editor", {"command": "register", "passes": stems}))
    calls.append(_call(len(calls), "pass_evaluator", {}))
    return tuple(calls[:CALL_LIMIT])


def _call(at: int, name: str, arguments: dict[str, Any]) -> ToolCall:
    return ToolCall(id=f"text_{at}", name=name, arguments=clean_json(arguments), source="text")


def _literal(value: str) -> Any:
    """Numbers and lists of the markup form; all else stays text."""
    stripped = value.strip()
    if re.fullmatch(r"-?\d+|\[[\d\s,-]*\]|true|false", stripped):
        return json.loads(stripped)
    return value


def _json_call(body: str) -> tuple[str, dict[str, Any]] | None:
    try:
        value = json.loads(body, strict=False)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        return None
    arguments, error = read_arguments(value.get("arguments", value.get("parameters", {})))
    return None if error or not NAME.fullmatch(value["name"]) else (value["name"], arguments)


def _file_name(language: str, hint: str, body: str, before: str) -> str:
    """Which file a code block is; "" for a block that is no pass."""
    last = before.rstrip().rsplit("\n", 1)[-1]
    first = body.lstrip().split("\n", 1)[0]
    for text in (hint, last if len(last) < 120 else "", first if first.startswith(("#", "//")) else ""):
        found = PATH_HINT.search(text)
        if found:
            path = found.group(0).removeprefix("./")
            return path if path.startswith("pass_dir/") else f"pass_dir/{path}"
    return DEFAULT_FILE if language in ("python", "py", "") and "def pattern" in body else ""


def assistant_message(reply: Reply, reasoning_field: str = "", extra: bool = False) -> Message:
    """The reply as a message that every endpoint takes back: arguments are valid JSON, whatever was sent.

    `extra`: with the provider's own fields, for that provider only.
    """
    message: Message = {"role": "assistant", "content": reply.content, **(reply.extra if extra else {})}
    if reasoning_field and reply.reasoning:
        message[reasoning_field] = reply.reasoning
    native = [call for call in reply.calls if call.source == "native"]
    if native:
        message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
                **(call.extra if extra else {}),
            }
            for call in native
        ]
    elif not reply.content:
        message["content"] = "(no answer)"  # endpoints refuse an empty assistant message
    return message
