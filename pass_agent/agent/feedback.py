"""What the model is told about an evaluation: from the typed records, short, the same form every time."""

from __future__ import annotations

from collections.abc import Sequence

from pass_agent.evaluation.evaluator import Evaluation
from pass_agent.evaluation.graph_result import GraphOutcome, RegimeOutcome, Tensor
from pass_agent.evaluation.roofline import Roofline
from pass_agent.text import first_lines

GRAPH_LIMIT = 12
BASELINE = -5

ADVICE = {
    "accuracy": "An output differs from eager. Check the formula, where it rounds, and unusual values.",
    "shape_mismatch": "An output has another shape than eager's.",
    "type_mismatch": "An output has another dtype than eager's: allocate outputs in the dtype eager returns.",
    "runtime_fail": "Running the rewritten graph failed.",
    "compile_fail": "Rewriting the graph, or compiling a kernel of yours, failed.",
    "pass_miss": "No pass matched this graph: compare pattern() with the graph's code, operator by operator.",
    "rejected": "An integrity rule was broken; a rejected graph never counts. Do as the rule asks.",
    "eager_fail": "The graph itself fails in eager; no pass can help.",
    "timeout": "The graph ran out of time: look for an endless loop or too many autotune configurations.",
    "nothing_to_check": "The graph has no outputs and no effects; it is not scored.",
    "unsupported_on_cpu": "This kernel needs a GPU, and there is none here, so the graph has no score. "
    "Write a kernel with cpp_kernel for it.",
    "infra": "The harness failed, not your pass; the graph is not scored.",
}

INTERPRETED = (
    "Triton is interpreted here, for want of a GPU: outputs are checked, times are no speeds. "
    "For a score on this CPU write the kernel with cpp_kernel."
)


def describe(
    result: Evaluation,
    rooflines: Sequence[Roofline],
    last: Evaluation | None,
    best: Evaluation | None,
    cached: bool,
) -> str:
    """The whole feedback on one evaluation; `last` and `best` are those before it."""
    if result.status == "infra":
        return (
            f"The evaluation failed on our side ({result.message}). It says nothing about your passes and "
            "does not count. You may call pass_evaluator again."
        )
    if result.status == "invalid":
        return f"The pass set could not be loaded and counts {result.score:g}: {result.message}"
    lines = [_summary(result, best, cached)]
    order = sorted(range(len(result.graphs)), key=lambda at: (result.graphs[at].correct, at))
    shown = set(order[:GRAPH_LIMIT])
    said: dict[tuple[str, ...], int] = {}
    for at, (graph, roofline) in enumerate(zip(result.graphs, rooflines, strict=True)):
        if at in shown:
            headline, *body = describe_graph(graph, roofline, at + 1, len(result.graphs))
            first = said.setdefault((graph.verdict, *body), at)
            if first == at:
                lines += [headline, *body]
            else:  # variants of one graph mostly fail, or match, in the same way
                lines.append(headline if graph.correct else f"{headline}, the same as [{first + 1}]")
    if len(order) > GRAPH_LIMIT:
        lines.append(f"... and {len(order) - GRAPH_LIMIT} more graphs, no worse than these.")
    changes = describe_changes(result, last)
    if changes and not cached:
        lines.append("Since the last evaluation: " + changes)
    return "\n".join(lines)


def _summary(result: Evaluation, best: Evaluation | None, cached: bool) -> str:
    counted = [graph for graph in result.graphs if graph.verdict not in ("nothing_to_check", "infra")]
    text = "No score on this machine" if result.score is None else f"Score (AS) {result.score:.4g}"
    text += f"; {sum(graph.correct for graph in counted)} of {len(counted)} graphs correct"
    left_out = sum(not graph.scored for graph in result.graphs)
    if left_out and result.score is not None:
        text += f"; {left_out} left out of the score"
    text += "."
    if any(graph.interpreted for graph in result.graphs):
        text += " " + INTERPRETED
    if cached:
        return text + " (Evaluated before: same files, same result.)"
    if best is None or best.score is None or result.score is None:
        return text
    if result.score > best.score:
        return f"{text} Better than the best so far ({best.score:.4g})."
    return f"{text} Not better than the best so far ({best.score:.4g})."


def describe_graph(graph: GraphOutcome, roofline: Roofline, number: int, count: int) -> list[str]:
    """One headline and at most a few indented lines."""
    name = graph.graph.rstrip("/").rsplit("/", 1)[-1]
    lines = [f"[{number}/{count}] {name}: {graph.verdict}{_speed(graph, roofline)}"]
    evidence = [_violation(broken) for broken in graph.violations[:3]]
    evidence += [one.nearest_miss for one in graph.passes]
    if graph.verdict == "accuracy":
        evidence += _wrong_outputs(graph.regimes)
        lines += [f"    {text}" for text in _wrong_outputs(graph.regimes)]
    if not graph.correct:
        lines.insert(1, "    " + ADVICE.get(graph.verdict, "Not correct."))
        if graph.reason.strip() and not any(evidence):  # which say the same, with more to it
            lines.append(f"    {first_lines(graph.reason, 1, 300)[0]}")
    lines += [f"    {_violation(broken)}" for broken in graph.violations[:3]]
    if graph.verdict in ("runtime_fail", "compile_fail", "timeout"):
        errors = [f"under {regime.regime} inputs: {regime.error}" for regime in graph.regimes if regime.error]
        lines += [f"    {text}" for text in errors[:1]]
        told = first_lines(graph.reason, 1, 80)
        traced = [
            text for text in relevant_lines(graph.detail) if not told or told[0].rstrip("…") not in text
        ]
        lines += [f"    | {text}" for text in traced]
    for one in graph.passes:
        text = _pass(one.name, one.matched, one.replaced, one.skipped, one.nearest_miss)
        if text:
            lines.append(f"    {text}")
    if graph.graph_breaks:
        lines.append(f"    the graph breaks {graph.graph_breaks} times; patterns match within one segment")
    notes = [warning for warning in graph.warnings if not (graph.interpreted and "interpreter" in warning)]
    lines += [f"    note: {note}" for note in notes[:2]]
    return lines


