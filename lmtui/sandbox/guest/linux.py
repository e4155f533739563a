"""The few system calls that Python does not have: prctl, openat2, seccomp.  Each does nothing else but call.

Each raises OSError as the kernel says.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import time
from contextlib import suppress

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_SECCOMP = 22
PR_CAPBSET_DROP = 24
PR_SET_SECUREBITS = 28
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
SECCOMP_MODE_FILTER = 2

_RESOLVE_NO_MAGICLINKS = 0x02
_RESOLVE_BENEATH = 0x08
_SYS_OPENAT2 = 437  # the same on every architecture
_RACED_TRIES = 32
# CLOCK_REALTIME_COARSE, which Python does not name: files get their times from it, up to 10 ms behind CLOCK_REALTIME.
FILE_CLOCK = 5 if hasattr(time, "CLOCK_BOOTTIME") else time.CLOCK_REALTIME

_libc = ctypes.CDLL(None, use_errno=True)


def set_process(option: int, value: int, more: bytes | None = None) -> None:
    """Set a flag of this process by prctl(2)."""
    _checked(_libc.prctl(option, ctypes.c_ulong(value), more, 0, 0))


def install_filter(program: bytes) -> None:
    """Put a seccomp filter over this process and its children; needs no_new_privs.

    Args:
        program: instructions of 8 bytes each, as in linux/filter.h.
    """
    buffer = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("@HP", len(program) // 8, ctypes.addressof(buffer))  # struct sock_fprog
    set_process(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, header)


def open_beneath(directory: int, path: str, flags: int) -> int:
    """Open a path that must not leave `directory`, not even by a symbolic link (openat2(2), RESOLVE_BENEATH).

    Raises:
        OSError: EXDEV where it would leave, ENOSYS where the kernel has no openat2, and those of open(2).
    """
    resolve = _RESOLVE_BENEATH | _RESOLVE_NO_MAGICLINKS
    how = struct.pack("=QQQ", flags | os.O_CLOEXEC, 0, resolve)  # struct open_how
    for _ in range(_RACED_TRIES):
        with suppress(BlockingIOError):  # EAGAIN: something was renamed meanwhile
            return call(_SYS_OPENAT2, directory, os.fsencode(path), how, len(how))
    raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))


def call(number: int, *arguments: bytes | int | None) -> int:
    """Make a system call that has no name in Python."""
    words = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    return _checked(_libc.syscall(ctypes.c_long(number), *words))


def drop_capabilities() -> None:
    """Give up every capability of this process (capset(2), _LINUX_CAPABILITY_VERSION_3)."""
    _checked(_libc.capset(struct.pack("=II", 0x20080522, 0), bytes(24)))


def _checked(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
