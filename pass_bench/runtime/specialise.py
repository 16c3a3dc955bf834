"""One graph specialised for one kind of inputs: observed, folded, its replacement functions planned."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from pass_bench.runtime.emit import GraphWriter, Source
from pass_bench.runtime.fold import Folded, fold
from pass_bench.runtime.launches import hook_chains
from pass_bench.runtime.observe import Fact, is_replacement, observe
from pass_bench.runtime.plan import Slot, slots_in
from pass_bench.runtime.purity import Read
from pass_bench.runtime.sites import Site
from pass_bench.runtime.validity import Check
from pass_bench.runtime.write_plan import PlanWriter


@dataclass(frozen=True)
class Written:
    """The code of a specialisation: the test its inputs must pass, if any, the statements, what they name."""

    test: str
    lines: tuple[str, ...]
    bound: dict[str, Any]


class Specialisation:
    """What is known about a graph for inputs of one kind.

    `changed` is called when the code should be written anew: its replacement functions are settled.
    """

    def __init__(
        self,
        gm: fx.GraphModule,
        parameters: Sequence[str],
        prefix: str,
        plans: bool,
        changed: Callable[[Specialisation], None],
    ) -> None:
        self.gm = gm
        self.parameters = tuple(parameters)
        self.prefix = prefix
        self.sites: list[Site] = []
        self._plans = plans
        self._changed = changed

    def run(self, inputs: tuple[Any, ...]) -> Any:
        """Run the graph for the first time; afterwards `write` knows what it does."""
        self.check = Check(self.parameters, inputs, prefix=f"{self.prefix}check_")
        result, self.observation = observe(self.gm, inputs)
        self.sites = [
            Site(node, self._site_settled)
            for node in self.gm.graph.nodes
            if self._plans and is_replacement(node)
        ]
        if self.observation.plain:
            self.give_up(self.observation.plain)
        return result

    def may_write(self) -> frozenset[int]:
        """Positions of the inputs in whose memory the graph may write."""
        wanted: set[fx.Node] = set()
        for node, fact in self.observation.facts.items():
            if fact.mutates or is_replacement(node):
                wanted |= set(node.all_input_nodes)
        inputs = [node for node in self.gm.graph.nodes if node.op == "placeholder"]
        if self.observation.plain:
            return frozenset(range(len(inputs)))
        return frozenset(_reaching(inputs, wanted, self.observation.facts))

    def give_up(self, why: str) -> None:
        """Have every replacement function run as written."""
        for site in self.sites:
            site.give_up(why)

    def _site_settled(self) -> None:
        if not any(site.open for site in self.sites):
            self._changed(self)

    def write(self, prefix: str) -> Written:
        """The code as of now: plans where there are, recordings where there may be, the rest as written.

        `prefix` begins the names of the objects it binds, and is used for no other code of the same function.
        """
        while True:
            planned = [site for site in self.sites if site.plan is not None]
            folded = fold(self.gm, self.observation, [site.node for site in planned])
            graph, facts, copies = folded.graph, folded.facts, folded.copies
            doubtful = [
                (site, why)
                for site in planned
                if (why := _doubt(copies[site.node], facts, copies, self.sites))
            ]
            if not doubtful:
                break
            doubtful[0][0].give_up(doubtful[0][1])
        source = Source(prefix=prefix)
        sites = {copies[site.node]: site for site in self.sites}
        shared: dict[str, str] = {}
        writer = GraphWriter(
            self.gm, graph, source, lambda writer, node: _inline(writer, node, sites, shared)
        )
        inputs = [node for node in graph.nodes if node.op == "placeholder"]
        for name, node in zip(self.parameters, inputs, strict=True):
            writer.names[node] = source.local(name)
        writer.write()
        return Written(
            self._test(folded, inputs, source), tuple(source.lines), {**self.check.bound, **source.bound}
        )

    def _test(self, folded: Folded, inputs: Sequence[fx.Node], source: Source) -> str:
        """What must hold for the code to be right; empty if it is right for all inputs."""
        if any(site.open for site in self.sites):
            return self.check.expression()
        planned = [site for site in self.sites if site.plan is not None]
        if not planned and not folded.special:
            return ""
        aligned = {node for site in planned for node in _aligned_nodes(folded.copies[site.node], site)}
        terms = [self.check.expression(_reaching(inputs, aligned, folded.facts))]
        return " and ".join(terms + self._plan_terms(planned, source))

    def _plan_terms(self, planned: Sequence[Site], source: Source) -> list[str]:
        """What else must be as it was: module-level names, launch hooks, the current device."""
        terms: dict[str, None] = {}
        for site in planned:
            for read in [*site.host.reads, *_kernel_globals(site)]:
                terms[_read_term(read, source)] = None
        devices = {device for site in planned if site.plan for device in site.plan.devices()}
        if devices:
            for hook in hook_chains():
                if hook is not None:
                    terms[f"not {source.bind(hook.calls, 'hooks')}"] = None
            if torch.cuda.device_count() > 1:
                current = source.bind(torch._C._cuda_getDevice, "current_device")
                terms.update({f"{current}() == {device}": None for device in devices})
        return list(terms)


def _doubt(
    node: fx.Node, facts: dict[fx.Node, Fact], copies: dict[fx.Node, fx.Node], sites: Sequence[Site]
) -> str:
    """Why the arguments of a planned function may differ in another call; empty if they do not."""
    unplanned = {copies[site.node]: site.name for site in sites if site.plan is None}
    for source in node.all_input_nodes:
        fact = facts.get(source)
        if source.op == "get_attr":
            continue
        if source in unplanned:
            return f"its input comes from {unplanned[source]}, which runs as written"
        if fact is None or fact.layout is None:
            return f"its input {source.name} is neither a tensor nor a constant"
        if fact.depends_on_data:
            return f"the shape of its input {source.name} may depend on data"
    return ""


def _inline(writer: GraphWriter, node: fx.Node, sites: dict[fx.Node, Site], shared: dict[str, str]) -> bool:
    site = sites.get(node)
    if site is not None and site.plan is not None:
        _write_planned(writer, node, site, shared)
        return True
    if site is not None and site.open:
        call = writer.source.bind(site.call, f"record_{site.name}")
        text = writer.source.call(call, node.args, {}, writer.name_of)
        writer.names[node] = writer.source.local(node.name)
        writer.source.lines.append(f"{writer.names[node]} = {text}")
        return True
    elements = None
    if node.target is operator.getitem and isinstance(node.args[0], fx.Node):
        elements = writer.elements.get(node.args[0])
    if elements is not None:
        writer.names[node] = elements[node.args[1]]  # type: ignore[index]
        return True
    return False


def _write_planned(writer: GraphWriter, node: fx.Node, site: Site, shared: dict[str, str]) -> None:
    plan, source = site.plan, writer.source
    assert plan is not None
    arguments: dict[int, str] = {}
    leaves = [value for value in _leaves(node.args) if isinstance(value, fx.Node)]
    for slot, leaf in zip(plan.argument_slots, leaves, strict=True):
        arguments.setdefault(slot, writer.names[leaf])
    plan_writer = PlanWriter(source, plan, [arguments[i] for i in range(plan.arguments)], shared)
    result = plan_writer.write()
    returned = list(slots_in(result))
    if isinstance(result, tuple) and _only_indexed(node, len(result)):
        names: list[str] = []
        for item in result:
            if not isinstance(item, Slot) or item.number < plan.arguments or returned.count(item) > 1:
                name = source.local("item")
                source.lines.append(f"{name} = {source.literal(item, plan_writer.name_of)}")
                names.append(name)
            else:
                names.append(plan_writer.names[item])
        writer.elements[node] = tuple(names)
        writer.names[node] = "None"
        indexed = {user.args[1] for user in node.users}
        unused = [name for i, name in enumerate(names) if i not in indexed]
        made = {plan_writer.names[slot] for slot in returned if slot.number >= plan.arguments}
        dead = [*unused, *(made - set(names))]
    elif isinstance(result, Slot) and result.number >= plan.arguments:
        writer.names[node] = plan_writer.names[result]
        dead = []
    else:
        writer.names[node] = source.local(node.name)
        source.lines.append(f"{writer.names[node]} = {source.literal(result, plan_writer.name_of)}")
        dead = [plan_writer.names[slot] for slot in returned if slot.number >= plan.arguments]
    if dead:
        source.lines.append(f"{' = '.join(dict.fromkeys(dead))} = None")


def _only_indexed(node: fx.Node, length: int) -> bool:
    """Whether a result is used by taking elements of it, each by one node, and in no other way."""
    indices = [user.args[1] if user.target is operator.getitem else None for user in node.users]
    if not all(type(index) is int and 0 <= index < length for index in indices):
        return False
    return len(set(indices)) == len(indices)


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, (tuple, list)):
        return [leaf for item in value for leaf in _leaves(item)]
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in _leaves(item)]
    return [value]


def _aligned_nodes(node: fx.Node, site: Site) -> set[fx.Node]:
    assert site.plan is not None
    leaves = [value for value in _leaves(node.args) if isinstance(value, fx.Node)]
    aligned = {slot.number for slot in site.plan.aligned_arguments()}
    return {leaf for slot, leaf in zip(site.plan.argument_slots, leaves, strict=True) if slot in aligned}


def _reaching(inputs: Sequence[fx.Node], wanted: set[fx.Node], facts: dict[fx.Node, Fact]) -> list[int]:
    """Positions of the inputs in whose memory one of the wanted values may lie."""
    seen: set[fx.Node] = set()
    todo = list(wanted)
    while todo:
        node = todo.pop()
        if node in seen:
            continue
        seen.add(node)
        fact = facts.get(node)
        fresh = fact is not None and fact.dispatched and not (fact.views or fact.mutates or fact.same_as)
        if is_replacement(node) or not fresh:
            todo += node.all_input_nodes
    return [i for i, node in enumerate(inputs) if node in seen]


def _kernel_globals(site: Site) -> list[Read]:
    """The globals that the compiled kernels have baked in; Triton itself raises when one of them changes."""
    return [
        Read(space, name, space[name])
        for kernel in site.host.kernels
        for (name, _), (_, space) in getattr(kernel, "used_global_vals", {}).items()
        if name in space
    ]


def _read_term(read: Read, source: Source) -> str:
    if isinstance(read.space, dict):
        current = f"{source.bind(read.space, 'module')}[{read.name!r}]"
    else:
        current = f"{source.bind(read.space, 'cell')}.cell_contents"
    if read.is_container:
        return f"{current} == {source.bind(read.value.copy(), 'contents')}"
    return f"{current} is {source.bind(read.value, 'value')}"
