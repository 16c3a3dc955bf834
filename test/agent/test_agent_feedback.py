"""Feedback, rooflines, early stops and the sums of a run: worked-out values."""

from __future__ import annotations

import math
from collections import Counter

import pytest

from pass_agent.agent.feedback import ADVICE, describe, relevant_lines
from pass_agent.agent.summary import expected_best, pass_at_k, summarize
from pass_agent.evaluation.evaluator import Evaluation
from pass_agent.evaluation.graph_result import GraphOutcome, read_results, read_score
from pass_agent.evaluation.graph_source import GraphSource, TensorSource, overlap, read_operators
from pass_agent.evaluation.pass_set import MANIFEST
from pass_agent.evaluation.roofline import Roofline, early_stop, measure
from pass_agent.prompts.few_shot import Example
from pass_agent.prompts.problem import Machine, problem_statement
from pass_agent.records import Ended


def compared(speedup: float, compiled: float = 50.0) -> dict:
    times = {"eager": {"median_us": speedup * compiled}, "compiled": {"median_us": compiled}}
    return {**times, "speedup": speedup, "low": speedup * 0.99, "high": speedup * 1.01}


def graph(verdict: str = "correct", **more: object) -> GraphOutcome:
    value = {
        "graph": "graphs/m/g0",
        "verdict": verdict,
        "device": "cuda",
        "device_name": "NVIDIA H100 80GB HBM3",
    }
    return GraphOutcome.model_validate({**value, **more})


def evaluation(
    *graphs: GraphOutcome, score: float | None = 1.0, status: str = "scored", **more: object
) -> Evaluation:
    value = {"key": "k", "pass_set": "p", "sample": "s", "status": status, "score": score, **more}
    return Evaluation.model_validate({**value, "graphs": graphs})


def text(result: Evaluation, last: Evaluation | None = None, best: Evaluation | None = None) -> str:
    return describe(result, [Roofline() for _ in result.graphs], last, best, False)


def test_a_correct_graph_is_one_line_and_its_passes() -> None:
    outcome = graph(
        e2e=compared(1.5),
        unrewritten=compared(1.1),
        passes=[{"name": "fuse", "matched": 2, "replaced": 2}, {"name": "other", "matched": 0}],
    )
    assert text(evaluation(outcome, score=1.5)).splitlines() == [
        "Score (AS) 1.5; 1 of 1 graphs correct.",
        "[1/1] g0: correct, 1.5x eager (1.48 to 1.52; 75 -> 50 us), without passes 1.1x",
        "    pass fuse: replaced 2",
        "    pass other: no match",
    ]


def test_a_wrong_output_names_where_and_by_how_much() -> None:
    tensor = {
        "where": "output[0]",
        "dtype": "float16",
        "compiled_dtype": "float16",
        "shape": [4, 8],
        "passes_from": -3,
        "max_diff": 0.25,
        "worst": {"index": [3, 1], "expected": 1.5, "actual": 1.25, "tolerance": 0.001},
    }
    said = text(evaluation(graph("accuracy", regimes=[{"regime": "random", "tensors": [tensor]}])))
    assert "random inputs: output[0] float16[4, 8] passes from t = -3 only (needed: -5)" in said
    assert "worst at [3, 1]: eager 1.5, yours 1.25, allowed difference 0.001; largest difference 0.25" in said


@pytest.mark.parametrize("verdict", sorted(ADVICE))
def test_every_failure_has_the_same_form_and_is_short(verdict: str) -> None:
    outcome = graph(
        verdict,
        reason="the reason\nsecond line",
        detail="Traceback\n" + "  frame\n" * 500 + "ValueError: bad",
        violations=[{"rule": "no_torch", "why": "torch.matmul computes", "file": "a.py", "line": 3}] * 9,
        passes=[{"name": "fuse", "matched": 0}],
        warnings=["w"] * 9,
    )
    lines = text(evaluation(outcome)).splitlines()
    assert lines[1] == f"[1/1] g0: {verdict}"
    assert lines[2] == "    " + ADVICE[verdict]
    assert lines[3] == "    rule no_torch (a.py:3): torch.matmul computes"
    assert len("\n".join(lines)) < 2500


def test_many_graphs_show_the_failing_ones_first() -> None:
    graphs = [graph(graph=f"g{number}", index=number) for number in range(100)]
    graphs[90] = graph("pass_miss", graph="g90", index=90)
    said = text(evaluation(*graphs))
    assert "[91/100] g90: pass_miss" in said
    assert "and 88 more graphs, no worse than these" in said


