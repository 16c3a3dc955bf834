"""Evaluations in a local process, in namespaces of its own with a read-only file system where possible."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Literal

from pass_agent.errors import BadInput, RuntimeLost
from pass_agent.runtime import confine
from pass_agent.runtime.base import Ran
from pass_agent.runtime.device import device_name, find_devices
from pass_agent.runtime.gate import Gate
from pass_agent.runtime.process import end_marked, find_marked, run_group

Sandbox = Literal["require", "auto", "off"]
FILE_LIMIT = 64 << 20


@lru_cache(maxsize=1)
def sandbox_prefix() -> tuple[str, ...]:
    """The unshare command that works here, or () where none does."""
    if shutil.which("unshare") is None:
        return ()
    spaces = ["unshare", "--mount", "--pid", "--ipc", "--net", "--fork", "--kill-child=SIGKILL"]
    for prefix in (spaces, [*spaces, "--user", "--map-root-user"]):
        probe = [*prefix, sys.executable, "-I", "-S", confine.__file__, "", "", "--", "true"]
        try:
            if subprocess.run(probe, capture_output=True, timeout=20, check=False).returncode == 0:
                return tuple(prefix)
        except (OSError, subprocess.SubprocessError):
            continue
    return ()


class LocalBox:
    """A folder on this machine: work/ (the sample, read-only to what runs), out/ and tmp/.

    Its name ends with its runner's pid and start time, so that at no moment it has no known owner.
    """

    def __init__(self, root: Path, prefix: Sequence[str], device: str, gate: Gate):
        self.root = root
        self.gate = gate
        self.name = root.name
        self.prefix = list(prefix)
        self.environment = {"CUDA_VISIBLE_DEVICES": device} if device not in ("", "cpu") else {}
        for part in ("work", "out", "tmp"):
            (root / part).mkdir(parents=True)
        self.work = str(root / "work")
        self.out = str(root / "out")

    def put(self, tree: Mapping[str, bytes | Path]) -> None:
        for name, content in tree.items():
            target = self.root / "work" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, bytes):
                target.write_bytes(content)
            else:
                target.symlink_to(content)

    def run(self, argv: Sequence[str], env: Mapping[str, str], timeout_s: float) -> Ran:
        tmp = str(self.root / "tmp")
        inside = list(argv)
        if self.prefix:
            launcher = [sys.executable, "-I", "-S", confine.__file__]
            inside = [*self.prefix, *launcher, f"{self.out}:{tmp}", self.work, "--", *inside]
        try:
            environment, log = self._environment(env, tmp), self.root / "log"
            return run_group(inside, self.work, environment, log, timeout_s, self.name, self.gate)
        except OSError as error:
            raise RuntimeLost(f"the local box could not start a process: {error}") from error

    def _environment(self, env: Mapping[str, str], tmp: str) -> dict[str, str]:
        """Ours without keys and secrets, caches and temporary files inside the box."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if not any(word in name.upper() for word in ("KEY", "TOKEN", "SECRET", "PASSW", "CREDENTIAL"))
        }
        binaries = str(Path(sys.executable).parent)
        kept.update(
            PATH=f"{binaries}:{kept.get('PATH', '/usr/local/bin:/usr/bin:/bin')}",
            TMPDIR=tmp,
            XDG_CACHE_HOME=f"{tmp}/cache",
            TRITON_CACHE_DIR=f"{tmp}/triton",
            CUDA_CACHE_PATH=f"{tmp}/nv",
            TORCHINDUCTOR_CACHE_DIR=f"{tmp}/inductor",
            PYTHONDONTWRITEBYTECODE="1",
            PASSNET_PYTHON=kept.get("PASSNET_PYTHON", sys.executable),
        )
        return {**kept, **env}

    def get(self) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        for path in sorted((self.root / "out").rglob("*")):
            if path.is_file() and not path.is_symlink() and path.stat().st_size <= FILE_LIMIT:
                found[path.relative_to(self.root / "out").as_posix()] = path.read_bytes()
        return found

    def close(self) -> None:
        end_marked(self.name)
        shutil.rmtree(self.root, ignore_errors=True)


class LocalRuntime:
    """Opens boxes below `folder`.

    `sandbox`: "require" refuses to run without namespaces, "auto" uses them where they work.
    """

    name = "local"

    def __init__(self, folder: Path, sandbox: Sandbox = "auto"):
        self.folder = folder.resolve()
        self.gate = Gate()
        self.prefix = () if sandbox == "off" else sandbox_prefix()
        if sandbox == "require" and not self.prefix:
            raise BadInput("--sandbox require: this kernel or user may not create namespaces")
        self.identity = f"local {device_name()}"

    def devices(self, wanted: str) -> tuple[str, ...]:
        return find_devices(wanted)

    def open(self, device: str = "") -> LocalBox:
        try:
            with self.gate.passing():
                name = f"box-{uuid.uuid4().hex[:16]}-{os.getpid()}-{process_start(os.getpid())}"
                return LocalBox(self.folder / name, self.prefix, device, self.gate)
        except OSError as error:
            raise RuntimeLost(f"no box could be made in {self.folder}: {error}") from error

    def clean(self, own: bool = False) -> int:
        removed = 0
        if own:
            self.gate.close()
        for root in self.folder.glob("box-*"):
            pid, started = root.name.split("-")[-2:]
            if not owner_lives(f"{pid} {started}") or (own and pid == str(os.getpid())):
                end_marked(root.name)
                shutil.rmtree(root, ignore_errors=True)
                removed += 1
        return removed

    def leftovers(self) -> list[int]:
        """Processes of any box of this folder that still run."""
        return [pid for root in self.folder.glob("box-*") for pid in find_marked(root.name)]


def owner_lives(record: str) -> bool:
    """Whether the runner that wrote `record` ("pid start-time") still runs."""
    pid, _, started = record.partition(" ")
    return bool(started) and pid.isdigit() and process_start(int(pid)) == started


def process_start(pid: int) -> str:
    """The start time of a process in clock ticks, which together with its pid names it; "" if it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19]
    except (OSError, IndexError):
        return ""
