"""The drawings of the report: curves, distributions, failures, changes."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from html import escape

from pass_bench.report import svg
from pass_bench.report.compare import ComparedSubmissions
from pass_bench.report.leaderboard import Standing, failure_classes

_WIDTH, _HEIGHT = 640, 340
_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 16, 14, 44


def es_plot(board: Sequence[Standing], weights: Mapping[int, float], colours: Mapping[str, str]) -> str:
    """ES(t) over t, one line per submission, with the weights of AS at the foot."""
    drawn = [standing for standing in board if standing.es]
    if not drawn:
        return ""
    levels = list(drawn[0].es)
    values = [value for standing in drawn for value in standing.es.values()]
    low, high = min(0.8, *values) / 1.08, max(1.25, *values) * 1.08
    x = svg.linear(levels[0], levels[-1], _LEFT, _WIDTH - _RIGHT)
    y = svg.logarithmic(low, high, _HEIGHT - _BOTTOM, _TOP)
    foot = _HEIGHT - _BOTTOM
    body = [svg.rect(x(0.5), _TOP, _WIDTH - _RIGHT - x(0.5), foot - _TOP, "zone")]
    largest = max(weights.get(t, 0) for t in levels) or 1.0
    for t in levels:
        tall = 26 * weights.get(t, 0) / largest
        share = weights.get(t, 0) / math.fsum(weights.get(level, 0) for level in levels)
        body.append(
            svg.rect(x(t) - 7, foot - tall, 14, tall, "weight", f"t = {t}: {100 * share:.1f} % of AS")
        )
    body += _frame_y(y, low, high)
    body += [svg.text(x(t), foot + 16, str(t), css="tick", anchor="middle") for t in levels]
    body.append(svg.text(x(-5), foot + 30, "PyTorch's tolerance", css="note", anchor="middle"))
    body.append(svg.text(x(2.5), foot + 30, "errors forgiven →", css="note", anchor="middle"))
    body.append(svg.line(x(-5), _TOP, x(-5), foot, "guide"))
    for standing in reversed(drawn):
        colour = colours[standing.submission.title]
        points = [(x(t), y(value)) for t, value in standing.es.items()]
        body.append(f'<path d="{svg.path(points)}" class="curve {colour}"/>')
        body += [f'<circle cx="{px:.1f}" cy="{py:.1f}" r="2.4" class="dot {colour}"/>' for px, py in points]
    body.append('<line class="cursor" y1="14" y2="296" x1="-9" x2="-9"/>')
    series = [
        {
            "title": s.submission.title,
            "colour": colours[s.submission.title],
            "y": [round(v, 4) for v in s.es.values()],
        }
        for s in drawn
    ]
    data = json.dumps({"x0": x(levels[0]), "x1": x(levels[-1]), "levels": levels, "series": series})
    return svg.canvas(_WIDTH, _HEIGHT, body, "ES(t) of every submission", f'data-curves="{escape(data)}"')


def _frame_y(y: svg.Scale, low: float, high: float) -> list[str]:
    body = []
    for tick in svg.log_ticks(low, high):
        body.append(svg.line(_LEFT, y(tick), _WIDTH - _RIGHT, y(tick), "grid one" if tick == 1 else "grid"))
        body.append(svg.text(_LEFT - 8, y(tick) + 4, svg.short(tick), css="tick", anchor="end"))
    return body


def profile_plot(board: Sequence[Standing], colours: Mapping[str, str]) -> str:
    """The share of graphs that are correct and at least x times as fast as eager, over x."""
    drawn = [(standing, _speeds(standing)) for standing in board]
    drawn = [(standing, speeds) for standing, speeds in drawn if speeds]
    if not drawn:
        return ""
    low, high = _span([speed for _, speeds in drawn for speed in speeds])
    x = svg.logarithmic(low, high, _LEFT, _WIDTH - _RIGHT)
    foot = _HEIGHT - _BOTTOM
    y = svg.linear(0, 1, foot, _TOP)
    body = []
    for share in (0, 0.25, 0.5, 0.75, 1):
        body.append(svg.line(_LEFT, y(share), _WIDTH - _RIGHT, y(share), "grid"))
        body.append(svg.text(_LEFT - 8, y(share) + 4, f"{100 * share:.0f} %", css="tick", anchor="end"))
    for tick in svg.log_ticks(low, high):
        body.append(svg.text(x(tick), foot + 16, f"{svg.short(tick)}×", css="tick", anchor="middle"))
    for mark in (1.0, 1.5, 2.0):
        if low < mark < high:
            body.append(svg.line(x(mark), _TOP, x(mark), foot, "guide"))
    body.append(
        svg.text((_LEFT + _WIDTH - _RIGHT) / 2, foot + 34, "speedup over eager", css="note", anchor="middle")
    )
    for standing, speeds in reversed(drawn):
        total = sum(summary.scored for summary in standing.by_sample.values())
        points = [(x(low), y(len(speeds) / total))]
        points += [(x(speed), y((len(speeds) - i - 1) / total)) for i, speed in enumerate(speeds)]
        points.append((x(high), points[-1][1]))
        title = f"{standing.submission.title}: {len(speeds)} of {total} scored graphs correct"
        body.append(
            f'<path d="{svg.steps(_thinned(points))}" class="curve {colours[standing.submission.title]}">'
            f"<title>{escape(title)}</title></path>"
        )
    return svg.canvas(_WIDTH, _HEIGHT, body, "Share of graphs at least x times as fast as eager")


def _speeds(standing: Standing) -> list[float]:
    return sorted(row.speed.speedup for row in standing.submission.rows if row.speed is not None)


def _span(speeds: Sequence[float]) -> tuple[float, float]:
    ordered = sorted(speeds)
    cut = len(ordered) // 200
    low, high = ordered[cut], ordered[-1 - cut]
    return max(min(low / 1.1, 0.8), 0.05), min(max(high * 1.1, 2.2), 100.0)


def _thinned(points: list[tuple[float, float]], most: int = 800) -> list[tuple[float, float]]:
    """At most so many points: a screen shows no more, and a page of ten thousand is slow."""
    if len(points) <= most:
        return points
    stride = len(points) / most
    return [points[int(i * stride)] for i in range(most)] + [points[-1]]


def histogram_plot(standing: Standing, colour: str) -> str:
    """How the speedups of the correct graphs of one submission are distributed, on a logarithmic axis."""
    speeds = _speeds(standing)
    if not speeds:
        return ""
    width, height, foot = 300, 120, 96
    half = 12  # bins on either side of 1
    reach = max(abs(math.log2(_span(speeds)[0])), math.log2(_span(speeds)[1]))
    step = reach / half
    counts = [0] * (2 * half)
    for speed in speeds:
        counts[min(max(math.floor(math.log2(speed) / step) + half, 0), 2 * half - 1)] += 1
    x = svg.linear(0, 2 * half, 8, width - 8)
    tallest = max(counts)
    body = [svg.line(8, foot, width - 8, foot, "axis")]
    for i, count in enumerate(counts):
        if count:
            tall = max(2.0, 76 * count / tallest)
            low, high = 2 ** ((i - half) * step), 2 ** ((i + 1 - half) * step)
            title = f"{count} graphs from {low:.2f}× to {high:.2f}×"
            css = f"bar {colour}" if i >= half else "bar slower"
            body.append(
                svg.rect(x(i) + 0.8, foot - tall, x(i + 1) - x(i) - 1.6, tall, css, title, radius=1.5)
            )
    at = svg.linear(-reach, reach, 8, width - 8)
    body.append(svg.line(at(0), 14, at(0), foot, "guide"))
    if standing.speedup is not None:
        mean = at(min(max(math.log2(standing.speedup), -reach), reach))
        body.append(f'<path d="M{mean - 4:.1f} 8h8l-4 6z" class="marker {colour}"/>')
    for value in range(-math.floor(reach), math.floor(reach) + 1):
        body.append(svg.text(at(value), foot + 15, f"{svg.short(2.0**value)}×", css="tick", anchor="middle"))
    return svg.canvas(width, height, body, f"Speedups of {standing.submission.title}")


def failure_bar(standing: Standing) -> str:
    """All graphs of one submission by verdict, as one bar."""
    width, height = 600, 22
    total = standing.graphs or 1
    body, start = [], 0.0
    for verdict, count in failure_classes(standing):
        size = width * count / total
        title = f"{verdict}: {count} ({100 * count / total:.1f} %)"
        body.append(
            svg.rect(start, 0, max(size - 1.5, 0.75), height, f"verdict v-{verdict}", title, radius=2)
        )
        start += size
    return svg.canvas(
        width,
        height,
        body,
        f"Verdicts of {standing.submission.title}",
        'preserveAspectRatio="none" class="stack"',
    )


def change_plot(compared: ComparedSubmissions) -> str:
    """The ratio of speedups of every graph, sorted, coloured by what the intervals say."""
    known = sorted((c for c in compared.changes if c.ratio is not None), key=lambda c: c.ratio or 0)
    if not known:
        return ""
    width, height, foot = 1180, 270, 242
    low, high = _span([c.ratio for c in known if c.ratio is not None])
    high = max(high, 1 / low)
    low = 1 / high
    y = svg.logarithmic(low, high, foot, _TOP)
    x = svg.linear(0, len(known), _LEFT, width - _RIGHT)
    body = []
    for tick in svg.log_ticks(low, high):
        body.append(svg.line(_LEFT, y(tick), width - _RIGHT, y(tick), "grid one" if tick == 1 else "grid"))
        body.append(svg.text(_LEFT - 8, y(tick) + 4, f"{svg.short(tick)}×", css="tick", anchor="end"))
    thick = max((width - _RIGHT - _LEFT) / len(known) * 0.8, 0.6)
    for change in ("worse", "same", "better"):
        data = "".join(
            f"M{x(i + 0.5):.1f} {y(1):.1f}V{y(item.ratio or 1):.1f}"
            for i, item in enumerate(known)
            if item.change == change
        )
        if data:
            body.append(f'<path d="{data}" class="change {change}" stroke-width="{thick:.2f}"/>')
    body.append(
        svg.text((_LEFT + width) / 2, foot + 18, "graphs, by ratio of speedups", css="note", anchor="middle")
    )
    return svg.canvas(width, height, body, "Ratio of speedups, graph by graph")
