"""Graphs whose sums have no fixed order, and how far from eager their outputs may be."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from pass_bench.verify.compare import compare_outputs
from pass_bench.verify.unordered import UnorderedSums
from pass_bench.worker import reference as reference_module
from pass_bench.worker.messages import CompareRequest, DrawRequest, ReferenceJob
from pass_bench.worker.payload import write_payload

INDEX = torch.tensor([0, 1, 1, 0])
GRAPH = """import torch
class GraphModule(torch.nn.Module):
    def forward(self, in_0, in_1):
        tmp_0 = torch.zeros_like(in_0)
        tmp_1 = {body}
        return (tmp_1,)
"""


def names_of(call: Callable[[], object], devices: tuple[str, ...] = ("cpu",)) -> set[str]:
    with UnorderedSums(devices) as sums:
        call()
    return sums.names


def test_floating_point_sums_without_order_are_found_by_name() -> None:
    zeros, ones = torch.zeros(2), torch.ones(4)
    assert names_of(lambda: zeros.scatter_add(0, INDEX, ones)) == {"scatter_add"}
    assert names_of(lambda: zeros.clone().index_add_(0, INDEX, ones)) == {"index_add_"}
    assert names_of(lambda: zeros.clone().index_put_((INDEX,), ones, accumulate=True)) == {"index_put_"}


def test_what_writes_adds_integers_or_runs_on_a_cpu_has_an_order() -> None:
    zeros, ones = torch.zeros(2), torch.ones(4)
    assert names_of(lambda: zeros.clone().index_put_((INDEX,), ones)) == set()
    assert names_of(lambda: zeros.long().scatter_add(0, INDEX, ones.long())) == set()
    assert names_of(lambda: (zeros + 1, ones.sum())) == set()
    assert names_of(lambda: zeros.scatter_add(0, INDEX, ones), ("cuda",)) == set()


def test_slack_is_added_to_the_tolerance_of_its_output_only() -> None:
    ones, off = torch.ones(3), torch.full((3,), 1.01)
    result = compare_outputs([off, off], [ones, ones], ["a", "b"], slack=[0.02, 0.0])
    assert [report.passes_from for report in result.reports] == [-10, -2]  # 0.01 + 0.0044 at -2
    assert compare_outputs([off], [ones], ["a"], slack=[0.02], enough=-5).passes_from == -5
    worst = compare_outputs([off], [ones], ["a"], slack=[0.001]).reports[0].worst
    assert worst is not None and worst.tolerance == pytest.approx(0.001 + 1e-5 + 1.3e-6, rel=1e-3)


@pytest.mark.parametrize(
    ("body", "tolerated"), [("tmp_0.index_add_(0, IX, in_1)", True), ("in_0 + in_1", False)]
)
def test_the_reference_tolerates_twice_eagers_own_error_where_sums_have_no_order(
    body: str, tolerated: bool, make_sample: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reference_module, "UnorderedSums", functools.partial(UnorderedSums, ("cpu",)))
    body = body.replace("IX", "torch.zeros(in_1.shape[0], dtype=torch.int64)")
    sample = make_sample(graphs={"g": GRAPH.format(body=body)})
    worker = reference_module.Reference()
    job = ReferenceJob(graph_path=str(sample / "graphs/g"), device="cpu", seed=1024)
    worker.answer(job, None)
    drawn = worker.answer(DrawRequest(regime="recorded", seed=123), None)
    assert drawn.unordered == (("index_add_",) if tolerated else ())
    draw = worker._draw
    assert draw is not None and draw.exact is not None
    error = float((draw.outputs[0].double() - draw.exact[0]).abs().max())
    # At the place where eager is 0 or smallest a difference of 1.5 errors is far over the usual tolerance.
    other = draw.outputs[0] + max(1.5 * error, 1e-3 if not tolerated else 0.0)
    payload, descriptor = write_payload((other,), [], [], 1 << 20)
    compared = worker.answer(CompareRequest(payload=payload), descriptor)
    assert (compared.passes_from == -10) is tolerated
