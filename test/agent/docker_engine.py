"""A private Docker engine for tests, and an image of nothing but this machine's own /usr, mounted."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

FLAGS = ["--iptables=false", "--ip6tables=false", "--bridge=none", "--storage-driver", "vfs"]
IMAGE = "passagent-test:latest"


def why_no_engine() -> str:
    """Why no engine can be started here; "" if one can."""
    if os.geteuid() != 0:
        return "a Docker engine needs root"
    if shutil.which("dockerd") is None:
        return "no dockerd: apt-get install docker.io"
    return ""


@contextmanager
def running_engine() -> Iterator[str]:
    """Start dockerd in a folder of its own; yields its address, then stops it and removes the folder."""
    # A short path: containerd's sockets are deep below it, and their paths have at most 107 characters.
    folder = Path(tempfile.mkdtemp(prefix="pe-", dir="/tmp"))
    address = f"unix://{folder}/d.sock"
    places = ["--data-root", folder / "data", "--exec-root", folder / "exec", "--pidfile", folder / "pid"]
    command = ["dockerd", *FLAGS, "--host", address, *map(str, places)]
    with (folder / "dockerd.log").open("wb") as log:
        daemon = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    try:
        deadline = time.monotonic() + 60
        while not answers(address):
            if daemon.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("dockerd did not start: " + (folder / "dockerd.log").read_text()[-500:])
            time.sleep(0.1)
        yield address
    finally:
        daemon.terminate()
        try:
            daemon.wait(30)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()
        _remove(folder)


def _remove(folder: Path) -> None:
    mounted = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    for place in sorted((place for place in mounted if place.startswith(f"{folder}/")), reverse=True):
        subprocess.run(["umount", "-l", place], check=False)
    shutil.rmtree(folder, ignore_errors=True)


def answers(address: str) -> bool:
    import docker

    try:
        return bool(docker.DockerClient(base_url=address).ping())
    except Exception:
        return False


def import_skeleton(client: Any) -> None:
    """An image of empty folders and the usual links into /usr, which every container gets mounted."""
    spool = io.BytesIO()
    with tarfile.open(fileobj=spool, mode="w") as archive:
        for name in ("usr", "tmp", "proc", "sys", "dev", "etc", "root", "var/tmp", "run", "work"):
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, 0o1777 if name.endswith("tmp") else 0o755
            archive.addfile(folder)
        for name in ("bin", "sbin", "lib", "lib64"):
            if Path(f"/usr/{name}").is_dir():
                link = tarfile.TarInfo(name)
                link.type, link.linkname = tarfile.SYMTYPE, f"usr/{name}"
                archive.addfile(link)
    client.api.import_image_from_data(
        spool.getvalue(), repository=IMAGE.split(":")[0], tag=IMAGE.split(":")[1]
    )


def host_mounts() -> tuple[str, ...]:
    """This machine's programs and this Python, read-only at their own places."""
    places = {"/usr", sys.base_prefix, sys.prefix, "/etc/alternatives"}
    outside = sorted(place for place in places if place == "/usr" or not place.startswith("/usr/"))
    return tuple(f"{place}:{place}:ro" for place in outside)
