"""The few system calls that Python does not have: prctl, openat2, renameat2, seccomp.  Each does nothing else but call."""

from __future__ import annotations

import ctypes
import errno
import os

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
RENAME_NOREPLACE, RENAME_EXCHANGE = 1, 2

_libc = ctypes.CDLL(None, use_errno=True)


class _OpenHow(ctypes.Structure):
    _fields_ = [("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64)]


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


def machine() -> str:
    """Return the processor's name as the kernel says it (x86_64, aarch64)."""
    return os.uname().machine


def set_process(option: int, value: int) -> None:
    """Set a flag of this process by prctl(2).

    Raises:
        OSError: the kernel refused it.
    """
    if _libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        raise _os_error()


def install_filter(program: bytes) -> None:
    """Put a seccomp filter over this process and its children; needs no_new_privs.

    Args:
        program: instructions of 8 bytes each, as in linux/filter.h.
    """
    buffer = ctypes.create_string_buffer(program, len(program))
    header = _Program(len(program) // 8, ctypes.addressof(buffer))
    if _libc.prctl(PR_SET_SECCOMP, ctypes.c_ulong(SECCOMP_MODE_FILTER), ctypes.byref(header), 0, 0) != 0:
        raise _os_error()


def open_beneath(directory: int, path: str, flags: int) -> int:
    """Open a path that must not leave `directory`, not even by a symbolic link (openat2(2), RESOLVE_BENEATH).

    Raises:
        OSError: EXDEV where it would leave, ENOSYS where the kernel has no openat2, and those of open(2).
    """
    how = _OpenHow(flags | os.O_CLOEXEC, 0, _RESOLVE_BENEATH | _RESOLVE_NO_MAGICLINKS)
    name = os.fsencode(path)
    for _ in range(_RACED_TRIES):
        number = ctypes.c_long(_SYS_OPENAT2)
        opened: int = _libc.syscall(number, ctypes.c_int(directory), name, ctypes.byref(how), ctypes.c_size_t(24))
        if opened >= 0:
            return opened
        if ctypes.get_errno() != errno.EAGAIN:  # EAGAIN: something was renamed meanwhile
            break
    raise _os_error(path)


def rename(folder: int, old: str, new: str, flags: int) -> None:
    """Rename within a folder (renameat2(2)): to a name that is free, or the two for each other.

    Raises:
        OSError: EEXIST where the name is taken, EINVAL or ENOSYS where the file system or the kernel cannot do that.
    """
    if _libc.renameat2(folder, os.fsencode(old), folder, os.fsencode(new), ctypes.c_uint(flags)) != 0:
        raise _os_error(new)


def call(number: int, *arguments: bytes | int | None) -> int:
    """Make a system call that has no name in Python.

    Raises:
        OSError: as the kernel says.
    """
    words = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    result: int = _libc.syscall(ctypes.c_long(number), *words)
    if result < 0:
        raise _os_error()
    return result


def set_capabilities(header: bytes, sets: bytes) -> None:
    """Set this process's capabilities (capset(2)).

    Raises:
        OSError: the kernel refused it.
    """
    if _libc.capset(header, sets) != 0:
        raise _os_error()


def _os_error(path: str = "") -> OSError:
    code = ctypes.get_errno()
    return OSError(code, os.strerror(code), path)
