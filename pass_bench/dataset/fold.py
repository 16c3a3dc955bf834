"""Frequent operator sequences: adjacent pairs are folded into one symbol, the most frequent pair first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

LEAST, MOST = 4, 64
_MOST_PER_LISTING = 3


@dataclass(frozen=True, slots=True)
class Occurrence:
    """Where a folded sequence stands: statements start..end of one listing."""

    listing: int
    start: int
    end: int


def fold(
    sequences: Sequence[Sequence[str]], *, least_listings: int = 2, most_folds: int = 4000
) -> tuple[Occurrence, ...]:
    """Occurrences of frequent sequences of 4 to 63 operators, up to three per sequence and listing, in order.

    In each round the adjacent pair of symbols that occurs most often over all listings becomes one symbol
    (byte-pair folding; ties go to the pair that appeared first). Sequences must occur in `least_listings`
    listings. Deterministic.
    """
    symbols: dict[str, int] = {}
    stream: list[int] = []
    owners: list[int] = []
    for index, sequence in enumerate(sequences):
        for operator in sequence:
            stream.append(symbols.setdefault(operator, len(symbols)))
            owners.append(index)
    code = np.array(stream, dtype=np.int64)
    owner = np.array(owners, dtype=np.int64)
    first_of = np.searchsorted(owner, np.arange(len(sequences)))
    begin = np.arange(len(code)) - first_of[owner] if len(code) else code
    length = np.ones_like(code)
    sizes = [1] * len(symbols)
    found: list[Occurrence] = []
    for _ in range(most_folds):
        if len(code) < 2:
            break
        base = len(sizes)
        joined = code[:-1] * base + code[1:]
        fits = (owner[:-1] == owner[1:]) & (length[:-1] + length[1:] < MOST)
        if not fits.any():
            break
        pairs, counts = np.unique(joined[fits], return_counts=True)
        best = int(pairs[int(np.argmax(counts))])
        if int(counts.max()) < 2:
            break
        at = _without_overlap(np.flatnonzero(fits & (joined == best)))
        size = int(length[at[0]] + length[at[0] + 1])
        symbol = len(sizes)
        sizes.append(size)
        length[at] += length[at + 1]
        code[at] = symbol
        keep = np.ones(len(code), dtype=bool)
        keep[at + 1] = False
        code, owner, begin, length = code[keep], owner[keep], begin[keep], length[keep]
        if size >= LEAST:
            places = np.flatnonzero(code == symbol)
            taken: dict[int, list[int]] = {}
            for listing, start in zip(owner[places].tolist(), begin[places].tolist(), strict=True):
                taken.setdefault(listing, []).append(start)
            if len(taken) >= least_listings:
                found += [
                    Occurrence(listing, start, start + size)
                    for listing, starts in taken.items()
                    for start in starts[:_MOST_PER_LISTING]
                ]
    return tuple(found)


def _without_overlap(places: np.ndarray) -> np.ndarray:
    """Places of a pair (a, a) that follow each other share a symbol: every second one is taken."""
    if len(places) < 2 or not (np.diff(places) == 1).any():
        return places
    kept: list[int] = []
    for place in places.tolist():
        if not kept or place > kept[-1] + 1:
            kept.append(place)
    return np.array(kept, dtype=np.int64)
