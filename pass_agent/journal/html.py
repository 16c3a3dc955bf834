"""One attempt as a self-contained HTML page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jinja2

from pass_agent.evaluation.evaluator import Evaluation
from pass_agent.journal.log import Told
from pass_agent.journal.trajectory import action_text

WIDTH, HEIGHT, PAD = 640.0, 150.0, 24.0


def html_page(told: Told, evaluations: Mapping[str, Evaluation]) -> str:
    """Render a journal; `evaluations` by key, those missing are left out of the curve."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
    )
    steps: list[dict[str, Any]] = []
    points: list[tuple[int, Evaluation]] = []
    for step in told.steps:
        results = [evaluations[key] for key in step.evaluations if key in evaluations]
        points += [(step.index, result) for result in results]
        steps.append({"step": step, "action": action_text(step.reply.calls), "results": results})
    cost, tokens = told.spent
    return environment.get_template("page.html.j2").render(
        start=told.start,
        ended=told.ended,
        steps=steps,
        cost=cost,
        tokens=tokens,
        curve=score_curve(points, len(told.steps)),
        width=WIDTH,
        height=HEIGHT,
        statement=told.start.problem_statement if told.start else "",
    )


def score_curve(points: list[tuple[int, Evaluation]], steps: int) -> dict[str, Any] | None:
    """Positions of the scores in the drawing, and the line of the best so far; None without a score."""
    scored = [(index, result) for index, result in points if result.score is not None]
    if not scored:
        return None
    top = max(1.0, *(result.score or 0.0 for _, result in scored)) * 1.08

    def x(index: int) -> float:
        return PAD + (WIDTH - 2 * PAD) * (index / max(1, steps - 1))

    def y(score: float) -> float:
        return HEIGHT - PAD - (HEIGHT - 2 * PAD) * (score / top)

    dots: list[dict[str, Any]] = []
    line: list[str] = []
    best = 0.0
    for index, result in scored:
        score = result.score or 0.0
        if score > best:
            line += [f"{x(index):.1f},{y(best):.1f}"] if line else []
            best = score
        line.append(f"{x(index):.1f},{y(best):.1f}")
        title = f"step {index}: {score:.4g} ({result.status})"
        dots.append({"x": x(index), "y": y(score), "step": index, "title": title, "solved": result.solved})
    return {"dots": dots, "line": " ".join(line), "one": y(1.0), "best": best}
