"""Whether what a process says about its times fits the clock outside it; no torch.

A block of trials is timed by the process itself, call by call, and as a whole by the supervisor. What the
sum of the calls leaves of the whole is the harness's own work between calls, which a control process that
never loaded the pass shows too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

SLOWER = 1.5  # eager in the pass's process against the control's
SLOWER_IN_BLOCK, SLOWER_IN_BLOCK_FLOOR_NS = 2.5, 50_000  # one block says less than all of them
BLOCK_SLACK = 2.0  # times the slack of the clock
SLOWER_WHEN_BUSY = 2.0  # where others take the caches away, the more from what runs in turns with other code
SLOWER_FLOOR_NS = 20_000
CLOCK_SHARE = 0.5  # of the claimed time, unexplained per round, in every block
ROUND_SHARE = 0.15  # of everything in a round
CLOCK_FLOOR_NS = 40_000
OUTLIER = 3.0  # a call this many times its median explains no more than that
BUSY_SHARE = 0.1  # waiting for a core for more of a block than this: only processor time is looked at
EMPTY_SLACK_NS = 3_000_000
NEW_FACTOR = 2.0
NEW_FLOOR_NS = 50_000
LEAST_BLOCKS = 3
LEAST_ROUNDS = 10  # a shorter block says nothing
LEAST_NEW = 6  # fewer may all have been disturbed


@dataclass(frozen=True)
class Block:
    """One block of trials: nanoseconds per arm and round as claimed, and the whole on the outside clock.

    `waited_ns` is how long the process was kept from running meanwhile and `ran_ns` how long it ran, by the
    kernel's account, of its first thread; -1 where there is none, or where a device does the work. `new` are
    the rounds in which the compiled graph met content that it had not seen, `watch` the contents' seeds.
    """

    arms: tuple[tuple[int, ...], ...]
    wall_ns: int
    empty_ns: int  # the whole of a block without trials, waiting left out
    waited_ns: int = 0
    ran_ns: int = -1
    empty_ran_ns: int = 0
    new: tuple[int, ...] = ()
    watch: tuple[int, ...] = ()

    @property
    def rounds(self) -> int:
        return max(1, len(self.arms[0]))

    @property
    def spent_ns(self) -> float:
        """What the process ran per round, harness and calls together."""
        return (self.wall_ns - self.waited_ns - self.empty_ns) / self.rounds

    @property
    def explained_ns(self) -> float:
        """What the claimed times account for per round.

        A call far above its median counts as a few medians, since one huge claim could hide many calls.
        """
        kept = 0.0
        for arm in self.arms:
            most = OUTLIER * median(arm)
            kept += sum(min(value, most) for value in arm)
        return kept / self.rounds

    @property
    def cpu_ns(self) -> float:
        """What the first thread ran per round."""
        return max(0, self.ran_ns - self.empty_ran_ns) / self.rounds

    @property
    def busy(self) -> bool:
        """Whether the machine had so much else to do that the outside clock says little."""
        return self.waited_ns > BUSY_SHARE * self.wall_ns

    @property
    def between_ns(self) -> float:
        """What is left per call: the harness's own work."""
        return (self.spent_ns - self.explained_ns) / len(self.arms)

    @property
    def cpu_between_ns(self) -> float:
        """The same by the kernel's account of the first thread."""
        return (self.cpu_ns - self.explained_ns) / len(self.arms)


@dataclass(frozen=True)
class Misfit:
    """A claim that does not hold: the rule and the numbers, in words."""

    rule: str
    why: str


def clock_misfit(ours: Sequence[Block], control: Sequence[Block], compiled: int = 1) -> Misfit | None:
    """Find time that was spent on the pass's calls outside the times claimed for them.

    Two clocks are asked: the supervisor's, unless the machine is busy, and the kernel's account of the
    processor time of the process's first thread, which a busy machine does not disturb. `compiled` is the
    arm of the pass. An empty block may be at most 3 ms slower than the control's. One that fits is enough.
    """
    if not ours or not control:
        return None
    fair = _with_least_empty(ours)
    hidden, block = min(((_hidden(one, control, compiled), one) for one in fair), key=lambda pair: pair[0])
    return Misfit("clock", _unexplained_why(block, control, hidden, compiled)) if hidden > 0 else None


def block_misfit(block: Block, control: Sequence[Block], eager: int = 0, compiled: int = 1) -> Misfit | None:
    """Hold one block against the control's blocks so far, the last of which was taken right after it.

    A pass that behaves at first passes the checks over all blocks, which one good block satisfies; so trials
    of a block that does not fit are not used. The more lenient of the last control and the usual one counts.
    """
    if not control or len(block.arms[compiled]) < LEAST_ROUNDS:
        return None
    last = control[-1]
    usual = max(median(_pooled(last)), median(median(_pooled(one)) for one in control))
    ours = median(block.arms[eager])
    if ours > usual * SLOWER_IN_BLOCK and ours - usual > SLOWER_IN_BLOCK_FLOOR_NS:
        why = f"eager takes {ours / 1e3:.1f} us beside the pass and {usual / 1e3:.1f} us without it"
        return Misfit("eager_slowed", why)
    # A core in a slower state than the control's takes longer for everything, also between calls.
    stretch = max(1.0, ours / median(_pooled(last)))
    least = min(_hidden(block, one, compiled, BLOCK_SLACK, stretch) for one in (control, [last]))
    return Misfit("clock", _unexplained_why(block, [last], least, compiled)) if least > 0 else None