def test_variants_that_fail_alike_are_told_once() -> None:
    missed = {"reason": "no pass matched", "passes": [{"name": "p", "nearest_miss": "no gelu here"}]}
    graphs = [graph("pass_miss", graph=f"g{number}", **missed) for number in range(3)]
    assert text(evaluation(*graphs, score=0.1)).splitlines() == [
        "Score (AS) 0.1; 0 of 3 graphs correct.",
        "[1/3] g0: pass_miss",
        "    " + ADVICE["pass_miss"],
        "    pass p: no match; nearest miss: no gelu here",
        "[2/3] g1: pass_miss, the same as [1]",
        "[3/3] g2: pass_miss, the same as [1]",
    ]


def test_an_infra_failure_is_not_blamed_on_the_passes() -> None:
    said = text(evaluation(status="infra", score=None, message="no device"))
    assert "failed on our side (no device)" in said


def test_changes_are_told_only_beyond_the_noise() -> None:
    before = evaluation(
        graph("pass_miss", graph="a"),
        graph(graph="b", e2e=compared(1.0)),
        graph(graph="c", e2e=compared(2.0)),
    )
    after = evaluation(
        graph(graph="a"), graph(graph="b", e2e=compared(1.005)), graph(graph="c", e2e=compared(3.0))
    )
    assert text(after, last=before).endswith("Since the last evaluation: a pass_miss -> correct, c 2x -> 3x.")
    missed = evaluation(*[graph("pass_miss", graph=name) for name in "abc"])
    assert text(after, last=missed).endswith("Since the last evaluation: 3 graphs pass_miss -> correct.")


def test_a_runtime_error_is_told_once_with_the_passes_own_line() -> None:
    detail = (
        'Traceback (most recent call last):\n  File "torch/fx/interpreter.py", line 377, in call_function\n'
        '    return target(*args)\n  File "pass_dir/fuse.py", line 26, in fuse\n'
        '    raise ValueError("boom")\n'
        "ValueError: boom\n\nWhile executing %fuse : call_function[target=pass_dir.fuse.fuse](args = ())\n"
        "Original traceback:\nNone\nUse tlparse to see full graph.\n"
    )
    outcome = graph("runtime_fail", reason="ValueError: boom", detail=detail)
    assert text(evaluation(outcome, score=0.1)).splitlines()[1:] == [
        "[1/1] g0: runtime_fail",
        "    Running the rewritten graph failed.",
        "    ValueError: boom",
        '    |   File "pass_dir/fuse.py", line 26, in fuse',
        '    |     raise ValueError("boom")',
    ]


def test_a_special_cased_value_is_named_as_such() -> None:
    right = {"where": "output[0]", "dtype": "float32", "shape": [2], "passes_from": -10}
    wrong = {**right, "passes_from": None}
    regimes = [{"regime": "recorded", "tensors": [right]}, {"regime": "random", "tensors": [wrong]}]
    lines = text(evaluation(graph("accuracy", regimes=regimes), score=0.1)).splitlines()
    assert lines[3:] == [
        "    random inputs: output[0] float32[2] passes at no tolerance (needed: -5)",
        "    right on the recorded inputs",
    ]


def test_a_traceback_is_cut_to_the_passes_own_lines() -> None:
    detail = (
        'Traceback (most recent call last):\n  File "torch/x.py", line 1, in call\n    return f()\n'
        '  File "/box/pass_dir/fuse.py", line 7, in run\n    kernel[grid](x)\nTypeError: wrong\n'
    )
    assert relevant_lines(detail) == [
        '  File "/box/pass_dir/fuse.py", line 7, in run',
        "    kernel[grid](x)",
        "TypeError: wrong",
    ]


SOURCE = GraphSource("g", "", (TensorSource("x", (1000, 1000), "float16"), TensorSource("i", (10,), "int64")))


def test_the_roofline_is_bytes_over_bandwidth() -> None:
    output = {"where": "output[0]", "dtype": "float16", "compiled_dtype": "float16", "shape": [1000, 1000]}
    outcome = graph(
        e2e=compared(2.0, 10.0),
        device_time=compared(2.0, 2.0),
        regimes=[{"regime": "recorded", "tensors": [output]}, {"regime": "random", "tensors": [output]}],
    )
    line = measure(outcome, SOURCE)
    assert line.bound_us == pytest.approx((2e6 + 80 + 2e6) / 3350e3)  # 3350 GB/s
    assert line.share == pytest.approx((4e6 + 80) / 3350e3 / 2.0)
    assert line.launch_share == pytest.approx(0.8)
    assert measure(outcome.model_copy(update={"interpreted": True}), SOURCE) == Roofline()


