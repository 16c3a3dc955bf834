"""Evaluations in Docker: one fresh container per evaluation, labelled, and removed even after a crash."""

from __future__ import annotations

import io
import tarfile
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from pass_agent.errors import BadInput, RuntimeLost
from pass_agent.records import Record
from pass_agent.runtime.base import LOG_LIMIT, Ran
from pass_agent.runtime.containers import clean_containers, connect, first_line, labels
from pass_agent.runtime.device import device_name, find_devices
from pass_agent.runtime.gate import Gate
from pass_agent.runtime.local import FILE_LIMIT
from pass_agent.text import cap, clean

ROOT = "/box"
SHOWN = 40_000


class DockerSettings(Record):
    """How containers are made. `mounts` are "SOURCE:TARGET[:ro]"."""

    image: str = ""  # "": the one that the task names
    gpus: str = "auto"  # "all", "none", or "0,1": an evaluation gets one of them; auto: all that there are
    mounts: tuple[str, ...] = ()
    memory: str = "32g"
    shm: str = "2g"
    pids: int = 4096
    cpus: float = 0.0  # 0: no limit
    network: str = "none"
    privileged: bool = False
    lifetime_s: int = 4 * 3600  # a container nobody removes ends by itself


class DockerBox:
    """One running container. Its first process sleeps: `kill -9 -1` inside ends all others and spares it."""

    work = f"{ROOT}/work"
    out = f"{ROOT}/out"

    def __init__(self, container: Any):
        self.container = container
        self.environment: dict[str, str] = {}  # only its own GPU is visible in there
        self.api = container.client.api

    def put(self, tree: Mapping[str, bytes | Path]) -> None:
        with tempfile.TemporaryFile() as spool:
            with tarfile.open(fileobj=spool, mode="w", dereference=True) as archive:
                for name in ("work", "out", "tmp"):
                    folder = tarfile.TarInfo(f"box/{name}")
                    folder.type, folder.mode = tarfile.DIRTYPE, 0o755
                    archive.addfile(folder)
                for name, content in tree.items():
                    _add(archive, f"box/work/{name}", content)
            spool.seek(0)
            self._send(spool)

    def _send(self, spool: IO[bytes]) -> None:
        import docker.errors
        import requests

        try:
            self.api.put_archive(self.container.id, "/", spool)
        except (docker.errors.DockerException, requests.RequestException) as error:
            raise RuntimeLost(f"the container took no files: {first_line(error)}") from error

    def run(self, argv: Sequence[str], env: Mapping[str, str], timeout_s: float) -> Ran:
        import docker.errors
        import requests

        started = time.monotonic()
        timed_out = flooded = False
        lost = ""
        code = -1
        # Output goes to a file: a stream would end only with the last process that holds it.
        command = ["/bin/sh", "-c", f'exec "$@" >{ROOT}/log 2>&1 </dev/null', "sh", *argv]
        environment = {"TMPDIR": f"{ROOT}/tmp", "PYTHONDONTWRITEBYTECODE": "1", **env}
        try:
            task = self.api.exec_create(
                self.container.id, command, environment=environment, workdir=self.work
            )["Id"]
            self.api.exec_start(task, detach=True)
            pause = 0.05
            while (state := self.api.exec_inspect(task))["Running"]:
                timed_out = time.monotonic() - started > timeout_s
                flooded = pause >= 1.0 and self._log_size() > LOG_LIMIT
                if timed_out or flooded:
                    break
                time.sleep(pause)
                pause = min(pause * 1.3, 1.0)
            self._end_all(task)
            state = self.api.exec_inspect(task)
            code = -9 if state["ExitCode"] is None else int(state["ExitCode"])
            if self.api.inspect_container(self.container.id)["State"]["Status"] != "running":
                lost = "the container was stopped during the evaluation"
        except (docker.errors.DockerException, requests.RequestException) as error:
            lost = f"the container went away during the evaluation: {first_line(error)}"
        output = "" if lost else self._read_log()
        seconds = time.monotonic() - started
        return Ran(code=code, output=output, timed_out=timed_out, flooded=flooded, lost=lost, seconds=seconds)

    def _end_all(self, task: str) -> None:
        """End every process in the container but its first; raises DockerException if they do not end."""
        import docker.errors

        self._inside("kill -9 -1")
        for _ in range(100):
            if not self.api.exec_inspect(task)["Running"]:
                return
            time.sleep(0.05)
        raise docker.errors.DockerException("processes survived SIGKILL")

    def _inside(self, script: str) -> str:
        task = self.api.exec_create(self.container.id, ["/bin/sh", "-c", script])["Id"]
        return str(self.api.exec_start(task).decode("utf-8", "replace"))

    def _log_size(self) -> int:
        shown = self._inside(f"stat -c %s {ROOT}/log").strip()
        return int(shown) if shown.isdigit() else 0

    def _read_log(self) -> str:
        files = self._fetch(f"{ROOT}/log")
        text = clean(next(iter(files.values()), b"").decode("utf-8", "replace"))
        return cap(text, SHOWN)

    def get(self) -> dict[str, bytes]:
        found = self._fetch(self.out)
        return {name.partition("/")[2]: content for name, content in found.items() if "/" in name}

    def _fetch(self, path: str) -> dict[str, bytes]:
        import docker.errors
        import requests

        try:
            with tempfile.TemporaryFile() as spool:
                stream, _ = self.api.get_archive(self.container.id, path)
                size = 0
                for chunk in stream:
                    size += len(chunk)
                    if size > 2 * FILE_LIMIT:
                        raise RuntimeLost(
                            f"{path} in the container is larger than {2 * FILE_LIMIT >> 20} MiB"
                        )
                    spool.write(chunk)
                spool.seek(0)
                return _unpack(spool)
        except docker.errors.NotFound:
            return {}
        except (docker.errors.DockerException, requests.RequestException, tarfile.TarError) as error:
            raise RuntimeLost(f"the container gave no files back: {first_line(error)}") from error

    def close(self) -> None:
        import docker.errors
        import requests

        try:
            self.container.remove(force=True, v=True)
        except (docker.errors.DockerException, requests.RequestException):
            pass  # gone already, or the daemon is: the container's own lifetime ends it then


