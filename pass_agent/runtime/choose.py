"""Which runtime a run gets."""

from __future__ import annotations

from pathlib import Path

from pass_agent.errors import BadInput
from pass_agent.runtime.base import Runtime
from pass_agent.runtime.docker_runtime import DockerRuntime, DockerSettings
from pass_agent.runtime.local import LocalRuntime, Sandbox


def choose_runtime(
    kind: str, folder: Path, sandbox: Sandbox, settings: DockerSettings, run: str
) -> tuple[Runtime, str]:
    """Return a runtime and one line that says why it is this one.

    `kind`: "local", "docker", or "auto": Docker where an engine answers and has the image, else local.
    """
    if kind == "docker":
        return DockerRuntime(settings, run), f"docker, image {settings.image}"
    reason = ""
    if kind == "auto":
        try:
            return DockerRuntime(settings, run), f"docker, image {settings.image}"
        except (BadInput, ImportError) as error:
            reason = f" ({error})"
    elif kind != "local":
        raise BadInput(f"--runtime is auto, local or docker, not {kind}")
    runtime = LocalRuntime(folder, sandbox)
    guarded = "sandboxed" if runtime.prefix else "NOT sandboxed: no namespaces here"
    return runtime, f"local, {guarded}{reason}"