def test_early_stops_need_every_graph() -> None:
    at = graph(e2e=compared(2.0, 100.0))
    small = graph(e2e=compared(2.0, 14.0))
    assert early_stop((at, at), (Roofline(share=0.95), Roofline(share=0.92))) == "at_roofline"
    assert early_stop((at, at), (Roofline(share=0.95), Roofline(share=0.5))) == ""
    assert early_stop((at,), (Roofline(share=3.0),)) == ""  # counted bytes that are not moved
    assert early_stop((small, small), (Roofline(launch_share=0.9),) * 2) == "overhead_bound"
    assert early_stop((small, graph("accuracy")), (Roofline(launch_share=0.9),) * 2) == ""
    cpu = small.model_copy(update={"device": "cpu"})
    assert early_stop((cpu,), (Roofline(),)) == ""


def test_records_of_another_version_are_read() -> None:
    newer = '{"graph": "g", "verdict": "correct", "index": 1, "new_field": 3}'
    wrapped = '{"crc": 1, "record": {"graph": "h", "verdict": "infra", "index": 0}}'
    graphs = read_results(f'{newer}\n{wrapped}\nnot json\n{{"verdict": "torn')
    assert [(one.graph, one.scored) for one in graphs] == [("h", False), ("g", True)]
    assert read_score('{"id": 1, "score": 0.5}') == 0.5
    for bad in ('{"score": NaN}', '{"score": "1"}', "[]", "", '{"score": true}', '{"score": -1}'):
        assert read_score(bad) is None


def test_operators_are_counted_by_their_names() -> None:
    code = "def f(x, y):\n    a = torch.nn.functional.gelu(x)\n    b = a + y\n    b += a.add_(1)\n"
    code += "    return b @ y\n"
    assert read_operators(code) == Counter({"add": 3, "gelu": 1, "matmul": 1})
    assert overlap(Counter("aab"), Counter("abc")) == pytest.approx(2 / 4)
    assert overlap(Counter(), Counter()) == 0.0


def test_pass_at_k_and_best_at_k() -> None:
    assert pass_at_k(4, 1, 1) == pytest.approx(0.25)
    assert pass_at_k(4, 1, 2) == pytest.approx(0.5)
    assert pass_at_k(4, 0, 4) == 0.0
    assert expected_best([3.0, 1.0, 2.0], 1) == pytest.approx(2.0)
    assert expected_best([3.0, 1.0, 2.0], 2) == pytest.approx((2 + 3 + 3) / 3)
    assert expected_best([3.0, 1.0, 2.0], 3) == 3.0


def test_a_summary_excludes_missing_rewards_and_says_so() -> None:
    ended = {
        ("a", 0): Ended(reason="agent", reward=4.0, solved=True),
        ("a", 1): Ended(reason="agent", reward=1.0, solved=False),
        ("b", 0): Ended(reason="env_exception", reward=None),
        ("b", 1): Ended(reason="agent", reward=0.5),
    }
    summary = summarize(["a", "b"], 2, ended, 0.0, 0)
    assert summary.pass_at == {1: pytest.approx(0.25), 2: pytest.approx(0.5)}
    assert summary.best_at[1] == pytest.approx(math.sqrt(2.5 * 0.5))
    assert summary.best_at[2] == pytest.approx(4.0)
    assert summary.without_reward == 1
    assert summary.exit_reasons == {"agent": 3, "env_exception": 1}


def test_the_problem_statement_names_every_graph_once_and_its_roofline() -> None:
    code = "import torch\nclass GraphModule(torch.nn.Module):\n    def forward(self, x):\n        a = x + 1\n"
    same = code + "        tmp_0 = tmp_1 = None\n        return (a,)\n"
    fx = code.replace("x + 1", "x + 1;  x = None") + "        return (a,)\n"
    tensors = (TensorSource("x", (1000, 1000), "float32"),)
    sources = [GraphSource("g/one", same, tensors), GraphSource("g/two", fx, tensors)]
    files = {"fast.py": "PASS", "slow.py": 'DEVICES = ("cpu",)', MANIFEST: '["slow", "fast"]'}
    example = Example("e", code, files, Counter(), frozenset())
    text = problem_statement("my-task", sources, Machine("cuda", "H100", 1000.0), example)
    assert text.startswith("Task: my-task\n")
    one = "- g/one: float32; x[1000, 1000]; reads 4 MB, at least 4 us"
    assert f"These 2 graphs have the same code:\n{one}\n- g/two" in text
    assert text.count("a = x + 1") == 2  # the graphs' and the example's
    assert "= None\n" not in text.split("# A pass")[0].split("```")[1]
    assert "`pass_dir/fast.py`\n```python\nPASS\n```" in text
    assert "slow" not in text.split("# A pass that")[1]  # it is for the CPU
    assert f'`pass_dir/{MANIFEST}`\n```json\n["fast"]\n```' in text
    assert "at 1000 GB/s" in text
    assert "run on a GPU (H100)" in text
    plain = problem_statement("t", sources, Machine("cpu"))
    assert "roofline" not in plain
    assert "this machine has no GPU" in plain
    assert "cuda_kernel" not in plain