def _unexplained_why(block: Block, control: Sequence[Block], hidden_ns: float, compiled: int) -> str:
    claimed, between = median(block.arms[compiled]), median(one.between_ns for one in _telling(control))
    return (
        f"calls claimed to take {claimed / 1e3:.1f} us leave over {hidden_ns / 1e3:.0f} us of each round "
        f"unexplained: it takes {block.spent_ns / 1e3:.0f} us, its calls {block.explained_ns / 1e3:.0f} us, "
        f"what lies between two calls {between / 1e3:.0f} us in the control"
    )


def _pooled(block: Block) -> list[int]:
    return [value for arm in block.arms for value in arm]


def _hidden(
    block: Block, control: Sequence[Block], compiled: int, slack: float = 1.0, stretch: float = 1.0
) -> float:
    """Nanoseconds per round that the claims of a block leave unexplained, by whichever clock shows more.

    `slack`: so many times the usual one; `stretch`: so many times what the control takes between calls.
    """
    found = [0.0]
    control = _telling(control)
    if all(one.ran_ns >= 0 for one in (block, *control)):
        usual = stretch * max(0.0, median(one.cpu_between_ns for one in control))
        empty = min(block.empty_ran_ns, min(one.empty_ran_ns for one in control) + EMPTY_SLACK_NS)
        fair = replace(block, empty_ran_ns=empty)
        found.append(_unexplained(fair, fair.cpu_ns, usual, compiled, slack))
    if not any(one.busy for one in (block, *control)):
        usual = stretch * max(0.0, median(one.between_ns for one in control))
        fair = replace(
            block, empty_ns=min(block.empty_ns, min(one.empty_ns for one in control) + EMPTY_SLACK_NS)
        )
        found.append(_unexplained(fair, fair.spent_ns, usual, compiled, slack))
    return max(found)


def _with_least_empty(blocks: Sequence[Block]) -> list[Block]:
    """The same blocks of one process, which learnt from each look how little it takes without trials."""
    empty_ns = min(one.empty_ns for one in blocks)
    empty_ran_ns = min(one.empty_ran_ns for one in blocks)
    return [replace(one, empty_ns=empty_ns, empty_ran_ns=empty_ran_ns) for one in blocks]


def _telling(control: Sequence[Block]) -> list[Block]:
    """Those of at least half as many rounds as the longest: a moment's standstill counts for less there."""
    most = max(one.rounds for one in control)
    return [one for one in _with_least_empty(control) if 2 * one.rounds >= most]


def uneven(control: Sequence[Block], block: Block, compiled: int = 1) -> bool:
    """Whether blocks of the control differ by as much between calls as could be hidden time in this block."""
    between = [one.between_ns * len(one.arms) for one in _with_least_empty(control)] if control else [0.0]
    return max(between) - min(between) > _slack(block, block.explained_ns, compiled)


def _unexplained(block: Block, spent_ns: float, usual_ns: float, compiled: int, slack: float) -> float:
    """Nanoseconds per round beyond claims, the usual between calls, and so many times the slack."""
    explained = block.explained_ns + usual_ns * len(block.arms)
    return spent_ns - explained - slack * _slack(block, explained, compiled)


def _slack(block: Block, explained_ns: float, compiled: int) -> float:
    """Nanoseconds per round that are left to noise."""
    return max(CLOCK_FLOOR_NS, CLOCK_SHARE * median(block.arms[compiled]), ROUND_SHARE * explained_ns)


def eager_misfit(ours: Sequence[Block], control: Sequence[Block], eager: int = 0) -> Misfit | None:
    """Find eager slower in the pass's process than in the control, in every block against all but one.

    One block of the control may have been disturbed. In turns with other code eager is somewhat slower than
    in turns with itself, the more so the smaller the graph: that is what SLOWER leaves room for.
    """
    if len(ours) < LEAST_BLOCKS or len(control) < LEAST_BLOCKS:
        return None
    least = min(median(block.arms[eager]) for block in ours)
    usual = sorted(median(block.arms[0]) for block in control)[-2]
    busy = any(block.busy for block in (*ours, *control))
    if least <= usual * (SLOWER_WHEN_BUSY if busy else SLOWER) or least - usual <= SLOWER_FLOOR_NS:
        return None
    why = f"eager takes {least / 1e3:.1f} us beside the pass and {usual / 1e3:.1f} us without it"
    return Misfit("eager_slowed", why)


def memory_misfit(blocks: Sequence[Block], compiled: int = 1) -> Misfit | None:
    """Find calls that are fast only on content seen before.

    When content is new is drawn call by call, so that whatever slows calls comes to others as often. New
    content differs from the usual in a few elements: nothing but a memory can tell them apart.
    """
    new: list[int] = []
    known: list[int] = []
    for block in blocks:
        for number, value in enumerate(block.arms[compiled]):
            (new if number in block.new else known).append(value)
    if len(new) < LEAST_NEW or not known:
        return None
    # A pass that notices every change pays for those to known content too: less than half of the calls.
    quickest, typical = min(new), sorted(known)[len(known) // 4]
    if quickest <= typical * NEW_FACTOR or quickest - typical <= NEW_FLOOR_NS:
        return None
    why = f"{typical / 1e3:.1f} us on inputs seen before, never under {quickest / 1e3:.1f} us on new ones"
    return Misfit("remembered", why)
