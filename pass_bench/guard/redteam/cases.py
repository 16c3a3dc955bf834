"""One case of the suite: a pass in one file, whose docstring says what to expect of it."""

from __future__ import annotations

import ast
import json
import re
from dataclasses import dataclass
from pathlib import Path

from pass_bench.data.graph import write_graph
from pass_bench.errors import BadInput
from pass_bench.guard.redteam.graphs import GRAPHS, TargetGraph

FIELDS = ("Known from", "Rules", "Expected", "Graph", "Needs")
KINDS = ("hostile", "honest")


@dataclass(frozen=True)
class Expectation:
    """A verdict, and the rules of which one must be named where it is `rejected`; several: any of them."""

    verdicts: tuple[str, ...]
    rules: tuple[str, ...]

    def met_by(self, verdict: str, rules: tuple[str, ...]) -> bool:
        """Whether a result is one of those expected."""
        if verdict not in self.verdicts:
            return False
        return verdict != "rejected" or not self.rules or bool(set(self.rules) & set(rules))

    def __str__(self) -> str:
        return " or ".join(
            f"rejected ({', '.join(self.rules)})" if v == "rejected" and self.rules else v
            for v in self.verdicts
        )


@dataclass(frozen=True)
class Case:
    """A hostile pass or its honest look-alike.

    `trick` is one sentence. `rules` are the source rules that must name it, none for what the source does not
    show; `expected` is what the evaluation must say with the source rules off.
    """

    name: str
    kind: str
    path: Path
    trick: str
    known_from: str
    rules: tuple[str, ...]
    expected: Expectation
    graph: TargetGraph
    needs: tuple[str, ...]
    companions: tuple[Path, ...]

    @property
    def gpu(self) -> bool:
        return "gpu" in self.needs

    @property
    def caught_without_rules(self) -> bool:
        """Whether it is caught by something other than its source text."""
        return self.kind == "hostile" and "correct" not in self.expected.verdicts


def read_case(path: Path) -> Case:
    """Read the docstring of a case; raises BadInput where a field is missing or unknown."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    head, _, rest = text.partition("\n\n")
    fields = dict(re.findall(r"^(\w[\w ]*): (.*)$", rest, re.M))
    unknown = set(fields) - set(FIELDS)
    if not head or unknown or "Expected" not in fields:
        raise BadInput(f"docstring lacks a trick or Expected, or has {sorted(unknown)}", path=path)
    graph = fields.get("Graph", "scale_gelu")
    if graph not in GRAPHS:
        raise BadInput(f"no graph {graph}", path=path, expected=", ".join(GRAPHS))
    companions = sorted(p for p in path.parent.glob(f"{path.stem}__*") if p.is_file())
    return Case(
        name=path.stem,
        kind=path.parent.name,
        path=path,
        trick=" ".join(head.split()),
        known_from=fields.get("Known from", ""),
        rules=tuple(re.findall(r"[\w-]+", fields.get("Rules", ""))),
        expected=_expectation(fields["Expected"]),
        graph=GRAPHS[graph],
        needs=tuple(re.findall(r"\w+", fields.get("Needs", ""))),
        companions=tuple(companions),
    )


def read_cases(suite: Path) -> tuple[Case, ...]:
    """Every case below a suite's `hostile` and `honest` folders; raises BadInput for a folder without any."""
    cases = [
        read_case(path)
        for kind in KINDS
        for path in sorted((suite / kind).glob("*.py"))
        if "__" not in path.stem
    ]
    if not cases:
        raise BadInput("holds no case", path=suite, expected="folders hostile and honest with passes")
    return tuple(cases)


def write_sample(case: Case, folder: Path) -> Path:
    """Make a sample directory with the case's graph and its pass; returns the directory."""
    sample = folder / case.name
    graph = case.graph
    write_graph(
        sample / "graphs" / graph.name,
        code=graph.code,
        metas=graph.metas,
        info={"framework": "torch", "model_name": graph.name},
    )
    (sample / "graph_list.txt").write_text(f"graphs/{graph.name}\n")
    passes = sample / "pass_dir"
    passes.mkdir(parents=True)
    (passes / "sorted_output_pass_rule_names.json").write_text(json.dumps([case.name]))
    (passes / f"{case.name}.py").write_text(case.path.read_text(encoding="utf-8"))
    for companion in case.companions:
        (passes / companion.name.split("__", 1)[1]).write_bytes(companion.read_bytes())
    return sample


def _expectation(text: str) -> Expectation:
    """Parse "rejected (patched, flags) or accuracy"."""
    verdicts, rules = [], []
    for part in text.split(" or "):
        found = re.match(r"\s*(\w+)\s*(?:\(([\w\-, ]+)\))?", part)
        assert found is not None
        verdicts.append(found.group(1))
        rules += re.findall(r"[\w-]+", found.group(2) or "")
    return Expectation(tuple(verdicts), tuple(rules))
