"""`passbench check`: what an evaluation would say about the passes of a sample, without running a kernel."""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from pass_bench.data import read_graph, read_sample
from pass_bench.data.records import Sample
from pass_bench.data.sample import read_pass_names
from pass_bench.errors import BadInput, PassBenchError
from pass_bench.guard.sandbox import SandboxSpec, enter
from pass_bench.guard.source_rules import check_passes
from pass_bench.results.records import PassReport, Violation

TIMEOUT_S = 300.0
ANSWER_CAP_BYTES = 8 << 20


class GraphMatches(BaseModel):
    """What each pass did to one graph; `error` instead where it could not be rewritten."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    graph: str
    device: str
    passes: tuple[PassReport, ...] = ()
    error: str = ""


class CheckReport(BaseModel):
    """The passes of a sample, looked at beforehand."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sample: str
    passes: tuple[str, ...]
    violations: tuple[Violation, ...] = ()
    graphs: tuple[GraphMatches, ...] = ()
    error: str = ""  # why the passes could not be loaded
    matched_by: dict[str, int] = {}  # pass -> in how many graphs it was put

    @property
    def ok(self) -> bool:
        """Whether an evaluation would run the passes: no broken rule, and a match in every graph."""
        if self.violations or self.error:
            return False
        return all(not g.error and any(p.replaced for p in g.passes) for g in self.graphs)

    def text(self) -> str:
        """The report for people."""
        lines = [f"{self.sample}: {len(self.passes)} passes: {', '.join(self.passes)}"]
        lines += [
            "",
            "Source rules: " + ("all kept" if not self.violations else f"{len(self.violations)} broken"),
        ]
        for found in self.violations:
            lines.append(f"  {found.file}:{found.line or 1}: {found.rule}: {found.why}")
        if self.error:
            lines += ["", f"Loading: {self.error}"]
        elif self.graphs:
            lines += ["", "Matches:"]
        for graph in self.graphs:
            lines.append(f"  {graph.graph} ({graph.device})")
            if graph.error:
                lines.append(f"    {graph.error}")
            for report in graph.passes:
                words = (
                    f"replaced {report.replaced} of {report.matched} matches"
                    if report.matched
                    else "no match"
                )
                if report.skipped:
                    words = f"skipped: {report.skipped}"
                lines.append(f"    {report.name}: {words}")
                if report.nearest_miss:
                    lines += [f"      {line}" for line in report.nearest_miss.splitlines()]
        lines += ["", "OK" if self.ok else "An evaluation would not run these passes everywhere."]
        return "\n".join(lines)


def check_sample(
    path: Path, pass_dir: Path | None = None, device: str = "any", match: bool = True
) -> CheckReport:
    """Check manifest, source, functions and matches; passes are loaded in a child, in the sandbox.

    `device` is what `DEVICES` is held against, "any" for every pass. Raises BadInput for a sample, manifest
    or pass that is not what it should be.
    """
    sample = read_sample(path)
    folder = (pass_dir or sample.pass_dir).absolute()
    const = sample.const_pass_dir.absolute() if sample.const_pass_dir is not None else None
    names = read_pass_names(folder, const)
    violations = check_passes(folder, const)
    if violations or not match:
        return CheckReport(sample=str(path), passes=names, violations=violations)
    graphs, error = _in_child(sample, folder, const, device)
    matched = {
        name: sum(1 for g in graphs for p in g.passes if p.name == name and p.replaced) for name in names
    }
    return CheckReport(sample=str(path), passes=names, graphs=graphs, error=error, matched_by=matched)


def _in_child(
    sample: Sample, pass_dir: Path, const: Path | None, device: str
) -> tuple[tuple[GraphMatches, ...], str]:
    """Load and match in a boxed fork; what comes back is checked like any hostile text."""
    import torch

    torch.set_num_threads(1)
    from pass_bench import fx, passes  # noqa: F401 - before the box, which shows less of the disk

    texts = [read_graph(reference.path) for reference in sample.graphs]
    read_end, write_end = os.pipe()
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        os.close(read_end)
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            shown = tuple(path.resolve() for path in (pass_dir, const, sample.path) if path is not None)
            tempfile.tempdir = None  # the parent's is not among what the box shows
            own = {"PATH": os.environ.get("PATH", ""), "HOME": "/tmp", "TRITON_INTERPRET": "1"}
            enter(SandboxSpec(read_only=shown, keep_fds=(write_end,), environment=own))
            listed = [reference.listed for reference in sample.graphs]
            answer = _match(texts, listed, pass_dir, const, device)
        except PassBenchError as error:
            answer = {"bad": str(error)}
        except BaseException as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            answer = {"error": f"{type(error).__name__}: {error} ({Path(last.filename).name}:{last.lineno})"}
        _write_all(write_end, json.dumps(answer).encode())
        os._exit(0)
    os.close(write_end)
    try:
        raw = _read_all(read_end)
    finally:
        os.close(read_end)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return _parsed(raw)


def _match(  # type: ignore[type-arg]
    graphs: list, listed: list[str], pass_dir: Path, const: Path | None, device: str
) -> dict:
    from pass_bench.fx import capture, load_module, rewrite
    from pass_bench.inputs import make_inputs
    from pass_bench.passes import load_passes

    found = []
    for kind in ("cpu", "cuda") if device == "any" else (device,):
        rules = load_passes(pass_dir, const, device=kind).rules
        for graph, name in zip(graphs, listed, strict=True) if rules else ():
            entry: dict = {"graph": name, "device": kind}  # type: ignore[type-arg]
            try:
                rewritten = rewrite(capture(load_module(graph, "cpu"), graph), rules, make_inputs(graph))
                entry["passes"] = [report.model_dump() for report in rewritten.reports]
            except PassBenchError:
                raise
            except Exception as error:
                entry["error"] = f"{type(error).__name__}: {error}"[:500]
            found.append(entry)
    return {"graphs": found}


def _parsed(raw: bytes) -> tuple[tuple[GraphMatches, ...], str]:
    try:
        answer = json.loads(raw)
        if "bad" in answer:
            raise BadInput(str(answer["bad"])[:2000])
        if "error" in answer:
            return (), str(answer["error"])[:2000]
        return tuple(GraphMatches.model_validate(graph) for graph in answer["graphs"]), ""
    except BadInput:
        raise
    except (ValueError, KeyError, TypeError):
        return (), "the process that loaded the passes ended without an answer"


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def _read_all(descriptor: int) -> bytes:
    end = time.monotonic() + TIMEOUT_S
    parts = bytearray()
    while len(parts) < ANSWER_CAP_BYTES and (left := end - time.monotonic()) > 0:
        if not select.select([descriptor], [], [], left)[0]:
            break
        data = os.read(descriptor, 1 << 16)
        if not data:
            break
        parts += data
    return bytes(parts)
