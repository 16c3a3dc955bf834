"""Times against the clock outside, the control and the physical floor: worked-out numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pass_bench.guard.clock_fit import (
    Block,
    block_misfit,
    clock_misfit,
    eager_misfit,
    memory_misfit,
    uneven,
)
from pass_bench.guard.floor import floor_us
from pass_bench.results.records import EvalSettings
from pass_bench.results.verdict import Verdict
from pass_bench.worker.conversation import Conversation
from pass_bench.worker.outcome import Stop
from pass_bench.worker.processes import ChildDied

US = 1000


def block(
    eager_us: float, compiled_us: float, between_us: float = 5, rounds: int = 40, empty_ms: float = 1
) -> Block:
    """A block of two arms whose calls leave `between_us` each unexplained."""
    arms = (tuple([int(eager_us * US)] * rounds), tuple([int(compiled_us * US)] * rounds))
    spent = sum(map(sum, arms)) + 2 * rounds * between_us * US
    return Block(arms, int(spent + empty_ms * 1e6), int(empty_ms * 1e6))


def control(eager_us: float, between_us: float = 5, rounds: int = 15) -> Block:
    arm = tuple([int(eager_us * US)] * rounds)
    return Block((arm,), int(sum(arm) + rounds * between_us * US + 1e6), 1_000_000)


def test_what_is_between_calls_is_what_the_claims_leave() -> None:
    assert block(100, 50, between_us=7).between_ns == pytest.approx(7000)
    assert control(100, between_us=3).between_ns == pytest.approx(3000)


def test_honest_blocks_fit() -> None:
    assert clock_misfit([block(100, 50)] * 3, [control(100)] * 3) is None
    assert eager_misfit([block(100, 50)] * 3, [control(100)] * 3) is None


def test_a_forged_time_leaves_the_difference_unexplained() -> None:
    # 150 us of work claimed as 10 us: (150 - 10) / 2 = 70 us more between calls than the control's 5
    forged = [block(100, 10, between_us=75)] * 3
    misfit = clock_misfit(forged, [control(100)] * 3)
    assert misfit is not None and misfit.rule == "clock"


def test_one_disturbed_block_is_no_forgery() -> None:
    blocks = [block(100, 50, between_us=500), block(100, 50), block(100, 50, between_us=300)]
    assert clock_misfit(blocks, [control(100)] * 3) is None


def test_waiting_in_the_empty_block_does_not_help() -> None:
    # the process spends 100 ms in empty blocks too; only 3 ms more than the control's are allowed
    hidden = [block(100, 10, between_us=5, empty_ms=100)] * 3
    misfit = clock_misfit(hidden, [control(100)] * 3)
    assert misfit is not None and misfit.rule == "clock"


def test_a_busy_machine_leaves_the_account_of_processor_time() -> None:
    def busy(claimed_us: float, ran_us: float) -> Block:
        forged = block(100, claimed_us, between_us=500)
        return replace(forged, waited_ns=forged.wall_ns // 2, ran_ns=int(40 * ran_us * US))

    quiet = replace(control(100), ran_ns=int(15 * 105 * US))
    honest = [busy(50, 100 + 50 + 2 * 5)] * 3
    assert clock_misfit(honest, [quiet] * 3) is None
    misfit = clock_misfit([busy(1, 100 + 50 + 2 * 5)] * 3, [quiet] * 3)  # 49 us run and not claimed
    assert misfit is not None and misfit.rule == "clock"


def test_slow_eager_is_found_only_beyond_all_control_blocks_but_one() -> None:
    slow = [block(160, 50)] * 3
    misfit = eager_misfit(slow, [control(100), control(105), control(400)])
    assert misfit is not None and misfit.rule == "eager_slowed"  # 160 > 1.5 * 105
    assert eager_misfit(slow, [control(100), control(107), control(117)]) is None
    assert eager_misfit([block(100, 50), *slow], [control(100)] * 3) is None
    assert eager_misfit(slow[:2], [control(100)] * 3) is None  # too few to say


def test_calls_that_are_fast_on_known_inputs_only() -> None:
    def met(new_us: list[float], new: tuple[int, ...] = (3, 9, 20)) -> Block:
        """20 us on known content; what the rounds `new` took."""
        compiled = [20 * US] * 30
        for number, taken in zip(new, new_us, strict=True):
            compiled[number] = int(taken * US)
        return replace(block(100, 20), arms=((100 * US,) * 30, tuple(compiled)), new=new)

    remembers = [met([150, 160, 170]), met([151, 600, 155])]
    misfit = memory_misfit(remembers)
    assert misfit is not None and misfit.rule == "remembered" and "150.0 us on new" in misfit.why
    assert memory_misfit([*remembers, met([30, 150, 150])]) is None  # one quick call on new content acquits
    assert memory_misfit([met([65, 65, 65])] * 2) is None  # 45 us more is less than can be told
    assert memory_misfit([met([90, 90, 90])] * 2) is not None
    assert memory_misfit([met([900, 900, 900])]) is None  # too few to say
    assert memory_misfit([]) is None


def test_the_floor_is_bytes_over_peak_bandwidth_and_a_launch() -> None:
    # H100: 1.5 us + 17 MB / 17 TB/s = 1.5 + 1.0
    assert floor_us(17_000_000, "cuda", "NVIDIA H100 80GB HBM3") == pytest.approx(2.5)
    # beyond the cache: 50 MiB / 17 TB/s + 34 MB / 3.4 TB/s
    beyond = floor_us((50 << 20) + 34_000_000, "cuda", "NVIDIA H100 80GB HBM3")
    assert beyond == pytest.approx(1.5 + (50 << 20) / 17e6 + 10.0)
    assert floor_us(768_000, "cpu", cores=2) == pytest.approx(1.0)
    assert floor_us(0, "cuda") == 0.0


def test_a_reference_that_is_gone_costs_one_graph_its_verdict() -> None:
    class Gone:
        paused_s = 0.0

        def send(self, *_: object, **__: object) -> None:
            raise ChildDied("was killed by SIGKILL (killed)")

    talk = Conversation(EvalSettings(), "cpu", Gone())  # type: ignore[arg-type]
    with pytest.raises(Stop) as stopped:
        talk.draw("recorded")
    assert stopped.value.verdict is Verdict.EAGER_FAIL and "SIGKILL" in stopped.value.reason
    assert not talk.reference_sound


def test_one_block_is_held_against_the_control_beside_it() -> None:
    quiet = [control(100)] * 3
    assert block_misfit(block(100, 50), quiet) is None
    assert block_misfit(block(240, 50), quiet) is None  # up to 2.5 times is no sign in one block
    slow = block_misfit(block(260, 50), quiet)
    assert slow is not None and slow.rule == "eager_slowed"
    # As above 140 us of each round are hidden, of which twice 40 are slack.
    forged = block_misfit(block(100, 10, between_us=75), quiet)
    assert forged is not None and forged.rule == "clock"


def test_one_block_is_judged_by_the_more_lenient_of_the_last_control_and_the_usual_one() -> None:
    quiet, slowed = control(100), control(190, between_us=100)
    assert block_misfit(block(260, 50, between_us=100), [quiet, quiet, slowed]) is None
    assert block_misfit(block(260, 50), [slowed, slowed, quiet]) is None
    assert block_misfit(block(260, 50), [slowed, quiet, quiet]) is not None
    assert block_misfit(block(100, 50, between_us=100), [slowed, quiet, quiet]) is not None


def test_a_core_in_a_slower_state_is_slower_between_calls_too() -> None:
    quiet = [control(100, between_us=50)] * 3
    assert block_misfit(block(200, 100, between_us=100), quiet) is None
    assert block_misfit(block(100, 50, between_us=100), quiet) is not None


def test_a_short_block_or_no_control_says_nothing() -> None:
    assert block_misfit(block(500, 1, between_us=500, rounds=9), [control(100)]) is None
    assert block_misfit(block(500, 1, between_us=500), []) is None


def test_a_disturbed_look_at_the_control_without_trials_does_not_count_against_the_pass() -> None:
    # 20 us between two calls: 15 rounds take 1.5 ms for the calls and 0.3 ms between them. The first look
    # took 2 ms instead of 1, which would leave nothing between the control's calls.
    good = control(100, between_us=20)
    first = replace(good, empty_ns=2_000_000)
    ours = block(100, 50, between_us=40)  # 80 us a round: 40 beyond the control's
    assert clock_misfit([ours] * 3, [first, good, good]) is None
    assert clock_misfit([ours] * 3, [first] * 3) is not None


def test_a_moment_of_standstill_makes_short_blocks_of_the_control_uneven() -> None:
    # 3 ms in 15 rounds are 200 us each, in 200 rounds 15 us; 40 us, or half of what the calls of the pass
    # take, or 15 % of a round, are nothing special
    good, struck, quick = control(100), control(100), block(100, 10)
    struck = replace(struck, wall_ns=struck.wall_ns + 3_000_000)
    assert uneven([good, struck], quick) and not uneven([good, good], quick)
    assert not uneven([struck], quick) and not uneven([], quick)
    assert not uneven([good, struck], block(1000, 401)) and uneven([good, struck], block(1000, 250))
    long = control(100, rounds=200)
    assert not uneven([long, replace(long, wall_ns=long.wall_ns + 3_000_000)], quick)


def test_the_longest_blocks_of_the_control_say_what_is_usual() -> None:
    forged = block(100, 10, between_us=75)  # 140 us a round hidden
    struck = replace(control(100), wall_ns=control(100).wall_ns + 3_000_000)
    assert clock_misfit([forged] * 3, [struck] * 5) is None
    misfit = clock_misfit([forged] * 3, [*[struck] * 5, control(100, rounds=40)])
    assert misfit is not None and misfit.rule == "clock"
