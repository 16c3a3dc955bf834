"""The file editor, its confinement, and the tools' descriptions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from agent_fixtures import MANIFEST, make_sample
from hypothesis import given
from hypothesis import strategies as st

from pass_agent.errors import BadInput
from pass_agent.evaluation.pass_set import (
    PassSet,
    load_pass_set,
    read_pass_set,
    store_pass_set,
    write_pass_set,
)
from pass_agent.evaluation.sample import read_sample_source
from pass_agent.tools.file_editor import FileEditor
from pass_agent.tools.observation import LIMIT, capped
from pass_agent.tools.schemas import choose_tools
from pass_agent.tools.workspace import Refused, Workspace


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    sample = make_sample(tmp_path / "sample")
    (sample / "pass_dir" / "solution.py").write_text("the sample's own pass")
    (tmp_path / "secret.txt").write_text("secret")
    (sample / "leak.txt").symlink_to(tmp_path / "secret.txt")
    (sample / "graphs" / "model" / "sub_0" / "link").symlink_to(tmp_path / "secret.txt")
    return Workspace(read_sample_source(sample), tmp_path / "work")


@pytest.fixture
def editor(workspace: Workspace) -> FileEditor:
    return FileEditor(workspace)


def test_create_view_replace_insert_and_undo(editor: FileEditor) -> None:
    path = "pass_dir/a.py"
    assert (
        editor({"command": "create", "path": path, "file_text": "a = 1\nb = 2\n"})
        == f"{path} created, 2 lines."
    )
    assert editor({"command": "view", "path": path}).endswith("     1\ta = 1\n     2\tb = 2\n     3\t")
    assert "     2\tb = 3" in editor(
        {"command": "str_replace", "path": path, "old_str": "b = 2", "new_str": "b = 3"}
    )
    editor({"command": "insert", "path": path, "insert_line": 0, "new_str": "import torch"})
    file = editor.workspace.folder / path
    assert file.read_text() == "import torch\na = 1\nb = 3\n"
    editor({"command": "undo_edit", "path": path})
    assert file.read_text() == "a = 1\nb = 3\n"
    editor({"command": "undo_edit", "path": path})
    editor({"command": "undo_edit", "path": path})
    assert not file.exists()
    with pytest.raises(Refused, match="no edit"):
        editor({"command": "undo_edit", "path": path})


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (
            {"command": "str_replace", "path": "pass_dir/a.py", "old_str": "x", "new_str": ""},
            "occurs 2 times",
        ),
        (
            {"command": "str_replace", "path": "pass_dir/a.py", "old_str": "q", "new_str": ""},
            "does not occur",
        ),
        (
            {"command": "str_replace", "path": "pass_dir/a.py", "old_str": "", "new_str": "y"},
            "does not occur",
        ),
        ({"command": "str_replace", "path": "pass_dir/none.py", "old_str": "x"}, "does not exist"),
        ({"command": "insert", "path": "pass_dir/a.py", "insert_line": 9, "new_str": "y"}, "from 0 to 3"),
        ({"command": "insert", "path": "pass_dir/a.py", "insert_line": True, "new_str": "y"}, "from 0 to 3"),
        ({"command": "create", "path": "pass_dir/b.py"}, "file_text is missing"),
        ({"command": "create", "path": "pass_dir/b.py", "file_text": 5}, "must be a string"),
        ({"command": "create", "path": "pass_dir/b.py", "file_text": "x" * 1_100_000}, "1 MiB"),
        ({"command": "create", "path": "pass_dir/a.py/b.py", "file_text": "x"}, "cannot be written"),
        ({"command": "view", "path": "pass_dir/a.py", "view_range": [3, 1]}, "does not fit"),
        ({"command": "view", "path": "pass_dir/a.py", "view_range": ["a"]}, "is \\[first, last\\]"),
        ({"command": "view"}, "path is missing"),
        ({"command": "remove", "path": "pass_dir/a.py"}, "unknown command 'remove'"),
    ],
)
def test_what_cannot_be_done_says_why(editor: FileEditor, arguments: dict, why: str) -> None:
    editor({"command": "create", "path": "pass_dir/a.py", "file_text": "x\nx\n"})
    with pytest.raises(Refused, match=why):
        editor(arguments)


@pytest.mark.parametrize(
    "path",
    [
        "entry.sh",
        "graph_list.txt",
        "graphs/model/sub_0/model.py",
        "harness.py",
        "pass_dir",
        "pass_dir/../entry.sh",
        "../other",
        "/etc/passwd",
        "observations/0.txt",
        "aggregated_score.json",
        "/workspace/entry.sh",
        "pass_dir/../../x.py",
    ],
)
def test_nothing_but_pass_dir_can_be_written(editor: FileEditor, path: str) -> None:
    for arguments in (
        {"command": "create", "file_text": "evil"},
        {"command": "str_replace", "old_str": "exec", "new_str": "evil"},
        {"command": "insert", "insert_line": 0, "new_str": "evil"},
        {"command": "undo_edit"},
    ):
        with pytest.raises(Refused):
            editor({"path": path, **arguments})
    assert "evil" not in (editor.workspace.sample.root / "entry.sh").read_text()


@pytest.mark.parametrize(
    "path", ["../secret.txt", "/etc/passwd", "leak.txt/..", "graphs/model/sub_0/link", "pass_dir/solution.py"]
)
def test_nothing_outside_the_sample_can_be_read(editor: FileEditor, path: str) -> None:
    with pytest.raises(Refused):
        editor({"command": "view", "path": path})


def test_a_planted_link_is_not_followed(editor: FileEditor, tmp_path: Path) -> None:
    (editor.workspace.pass_dir / "link.py").symlink_to(tmp_path / "secret.txt")
    for arguments in ({"command": "view"}, {"command": "create", "file_text": "x"}):
        with pytest.raises(Refused, match="links are not followed"):
            editor({"path": "pass_dir/link.py", **arguments})
    assert (tmp_path / "secret.txt").read_text() == "secret"
    assert read_pass_set(editor.workspace.pass_dir).files == {}


def test_directories_are_listed_without_the_samples_own_passes(editor: FileEditor) -> None:
    listing = editor({"command": "view", "path": "."})
    names = "entry.sh graph_list.txt graphs graphs/model harness.py leak.txt observations pass_dir"
    assert listing.splitlines()[1:] == names.split()
    assert "graphs/model/sub_0/model.py" in editor({"command": "view", "path": "graphs/model"})
    assert editor({"command": "view", "path": "pass_dir"}) == "pass_dir/:\n(empty)"


def test_absolute_spellings_of_the_sample_are_understood(editor: FileEditor) -> None:
    root = editor.workspace.sample.root
    for prefix in (str(root), "/workspace", str(editor.workspace.folder)):
        assert "gelu" in editor({"command": "view", "path": f"{prefix}/graphs/model/sub_0/model.py"})


def test_concise_leaves_long_bodies_out(editor: FileEditor) -> None:
    body = "".join(f"    x{number} = {number}\n" for number in range(9))
    editor({"command": "create", "path": "pass_dir/a.py", "file_text": f"A = 1\ndef f():\n{body}B = 2\n"})
    shown = editor({"command": "view", "path": "pass_dir/a.py", "concise": True})
    assert "     2\tdef f():\n     3\t... 9 lines ...\n    12\tB = 2" in shown


def test_a_syntax_error_is_said_at_once(editor: FileEditor) -> None:
    said = editor({"command": "create", "path": "pass_dir/a.py", "file_text": "a = (\n"})
    assert "Warning: line 1: '(' was never closed" in said
    said = editor({"command": "create", "path": f"pass_dir/{MANIFEST}", "file_text": "[a]"})
    assert "Warning: Expecting value" in said


def test_a_pass_set_cannot_grow_without_end(editor: FileEditor) -> None:
    for number in range(200):
        (editor.workspace.pass_dir / f"f{number}.py").write_text("")
    with pytest.raises(Refused, match="at most 200 files"):
        editor({"command": "create", "path": "pass_dir/more.py", "file_text": ""})


NAMES = st.lists(st.sampled_from(["a.py", "b/c.py", "b/d.py", "e.json"]), unique=True)


@given(NAMES, NAMES, st.binary(max_size=20))
def test_pass_sets_are_stored_and_restored_exactly(
    tmp_path_factory: pytest.TempPathFactory, one: list[str], other: list[str], content: bytes
) -> None:
    folder = tmp_path_factory.mktemp("sets")
    first, second = PassSet(dict.fromkeys(one, content)), PassSet(dict.fromkeys(other, b"2"))
    write_pass_set(first, folder / "work")
    write_pass_set(second, folder / "work")
    assert read_pass_set(folder / "work").hash == second.hash
    store_pass_set(first, folder / "store")
    assert load_pass_set(first.hash, folder / "store").files == first.files
    assert (first.hash == second.hash) == (first.files == second.files)


def test_a_stored_pass_set_that_was_changed_is_refused(tmp_path: Path) -> None:
    stored = store_pass_set(PassSet({"a.py": b"x"}), tmp_path)
    (stored / "a.py").write_text("y")
    with pytest.raises(BadInput, match="changed after it was scored"):
        load_pass_set(stored.name, tmp_path)


def test_a_long_observation_is_capped_and_kept(tmp_path: Path) -> None:
    text = "head" + "x" * 50_000 + "tail"
    shown = capped(text, tmp_path / "observations", "3_0.txt")
    assert len(shown) < LIMIT + 200
    assert shown.startswith("head") and shown.endswith("tail")
    assert "observations/3_0.txt" in shown
    assert (tmp_path / "observations" / "3_0.txt").read_text() == text


def test_tools_come_from_the_configuration_and_what_is_installed() -> None:
    def names(*files: str, commands: frozenset[str] = frozenset()) -> list[str]:
        return [tool["function"]["name"] for tool in choose_tools(files, commands)]

    published = ("./tools/file_editor.py", "./tools/pass_evaluator.py")
    assert names(*published) == ["file_editor", "pass_evaluator"]
    assert names(*published, "check", "submit") == ["file_editor", "pass_evaluator", "submit"]
    assert names(*published, "check", commands=frozenset({"check"}))[-1] == "check"
    with pytest.raises(BadInput, match="no tool search"):
        names(*published, "tools/search.py")
    with pytest.raises(BadInput, match="must name"):
        names("file_editor")
    json.dumps(choose_tools(published, frozenset()))
