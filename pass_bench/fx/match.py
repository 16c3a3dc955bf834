"""Finding a pattern in a graph.

Both sides are read in canonical form. From a pattern node matched to a graph node everything upstream follows
without choice; choices remain only where a second result hangs off something matched already, or hangs off
nothing. So the search is linear but for those, and it stops, aloud, at a number of steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import fx

from pass_bench.fx.canonical import Form, forms
from pass_bench.fx.facts import Facts, graph_facts
from pass_bench.fx.literals import same_literal, show
from pass_bench.fx.order import Order
from pass_bench.fx.plan import Pattern, Step
from pass_bench.fx.signature import MISSING
from pass_bench.fx.trace import attribute, leaves

STEP_LIMIT = 200_000
MATCH_LIMIT = 20_000


@dataclass(frozen=True)
class Match:
    """One occurrence: graph node of each pattern node, and what each placeholder stands for.

    A placeholder stands for a node, a literal, or a list of them; an argument that the pattern does not use
    stands for None.
    """

    nodes: Mapping[fx.Node, fx.Node]
    arguments: Mapping[fx.Node, Any]

    @property
    def matched(self) -> frozenset[fx.Node]:
        """The graph nodes that the pattern covers."""
        return frozenset(self.nodes.values())

    def value_of(self, pattern_value: Any) -> Any:
        """The graph's counterpart of a pattern node or literal."""
        if not isinstance(pattern_value, fx.Node):
            return pattern_value
        return self.nodes[pattern_value] if pattern_value in self.nodes else self.arguments[pattern_value]


@dataclass(frozen=True)
class Miss:
    """How far the best failed attempt came, and what stopped it."""

    reached: int
    of: int
    reason: str


@dataclass(frozen=True)
class Search:
    """All matches in graph order; `miss` where there are none; `stopped` says that a limit was reached."""

    matches: tuple[Match, ...]
    miss: Miss | None = None
    stopped: str = ""


class GraphView:
    """A graph prepared for matching: forms by node, nodes by operator, order."""

    def __init__(self, gm: fx.GraphModule, facts: Facts | None = None):
        self.gm = gm
        self.facts = facts if facts is not None else graph_facts(gm)
        self.order = Order(gm, self.facts)
        self.forms: dict[fx.Node, tuple[Form, ...]] = {}
        self.by_key: dict[Any, list[fx.Node]] = {}
        for node in gm.graph.nodes:
            if node.op in ("call_function", "call_method"):
                self.forms[node] = forms(node)
                for key in {form.key for form in self.forms[node]}:
                    self.by_key.setdefault(key, []).append(node)
            elif node.op in ("get_attr", "call_module"):
                self.by_key.setdefault(node.op, []).append(node)


def find_matches(pattern: fx.GraphModule, gm: fx.GraphModule, facts: Facts | None = None) -> list[Match]:
    """All occurrences of a pattern, overlapping ones included, in the order of the graph.

    An occurrence is convex (no path along values, mutated storage or random state leaves it and comes back),
    and nothing inside but the pattern's outputs is used outside.
    """
    return list(search(pattern, GraphView(gm, facts)).matches)


def search(
    pattern: fx.GraphModule | Pattern, view: GraphView, step_limit: int = STEP_LIMIT, keep: int = MATCH_LIMIT
) -> Search:
    """All matches of a pattern, or the nearest miss."""
    prepared = pattern if isinstance(pattern, Pattern) else Pattern(pattern)
    return _Searcher(prepared, view, step_limit, keep).run()


class _StopSearch(Exception):
    pass


@dataclass
class _State:
    nodes: dict[fx.Node, fx.Node] = field(default_factory=dict)
    taken: set[fx.Node] = field(default_factory=set)
    bound: dict[fx.Node, Any] = field(default_factory=dict)
    trail: list[tuple[str, fx.Node]] = field(default_factory=list)

    def undo(self, length: int) -> None:
        while len(self.trail) > length:
            kind, key = self.trail.pop()
            if kind == "node":
                self.taken.discard(self.nodes.pop(key))
            else:
                del self.bound[key]


