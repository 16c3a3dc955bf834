"""From a captured model to the parts that become graphs: sole operators, fusible runs, typical sequences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from pass_bench.dataset.cut import is_legal
from pass_bench.dataset.fold import MOST, fold
from pass_bench.dataset.listing import Listing

Category = Literal["sole_op_subgraphs", "fusible_subgraphs", "typical_subgraphs"]
Span = tuple[int, int]


def sole_ops(listing: Listing) -> Iterator[Span]:
    """Every statement alone; one that makes a tuple together with what takes the tuple apart."""
    for start in range(len(listing.statements)):
        end = _with_elements(listing, start + 1)
        if (
            listing.statements[start].op == "operator.getitem"
            and end - start == 1
            and not _reads_tensor(listing, start)
        ):
            continue
        if is_legal(listing, start, end):
            yield start, end


def fusible_runs(listing: Listing, kernels: Sequence[Sequence[int]], known: int) -> Iterator[Span]:
    """Maximal runs of two or more statements in which no statement after the first adds a kernel.

    `kernels` holds, per kernel of a fusing compiler, the statements it computes; the count over a prefix of
    the graph is the number of kernels that the prefix touches. Only the first `known` statements were
    lowered."""
    kernels_of: dict[int, set[int]] = {}
    for kernel, statements in enumerate(kernels):
        for statement in statements:
            kernels_of.setdefault(statement, set()).add(kernel)
    seen: set[int] = set()
    start = 0
    known = min(known, len(listing.statements))
    for index in range(known + 1):
        new = set() if index == known else kernels_of.get(index, set()) - seen
        if not new and index < known:
            continue
        seen |= new
        span = _legal_within(listing, start, index)
        if span is not None and any(kernels_of.get(i) for i in range(*span)):
            yield span
        start = index


def _legal_within(listing: Listing, start: int, end: int) -> Span | None:
    """The longest legal beginning of a run that has at least two statements and fits."""
    end = min(_with_elements(listing, end), start + MOST - 1)
    while end - start >= 2:
        if is_legal(listing, start, end):
            return start, end
        end -= 1
    return None


def _with_elements(listing: Listing, end: int) -> int:
    """`end` moved past the statements that take apart a tuple made just before it."""
    while end < len(listing.statements) and end > 0:
        statement = listing.statements[end]
        if statement.op != "operator.getitem" or not statement.reads:
            break
        if listing.values[statement.reads[0]].kind != "other":
            break
        end += 1
    return end


def _reads_tensor(listing: Listing, index: int) -> bool:
    reads = listing.statements[index].reads
    return bool(reads) and listing.values[reads[0]].kind != "other"


def typical_spans(listings: Sequence[Listing], origins: Sequence[str] | None = None) -> dict[int, list[Span]]:
    """Per listing, the spans of operator sequences that are frequent over all of them.

    With `origins`, one name per listing, also those that are frequent among the listings of one origin.
    """
    spans: dict[int, dict[Span, None]] = {}
    groups = [list(range(len(listings)))]
    for origin in sorted(set(origins or ())):
        groups.append([index for index, name in enumerate(origins or ()) if name == origin])
    for members in groups:
        for occurrence in fold([listings[index].operators for index in members]):
            index = members[occurrence.listing]
            end = _with_elements(listings[index], occurrence.end)
            if end - occurrence.start < MOST and is_legal(listings[index], occurrence.start, end):
                spans.setdefault(index, {})[(occurrence.start, end)] = None
    return {index: list(found) for index, found in spans.items()}
