"""How far the work data is, stage by stage, as a page: what was tried, what came of it, how long it took."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from pass_bench.dataset.group import EVAL_SAMPLES, Split, group, split
from pass_bench.dataset.page import table
from pass_bench.dataset.pipeline import dropped, load_plan, load_records, verified
from pass_bench.dataset.plan import PlannedGraph
from pass_bench.dataset.stages import stage_times
from pass_bench.dataset.store import ModelRecord
from pass_bench.dataset.tally import Tally, tally
from pass_bench.dataset.verify import read_verified

_REASONS = 30


def status(work: Path, count: int = EVAL_SAMPLES) -> str:
    """The page for a work folder, in Markdown; BadInput where nothing was extracted.

    What benchmarks printed is appended from the files checks/*.txt of the folder.
    """
    records = load_records(work)
    found = tally(records)
    is_planned = (work / "plan.jsonl.zst").exists()
    planned, good = (list(load_plan(work)), verified(work)) if is_planned else ([], [])
    parts = split(group(good), count)
    shipped = [
        one for groups in (parts.train, parts.evaluation) for members in groups.values() for one in members
    ]
    kept = [graph for one in shipped for graph in one.graphs]
    tried = [path.read_text() for path in (work / "lowered").rglob("*.json")]
    refused = tried.count("null")
    lowering = f"{len(tried) - refused} models lowered up to Inductor's scheduler; {refused} it does not take"
    columns = ("library", "tried", "captured", "distinct graphs", "classes tried", "classes captured")
    unknown = len({graph.uid for graph in planned} - set(read_verified(work / "verified.jsonl")))
    reasons = dropped(work) if is_planned else Counter[str]()
    return f"""# The dataset: what was tried, and what came of it

Printed by `passbench dataset status --work WORK`, from the records of every stage.

    passbench dataset extract transformers timm torchvision torchaudio diffusers smp torch_geometric
    passbench dataset decompose && passbench dataset vary && passbench dataset verify
    passbench dataset publish && passbench dataset stats

## Extraction

Tried is what a run was let get to (`--ranks`, `--limit`), the first of every class first.

{table(columns, found.rows)}

{found.varied.total()} captures also say how the graph follows the batch size, the length or the float type.
*Distinct graphs*: some names build the same network (a width that a class ignores, a class that only renames
another); those count once.

{_failed(found)}

## Stages

| stage | came to |
|---|---|
| extract | {found.captured.total()} of {found.tried.total()} configurations captured |
| decompose | {lowering} |
| vary | {_counted(planned)} planned |
| verify | {_counted(good)} kept; {reasons.total()} graphs dropped; {unknown} not verified, so left out |
| group | {len(shipped)} samples of {_counted(kept)} |

{table(("graphs with a part of", "configurations", "model classes"), _sources(records, planned, good, kept))}

A configuration none of whose parts is in the set had only parts that others have, too: at most a few graphs
of one skeleton are kept, and no graph twice.

{table(("dropped because", "graphs"), reasons.most_common())}

{_split(parts)}

## Wall time

{_times(work, found)}
{_checks(work / "checks")}"""


def _checks(folder: Path) -> str:
    """What benchmarks printed, as it was kept in the work folder."""
    return "".join(
        f"\n## {path.stem.replace('_', ' ').capitalize()}\n\n```\n{path.read_text().strip()}\n```\n"
        for path in sorted(folder.glob("*.txt"))
    )


def _counted(graphs: Sequence[PlannedGraph]) -> str:
    uids, skeletons = len({g.uid for g in graphs}), len({g.skeleton for g in graphs})
    return f"{uids} graphs of {skeletons} skeletons"


def _failed(found: Tally) -> str:
    top = found.reasons.most_common(_REASONS)
    rest = Counter(dict(found.reasons.most_common()[_REASONS:]))
    rows: list[tuple[str, int]] = [(reason.replace("|", "/"), number) for reason, number in top]
    if rest:
        rows.append((f"{len(rest)} further reasons, up to {max(rest.values())} times each", rest.total()))
    causes = table(("cause", "configurations"), found.causes.most_common())
    return f"{causes}\n\nIn the words of the errors:\n\n{table(('reason', 'configurations'), rows)}"


def _sources(records: Sequence[ModelRecord], *stages: Iterable[PlannedGraph]) -> list[tuple[str, int, int]]:
    rows = []
    for name, graphs in zip(("the plan", "what was verified", "the set"), stages, strict=True):
        keys = {(graph.library, graph.model) for graph in graphs}
        classes = {(r.library, r.class_name) for r in records if (r.library, r.name) in keys}
        rows.append((name, len(keys), len(classes)))
    return rows


def _split(parts: Split) -> str:
    rows = [
        (use, category, len(members), sum(len(one.graphs) for one in members))
        for use, groups in (("eval", parts.evaluation), ("train", parts.train))
        for category, members in sorted(groups.items())
        if members
    ]
    return table(("use", "category", "samples", "graphs"), rows)


def _times(work: Path, found: Tally) -> str:
    rows = [(s.stage, s.runs, f"{s.seconds:.0f}", s.done or "") for s in stage_times(work)]
    logged = table(("stage", "runs", "wall s", "done in them"), rows) if rows else "No run was logged."
    entries = found.seconds.total()
    mean = entries / max(found.tried.total(), 1)
    return f"""{logged}

Every entry of the zoo notes its own wall time, from building it to its record: together {entries:.0f} s,
{mean:.1f} s on average. Only runs that ended by themselves are in the log, and a stage that goes on where it
stopped logs what it still had to do."""
