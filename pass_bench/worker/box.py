"""Where a candidate steps into the sandbox: the last thing that happens before hostile code may run."""

from __future__ import annotations

import os
from pathlib import Path

from pass_bench.guard.sandbox import FIRST_PRIVATE_UID, SandboxSpec, enter
from pass_bench.worker.messages import CandidateJob


def enter_box(job: CandidateJob, keep_descriptor: int) -> tuple[str, ...]:
    """Enter the sandbox for one job and return what is missing from it, in words; raises HarnessFailure.

    The pass sees its sample, its pass_dir and the interpreter, and may write to its cache folder and a
    private /tmp; it does not see results, home or keys.
    """
    outside = os.getpid()
    shown = [job.sample_path, job.pass_dir, job.const_pass_dir]
    report = enter(
        SandboxSpec(
            mode=job.sandbox,
            read_only=tuple(
                dict.fromkeys(Path(path).resolve() for path in shown if path and Path(path).exists())
            ),
            writable=(Path(job.cache_dir),) if job.cache_dir else (),
            keep_fds=(keep_descriptor,),
            environment=boxed_environment(job.cache_dir),
            uid=cache_owner(job.cache_dir),
        )
    )
    if os.getpid() != outside and job.cache_dir:
        # Inductor's temporary files have names of the pid and the thread, which all boxes have alike then.
        os.environ["TORCHINDUCTOR_CACHE_DIR"] += f"/{outside}"
    return report.warnings


def cache_owner(cache_dir: str) -> int | None:
    """Return the private uid that a root harness gave a pass set's cache, None where there is none.

    All children of one pass set have it: they share the cache, and several may run at once.
    """
    if not cache_dir:
        return None
    owner = Path(cache_dir).stat().st_uid
    return owner if owner >= FIRST_PRIVATE_UID else None


def boxed_environment(cache_dir: str) -> dict[str, str]:
    """Return the environment in the box: the zygote's, which has no keys, with home and caches moved."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("PASSNET_") and name != "OLDPWD"
    }
    environment["HOME"] = cache_dir or "/tmp"
    if cache_dir:
        environment["TRITON_CACHE_DIR"] = f"{cache_dir}/triton"
        environment["TRITON_CACHE_AUTOTUNING"] = "1"  # one tuning serves all graphs of the sample
        environment["TORCHINDUCTOR_CACHE_DIR"] = f"{cache_dir}/inductor"
        environment["PASSNET_KERNEL_CACHE"] = f"{cache_dir}/kernels"
    return environment
