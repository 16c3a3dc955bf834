"""Which containers are ours, and how those of dead runners are removed."""

from __future__ import annotations

import os
import socket
from typing import Any

from pass_agent.errors import BadInput
from pass_agent.runtime.local import owner_lives, process_start

LABEL = "passagent"


def labels(run: str) -> dict[str, str]:
    """What a container of this process carries, so that it can be told from those of dead runners."""
    return {
        LABEL: "1",
        f"{LABEL}.run": run,
        f"{LABEL}.host": socket.gethostname(),
        f"{LABEL}.owner": f"{os.getpid()} {process_start(os.getpid())}",
    }


def connect() -> Any:
    """The engine of DOCKER_HOST, or the local one; raises BadInput if none answers."""
    import docker

    try:
        client = docker.from_env()
        client.ping()
    except Exception as error:  # docker raises errors of requests, urllib3 and its own here
        raise BadInput(f"no Docker engine answers: {first_line(error)}") from error
    return client


def clean_containers(client: Any, own: bool = False, everything: bool = False) -> int:
    """Remove labelled containers whose runner is gone.

    `own` removes those of this process too, `everything` also those of other live runners and hosts.
    """
    import docker.errors

    removed = 0
    for container in client.containers.list(all=True, filters={"label": LABEL}, ignore_removed=True):
        labels = container.labels
        here = labels.get(f"{LABEL}.host") == socket.gethostname()
        owner = labels.get(f"{LABEL}.owner", "")
        mine = own and here and owner.split()[:1] == [str(os.getpid())]
        if not (everything or mine or (here and not owner_lives(owner))):
            continue
        try:
            container.remove(force=True, v=True)
            removed += 1
        except docker.errors.DockerException:
            continue
    return removed


def first_line(error: Exception) -> str:
    """The first line of an error, or its name."""
    return (str(error).strip() or type(error).__name__).splitlines()[0][:300]
