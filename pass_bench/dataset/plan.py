"""Which graphs there will be: parts of all models, each in several types and sizes, none of them twice."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pass_bench.data.records import TensorMeta
from pass_bench.dataset.canonical import skeleton, uid_of
from pass_bench.dataset.constraints import print_constraints
from pass_bench.dataset.cut import Cut, argument_metas, cut, print_code
from pass_bench.dataset.decompose import Category, Span, fusible_runs, sole_ops, typical_spans
from pass_bench.dataset.listing import Listing
from pass_bench.dataset.store import ModelRecord, Traced
from pass_bench.dataset.vary import DTYPES, ORIGINAL, in_dtype, resized, sizes_of
from pass_bench.errors import BadInput

HALVES = frozenset({"float16", "bfloat16"})


@dataclass(frozen=True, slots=True)
class PlannedGraph:
    """One graph of the dataset, complete as text.

    `dim` is 9 for the sizes it was captured in. `kernels` is how many kernels a fusing compiler makes of it;
    -1 where its model was not lowered."""

    uid: str
    skeleton: str
    category: Category
    dtype: str
    dim: int
    library: str
    model: str
    tag: str
    start: int
    end: int
    operators: tuple[str, ...]
    code: str
    metas: tuple[TensorMeta, ...]
    constraints: str
    kernels: int = -1
    class_name: str = ""

    @property
    def name(self) -> str:
        """The name of its directory."""
        return f"{self.model}_start{self.start}_end{self.end}_0"

    @property
    def path(self) -> str:
        """Its place below the folder of the dataset's graphs; sole operators have no dim level."""
        dim = "" if self.category == "sole_op_subgraphs" else f"{self.dim}/"
        return (
            f"{self.category}/{self.dtype}/{dim}samples/{self.library}/{self.model}/_decomposed/{self.name}"
            + (f"_dim{self.dim}" if not dim and self.dim != ORIGINAL else "")
        )


@dataclass(frozen=True, slots=True)
class Budget:
    """How many graphs are made of one skeleton, and how large they may be."""

    instances: int = 3
    sole_instances: int = 4
    resized_instances: int = 1
    dims: int = 2
    most_elements: int = 1 << 21


@dataclass(frozen=True, slots=True)
class Part:
    """A span of one model's graph that is to become graphs of a category."""

    category: Category
    record: int
    graph: int
    span: Span
    kernels: int = -1


def parts_of(
    records: Sequence[ModelRecord], lowered: Mapping[str, tuple[int, Sequence[Sequence[int]]]]
) -> list[Part]:
    """All parts of all models. `lowered` gives, by record key, how many statements were lowered and the
    kernels.

    Models that were not lowered get the runs that were found fusible elsewhere: the same operators, wired
    alike."""
    parts: list[Part] = []
    known: dict[tuple[str, ...], set[str]] = {}
    graphs = [(r, g, graph) for r, record in enumerate(records) for g, graph in enumerate(record.graphs)]
    for r, g, graph in graphs:
        parts.extend(Part("sole_op_subgraphs", r, g, span) for span in sole_ops(graph.listing))
        if records[r].key in lowered and g == 0:
            count, kernels = lowered[records[r].key]
            for span in fusible_runs(graph.listing, kernels, count):
                parts.append(Part("fusible_subgraphs", r, g, span))
                part = cut(graph.listing, *span)
                known.setdefault(part.operators, set()).add(skeleton(part))
    for r, g, graph in graphs:
        if records[r].key not in lowered or g:
            elsewhere = _found_elsewhere(graph.listing, known)
            parts.extend(Part("fusible_subgraphs", r, g, span) for span in elsewhere)
    origins = [records[r].library for r, _, _ in graphs]
    typical = typical_spans([graph.listing for _, _, graph in graphs], origins)
    for index, spans in sorted(typical.items()):
        r, g, _ = graphs[index]
        parts.extend(Part("typical_subgraphs", r, g, span) for span in spans)
    return [replace(part, kernels=_kernel_count(part, records, lowered)) for part in parts]


def _kernel_count(
    part: Part, records: Sequence[ModelRecord], lowered: Mapping[str, tuple[int, Sequence[Sequence[int]]]]
) -> int:
    count, kernels = lowered.get(records[part.record].key, (0, ()))
    if part.graph or part.span[1] > count:
        return -1
    inside = range(*part.span)
    return sum(1 for kernel in kernels if any(statement in inside for statement in kernel))


def _found_elsewhere(listing: Listing, known: Mapping[tuple[str, ...], set[str]]) -> Iterator[Span]:
    lengths: dict[str, list[int]] = {}
    for operators in known:
        lengths.setdefault(operators[0], []).append(len(operators))
    longest_first = {first: sorted(set(found), reverse=True) for first, found in lengths.items()}
    sequence = listing.operators
    start = 0
    while start < len(sequence):
        for length in longest_first.get(sequence[start], ()):
            skeletons = known.get(sequence[start : start + length])
            if skeletons is None:
                continue
            try:
                part = cut(listing, start, start + length)
            except BadInput:
                continue
            if skeleton(part) in skeletons:
                yield start, start + length
                start += length - 1
                break
        start += 1


