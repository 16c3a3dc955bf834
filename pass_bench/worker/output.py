"""What an evaluation leaves behind: results.jsonl, a reference-style log, aggregated_score.json; no torch."""

from __future__ import annotations

import datetime
import fcntl
import os
from pathlib import Path
from types import TracebackType

from pass_bench.compilers import compiler_named
from pass_bench.data import Sample
from pass_bench.errors import BadInput, HarnessFailure
from pass_bench.results.keys import graph_id, measured_key, pass_set_id
from pass_bench.results.log_writer import log_lines
from pass_bench.results.records import EnvironmentRecord, EvalSettings, GraphResult
from pass_bench.results.store import Store, StoredResult
from pass_bench.score.es import ScoreSettings
from pass_bench.score.score_file import score_document, write_score
from pass_bench.score.summary import ScoreSummary

RESULTS = "results.jsonl"
LOG = "eval.log"
SCORE = "aggregated_score.json"


class OutputFolder:
    """The files of one run in a folder of its own. A context manager; it writes nothing before it is entered.

    A folder that holds another run's results is refused, unless `replace`: then those are removed first.
    """

    def __init__(
        self,
        folder: Path,
        sample: Sample,
        settings: EvalSettings,
        environment: EnvironmentRecord,
        *,
        passes: tuple[Path | None, ...],
        replace: bool = False,
    ):
        self.folder = folder
        self._sample = sample
        self._settings = settings
        self._environment = environment
        self._passes = passes
        self._replace = replace

    @staticmethod
    def check(folder: Path, replace: bool) -> None:
        """Raise BadInput for a folder that cannot take the results of a run."""
        if folder.exists() and not folder.is_dir():
            raise BadInput("not a folder", path=folder, expected="an output folder")
        if not replace and any((folder / name).exists() for name in (RESULTS, LOG, SCORE)):
            raise BadInput(
                "holds the results of another run", path=folder, expected="an empty folder, or --replace"
            )

    def __enter__(self) -> OutputFolder:
        self.check(self.folder, self._replace)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = os.open(self.folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise HarnessFailure(f"{self.folder}: another run is writing to this folder") from None
        for name in (SCORE, RESULTS, LOG):
            (self.folder / name).unlink(missing_ok=True)
        self._store = Store(self.folder / RESULTS)
        self._environment_name = self._store.add_environment(self._environment)
        self._log = (self.folder / LOG).open("a", encoding="utf-8")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._log.close()
        self._store.close()
        os.close(self._lock)

    def add(self, result: GraphResult) -> None:
        """Keep one result, at once."""
        uses_passes = compiler_named(self._settings.compiler).uses_passes
        key = measured_key(
            sample=str(self._sample.path),
            graph=graph_id(self._sample.graphs[result.index].path),
            position=result.index,
            passes=pass_set_id(*self._passes) if uses_passes else "",
            settings=self._settings,
            environment=self._environment,
        )
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        self._store.append(
            key, StoredResult(environment=self._environment_name, measured_at=now, result=result)
        )
        lines = log_lines(
            result,
            warmup=self._settings.warmup,
            trials=self._settings.trials,
            framework_version=self._environment.torch,
        )
        self._log.write("\n".join(lines) + "\n")
        self._log.flush()

    def finish(self, sample_id: int | str, summary: ScoreSummary, settings: ScoreSettings) -> None:
        """Write the score of all results."""
        if summary.score is not None:
            self._log.write(f"aggregated_speedup={summary.score}\n")
        write_score(self.folder / SCORE, score_document(sample_id, summary, settings))
