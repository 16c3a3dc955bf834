"""A seccomp filter that takes away the system calls by which a process leaves its box."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Iterable

from pass_bench.guard.syscalls import AUDIT_ARCH, MACHINE, call, number, prctl

ALWAYS_DENIED = (
    # other processes' memory and descriptors
    *("ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "kcmp"),
    *("pidfd_open", "pidfd_getfd", "pidfd_send_signal", "move_pages", "migrate_pages"),
    # kernel interfaces with a long record of holes, which no kernel launch needs
    *("perf_event_open", "bpf", "userfaultfd", "io_uring_setup", "io_uring_enter", "io_uring_register"),
    *("keyctl", "add_key", "request_key", "open_by_handle_at", "name_to_handle_at", "lookup_dcookie"),
    *("fanotify_init", "memfd_secret", "personality", "quotactl", "syslog", "acct", "vhangup"),
    # namespaces and mounts
    *("mount", "umount2", "pivot_root", "chroot", "unshare", "setns", "mount_setattr", "move_mount"),
    *("open_tree", "fsopen", "fsconfig", "fsmount", "fspick", "mknod", "mknodat"),
    # the machine itself
    *("init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load", "reboot"),
    *("swapon", "swapoff", "sethostname", "setdomainname", "iopl", "ioperm"),
    # clocks
    *("settimeofday", "clock_settime", "clock_adjtime", "adjtimex"),
    # a new session or group would survive the supervisor's kill of the group
    *("setsid", "setpgid"),
)
WITHOUT_IPC_NAMESPACE = ("shmget", "msgget", "semget", "mq_open")
SIGNALLING = ("kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo")

_AF_UNIX = 1
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_CLONE_NEW = 0x7E020080  # NEWNS | NEWCGROUP | NEWUTS | NEWIPC | NEWUSER | NEWPID | NEWNET | NEWTIME

_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_LD, _JEQ, _JGE, _JSET, _RET = 0x20, 0x15, 0x35, 0x45, 0x06
_NR, _ARCH, _ARG0 = 0, 4, 16  # offsets in struct seccomp_data; the low halves of arguments on little endian
_PR_SET_NO_NEW_PRIVS, _SECCOMP_SET_MODE_FILTER = 38, 1
_SPEC_ALLOW = 4  # kernels before 5.16 slow down what is filtered, which would be taken for the pass's doing

Instruction = tuple[int, int, int, int]


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


def install(*, pid_namespace: bool, ipc_namespace: bool) -> None:
    """Filter the calling thread and all its children for good.

    Denied calls fail with EPERM (clone3 with ENOSYS, so that libc falls back to clone, whose flags can be
    seen). Without a pid namespace signals may go to the caller alone; without an ipc namespace System V
    objects are denied. Raises OSError where the kernel has no seccomp or the architecture is unknown.
    """
    if AUDIT_ARCH is None:
        raise OSError(errno.ENOSYS, f"no seccomp filter for {MACHINE}")
    program = assemble(pid_namespace=pid_namespace, ipc_namespace=ipc_namespace, own_pid=os.getpid())
    packed = b"".join(struct.pack("<HBBI", *instruction) for instruction in program)
    buffer = ctypes.create_string_buffer(packed, len(packed))
    structure = _Program(len(program), ctypes.addressof(buffer))
    prctl(_PR_SET_NO_NEW_PRIVS, 1)
    try:
        call("seccomp", _SECCOMP_SET_MODE_FILTER, _SPEC_ALLOW, structure)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        call("seccomp", _SECCOMP_SET_MODE_FILTER, 0, structure)


def assemble(*, pid_namespace: bool, ipc_namespace: bool, own_pid: int) -> list[Instruction]:
    """Build the filter as classic BPF instructions (code, jump if true, jump if false, operand)."""
    denied = [*ALWAYS_DENIED, *(() if ipc_namespace else WITHOUT_IPC_NAMESPACE)]
    program: list[Instruction] = [
        (_LD, 0, 0, _ARCH),
        (_JEQ, 1, 0, AUDIT_ARCH or 0),
        (_RET, 0, 0, _KILL),
        (_LD, 0, 0, _NR),
    ]
    if MACHINE == "x86_64":  # the x32 table would be a second set of numbers for the same calls
        program += [(_JGE, 0, 1, 0x40000000), (_RET, 0, 0, _ERRNO | errno.ENOSYS)]
    program += _deny(_numbers(denied), errno.EPERM)
    program += _deny(_numbers(["clone3"]), errno.ENOSYS)
    program += _when("clone", 0, [(_JSET, 0, 1, _CLONE_NEW), (_RET, 0, 0, _ERRNO | errno.EPERM)])
    only_unix = [(_JEQ, 1, 0, _AF_UNIX), (_RET, 0, 0, _ERRNO | errno.EAFNOSUPPORT)]
    program += _when("socket", 0, only_unix) + _when("socketpair", 0, only_unix)
    terminal = [(_JEQ, 1, 0, _TIOCSTI), (_JEQ, 0, 1, _TIOCLINUX), (_RET, 0, 0, _ERRNO | errno.EPERM)]
    program += _when("ioctl", 1, terminal)
    if not pid_namespace:
        only_self = [(_JEQ, 1, 0, own_pid), (_RET, 0, 0, _ERRNO | errno.EPERM)]
        for name in SIGNALLING:
            program += _when(name, 0, only_self)
    return [*program, (_RET, 0, 0, _ALLOW)]


def _numbers(names: Iterable[str]) -> list[int]:
    return [found for name in names if (found := number(name)) is not None]


def _deny(numbers: Iterable[int], code: int) -> list[Instruction]:
    rules: list[Instruction] = []
    for wanted in numbers:
        rules += [(_JEQ, 0, 1, wanted), (_RET, 0, 0, _ERRNO | code)]
    return rules


def _when(name: str, argument: int, body: list[Instruction]) -> list[Instruction]:
    """Run `body` on the low half of one argument of one call, then reload the number for what follows."""
    wanted = number(name)
    if wanted is None:
        return []
    inner: list[Instruction] = [(_LD, 0, 0, _ARG0 + 8 * argument), *body, (_LD, 0, 0, _NR)]
    return [(_JEQ, 0, len(inner), wanted), *inner]