def _speed(graph: GraphOutcome, roofline: Roofline) -> str:
    e2e = graph.e2e
    if e2e is None or graph.interpreted:
        return ""
    text = f", {e2e.speedup:.3g}x eager ({e2e.low:.3g} to {e2e.high:.3g}"
    text += f"; {e2e.eager.median_us:.4g} -> {e2e.compiled.median_us:.4g} us"
    text += ", noisy)" if e2e.noisy else ")"
    if graph.unrewritten is not None:
        text += f", without passes {graph.unrewritten.speedup:.3g}x"
    if roofline.share is not None:
        text += f", {min(roofline.share, 1):.0%} of the memory roofline"
    if roofline.launch_share is not None:
        text += f", {roofline.launch_share:.0%} of the time is launch and host"
    return text


def _wrong_outputs(regimes: Sequence[RegimeOutcome]) -> list[str]:
    """At most three lines on what is wrong under which inputs."""
    lines = [text for regime in regimes for text in _regime(regime)][:3]
    right = [one.regime for one in regimes if not one.skipped and one.tensors and not _regime(one)]
    return [*lines, f"right on the {right[0]} inputs"] if lines and right else lines


def _regime(regime: RegimeOutcome) -> list[str]:
    if regime.error:
        return [f"{regime.regime} inputs: {regime.error}"]
    wrong = [tensor for tensor in regime.tensors if _wrong(tensor)]
    return [f"{regime.regime} inputs: {_tensor(tensor)}" for tensor in wrong]


def _wrong(tensor: Tensor) -> bool:
    return tensor.passes_from is None or tensor.passes_from > BASELINE


def _tensor(tensor: Tensor) -> str:
    text = f"{tensor.where} {tensor.dtype}{list(tensor.shape)}"
    if tensor.compiled_dtype and tensor.compiled_dtype != tensor.dtype:
        return f"{text} came back as {tensor.compiled_dtype}"
    passes = "at no tolerance" if tensor.passes_from is None else f"from t = {tensor.passes_from} only"
    text += f" passes {passes} (needed: {BASELINE})"
    worst = tensor.worst
    if worst is not None:
        text += (
            f"; worst at {list(worst.index)}: eager {_value(worst.expected)}, yours {_value(worst.actual)}"
        )
        text += f", allowed difference {worst.tolerance:.3g}"
    if tensor.max_diff is not None:
        text += f"; largest difference {tensor.max_diff:.3g}"
    return text + ("; NaN or inf where eager has none, or the reverse" if tensor.nonfinite else "")


def _value(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.6g}"


def _violation(broken: object) -> str:
    rule, why = getattr(broken, "rule", ""), getattr(broken, "why", "")
    file, line = getattr(broken, "file", ""), getattr(broken, "line", None)
    where = f" ({file}:{line})" if file and line else (f" ({file})" if file else "")
    return f"rule {rule}{where}: {why}"


def _pass(name: str, matched: int, replaced: int, skipped: str, miss: str) -> str:
    if skipped:
        return f"pass {name}: skipped, {skipped}"
    if matched == 0:
        reason = first_lines(miss, 4, 200)
        return f"pass {name}: no match" + (f"; nearest miss: {' / '.join(reason)}" if reason else "")
    if replaced < matched:
        return f"pass {name}: {replaced} of {matched} matches replaced (the others overlap)"
    return f"pass {name}: replaced {replaced}"


def relevant_lines(detail: str) -> list[str]:
    """The lines of a traceback that name the pass's own files, and the error at its end."""
    told = detail.split("\nWhile executing %")[0]  # torch.fx adds where in the graph, and advice for others
    lines = [line.rstrip() for line in told.splitlines() if line.strip()]
    if not lines:
        return []
    own = [at for at, line in enumerate(lines[:-1]) if "pass_dir" in line]
    chosen = sorted({index for at in own[-2:] for index in (at, at + 1)} | {len(lines) - 1})
    return [lines[at][:200] for at in chosen if at < len(lines)][:6]


def describe_changes(result: Evaluation, last: Evaluation | None) -> str:
    """Which graphs changed their verdict, or their speed beyond both intervals."""
    if last is None or not last.graphs:
        return ""
    before = {graph.graph: graph for graph in last.graphs}
    verdicts: dict[str, list[str]] = {}
    speeds = []
    for graph in result.graphs:
        old = before.get(graph.graph)
        if old is None:
            continue
        name = graph.graph.rstrip("/").rsplit("/", 1)[-1]
        if old.verdict != graph.verdict:
            verdicts.setdefault(f"{old.verdict} -> {graph.verdict}", []).append(name)
        elif (
            graph.correct
            and graph.e2e
            and old.e2e
            and (graph.e2e.low > old.e2e.high or graph.e2e.high < old.e2e.low)
        ):
            speeds.append(f"{name} {old.e2e.speedup:.3g}x -> {graph.e2e.speedup:.3g}x")
    changes = [
        f"{names[0] if len(names) == 1 else f'{len(names)} graphs'} {change}"
        for change, names in verdicts.items()
    ] + speeds
    if not changes:
        return "no graph changed its verdict, or its speed beyond the noise."
    more = f" and {len(changes) - 8} more" if len(changes) > 8 else ""
    return ", ".join(changes[:8]) + more + "."
