"""Spoiled samples: one line, exit code 2, nothing written; never a traceback."""

from __future__ import annotations

import random
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sample_mutations import MUTATIONS, spoil

from pass_bench import cli
from pass_bench.results.records import EvalSettings
from pass_bench.worker import evaluate
from pass_bench.worker.evaluate import Evaluator

SEED = 20
QUICK = EvalSettings(device="cpu", warmup=0, trials=3, time_budget_s=0.0, timeout_s=30)


@pytest.fixture(scope="module")
def warm() -> Iterator[Evaluator]:
    with Evaluator(QUICK) as running:
        yield running


@pytest.fixture
def shared_workers(warm: Evaluator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `passbench eval` use workers that are warm; everything before and after them is the real thing."""
    start = Evaluator._start

    def borrow(self: Evaluator) -> None:
        if self.settings.device == "cuda":
            start(self)
        self._zygote, self.device, self.environment = warm._zygote, warm.device, warm.environment
        self._references, self._candidates = warm._references, warm._candidates

    def give_back(self: Evaluator) -> None:
        self._zygote = self._references = self._candidates = None
        shutil.rmtree(self._caches, ignore_errors=True)

    monkeypatch.setattr(evaluate.Evaluator, "_start", borrow)
    monkeypatch.setattr(evaluate.Evaluator, "close", give_back)


def shape_of(message: str, sample: Path) -> str:
    """Return a message without what differs from run to run: paths, numbers, quoted words."""
    message = message.replace(str(sample), "S")
    return re.sub(r"'[^']*'|\"[^\"]*\"|\d+", "_", message)


def fuzz(
    count: int, make_sample: Callable[..., Path], folder: Path, capsys: pytest.CaptureFixture[str]
) -> tuple[Counter[str], set[str]]:
    """Evaluate `count` spoiled samples; return the refusals by stage and the different messages."""
    source = random.Random(SEED)
    refused: Counter[str] = Counter()
    messages: set[str] = set()
    original = make_sample(name="original")
    for number in range(count):
        sample, out = folder / f"spoiled{number}", folder / f"out{number}"
        shutil.copytree(original, sample)
        stage, extra = spoil(source, sample)
        arguments = [
            "eval",
            str(sample),
            "--out",
            str(out),
            "--device",
            "cpu",
            "--warmup",
            "0",
            "--trials",
            "3",
        ]
        arguments += ["--time-budget", "0", "--timeout", "30", *extra]
        code = cli.run(cli.passbench, arguments)
        printed = capsys.readouterr()
        context = f"{number} ({stage}) {arguments}: {printed.err}"
        assert code in (0, 2, 3), context
        assert "Traceback" not in printed.out + printed.err, context
        assert "internal error" not in printed.err, context
        if code != 0:
            assert printed.err.count("\n") == 1, context
            messages.add(shape_of(printed.err, sample))
        if code == 2:
            refused[stage] += 1
            assert printed.out == "", context
            assert not out.exists(), context
        shutil.rmtree(sample)
        shutil.rmtree(out, ignore_errors=True)
    return refused, messages


@pytest.mark.usefixtures("shared_workers")
def test_spoiled_samples_end_in_one_line(
    make_sample: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refused, messages = fuzz(60, make_sample, tmp_path, capsys)
    assert set(refused) == set(MUTATIONS)
    assert len(messages) >= 25, sorted(messages)


@pytest.mark.full
@pytest.mark.usefixtures("shared_workers")
def test_five_hundred_spoiled_samples_end_in_one_line(
    make_sample: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refused, messages = fuzz(500, make_sample, tmp_path, capsys)
    assert set(refused) == set(MUTATIONS)
    assert len(messages) >= 40, sorted(messages)
