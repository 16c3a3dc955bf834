"""Rules over C++ and CUDA text: hygiene and early feedback, no boundary (a macro can spell anything)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pass_bench.guard.allowed import words

HEADERS = words(
    """
    cmath math.h cstdint stdint.h cstddef stddef.h cstring string.h algorithm limits limits.h
    climits cfloat float.h immintrin.h x86intrin.h arm_neon.h arm_sve.h omp.h array utility
    type_traits tuple numeric cassert assert.h cstdlib stdlib.h vector memory new bit complex
    functional initializer_list numbers pn_kernel.h cuda.h cuda_runtime.h cuda_fp16.h cuda_fp16.hpp
    cuda_bf16.h cuda_fp8.h mma.h cuda_pipeline.h cuda_pipeline_primitives.h cooperative_groups.h
    cuda/std/cstdint cuda/std/limits cuda/pipeline cuda/barrier vector_types.h math_constants.h
    device_launch_parameters.h cooperative_groups/reduce.h cooperative_groups/memcpy_async.h span
    ranges atomic
    """
)
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:[<"]([^>"\n]+)[>"]|(\w+))', re.M)
_FORBIDDEN = (
    (
        "native-process",
        "starts, ends or watches processes or threads",
        r"(?:::\s*)?\b(?:system|popen|fork|vfork|exec[lv]p?e?|posix_spawnp?|kill|raise|signal|sigaction|"
        r"pthread_\w+|ptrace|prctl|atexit|on_exit|quick_exit|_exit|_Exit|exit|abort|setjmp|longjmp|"
        r"syscall|process_vm_\w+|clone3?|daemon|sched_\w+|setpriority|nice)\s*\(|"
        r"\bstd\s*::\s*(?:thread|jthread|async|terminate|atexit|exit|system|getenv)\b",
    ),
    (
        "native-file",
        "touches files, sockets or the environment",
        r"\b(?:fopen|freopen|fdopen|open|openat|creat|read|write|pread|pwrite|sendfile|socket|connect|bind|"
        r"accept|recv\w*|send|sendto|sendmsg|mmap|munmap|mprotect|mremap|shm_open|shmget|memfd_create|"
        r"getenv|secure_getenv|setenv|putenv|unsetenv|unlink|rename|remove|tmpfile|mkstemp|opendir|readdir)"
        r"\s*\(|\benviron\b|\bstd\s*::\s*\w*fstream\b",
    ),
    (
        "native-loader",
        "loads or looks up code",
        r"\b(?:dlopen|dlsym|dlmopen|dladdr|dl_iterate_phdr|dlvsym)\b",
    ),
    (
        "native-clock",
        "reads or patches clocks, or waits",
        r"\b(?:clock_gettime|gettimeofday|clock|time|usleep|nanosleep|sleep|clock_nanosleep|rdtscp?|"
        r"__rdtscp?|_rdtsc)\s*\(|\bstd\s*::\s*(?:chrono|this_thread)\b",
    ),
    (
        "native-stream",
        "makes streams, graphs or host callbacks, or sets device limits",
        r"\bcu(?:da)?(?:StreamCreate|StreamBeginCapture|Graph|LaunchHostFunc|StreamAddCallback|"
        r"DeviceSetLimit|CtxSetLimit|StreamSetAttribute|CtxResetPersistingL2Cache|MemAdvise|MemPrefetch|"
        r"EventCreate|Ipc|CtxCreate|DeviceReset|DeviceSetCacheConfig)\w*|\baccessPolicyWindow\b",
    ),
    (
        "native-hook",
        "runs code that nobody calls, or changes shared settings",
        r"__attribute__\s*\(\s*\(\s*(?:constructor|destructor|ifunc)|\bomp_set_\w+\s*\(|"
        r"\bLD_PRELOAD\b|\bPy[A-Z]\w+\s*\(|\bat::|\bc10::|\btorch::|\bthread_local\b",
    ),
    (
        "native-assembly",
        "issues system calls from assembly",
        r"\b(?:syscall|sysenter|svc\s+#?0|int\s+\$?0x80)\b",
    ),
)
_PATTERNS = tuple((rule, why, re.compile(pattern)) for rule, why, pattern in _FORBIDDEN)


def looks_native(text: str) -> bool:
    """Whether a string constant is C++ or CUDA source."""
    return bool(
        re.search(r"#\s*include\b|__global__|\bextern\s+\"C\"|\bvoid\s+\w+\s*\([^)]*\*[^)]*\)\s*\{", text)
    )


def check_native(text: str) -> Iterator[tuple[str, str, int]]:
    """Yield (rule, why, line) for each place that breaks a rule; the first line is 1."""
    bare = _without_comments(text)
    for found in _INCLUDE.finditer(bare):
        header = (found.group(1) or found.group(2) or "").strip()
        if header not in HEADERS:
            yield "native-include", f"#include of {header!r} is not allowed", _line(bare, found.start())
    code = re.sub(r'"(?:\\.|[^"\\\n])*"', lambda m: '""' if "syscall" not in m.group() else m.group(), bare)
    for rule, why, pattern in _PATTERNS:
        for found in pattern.finditer(code):
            name = found.group().split("(")[0].strip()
            called = found.group().endswith("(")
            if not (called and (_is_member(code, found.start()) or _defines(code, name))):
                yield rule, f"{name!r} {why}", _line(code, found.start())


def _is_member(code: str, start: int) -> bool:
    """Whether the name is a method of some object: `x.read(`."""
    return code[:start].rstrip().endswith((".", "->"))


def _defines(code: str, name: str) -> bool:
    """Whether the text itself defines a function of that name, which then is no call into libc."""
    return bool(
        re.search(rf"\b\w[\w:<>*& ]*[\s*&]{re.escape(name)}\s*\([^;{{}}]*\)\s*(?:const\s*)?\{{", code)
    )


def _without_comments(text: str) -> str:
    """Blank out comments and join continued lines, keeping line numbers."""

    def blank(match: re.Match[str]) -> str:
        kept = match.group()
        return kept if kept.startswith(('"', "'")) else re.sub(r"[^\n]", " ", kept)

    joined = re.sub(r"\\\n", "  ", text)
    tokens = r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|//[^\n]*|/\*.*?\*/'
    return re.sub(tokens, blank, joined, flags=re.S)


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1
