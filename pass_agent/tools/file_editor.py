"""The `file_editor` tool: view anything of the sample, write in pass_dir only."""

from __future__ import annotations

import ast
import json
from typing import Any

from pass_agent.evaluation.pass_set import LIMIT_FILES, MANIFEST
from pass_agent.tools.workspace import FILE_LIMIT, PASS_DIR, Place, Refused, Workspace

SNIPPET = 4  # lines shown around an edit
TREE_LIMIT = 200

SCHEMA: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "file_editor",
        "description": (
            "View, create and edit files. Paths are relative to the sample directory. Everything can be "
            "viewed; only files below pass_dir/ can be written. `create` makes or replaces a whole file. "
            "`str_replace` needs an old_str that occurs exactly once. `insert` puts new_str after line "
            "insert_line (0: at the top). `undo_edit` takes the last edit of a file back. `view` of a "
            "directory lists two levels; `concise` leaves the bodies of functions out."
        ),
        "parameters": {
            "type": "object",
            "properties": {
                "command": {
                    "type": "string",
                    "enum": ["view", "create", "str_replace", "insert", "undo_edit"],
                },
                "path": {"type": "string"},
                "file_text": {"type": "string", "description": "for create"},
                "old_str": {"type": "string", "description": "for str_replace"},
                "new_str": {"type": "string", "description": "for str_replace and insert"},
                "insert_line": {"type": "integer", "description": "for insert"},
                "view_range": {
                    "type": "array",
                    "items": {"type": "integer"},
                    "description": "for view: [first, last], 1-based, last -1 for the end",
                },
                "concise": {"type": "boolean", "description": "for view"},
            },
            "required": ["command", "path"],
        },
    },
}


class FileEditor:
    """Keeps the earlier contents of edited files, for undo_edit."""

    def __init__(self, workspace: Workspace):
        self.workspace = workspace
        self.history: dict[str, list[str | None]] = {}

    def __call__(self, arguments: dict[str, Any]) -> str:
        command = arguments.get("command")
        if command == "register":
            return self._register(arguments)
        path = arguments.get("path")
        if not isinstance(path, str) or not path.strip():
            raise Refused("path is missing")
        if command == "view":
            return self._view(path, arguments)
        if command not in ("create", "str_replace", "insert", "undo_edit"):
            raise Refused(f"unknown command {command!r}: view, create, str_replace, insert or undo_edit")
        place = self.workspace.place(path)
        if not place.writable:
            raise Refused(f"{place.shown} is read-only: only files below {PASS_DIR}/ can be written")
        if command == "create":
            return self._create(place, _string(arguments, "file_text"))
        if command == "str_replace":
            return self._replace(place, _string(arguments, "old_str"), str(arguments.get("new_str") or ""))
        if command == "insert":
            return self._insert(place, arguments.get("insert_line"), _string(arguments, "new_str"))
        return self._undo(place)

    def _view(self, path: str, arguments: dict[str, Any]) -> str:
        shown = self.workspace.relative(path).as_posix()
        if self.workspace.is_directory(path):
            names = self.workspace.children(path)
            more = len(names) - TREE_LIMIT
            listing = "\n".join(names[:TREE_LIMIT]) or "(empty)"
            return f"{shown}/:\n{listing}" + (f"\n... and {more} more" if more > 0 else "")
        text = self._read(self.workspace.place(path))
        if arguments.get("concise") and shown.endswith(".py"):
            return f"{shown}, bodies left out:\n{_concise(text)}"
        lines = text.split("\n")
        first, last = _range(arguments.get("view_range"), len(lines))
        return f"{shown}:\n" + _numbered(lines, first, last)

    def _read(self, place: Place) -> str:
        if not place.real.is_file():
            raise Refused(f"{place.shown} does not exist")
        try:
            return place.real.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise Refused(f"{place.shown} is not a text file") from error

    def _write(self, place: Place, text: str) -> None:
        if len(text.encode("utf-8")) > FILE_LIMIT:
            raise Refused("a file holds at most 1 MiB")
        if not place.real.exists() and len(self.workspace.pass_set().files) >= LIMIT_FILES:
            raise Refused(f"{PASS_DIR}/ holds at most {LIMIT_FILES} files")
        before = place.real.read_text(encoding="utf-8") if place.real.is_file() else None
        try:
            place.real.parent.mkdir(parents=True, exist_ok=True)
            place.real.write_text(text, encoding="utf-8")
        except OSError as error:
            raise Refused(f"{place.shown} cannot be written: {error.strerror}") from error
        self.history.setdefault(place.shown, []).append(before)

    def _create(self, place: Place, text: str) -> str:
        existed = place.real.exists()
        self._write(place, text)
        count = text.count("\n") + (not text.endswith("\n") and text != "")
        problem = _syntax(place.shown, text)
        return f"{place.shown} {'replaced' if existed else 'created'}, {count} lines.{problem}"

    def _replace(self, place: Place, old: str, new: str) -> str:
        text = self._read(place)
        found = text.count(old) if old else 0
        if found != 1:
            where = "does not occur" if found == 0 else f"occurs {found} times"
            raise Refused(f"old_str {where} in {place.shown}; it must occur exactly once")
        at = text.index(old)
        changed = text[:at] + new + text[at + len(old) :]
        self._write(place, changed)
        line = text.count("\n", 0, at) + 1
        return self._edited(place, changed, line, line + new.count("\n"))

    def _insert(self, place: Place, line: Any, new: str) -> str:
        lines = self._read(place).split("\n")
        if not isinstance(line, int) or isinstance(line, bool) or not 0 <= line <= len(lines):
            raise Refused(f"insert_line is a number from 0 to {len(lines)}")
        added = new.removesuffix("\n").split("\n")
        changed = "\n".join([*lines[:line], *added, *lines[line:]])
        self._write(place, changed)
        return self._edited(place, changed, line + 1, line + len(added))

    def _edited(self, place: Place, text: str, first: int, last: int) -> str:
        shown = _numbered(text.split("\n"), first - SNIPPET, last + SNIPPET)
        return f"{place.shown} edited:\n{shown}{_syntax(place.shown, text)}"

    def _undo(self, place: Place) -> str:
        earlier = self.history.get(place.shown)
        if not earlier:
            raise Refused(f"there is no edit of {place.shown} to undo")
        before = earlier.pop()
        if before is None:
            place.real.unlink(missing_ok=True)
            return f"{place.shown} removed: it did not exist before that edit."
        place.real.write_text(before, encoding="utf-8")
        return f"the last edit of {place.shown} was undone."

    def _register(self, arguments: dict[str, Any]) -> str:
        """Add passes of a plain answer to the manifest, which such answers rarely write themselves."""
        place = self.workspace.place(f"{PASS_DIR}/{MANIFEST}")
        listed = list(self.workspace.pass_set().names)
        wanted = [str(name) for name in arguments.get("passes") or []]
        added = [name for name in wanted if name not in listed]
        if added or not listed:
            self._write(place, json.dumps([*listed, *added]) + "\n")
        return f"{place.shown} lists {json.dumps([*listed, *added])}."