class DockerRuntime:
    """Opens containers of one image on the engine that DOCKER_HOST (or `base_url`) names."""

    name = "docker"

    def __init__(self, settings: DockerSettings, run: str = ""):
        import docker
        import docker.errors

        self.settings = settings
        self.run = run
        self.gate = Gate()
        self.client = connect()
        try:
            self.identity = f"docker:{self.client.images.get(settings.image).id} {device_name()}"
        except docker.errors.DockerException as error:
            raise BadInput(f"no Docker image {settings.image} on this engine: {first_line(error)}") from error

    def devices(self, wanted: str) -> tuple[str, ...]:
        """The GPUs to take turns on; ("all",) for those of an engine on another machine."""
        chosen = self.settings.gpus
        if chosen == "auto":
            chosen = "all" if "nvidia" in self.client.info().get("Runtimes", {}) else "none"
        if wanted == "cpu" or chosen == "none":
            return ("cpu",)
        if chosen != "all":
            return tuple(part.strip() for part in chosen.split(",") if part.strip())
        found = find_devices(wanted)
        return ("all",) if found == ("cpu",) else found

    def open(self, device: str = "") -> DockerBox:
        import docker.errors
        import requests

        try:
            with self.gate.passing():
                container = self.client.containers.run(**self._arguments(device))
        except (docker.errors.DockerException, requests.RequestException) as error:
            raise RuntimeLost(f"no container could be started: {first_line(error)}") from error
        return DockerBox(container)

    def _arguments(self, device: str) -> dict[str, Any]:
        settings = self.settings
        arguments: dict[str, Any] = {
            "image": settings.image,
            "entrypoint": ["sleep", str(settings.lifetime_s)],
            "command": [],
            "name": f"passagent-{uuid.uuid4().hex[:16]}",
            "detach": True,
            "auto_remove": True,  # a container that ends by itself leaves nothing
            "labels": labels(self.run),
            "network_mode": settings.network,
            "mem_limit": settings.memory,
            "shm_size": settings.shm,
            "pids_limit": settings.pids,
            "mounts": [_mount(text) for text in settings.mounts],
            # pass_bench puts every pass into namespaces of its own; Docker's defaults forbid that.
            "cap_add": ["SYS_ADMIN"],
            "security_opt": ["seccomp=unconfined", "apparmor=unconfined"],
            "privileged": settings.privileged,
        }
        if settings.cpus:
            arguments["nano_cpus"] = int(settings.cpus * 1e9)
        arguments["device_requests"] = gpu_requests(device)
        return arguments

    def clean(self, own: bool = False) -> int:
        if own:
            self.gate.close()
        return clean_containers(self.client, own)


def gpu_requests(device: str) -> list[Any]:
    """What makes exactly one GPU, all or none of them visible in a container."""
    from docker.types import DeviceRequest

    if device in ("", "cpu"):
        return []
    if device == "all":
        return [DeviceRequest(count=-1, capabilities=[["gpu"]])]
    return [DeviceRequest(device_ids=[device], capabilities=[["gpu"]])]


def _mount(text: str) -> Any:
    from docker.types import Mount

    parts = text.split(":")
    if len(parts) not in (2, 3) or not parts[1].startswith("/") or parts[2:] not in ([], ["ro"], ["rw"]):
        raise BadInput(f"a mount is SOURCE:TARGET[:ro], not {text}")
    return Mount(parts[1], str(Path(parts[0]).resolve()), type="bind", read_only=parts[2:] != ["rw"])


def _add(archive: tarfile.TarFile, name: str, content: bytes | Path) -> None:
    if isinstance(content, bytes):
        entry = tarfile.TarInfo(name)
        entry.size, entry.mode = len(content), 0o644
        archive.addfile(entry, io.BytesIO(content))
        return
    archive.add(content, name, filter=lambda entry: None if "__pycache__" in entry.name else entry)


def _unpack(spool: IO[bytes]) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    with tarfile.open(fileobj=spool) as archive:
        for entry in archive:
            if entry.isfile() and entry.size <= FILE_LIMIT:
                source = archive.extractfile(entry)
                found[entry.name] = source.read() if source else b""
    return found
