"""System calls that Python's standard library does not wrap, by number, for x86-64 and aarch64."""

from __future__ import annotations

import ctypes
import os
import platform
from typing import Final

MACHINE: Final = platform.machine()
AUDIT_ARCH: Final = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}.get(MACHINE)

# name: (x86-64, aarch64); None where the architecture has no such call. From the kernel's syscall tables.
NUMBERS: Final[dict[str, tuple[int | None, int | None]]] = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "adjtimex": (159, 171),
    "bpf": (321, 280),
    "capset": (126, 91),
    "chroot": (161, 51),
    "clock_adjtime": (305, 266),
    "clock_settime": (227, 112),
    "clone": (56, 220),
    "clone3": (435, 435),
    "close_range": (436, 436),
    "delete_module": (176, 106),
    "fanotify_init": (300, 262),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "init_module": (175, 105),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "ioctl": (16, 29),
    "ioperm": (173, None),
    "iopl": (172, None),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "kill": (62, 129),
    "landlock_add_rule": (445, 445),
    "landlock_create_ruleset": (444, 444),
    "landlock_restrict_self": (446, 446),
    "lookup_dcookie": (212, 18),
    "memfd_secret": (447, 447),
    "migrate_pages": (256, 238),
    "mknod": (133, None),
    "mknodat": (259, 33),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "move_pages": (279, 239),
    "mq_open": (240, 180),
    "msgget": (68, 186),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "perf_event_open": (298, 241),
    "personality": (135, 92),
    "pidfd_getfd": (438, 438),
    "pidfd_open": (434, 434),
    "pidfd_send_signal": (424, 424),
    "pivot_root": (155, 41),
    "process_madvise": (440, 440),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "quotactl": (179, 60),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "seccomp": (317, 277),
    "semget": (64, 190),
    "setdomainname": (171, 162),
    "sethostname": (170, 161),
    "setns": (308, 268),
    "setpgid": (109, 154),
    "setsid": (112, 157),
    "settimeofday": (164, 170),
    "shmget": (29, 194),
    "socket": (41, 198),
    "socketpair": (53, 199),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "tgkill": (234, 131),
    "tkill": (200, 130),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
    "vhangup": (153, 58),
}

# PyDLL keeps the interpreter's lock during the call: a raw clone() must not leave a child waiting for a lock
# that no thread of its own will ever release.
_libc = ctypes.PyDLL(None, use_errno=True)


def number(name: str) -> int | None:
    """Number of a system call on this machine, None where there is none."""
    if MACHINE not in ("x86_64", "aarch64"):
        return None
    return NUMBERS[name][0 if MACHINE == "x86_64" else 1]


def call(name: str, *args: int | bytes | ctypes.Array | ctypes.Structure | None) -> int:
    """Make a system call; raises OSError with its errno, ENOSYS on an unknown architecture."""
    wanted = number(name)
    if wanted is None:
        raise OSError(38, f"{name}: not available on {MACHINE}")
    converted = [_convert(arg) for arg in args]
    result: int = _libc.syscall(ctypes.c_long(wanted), *converted)
    if result < 0:
        errno = ctypes.get_errno()
        raise OSError(errno, f"{name}: {os.strerror(errno)}")
    return result


def prctl(option: int, *args: int | ctypes.Structure) -> int:
    """Call prctl(2); raises OSError."""
    filled = [_convert(arg) for arg in args] + [ctypes.c_ulong(0)] * (4 - len(args))
    result: int = _libc.prctl(ctypes.c_int(option), *filled)
    if result < 0:
        errno = ctypes.get_errno()
        raise OSError(errno, f"prctl({option}): {os.strerror(errno)}")
    return result


def _convert(arg: int | bytes | ctypes.Array | ctypes.Structure | None) -> object:
    if arg is None:
        return ctypes.c_void_p(None)
    if isinstance(arg, int):
        return ctypes.c_ulong(arg & (2**64 - 1))
    if isinstance(arg, bytes):
        return ctypes.c_char_p(arg)
    return ctypes.byref(arg) if isinstance(arg, ctypes.Structure) else arg
