"""A plan must be indistinguishable from the function as written."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
import torch
from runtime_triples import (
    DEVICE,
    IDIOMS,
    SCALAR_IDIOMS,
    arity,
    calls,
    identical,
    load_idiom,
    make_scalars_inputs,
    one_call,
    outcome,
    random_graph,
    with_scalars,
)

from pass_bench.runtime import build_direct
from pass_bench.runtime.fresh import fresh_copies


def check_triple(seed: int, device: str, names: Sequence[str] = IDIOMS) -> tuple[int, int, list[str]]:
    """Run one graph's calls both ways; return its replacement calls, those planned, why not the others."""
    rng, scalar_rng = random.Random(seed), random.Random(f"scalars {seed}")
    torch.manual_seed(seed)
    gm, count = random_graph(rng, names)
    scalars = make_scalars_inputs(gm, scalar_rng)
    direct = build_direct(gm, [])
    sites = planned = 0
    unplanned: list[str] = []
    for number, inputs in enumerate(with_scalars(calls(rng, count, device), scalars, scalar_rng)):
        mine, theirs = fresh_copies(inputs), fresh_copies(inputs)
        with torch.no_grad():
            actual, expected = outcome(direct, mine), outcome(gm, theirs)
        assert identical(actual, expected), f"seed {seed}, call {number}:\n{direct.report().source}"
        assert identical(mine, theirs), f"seed {seed}, call {number}: effects on inputs differ"
        if number == 3:
            report = direct.report()
            planned, unplanned = len(report.planned), list(report.unplanned)
            sites = planned + len(unplanned) + len(report.pending)
    return sites, planned, unplanned


def check_triples(seeds: range, device: str, names: Sequence[str] = IDIOMS) -> None:
    total = planned = 0
    reasons: list[str] = []
    for seed in seeds:
        sites, done, why = check_triple(seed, device, names)
        total, planned = total + sites, planned + done
        reasons += why
    print(f"{len(seeds)} triples: {planned} of {total} replacement calls planned")
    assert planned >= 0.95 * total, f"{planned} of {total} planned; {sorted(set(reasons))[:10]}"


@pytest.mark.parametrize("name", IDIOMS)
def test_every_idiom_is_planned(name: str) -> None:
    gm = one_call(load_idiom(name))
    direct = build_direct(gm, [])
    for call in range(5):
        torch.manual_seed(call)
        inputs = [torch.randn(4, 8, device=DEVICE) for _ in range(arity(load_idiom(name)))]
        mine, theirs = fresh_copies(inputs), fresh_copies(inputs)
        with torch.no_grad():
            assert identical(direct(*mine), gm(*theirs)), direct.report().source
        assert identical(mine, theirs)
    assert direct.report().unplanned == ()
    assert len(direct.report().planned) == 1


def test_random_triples() -> None:
    check_triples(range(25), DEVICE)


def test_random_triples_with_scalars_that_change() -> None:
    check_triples(range(300, 325), DEVICE, SCALAR_IDIOMS)


@pytest.mark.full
@pytest.mark.parametrize("first", range(1000, 3000, 250))
def test_two_thousand_random_triples(first: int) -> None:
    check_triples(range(first, first + 250), "cpu")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
def test_two_hundred_random_triples_on_the_gpu() -> None:
    check_triples(range(5000, 5200), "cuda")
