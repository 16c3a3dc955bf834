"""Verdicts of whole evaluations: what a pass or a graph does becomes the right typed record."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tiny_sample import PASS

from pass_bench.data import read_sample
from pass_bench.errors import BadInput
from pass_bench.results.records import EvalSettings, GraphResult
from pass_bench.results.verdict import Verdict
from pass_bench.worker.evaluate import Evaluator

SETTINGS = EvalSettings(device="cpu", warmup=1, trials=3, time_budget_s=0.5, timeout_s=60)
HEAD = """import torch
def pattern(x, y):
    return torch.nn.functional.relu(x + y)
def replacement_args(x, y):
    return (x, y)
def replacement_func():
    return run
@torch.fx.wrap
"""


@pytest.fixture(scope="module")
def evaluator() -> Iterator[Evaluator]:
    with Evaluator(SETTINGS) as running:
        yield running


def replacement(body: str) -> str:
    """Return a pass whose replacement function has this body."""
    return HEAD + "def run(x, y):\n" + "".join(f"    {line}\n" for line in body.splitlines())


@pytest.fixture
def verdict_of(evaluator: Evaluator, make_sample: Callable[..., Path]) -> Callable[[str], GraphResult]:
    def evaluate(body: str) -> GraphResult:
        (result,) = evaluator.evaluate(read_sample(make_sample(passes={"P": replacement(body)})))
        return result

    return evaluate


def test_a_right_pass_is_correct_and_timed(evaluator: Evaluator, make_sample: Callable[..., Path]) -> None:
    (result,) = evaluator.evaluate(read_sample(make_sample()))
    assert (result.verdict, result.reason) == (Verdict.CORRECT, "")
    assert result.passes_from == -10
    assert [(r.name, r.matched, r.replaced) for r in result.passes] == [("AddRelu", 1, 1)]
    assert [r.regime for r in result.regimes] == ["recorded", "random"]
    assert result.e2e is not None and result.unrewritten is not None
    assert result.e2e.eager.trials >= 3
    assert result.memory is not None and result.memory.compiled_bytes <= result.memory.eager_bytes
    assert result.weak_at is not None and result.weak_at >= 0  # relu of a normal sum is no constant


def test_the_record_says_that_the_sandbox_is_off(
    evaluator: Evaluator, make_sample: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluator, "settings", SETTINGS.model_copy(update={"sandbox": "off"}))
    (result,) = evaluator.evaluate(read_sample(make_sample()))
    assert result.verdict is Verdict.CORRECT and "the sandbox is off" in result.warnings


def test_const_passes_are_applied_unless_a_pass_of_their_name_is_there(
    evaluator: Evaluator, make_sample: Callable[..., Path]
) -> None:
    path = make_sample(passes={})
    (path / "pass_dir").rename(path / "const_pass_dir")
    const = path / "const_pass_dir"
    (const / "Right.py").write_text(PASS)
    (const / "sorted_output_pass_rule_names.json").unlink()
    (path / "pass_dir").mkdir()
    (path / "pass_dir" / "sorted_output_pass_rule_names.json").write_text("[]")
    order = path / "pass_dir" / "sorted_input_pass_rule_names.json"
    order.write_text('["Right"]')  # names a file of the other folder
    sample = read_sample(path)
    assert sample.const_pass_dir == const
    (result,) = evaluator.evaluate(sample, const_pass_dir=const)
    assert (result.verdict, [r.name for r in result.passes]) == (Verdict.CORRECT, ["Right"])
    order.unlink()
    (path / "pass_dir" / "Right.py").write_text(replacement("return torch.full_like(x, 0.5)"))
    (path / "pass_dir" / "sorted_output_pass_rule_names.json").write_text('["Right"]')
    (const / "Right.py").write_text("import os\n")  # breaks a rule, and is not loaded
    (result,) = evaluator.evaluate(sample, const_pass_dir=const)
    assert (result.verdict, [r.name for r in result.passes]) == (Verdict.ACCURACY, ["Right"])


def test_a_wrong_value_names_the_worst_element(verdict_of: Callable[[str], GraphResult]) -> None:
    result = verdict_of("return torch.full_like(x, 0.5)")
    assert result.verdict is Verdict.ACCURACY
    assert result.reason.startswith("recorded inputs: output[0] at [")
    assert ": 0.5, eager has " in result.reason


def test_another_shape_is_a_shape_mismatch(verdict_of: Callable[[str], GraphResult]) -> None:
    result = verdict_of("return torch.zeros(8, 17)")
    assert result.verdict is Verdict.SHAPE_MISMATCH
    assert result.reason == "recorded inputs: output[0]: shape [8, 17], eager has [8, 16]"


def test_another_dtype_is_a_type_mismatch(verdict_of: Callable[[str], GraphResult]) -> None:
    result = verdict_of("return torch.zeros(8, 16, dtype=torch.float64)")
    assert result.verdict is Verdict.TYPE_MISMATCH
    assert result.reason == "recorded inputs: output[0]: dtype float64, eager has float32"


def test_none_is_a_type_mismatch(verdict_of: Callable[[str], GraphResult]) -> None:
    result = verdict_of("return None")
    assert result.verdict is Verdict.TYPE_MISMATCH


def test_an_exception_is_a_runtime_failure_with_its_words(verdict_of: Callable[[str], GraphResult]) -> None:
    result = verdict_of('raise ValueError("seventeen")')
    assert result.verdict is Verdict.RUNTIME_FAIL
    assert "ValueError: seventeen" in result.reason
    assert "seventeen" in result.detail


def test_a_pass_that_matches_nowhere_is_a_miss(
    evaluator: Evaluator, make_sample: Callable[..., Path]
) -> None:
    text = replacement("return x").replace("torch.nn.functional.relu(x + y)", "torch.sigmoid(x + y)")
    (result,) = evaluator.evaluate(read_sample(make_sample(passes={"P": text})))
    assert result.verdict is Verdict.PASS_MISS
    assert result.reason.startswith("no pass matched")
    assert result.e2e is None


def test_an_empty_pass_list_is_a_miss(evaluator: Evaluator, make_sample: Callable[..., Path]) -> None:
    (result,) = evaluator.evaluate(read_sample(make_sample(passes={})))
    assert (result.verdict, result.reason) == (Verdict.PASS_MISS, "there is no pass")


def test_a_pass_for_another_device_is_unsupported(
    evaluator: Evaluator, make_sample: Callable[..., Path]
) -> None:
    text = 'DEVICES = ("cuda",)\n' + replacement("return x")
    (result,) = evaluator.evaluate(read_sample(make_sample(passes={"P": text})))
    assert result.verdict is Verdict.UNSUPPORTED_ON_CPU
    assert not result.verdict.scored


GRAPH = """import torch
class GraphModule(torch.nn.Module):
    def forward(self, in_0, in_1):
{body}
"""


def graph(body: str) -> str:
    return GRAPH.format(body="".join(f"        {line}\n" for line in body.splitlines()))


@pytest.fixture(scope="module")
def control() -> Iterator[Evaluator]:
    with Evaluator(SETTINGS.model_copy(update={"compiler": "nope"})) as running:
        yield running


@pytest.fixture
def control_of(control: Evaluator, make_sample: Callable[..., Path]) -> Callable[[str], GraphResult]:
    def evaluate(body: str) -> GraphResult:
        (result,) = control.evaluate(read_sample(make_sample(graphs={"g": graph(body)})))
        return result

    return evaluate


def test_a_graph_without_outputs_or_effects(control_of: Callable[[str], GraphResult]) -> None:
    result = control_of("tmp_0 = in_0 + in_1\nreturn ()")
    assert result.verdict is Verdict.NOTHING_TO_CHECK


def test_an_effect_on_an_input_is_compared(control_of: Callable[[str], GraphResult]) -> None:
    result = control_of("in_0.add_(in_1)\nreturn ()")
    assert result.verdict is Verdict.CORRECT
    assert [tensor.where for tensor in result.regimes[0].tensors] == ["effect on in_0"]


def test_nested_outputs_none_and_numbers(control_of: Callable[[str], GraphResult]) -> None:
    result = control_of("tmp_0 = in_0 > 0\nreturn ((in_0.add(1), None), in_1.size(0), tmp_0, in_1.argmax())")
    assert (result.verdict, result.reason) == (Verdict.CORRECT, "")
    assert [(t.where, t.dtype) for t in result.regimes[0].tensors] == [
        ("output[0][0]", "float32"),
        ("output[0][1]", "NoneType"),
        ("output[1]", "int"),
        ("output[2]", "bool"),
        ("output[3]", "int64"),
    ]


def test_random_numbers_agree_under_the_same_seed(control_of: Callable[[str], GraphResult]) -> None:
    result = control_of("tmp_0 = torch.nn.functional.dropout(in_0, 0.5, True, False)\nreturn (tmp_0,)")
    assert (result.verdict, result.passes_from) == (Verdict.CORRECT, -10)


def test_eager_that_raises_says_where_with_shapes(control_of: Callable[[str], GraphResult]) -> None:
    result = control_of("tmp_0 = torch.matmul(in_0, in_1)\nreturn (tmp_0,)")
    assert result.verdict is Verdict.EAGER_FAIL
    assert "float32[8, 16], float32[8, 16]" in result.reason


def test_random_inputs_that_turn_eager_non_finite_are_skipped_aloud(
    control: Evaluator, make_sample: Callable[..., Path]
) -> None:
    meta = """class Program_weight_tensor_meta_{name}:
    name = "{name}"
    shape = {shape}
    dtype = "torch.{dtype}"
    device = "cpu"
    mean = {mean}
    std = {std}
