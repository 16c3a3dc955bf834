"""Small pieces of SVG: scales, ticks, text. Colours come from the page's style sheet, by class."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from html import escape

Scale = Callable[[float], float]


def linear(low: float, high: float, start: float, end: float) -> Scale:
    """A linear scale from [low, high] to [start, end]."""
    span = (high - low) or 1.0
    return lambda value: start + (value - low) / span * (end - start)


def logarithmic(low: float, high: float, start: float, end: float) -> Scale:
    """A logarithmic scale from [low, high] to [start, end]; values outside are held at the ends."""
    inner = linear(math.log(low), math.log(high), start, end)
    return lambda value: inner(math.log(min(max(value, low), high)))


def log_ticks(low: float, high: float) -> list[float]:
    """Round values between two bounds for a logarithmic axis: a few, whatever the span."""
    wide, middle, narrow = (1, 2, 5), (1, 1.5, 2, 3, 5, 7), (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8)
    steps = wide if high / low > 40 else middle if high / low > 5 else narrow
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [step * 10.0**decade for decade in decades for step in steps]
    return [tick for tick in ticks if low * 0.999 <= tick <= high * 1.001]


def path(points: Iterable[tuple[float, float]]) -> str:
    """A polyline as path data."""
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)


def steps(points: Sequence[tuple[float, float]]) -> str:
    """A staircase as path data: horizontal first, then vertical."""
    if not points:
        return ""
    data = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
    return data + "".join(f"H{x:.1f}V{y:.1f}" for x, y in points[1:])


def text(x: float, y: float, content: str, *, css: str = "", anchor: str = "start") -> str:
    """A text element; the content is escaped."""
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{css}" text-anchor="{anchor}">{escape(content)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, css: str) -> str:
    """A line element."""
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{css}"/>'


def rect(
    x: float, y: float, width: float, height: float, css: str, title: str = "", radius: float = 0
) -> str:
    """A rectangle element, with a tooltip if it has a title."""
    corner = f' rx="{radius:g}"' if radius else ""
    inside = f"<title>{escape(title)}</title>" if title else ""
    size = f'width="{max(width, 0):.1f}" height="{max(height, 0):.1f}"'
    return f'<rect x="{x:.1f}" y="{y:.1f}" {size}{corner} class="{css}">{inside}</rect>'


def canvas(width: int, height: int, body: Iterable[str], label: str, attributes: str = "") -> str:
    """A whole drawing that scales with its container; `label` describes it to those who cannot see it."""
    head = f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(label)}" {attributes}>'
    return head + "".join(body) + "</svg>"


def short(value: float) -> str:
    """A number in as few characters as it needs: 0.05, 0.5, 1.25, 12."""
    return f"{value:.3g}"