def _string(arguments: dict[str, Any], name: str) -> str:
    value = arguments.get(name)
    if not isinstance(value, str):
        raise Refused(f"{name} is missing" if value is None else f"{name} must be a string")
    return value


def _range(value: Any, count: int) -> tuple[int, int]:
    if value is None or value == []:
        return 1, count
    if not isinstance(value, list) or len(value) != 2 or not all(type(item) is int for item in value):
        raise Refused("view_range is [first, last]")
    first, last = value[0], count if value[1] == -1 else value[1]
    if not 1 <= first <= count or last < first:
        raise Refused(f"view_range {value} does not fit a file of {count} lines")
    return first, last


def _numbered(lines: list[str], first: int, last: int) -> str:
    first, last = max(first, 1), min(last, len(lines))
    return "\n".join(f"{number:6}\t{lines[number - 1]}" for number in range(first, last + 1))


def _concise(text: str) -> str:
    """A Python file with long function bodies left out; line numbers are those of the file."""
    lines = text.split("\n")
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return _numbered(lines, 1, len(lines))
    hidden: dict[int, int] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first, last = node.body[0].lineno, node.end_lineno or node.body[0].lineno
            if last - first >= 5:
                hidden[first] = last
    shown, number = [], 1
    while number <= len(lines):
        if number in hidden:
            shown.append(f"{number:6}\t... {hidden[number] - number + 1} lines ...")
            number = hidden[number] + 1
        else:
            shown.append(_numbered(lines, number, number))
            number += 1
    return "\n".join(shown)


def _syntax(name: str, text: str) -> str:
    """One line about a syntax error, as early as possible; the file is written all the same."""
    try:
        if name.endswith(".py"):
            ast.parse(text)
        elif name.endswith(".json"):
            json.loads(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = f" line {error.lineno}:" if isinstance(error, SyntaxError) and error.lineno else ""
        return f"\nWarning:{line} {getattr(error, 'msg', error)}"
    return ""
