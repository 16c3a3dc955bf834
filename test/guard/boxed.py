"""Run a function in a forked child inside the sandbox and bring back what it returned."""

from __future__ import annotations

import contextlib
import json
import os
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pass_bench.guard.sandbox import SandboxSpec, enter
from pass_bench.guard.syscalls import prctl

ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/tmp", "TMPDIR": "/tmp"}
NOBODY = 54321


def run_boxed(
    function: Callable[[], Any],
    *,
    mode: str = "require",
    read_only: tuple[Path, ...] = (),
    writable: tuple[Path, ...] = (),
    before: Callable[[], None] = lambda: None,
    **spec: Any,
) -> tuple[Any, dict, int]:
    """Return (result or "Error: ...", the sandbox's report, the wait status)."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read_end)
        try:
            before()
            report = enter(
                SandboxSpec(
                    mode=mode,  # type: ignore[arg-type]
                    read_only=read_only,
                    writable=writable,
                    keep_fds=(write_end,),
                    environment=ENVIRONMENT,
                    **spec,
                )
            )
            os.write(write_end, json.dumps(vars(report)).encode() + b"\n")
            try:
                result = function()
            except Exception as error:
                result = f"{type(error).__name__}: {error}"
            os.write(write_end, json.dumps(result).encode())
        except BaseException:
            os.write(write_end, json.dumps({"failed": traceback.format_exc()}).encode() + b"\n")
        finally:
            os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as stream:
        report, _, result = stream.read().partition(b"\n")
    _, status = os.waitpid(pid, 0)
    return (json.loads(result) if result else None), (json.loads(report) if report else {}), status


def become_nobody(*folders: Path) -> Callable[[], None]:
    """Give up root in the child, as if the harness had been started by an ordinary user."""

    def drop() -> None:
        if os.geteuid() != 0:
            return
        for folder in folders:
            os.chown(folder, NOBODY, NOBODY)
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
        prctl(4, 1)  # PR_SET_DUMPABLE, as after an exec

    return drop


def attempts(**calls: Callable[[], Any]) -> dict[str, str]:
    """Try each call; say "done" or the name of the error."""
    outcome = {}
    for name, call in calls.items():
        try:
            call()
            outcome[name] = "done"
        except Exception as error:
            outcome[name] = type(error).__name__
            with contextlib.suppress(AttributeError):
                outcome[name] += f" {error.errno}"  # type: ignore[attr-defined]
    return outcome