"""
    metas = meta.format(name="in_0", shape=[64], dtype="float32", mean=2.0, std=0.0)
    metas += meta.format(name="in_1", shape=[64], dtype="float32", mean=2.0, std=0.0)
    body = "tmp_0 = torch.sqrt(in_0 - in_1)\nreturn (tmp_0,)"  # 0 as recorded, NaN for half of all others
    sample = make_sample(graphs={"g": graph(body)}, metas=metas)
    (result,) = control.evaluate(read_sample(sample))
    assert result.verdict is Verdict.CORRECT
    assert result.regimes[1].skipped == "eager's outputs are not finite in 5 draws"
    assert any("no random inputs" in warning for warning in result.warnings)


def test_bad_passes_are_bad_input(evaluator: Evaluator, make_sample: Callable[..., Path]) -> None:
    text = replacement("return x").replace("def replacement_args", "def other")
    with pytest.raises(BadInput, match="replacement_args"):
        evaluator.evaluate(read_sample(make_sample(passes={"P": text})))


def test_an_unstable_replacement_function_is_bad_input(
    evaluator: Evaluator, make_sample: Callable[..., Path]
) -> None:
    text = replacement("return x").replace("    return run\n", "    return lambda x, y: x\n")
    with pytest.raises(BadInput):
        evaluator.evaluate(read_sample(make_sample(passes={"P": text})))


def test_special_inputs_are_reported_and_not_scored(make_sample: Callable[..., Path]) -> None:
    settings = SETTINGS.model_copy(update={"regimes": ("recorded", "special")})
    with Evaluator(settings) as running:
        (result,) = running.evaluate(read_sample(make_sample()))
    assert [report.regime for report in result.regimes] == ["recorded", "special"]
    assert result.verdict is Verdict.CORRECT  # the pass reads its inputs as if they were contiguous
    assert (
        result.regimes[1].passes_from is None
        or result.regimes[1].error
        or result.regimes[1].passes_from > -10
    )


def test_compat_judges_recorded_inputs_only_and_times_one_after_the_other(
    make_sample: Callable[..., Path],
) -> None:
    with Evaluator(SETTINGS.model_copy(update={"compat": True})) as running:
        (result,) = running.evaluate(read_sample(make_sample()))
    assert [report.regime for report in result.regimes] == ["recorded"]
    assert result.verdict is Verdict.CORRECT
    assert result.e2e is not None and result.e2e.eager.trials == 3
    assert result.unrewritten is None


@pytest.mark.parametrize(
    ("then", "words"),
    [
        ('raise ValueError("not twice")', "ValueError: not twice"),
        ("return torch.sigmoid(x)", "the passes matched when the graph was compiled, and no longer do"),
    ],
)
def test_a_pattern_that_changes_later_is_no_way_around_the_watched_call(
    then: str, words: str, evaluator: Evaluator, make_sample: Callable[..., Path]
) -> None:
    head = "def pattern(x, y):\n"
    text = PASS.replace(
        head, f"calls = []\n\n\n{head}    calls.append(1)\n    if len(calls) > 1:\n        {then}\n"
    )
    (result,) = evaluator.evaluate(read_sample(make_sample(passes={"P": text})))
    assert result.verdict is Verdict.RUNTIME_FAIL
    assert words in result.reason


def test_cuda_graphs_on_a_cpu_are_bad_input() -> None:
    with pytest.raises(BadInput, match="pass_mgr_graph does not run on cpu") as caught:
        Evaluator(SETTINGS.model_copy(update={"compiler": "pass_mgr_graph"})).__enter__()
    assert "--device cuda" in str(caught.value)
