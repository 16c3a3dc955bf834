"""Every rule that the code can report is in docs/integrity.md; their names are read from the code itself."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pass_bench
from pass_bench.guard.source_rules import rule_names

PACKAGE = Path(pass_bench.__file__).parent
SOURCE_RULES = ("python_rules.py", "native_rules.py", "source_rules.py")
TREES = {
    path: ast.parse(path.read_text())
    for path in sorted([*PACKAGE.rglob("guard/*.py"), *PACKAGE.rglob("worker/*.py")])
}


def takes_rule(trees: dict[Path, ast.Module]) -> dict[str, tuple[int, int]]:
    """Functions with a parameter `rule` and records with a field of that name, its place, and how many
    arguments there are at least."""
    found = {}
    for node in (node for tree in trees.values() for node in ast.walk(tree)):
        names: list[str] = []
        if isinstance(node, ast.FunctionDef):
            arguments = [argument for argument in node.args.args if argument.arg != "self"]
            names = [f"{each.arg}: {each.annotation and ast.unparse(each.annotation)}" for each in arguments]
        elif isinstance(node, ast.ClassDef):
            names = [
                ast.unparse(each).partition(" =")[0] for each in node.body if isinstance(each, ast.AnnAssign)
            ]
        for place, name in enumerate(names):
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and name in ("rule: str", "rule: Line"):
                optional = len(node.args.defaults) if isinstance(node, ast.FunctionDef) else 0
                found[node.name.lstrip("_")] = place, len(names) - optional
    return found


def reported(trees: dict[Path, ast.Module]) -> Iterator[tuple[Path, str]]:
    """The rules that calls name; a rule that is neither written out nor passed on is an error."""
    places = takes_rule(TREES)
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                function = node.func
                name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
                place, least = places.get(name.lstrip("_"), (0, 99))
                given = [keyword.value for keyword in node.keywords if keyword.arg == "rule"]
                if not given and len(node.args) >= least:
                    given = [node.args[place]]
                for rule in given:
                    if isinstance(rule, ast.Constant):
                        yield path, rule.value
                    else:
                        assert re.search(r"\brule\b", ast.unparse(rule)), f"{path}:{node.lineno}: which rule?"
            elif isinstance(node, ast.Constant) and re.fullmatch(r"native-\w+", str(node.value)):
                yield path, str(node.value)


REPORTED = set(reported(TREES))
FROM_SOURCE = {rule for path, rule in REPORTED if path.name in SOURCE_RULES}
AT_RUN_TIME = {rule for path, rule in REPORTED if path.name not in SOURCE_RULES}


def section_of(title: str) -> str:
    document = (PACKAGE.parent / "docs" / "integrity.md").read_text()
    return document.split(f"\n## {title}\n")[1].split("\n## ")[0]


def test_the_code_is_read_right() -> None:
    assert {"torch-compute", "unreadable", "custom", "native-include", "native-file"} <= FROM_SOURCE
    assert {"off-stream", "patched", "flags", "threads", "remembered", "clock"} <= AT_RUN_TIME  # the child's
    assert {"uninitialised", "stale-output", "idle-work", "below-floor", "protocol"} <= AT_RUN_TIME
    made_up = {Path("x.py"): ast.parse("raise rejected('new-one', why)\nfound = Misfit('other', why)")}
    assert {rule for _, rule in reported(made_up)} == {"new-one", "other"}


def test_source_rules_are_listed_and_documented() -> None:
    assert set(rule_names()) == FROM_SOURCE
    section = section_of("Source rules")
    assert {rule for rule in FROM_SOURCE if f"`{rule}`" not in section} == set()


def test_rules_of_the_running_pass_have_a_row_in_the_documentation() -> None:
    section = section_of("What is checked")
    rows = {
        rule
        for line in section.splitlines()
        if line.startswith("| `")
        for rule in re.findall("`(.+?)`", line.split("|")[1])
    }
    assert rows == AT_RUN_TIME