class _Searcher:
    def __init__(self, pattern: Pattern, view: GraphView, step_limit: int, keep: int):
        self.pattern = pattern
        self.view = view
        self.state = _State()
        self.steps_left = step_limit
        self.step_limit = step_limit
        self.keep = keep
        self.found: list[Match] = []
        self.best = -1
        self.why: Callable[[], str] = lambda: "the pattern has no operation to look for"

    def run(self) -> Search:
        stopped = ""
        missing = [n for n in self.pattern.nodes if not self._candidates_by_key(n)]
        if missing:
            names = dict.fromkeys(self.pattern.label(n) for n in missing)
            reason = f"the graph has no node of {', '.join(names)}"
            return Search((), Miss(0, len(self.pattern.nodes), reason))
        if self.pattern.nodes:
            try:
                self._assign(0)
            except _StopSearch:
                stopped = f"the search stopped after {self.step_limit} steps or {self.keep} matches"
        position = self.view.order.position
        self.found.sort(key=lambda m: [position[m.nodes[n]] for n in self.pattern.sort_order])
        if self.found:
            return Search(tuple(self.found), None, stopped)
        return Search((), Miss(max(self.best, 0), len(self.pattern.nodes), self.why()), stopped)

    def _candidates_by_key(self, node: fx.Node) -> Sequence[fx.Node]:
        keys = self.pattern.keys(node)
        if len(keys) == 1:
            return self.view.by_key.get(next(iter(keys)), [])
        found = {n for key in keys for n in self.view.by_key.get(key, [])}
        return sorted(found, key=self.view.order.position.__getitem__)

    def _assign(self, index: int) -> None:
        if index == len(self.pattern.steps):
            self._complete()
            return
        step = self.pattern.steps[index]
        for candidate in self._candidates(step):
            self.steps_left -= 1
            if self.steps_left < 0:
                raise _StopSearch
            length = len(self.state.trail)
            if self._unify(step.node, candidate):
                self._assign(index + 1)
            self.state.undo(length)

    def _candidates(self, step: Step) -> Iterator[fx.Node]:
        anchor = None if step.via is None else self._image(step.via)
        if isinstance(anchor, fx.Node):
            position = self.view.order.position
            keys = self.pattern.keys(step.node)
            for user in sorted(anchor.users, key=position.__getitem__):
                if user not in self.state.taken and any(f.key in keys for f in self.view.forms.get(user, ())):
                    yield user
        else:
            yield from (n for n in self._candidates_by_key(step.node) if n not in self.state.taken)

    def _image(self, node: fx.Node) -> Any:
        return self.state.nodes.get(node, self.state.bound.get(node))

    def _unify(self, pattern_node: fx.Node, graph_node: fx.Node) -> bool:
        work: list[tuple[Any, Any]] = [(pattern_node, graph_node)]
        while work:
            wanted, given = work.pop()
            if isinstance(wanted, fx.Node):
                more = self._unify_node(wanted, given)
            else:
                more = _unfold(wanted, given)
                if more is None:
                    self._miss(lambda w=wanted, g=given: f"expected {show(w)}, found {show(g)}")  # type: ignore[misc]
            if more is None:
                return False
            work += more
        return True

    def _unify_node(self, wanted: fx.Node, given: Any) -> list[tuple[Any, Any]] | None:
        state = self.state
        if wanted.op == "placeholder":
            return self._bind(wanted, given)
        if wanted in state.nodes:
            if state.nodes[wanted] is given:
                return []
            self._miss(
                lambda: (
                    f"pattern node '{wanted.name}' would stand for both "
                    f"{show(state.nodes[wanted])} and {show(given)}"
                )
            )
            return None
        if not isinstance(given, fx.Node) or given in state.taken:
            self._miss(
                lambda: f"pattern node '{wanted.name}' ({self.pattern.label(wanted)}) meets {show(given)}"
            )
            return None
        more = self._unify_call(wanted, given)
        if more is None or not self._closed(wanted, given):
            return None
        state.nodes[wanted] = given
        state.taken.add(given)
        state.trail.append(("node", wanted))
        return more

    def _bind(self, placeholder: fx.Node, given: Any) -> list[tuple[Any, Any]] | None:
        bound = self.state.bound
        if placeholder not in bound:
            bound[placeholder] = given
            self.state.trail.append(("bound", placeholder))
            return []
        if same_literal(bound[placeholder], given):
            return []
        before = bound[placeholder]
        self._miss(
            lambda: (
                f"pattern argument '{placeholder.name}' would stand for both {show(before)} and {show(given)}"
            )
        )
        return None

    def _closed(self, wanted: fx.Node, given: fx.Node) -> bool:
        """An inner node has no users but those the pattern has."""
        if wanted in self.pattern.outputs or len(given.users) == len(self.pattern.users(wanted)):
            return True
        if len(given.users) < len(self.pattern.users(wanted)):
            self._miss(lambda: f"graph node '{given.name}' has fewer users than pattern node '{wanted.name}'")
        else:
            self._miss(lambda: self._used_outside(wanted, given))
        return False

    def _used_outside(self, wanted: fx.Node, given: fx.Node) -> str:
        inside = set(self.state.nodes.values())
        users = [u.name for u in given.users if u not in inside][: 1 + len(given.users)]
        names = ", ".join(f"'{name}'" for name in users[-3:])
        return (
            f"graph node '{given.name}' (pattern node '{wanted.name}') is also used by {names} outside the "
            f"match; return '{wanted.name}' from the pattern"
        )

    def _unify_call(self, wanted: fx.Node, given: fx.Node) -> list[tuple[Any, Any]] | None:
        if wanted.op == "get_attr" or given.op == "get_attr":
            same = wanted.op == given.op and self._same_attribute(wanted, given)
            if not same:
                self._miss(lambda: f"pattern constant '{wanted.name}' differs from {show(given)}")
            return [] if same else None
        for ours in self.pattern.forms(wanted):
            for theirs in self.view.forms.get(given, ()):
                if ours.key == theirs.key and ours.overloads & theirs.overloads:
                    pairs = _pair(ours, theirs)
                    if pairs is not None and all(self._possible(w, g) for w, g in pairs):
                        return pairs
        self._miss(lambda: self._difference(wanted, given))
        return None

    def _same_attribute(self, wanted: fx.Node, given: fx.Node) -> bool:
        return same_literal(
            attribute(self.pattern.gm, str(wanted.target)), attribute(self.view.gm, str(given.target))
        )

    def _possible(self, wanted: Any, given: Any) -> bool:
        """Whether two arguments may agree: literals are compared, nodes by operator only."""
        if isinstance(wanted, fx.Node):
            if wanted.op == "placeholder":
                return wanted not in self.state.bound or same_literal(self.state.bound[wanted], given)
            if not isinstance(given, fx.Node):
                return False
            if wanted.op == "get_attr":
                return given.op == "get_attr"
            keys = self.pattern.keys(wanted)
            return any(form.key in keys for form in self.view.forms.get(given, ()))
        more = _unfold(wanted, given)
        return more is not None and all(self._possible(w, g) for w, g in more)

    def _difference(self, wanted: fx.Node, given: fx.Node) -> str:
        head = f"pattern node '{wanted.name}'"
        for ours in self.pattern.forms(wanted):
            for theirs in self.view.forms.get(given, ()):
                if ours.key == theirs.key:
                    return self._argument_difference(head, ours, given, theirs)
        theirs_label = self.view.forms[given][0].label if given in self.view.forms else given.op
        return (
            f"{head} is {self.pattern.label(wanted)}, but the graph has '{given.name}' = {theirs_label} there"
        )

    def _argument_difference(self, head: str, ours: Form, given: fx.Node, theirs: Form) -> str:
        names = dict.fromkeys([*ours.arguments, *theirs.arguments])
        for name in names:
            w = ours.arguments.get(name, ours.defaults.get(name, MISSING))
            g = theirs.arguments.get(name, theirs.defaults.get(name, MISSING))
            if w is MISSING or g is MISSING or not self._possible(w, g):
                has = "does not set it" if g is MISSING else f"has {name}={show(g, self.view)}"
                wants = "does not set" if w is MISSING else "has"
                value = "" if w is MISSING else f"={show(w, self.pattern)}"
                return f"{head} ({ours.label}) {wants} {name}{value}, graph node '{given.name}' {has}"
        return f"{head} ({ours.label}) is called in another way by graph node '{given.name}'"

    def _complete(self) -> None:
        state = self.state
        matched = state.taken
        for placeholder, value in state.bound.items():
            inside = [n for n in leaves(value) if isinstance(n, fx.Node) and n in matched]
            if inside:
                self._miss(
                    lambda p=placeholder, n=inside[0]: (
                        f"pattern argument '{p.name}' would stand for "  # type: ignore[misc]
                        f"'{n.name}', which is inside the match"
                    )
                )
                return
        for wanted, given in state.nodes.items():
            if wanted not in self.pattern.outputs and any(user not in matched for user in given.users):
                self._miss(lambda w=wanted, g=given: self._used_outside(w, g))  # type: ignore[misc]
                return
        order = self.view.order
        between = order.between(order.mask(matched))
        if between:
            names = ", ".join(f"'{n.name}'" for n in between[:3])
            self._miss(
                lambda: f"{names} must run between nodes of the match (by its inputs or by what it writes)"
            )
            return
        arguments = {p: state.bound.get(p) for p in self.pattern.placeholders}
        self.found.append(Match(dict(state.nodes), arguments))
        if len(self.found) >= self.keep:
            raise _StopSearch

    def _miss(self, why: Callable[[], str]) -> None:
        reached = len(self.state.nodes)
        if reached > self.best and not self.found:
            self.best = reached
            text = why()
            self.why = lambda: text


def _pair(ours: Form, theirs: Form) -> list[tuple[Any, Any]] | None:
    pairs = []
    for name in {**ours.arguments, **theirs.arguments}:
        wanted = ours.arguments.get(name, ours.defaults.get(name, MISSING))
        given = theirs.arguments.get(name, theirs.defaults.get(name, MISSING))
        if wanted is MISSING or given is MISSING:
            return None
        pairs.append((wanted, given))
    return pairs


def _unfold(wanted: Any, given: Any) -> list[tuple[Any, Any]] | None:
    """Pairs of the items of two containers, nothing for equal literals, None where they differ."""
    if isinstance(wanted, list | tuple):
        if not isinstance(given, list | tuple) or len(wanted) != len(given):
            return None
        return list(zip(wanted, given, strict=True))
    if isinstance(wanted, slice):
        if not isinstance(given, slice):
            return None
        return [(wanted.start, given.start), (wanted.stop, given.stop), (wanted.step, given.step)]
    if isinstance(wanted, dict):
        if not isinstance(given, dict) or list(wanted) != list(given):
            return None
        return [(wanted[key], given[key]) for key in wanted]
    return [] if same_literal(wanted, given) else None