def plan(
    records: Sequence[ModelRecord],
    lowered: Mapping[str, tuple[int, Sequence[Sequence[int]]]],
    budget: Budget | None = None,
) -> Iterator[PlannedGraph]:
    """All graphs, in an order that depends on the records alone; every uid once."""
    budget = budget or Budget()
    seen: set[str] = set()
    at_hand: Traced | None = None
    typed: dict[tuple[int, str], Listing | None] = {}
    instances: dict[tuple[Category, str], int] = {}
    for part in sorted(
        parts_of(records, lowered), key=lambda p: (p.category, _worth(records[p.record], p), p.span)
    ):
        record = records[part.record]
        graph = record.graphs[part.graph]
        try:
            base = cut(graph.listing, *part.span)
        except BadInput:
            continue
        shape = (part.category, skeleton(base))
        made = instances.get(shape, 0)
        most = budget.sole_instances if part.category == "sole_op_subgraphs" else budget.instances
        if made >= most or f"{part.category} {uid_of(base)}" in seen:
            continue
        if graph is not at_hand:
            at_hand, typed = graph, {}
        dims = [ORIGINAL]
        if (
            made < budget.resized_instances
            and graph.batch is not None
            and part.category != "sole_op_subgraphs"
        ):
            dims += _chosen_dims(shape[1], budget.dims)
        new = 0
        for planned in _variants(record, graph, part, shape[1], dims, budget, typed):
            key = f"{part.category} {planned.uid}"
            if key not in seen:
                seen.add(key)
                new += 1
                yield planned
        instances[shape] = made + bool(new)


def _worth(record: ModelRecord, part: Part) -> tuple[bool, str, int]:
    """Models that were captured in several ways come first, since their parts can be varied."""
    graph = record.graphs[part.graph]
    return graph.float16 is None or graph.batch is None, record.key, part.graph


def _chosen_dims(key: str, count: int) -> list[int]:
    """`count` of the dim folders 0 to 8, another choice for every skeleton."""
    order = sorted(range(9), key=lambda dim: hashlib.sha256(f"{key}{dim}".encode()).digest())
    return order[: 2 * count]


def _variants(
    record: ModelRecord,
    graph: Traced,
    part: Part,
    key: str,
    dims: Sequence[int],
    budget: Budget,
    typed: dict[tuple[int, str], Listing | None],
) -> Iterator[PlannedGraph]:
    """The graphs of a part; `typed` keeps the listings of `graph` by size and type between calls."""
    found_dims = 0
    for dim in dims:
        if dim != ORIGINAL and found_dims >= budget.dims:
            break
        if (dim, "float32") not in typed:
            listing = resized(graph, dim)
            for dtype in DTYPES:
                typed[(dim, dtype)] = None if listing is None else in_dtype(graph, listing, dtype)
        found = False
        for dtype in DTYPES:
            listing = typed[(dim, dtype)]
            planned = (
                None if listing is None else _planned(record, graph, listing, part, key, dtype, dim, budget)
            )
            if planned is not None:
                found = True
                yield planned
        found_dims += found and dim != ORIGINAL


def _planned(
    record: ModelRecord,
    graph: Traced,
    listing: Listing,
    part: Part,
    key: str,
    dtype: str,
    dim: int,
    budget: Budget,
) -> PlannedGraph | None:
    try:
        piece = cut(listing, *part.span)
        metas = tuple(replace(meta, device="cpu") for meta in argument_metas(piece))
    except BadInput:
        return None
    if not piece.outputs or sum(meta.numel for meta in metas) > budget.most_elements or not metas:
        return None
    if _largest_result(piece) > budget.most_elements:
        return None
    floats = {meta.dtype for meta in metas if meta.is_float}
    if dtype != "float32" and dtype not in floats:
        return None
    spelling = "fx" if floats & HALVES else "source"
    return PlannedGraph(
        uid=uid_of(piece),
        skeleton=key,
        category=part.category,
        dtype=dtype,
        dim=dim,
        library=record.library,
        model=record.name,
        tag=record.tag,
        start=part.span[0],
        end=part.span[1],
        operators=piece.operators,
        code=print_code(piece, "fx" if spelling == "fx" else "source"),
        metas=metas,
        constraints=print_constraints(graph, piece, sizes_of(graph, dim)),
        kernels=part.kernels,
        class_name=record.class_name,
    )


def _largest_result(piece: Cut) -> int:
    metas = [piece.listing.values[s.result].meta for s in piece.statements]
    return max((meta.numel for meta in metas if meta is not None), default=0)
