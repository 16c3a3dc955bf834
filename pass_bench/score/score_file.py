"""aggregated_score.json: written whole or not at all."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from pass_bench.errors import HarnessFailure
from pass_bench.score.es import ScoreSettings
from pass_bench.score.summary import ScoreSummary


def score_document(sample_id: int | str, summary: ScoreSummary, settings: ScoreSettings) -> dict[str, Any]:
    """The contents of aggregated_score.json; `score` is null where no graph could be scored."""
    return {
        "id": sample_id,
        "score": summary.score,
        "graphs": summary.graphs,
        "correct": summary.correct,
        "judged": summary.judged,
        "scored": summary.scored,
        "speedup": summary.speedup,
        "fast": {f"{p:g}": share for p, share in summary.fast.items()},
        "es": {str(t): value for t, value in summary.es.items()},
        "s": {str(t): value for t, value in summary.s.items()},
        "verdicts": dict(summary.verdicts),
        "left_out": dict(summary.left_out),
        "penalty": settings.penalty,
        "floor": settings.floor,
        "interpretation": settings.interpretation,
    }


def write_score(path: Path | str, document: dict[str, Any]) -> None:
    """Write a score file in one step; HarnessFailure if the disk does not take it."""
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(document, file, indent=1)
                file.write("\n")
            Path(name).chmod(0o644)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise HarnessFailure(f"{path}: cannot write the score: {error.strerror}") from error
