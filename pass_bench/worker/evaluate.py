"""Evaluates samples: starts the workers, checks the input, runs graph after graph; no torch here."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Literal

from pass_bench.compilers import compiler_named
from pass_bench.data import Sample, read_graph
from pass_bench.data.model_source import check_model_source
from pass_bench.data.sample import read_pass_names
from pass_bench.errors import BadInput, HarnessFailure
from pass_bench.guard.sandbox import FIRST_PRIVATE_UID
from pass_bench.guard.source_rules import check_passes
from pass_bench.results.records import EnvironmentRecord, EvalSettings, GraphResult, Violation
from pass_bench.results.verdict import Verdict
from pass_bench.timing.throttle import Source, clock_source
from pass_bench.worker.cache_folder import CacheFolder
from pass_bench.worker.cores import Cores, cores_for
from pass_bench.worker.graph_run import GraphRun
from pass_bench.worker.hush import Hush
from pass_bench.worker.lock import DeviceLock
from pass_bench.worker.messages import (
    CandidateJob,
    CandidateReply,
    CandidateRequest,
    Fault,
    LoadRequest,
    ProbeReply,
    ProbeRequest,
    ReferenceReply,
    ReferenceRequest,
)
from pass_bench.worker.pass_cache import PassCacheStore, pass_set_key, store_folder
from pass_bench.worker.pool import Pool
from pass_bench.worker.precompile import compile_in_parallel
from pass_bench.worker.processes import Child, ChildDied, ZygoteProcess
from pass_bench.worker.protocol import PeerTimeout, ProtocolError

PROBE_TIMEOUT_S = 120.0
UIDS_PER_PROCESS = 512  # with 22 bits of process id this stays below 2^32
Device = Literal["cpu", "cuda"]
OnResult = Callable[[GraphResult], None]


def cuda_may_exist() -> bool:
    """Whether it is worth starting a worker that looks for a GPU."""
    return Path("/dev/nvidiactl").exists() or Path("/dev/dxg").exists()


class Evaluator:
    """The warm workers of one device, for any number of samples; several threads may use it at once.

    A context manager. `visible` is the CUDA_VISIBLE_DEVICES of the workers, None for this process's own.
    `host` lends its workers, which import what `guests` need too: one start for several compilers.
    `hush`: the children of other threads stand still while a graph is timed.
    """

    def __init__(
        self,
        settings: EvalSettings,
        visible: str | None = None,
        *,
        host: Evaluator | None = None,
        guests: Sequence[str] = (),
        hush: bool = True,
    ):
        self._host = host
        self._guests = tuple(guests)
        self.settings = settings
        self._visible = visible
        self._cache_folders: dict[str, Path] = {}
        self._cache_keys: dict[Path, str | None] = {}
        self._restored: set[Path] = set()
        self._lock = threading.Lock()
        self._compiler = compiler_named(settings.compiler)
        self._store = PassCacheStore(store_folder() if self._compiler.uses_passes else None)
        self._known_rules: dict[tuple[Path, Path | None], tuple[Violation, ...]] = {}
        self._caches = CacheFolder()
        self._zygote: ZygoteProcess | None = None
        self._references: Pool | None = None
        self._candidates: Pool | None = None  # for what runs nothing but the model
        self._clock: Source | None = None
        self._hush: Hush = host._hush if host is not None else Hush(hush)
        self.device: Device = "cpu"
        self.environment: EnvironmentRecord | None = None

    @property
    def cores(self) -> Cores | None:
        """Which processors are set aside for the graph that is timed, if any are."""
        return self._hush.cores

    def __enter__(self) -> Evaluator:
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End all workers; keep what their passes compiled for the next run, and remove their caches."""
        if self._host is None:
            for pool in (self._references, self._candidates):
                if pool is not None:
                    pool.close()
            if self._zygote is not None:
                self._zygote.close()
        self._zygote = self._references = self._candidates = None
        for folder, key in self._cache_keys.items():
            self._store.keep(key, folder)
        self._cache_keys.clear()
        self._caches.close()

    def shrink(self) -> None:
        """End an idle worker of each kind: one thread fewer asks for graphs from now on.

        A driver ends processes one after the other, some tenths of a second each, whatever card they use.
        """
        for pool in (self._references, self._candidates):
            if pool is not None:
                pool.shrink()

    def _start(self) -> None:
        if self._host is not None:
            self._zygote, self.device = self._host._zygote, self._host.device
            self.environment, self._references = self._host.environment, self._host._references
            self._candidates = self._host._candidates
            self._clock = self._host._clock
            self._check_device()
            return
        named = (self._compiler, *(compiler_named(name) for name in self._guests))
        preload = tuple(dict.fromkeys(group for compiler in named for group in compiler.preload))
        wanted = self.settings.device
        if wanted == "cuda" and not cuda_may_exist():
            raise BadInput("--device cuda: this machine has no CUDA device", expected="cpu or auto here")
        devices: list[Device] = ["cpu"]
        if wanted == "cuda" or (wanted == "auto" and cuda_may_exist()):
            devices = ["cuda"] if wanted == "cuda" else ["cuda", "cpu"]
        for device in devices:
            cores = self._hush.cores = cores_for(device, self._visible)
            self._zygote = ZygoteProcess(device, preload, self._visible, cores)
            child = self._zygote.fork("reference")
            try:
                probed = self._probe(device, child)
            except BaseException:
                child.kill()
                raise
            if device == "cpu" or probed.cuda_available:
                self.device, self.environment = device, probed.environment
                self._references = Pool(self._zygote, "reference")
                self._references.add(child)  # it has started CUDA
                self._candidates = Pool(self._zygote, "candidate")
                self._clock = clock_source(device, self._visible)
                self._check_device()
                return
            child.kill()
            self._zygote.close()
        raise BadInput("--device cuda: PyTorch finds no CUDA device", expected="cpu or auto here")

    def _check_device(self) -> None:
        if self.device not in self._compiler.devices:
            where = " or ".join(self._compiler.devices)
            raise BadInput(
                f"the compiler {self.settings.compiler} does not run on {self.device}",
                expected=f"--device {where}",
            )

    @staticmethod
    def _probe(device: Device, child: Child) -> ProbeReply:
        try:
            child.send(ReferenceRequest(request=ProbeRequest(device=device)))
            envelope, _ = child.receive(ReferenceReply, time.monotonic() + PROBE_TIMEOUT_S)
        except (ChildDied, PeerTimeout, ProtocolError) as error:
            words = child.stderr.text().strip().splitlines()
            raise HarnessFailure(
                f"the worker could not look at the device: {[str(error), *words][-1]}"
            ) from None
        if not isinstance(envelope.reply, ProbeReply):
            raise HarnessFailure(f"the worker could not look at the device: {envelope.reply}")
        return envelope.reply

    def check(
        self, sample: Sample, pass_dir: Path | None = None, const_pass_dir: Path | None = None
    ) -> tuple[str, ...]:
        """Read everything a sample names and load its passes once; return the names of its passes.

        Raises BadInput. A pass that dies or hangs while it is loaded is not bad input: it costs each graph
        its verdict later.
        """
        for reference in sample.graphs:
            graph = read_graph(reference.path)
            check_model_source(graph.code, reference.path / "model.py")
        if not self._compiler.uses_passes:
            return ()
        pass_dir = pass_dir or sample.pass_dir
        names = read_pass_names(pass_dir, const_pass_dir)
        self._known_rules.pop((pass_dir, const_pass_dir), None)  # the files may have changed since
        if not self._broken_rules(pass_dir, const_pass_dir):
            self._load_once(sample, pass_dir, const_pass_dir)
        return names

    def _broken_rules(self, pass_dir: Path, const_pass_dir: Path | None) -> tuple[Violation, ...]:
        """Check the source of the passes, once; raises BadInput for what is no Python."""
        if not self._compiler.uses_passes or not self.settings.source_rules:
            return ()
        key = (pass_dir, const_pass_dir)
        if key not in self._known_rules:
            self._known_rules[key] = check_passes(pass_dir, const_pass_dir)
        return self._known_rules[key]

    def _load_once(self, sample: Sample, pass_dir: Path, const_pass_dir: Path | None) -> None:
        assert self._zygote is not None
        job = self._job(sample, None, pass_dir, const_pass_dir)
        deadline = time.monotonic() + self.settings.timeout_s
        with self._zygote.fork("candidate") as child:
            try:
                child.send(CandidateRequest(request=job), deadline=deadline)
                entered, _ = child.receive(CandidateReply, deadline)
                if isinstance(entered.reply, Fault):
                    raise HarnessFailure(entered.reply.reason)
                child.send(CandidateRequest(request=LoadRequest()), deadline=deadline)
                envelope, _ = child.receive(CandidateReply, deadline)
            except (ChildDied, PeerTimeout, ProtocolError):
                return
        fault = envelope.reply
        if isinstance(fault, Fault) and fault.fault == "bad_input":
            raise BadInput(fault.reason, path=fault.file or None, line=fault.line, expected=fault.detail)

    def _job(
        self, sample: Sample, graph: Path | None, pass_dir: Path, const_pass_dir: Path | None
    ) -> CandidateJob:
        cache = self._cache_of(sample.path, pass_dir, const_pass_dir)
        return CandidateJob(
            sample_path=str(sample.path.absolute()),
            graph_path="" if graph is None else str(graph.absolute()),
            pass_dir=str(pass_dir.absolute()),
            const_pass_dir=str(const_pass_dir.absolute()) if const_pass_dir else None,
            pattern_limit=self.settings.pattern_limit,
            replacement_func_limit=self.settings.replacement_func_limit,
            compiler=self.settings.compiler,
            device=self.device,
            seed=self.settings.seed,
            sandbox=self.settings.sandbox,
            cache_dir=str(cache),
            with_unrewritten=not self.settings.compat,
            boxed=not self._compiler.model_only,
        )

    def _cache_of(self, sample: Path, pass_dir: Path, const_pass_dir: Path | None = None) -> Path:
        """Return the cache folder of one pass set: nothing a pass writes is read by another one."""
        folders = [folder for folder in (pass_dir, const_pass_dir) if folder is not None]
        key = None
        if self._compiler.uses_passes and self.environment is not None:
            known = self.environment
            versions = (known.torch, known.triton, known.python, known.device, known.device_name)
            key = pass_set_key(sample, folders, *versions)
        with self._lock:
            identity = key or f"{sample}\n{pass_dir}\n{const_pass_dir}"
            if identity not in self._cache_folders:
                folder = Path(tempfile.mkdtemp(dir=self._caches.path))
                owner = None
                if os.geteuid() == 0:
                    number = len(self._cache_folders) % UIDS_PER_PROCESS
                    owner = FIRST_PRIVATE_UID + os.getpid() % (1 << 22) * UIDS_PER_PROCESS + number
                    os.chown(folder, owner, owner)
                if self._store.restore(key, folder, owner):
                    self._restored.add(folder)
                self._cache_folders[identity] = folder
                self._cache_keys[folder] = key
            return self._cache_folders[identity]

    def precompile(
        self, sample: Sample, pass_dir: Path | None = None, const_pass_dir: Path | None = None
    ) -> int:
        """Compile the kernels of all graphs of a sample in parallel; return for how many that was done.

        For none where nothing is compiled for a device, where one graph would do it itself, and where an
        earlier run of the same passes has left its kernels.
        """
        pass_dir = pass_dir or sample.pass_dir
        if not self._compiler.uses_passes or self.device != "cuda" or len(sample.graphs) < 2:
            return 0
        if self._broken_rules(pass_dir, const_pass_dir):
            return 0
        jobs = [self._job(sample, graph.path, pass_dir, const_pass_dir) for graph in sample.graphs]
        if Path(jobs[0].cache_dir) in self._restored:
            return 0
        assert self._zygote is not None
        return compile_in_parallel(self._zygote, jobs, self.settings.timeout_s)

    def evaluate(
        self,
        sample: Sample,
        *,
        pass_dir: Path | None = None,
        const_pass_dir: Path | None = None,
        on_result: OnResult | None = None,
        only: Sequence[int] | None = None,
    ) -> list[GraphResult]:
        """Evaluate the graphs of a sample in order; `only` picks some by index."""
        names = self.check(sample, pass_dir, const_pass_dir)
        results = []
        for index in range(len(sample.graphs)):
            if only is not None and index not in only:
                continue
            result = self.evaluate_graph(
                sample, index, names=names, pass_dir=pass_dir, const_pass_dir=const_pass_dir
            )
            results.append(result)
            if on_result is not None:
                on_result(result)
        return results

    def evaluate_graph(
        self,
        sample: Sample,
        index: int,
        *,
        names: tuple[str, ...],
        pass_dir: Path | None = None,
        const_pass_dir: Path | None = None,
    ) -> GraphResult:
        """Evaluate one graph of a sample that `check` accepted; `names` are the passes it returned."""
        assert self._zygote is not None and self.environment is not None
        assert self._references is not None and self._candidates is not None
        reference = sample.graphs[index]
        job = self._job(sample, reference.path, pass_dir or sample.pass_dir, const_pass_dir)
        broken = self._broken_rules(pass_dir or sample.pass_dir, const_pass_dir)
        if broken:
            return refused(sample, index, self.settings, self.environment, broken)
        run = GraphRun(
            self._zygote,
            job,
            self.settings,
            self.environment,
            names,
            self._compiler.uses_passes,
            DeviceLock(self.device, self._visible),
            self._references,
            self._candidates,
            self._hush,
            self._clock,
        )
        return run.run(str(sample.path), reference.listed, index)


def refused(
    sample: Sample,
    index: int,
    settings: EvalSettings,
    environment: EnvironmentRecord,
    violations: tuple[Violation, ...],
) -> GraphResult:
    """The result of a graph whose passes break a source rule: nothing of them is run."""
    first = violations[0]
    place = f"{Path(first.file).name}:{first.line}: " if first.file else ""
    return GraphResult(
        sample=str(sample.path),
        graph=sample.graphs[index].listed,
        index=index,
        compiler=settings.compiler,
        device=environment.device,
        device_name=environment.device_name,
        verdict=Verdict.REJECTED,
        reason=f"{first.rule}: {place}{first.why}"[:1000],
        violations=violations[:50],
    )
