"""Samples: graphs of the same operators, wired alike, in several types and sizes; which ones evaluate."""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pass_bench.data import sample_folder
from pass_bench.dataset.plan import PlannedGraph

MOST_GRAPHS = 12
EVAL_SAMPLES = 200
EVAL_CATEGORIES = ("fusible_subgraphs", "typical_subgraphs")
_START, _END = "<start>", "<end>"


@dataclass(frozen=True, slots=True)
class Group:
    """A sample to be: graphs of one skeleton within a category, ordered by uid."""

    category: str
    skeleton: str
    operators: tuple[str, ...]
    graphs: tuple[PlannedGraph, ...]

    @property
    def path(self) -> str:
        """Its place below the folder of the dataset's samples: category/xx/yy/hash."""
        return f"{self.category}/{sample_folder(graph.uid for graph in self.graphs)}"


def group(graphs: Iterable[PlannedGraph], most: int = MOST_GRAPHS) -> tuple[Group, ...]:
    """Group graphs by category and skeleton, at most `most` each, sorted by path.

    Where there are more, types and sizes take turns, so that what stays is varied.
    """
    found: dict[tuple[str, str], dict[str, PlannedGraph]] = {}
    for graph in graphs:
        found.setdefault((graph.category, graph.skeleton), {})[graph.uid] = graph
    groups = []
    for (category, skeleton), members in found.items():
        kept = sorted(_varied(list(members.values()), most), key=lambda graph: graph.uid)
        groups.append(Group(category, skeleton, kept[0].operators, tuple(kept)))
    return tuple(sorted(groups, key=lambda g: g.path))


def _varied(graphs: Sequence[PlannedGraph], most: int) -> list[PlannedGraph]:
    rank: Counter[tuple[str, int]] = Counter()
    ordered = []
    for graph in sorted(graphs, key=lambda g: (g.dim, g.dtype, g.uid)):
        ordered.append((rank[(graph.dtype, graph.dim)], graph))
        rank[(graph.dtype, graph.dim)] += 1
    return [graph for _, graph in sorted(ordered, key=lambda item: item[0])][:most]


def bigrams(operators: Sequence[str]) -> list[tuple[str, str]]:
    """The transitions of a sequence, its start and end included."""
    return list(zip((_START, *operators), (*operators, _END), strict=True))


def transition_costs(groups: Iterable[Group]) -> dict[tuple[str, str], float]:
    """-log P(next | operator) of a Markov model over the operator sequences of all groups."""
    pairs: Counter[tuple[str, str]] = Counter()
    firsts: Counter[str] = Counter()
    for one in groups:
        pairs.update(bigrams(one.operators))
        firsts.update(first for first, _ in bigrams(one.operators))
    return {pair: -math.log(count / firsts[pair[0]]) for pair, count in pairs.items()}


def choose_eval(groups: Sequence[Group], count: int = EVAL_SAMPLES) -> tuple[Group, ...]:
    """The groups that together cover the most operator transitions, rare ones counting more. Greedy.

    The gain of a group is the sum of -log P over its transitions that no chosen group has, plus a small part
    of the mean over all of its transitions, which decides when all are covered. Groups with several graphs
    go first; of one operator sequence only one group is chosen. Ties go to the lower path; gains only fall,
    so a lazy heap gives the exact greedy choice."""
    costs = transition_costs(groups)
    covered: set[tuple[str, str]] = set()

    def gain(one: Group) -> float:
        pairs = set(bigrams(one.operators))
        # exactly rounded sums: the order of a set differs from process to process
        fresh = math.fsum(costs[pair] + 0.1 for pair in pairs - covered)
        return fresh + 0.01 * math.fsum(costs[pair] for pair in pairs) / len(pairs)

    for least in (3, 2, 1):
        candidates = [one for one in groups if len(one.graphs) >= least]
        if len(candidates) >= count:
            break
    heap = [(-gain(one), one.path, index) for index, one in enumerate(candidates)]
    heapq.heapify(heap)
    chosen: dict[tuple[str, ...], Group] = {}
    while heap and len(chosen) < count:
        _, path, index = heapq.heappop(heap)
        if candidates[index].operators in chosen:
            continue
        now = -gain(candidates[index])
        if heap and (now, path) > heap[0][:2]:
            heapq.heappush(heap, (now, path, index))
            continue
        chosen[candidates[index].operators] = candidates[index]
        covered.update(bigrams(candidates[index].operators))
    return tuple(chosen.values())


@dataclass(frozen=True, slots=True)
class Split:
    """Groups by use, per category."""

    train: Mapping[str, tuple[Group, ...]]
    evaluation: Mapping[str, tuple[Group, ...]]


def split(groups: Sequence[Group], count: int = EVAL_SAMPLES) -> Split:
    """Choose the evaluation samples and leave out of train whatever resembles them.

    No operator sequence, skeleton or uid of an evaluation sample is in any train sample, in whatever
    category. Sequences of two or fewer statements are train only.
    """
    evaluation: dict[str, tuple[Group, ...]] = {}
    for category in EVAL_CATEGORIES:
        taken = {one.operators for chosen in evaluation.values() for one in chosen}
        candidates = [
            one
            for one in groups
            if one.category == category and len(one.operators) > 2 and one.operators not in taken
        ]
        evaluation[category] = choose_eval(candidates, count)
    skeletons = {one.skeleton for chosen in evaluation.values() for one in chosen}
    sequences = {one.operators for chosen in evaluation.values() for one in chosen}
    uids = {graph.uid for chosen in evaluation.values() for one in chosen for graph in one.graphs}
    train: dict[str, tuple[Group, ...]] = {}
    for category in sorted({one.category for one in groups}):
        train[category] = tuple(
            one
            for one in groups
            if one.category == category
            and one.skeleton not in skeletons
            and one.operators not in sequences
            and not any(graph.uid in uids for graph in one.graphs)
        )
    return Split(train, evaluation)
