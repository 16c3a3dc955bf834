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
from pass_bench.guard.redteam.translate import needs_translation, smaller, to_cuda

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

    def runs_on(self, device: str) -> bool:
        """Whether the case makes sense on "cpu" or "cuda"."""
        return ("cpu" if device == "cuda" else "gpu") not in self.needs

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


def write_sample(case: Case, folder: Path, device: str = "cpu") -> Path:
    """Make a sample directory with the case's graph and its pass; returns the directory.

    For "cuda" the C++ kernels of a case become CUDA kernels, and its graph is smaller where it has some.
    """
    sample = folder / case.name
    moved = device == "cuda" and any(
        needs_translation(path.read_text(encoding="utf-8")) for path in (case.path, *case.companions)
    )
    graph = smaller(case.graph) if moved else case.graph
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
    named = {f"{case.name}.py": case.path}
    named |= {companion.name.split("__", 1)[1]: companion for companion in case.companions}
    for name, path in named.items():
        text = path.read_text(encoding="utf-8")
        (passes / name).write_text(to_cuda(text) if moved else text)
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
