"""How the kernel confines a process and its children: seccomp for every command, Landlock where namespaces are missing.

The filter refuses every way to more rights, and kernel surface that builds and tests do not need.  Built once, before the
fork: a classic BPF program over `struct seccomp_data` (linux/seccomp.h).  Refused calls return EPERM, `openat2` and `clone3`
ENOSYS (their arguments lie in memory where a filter cannot look; libc falls back), a foreign ABI kills.  The calls are in
`calls.txt`.

A supervisor without namespaces gives up the rights of root, then, by Landlock (linux/landlock.h), every file but those below
some folders.  Landlock can only add: a path inside a folder that is granted cannot be taken out again.  Commands are put into
a domain of their own below that one, so that they cannot signal or trace the supervisor (Landlock ABI 6).
"""

from __future__ import annotations

import errno
import os
import stat
import struct
from collections.abc import Iterable, Sequence
from contextlib import suppress

from . import linux
from .settings import Settings, read_table

_LOAD, _JUMP_EQ, _JUMP_GE, _JUMP_SET, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_KILL, _ERRNO, _ALLOW = 0x80000000, 0x00050000, 0x7FFF0000
_NUMBER_OFFSET, _ARCH_OFFSET, _ARGUMENTS_OFFSET = 0, 4, 16

_SET_ID_BITS = 0o6000
_CREATES = 0o100 | 0o20000000  # O_CREAT, __O_TMPFILE
_NAMESPACES = 0x7E020000  # CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET
_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK = 1, 2, 10, 16
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C

_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_X32_BIT = 0x40000000
_FIRST_UNKNOWN = 467  # open_tree_attr and everything that came after it, on every architecture

_CALLS = read_table("calls")

ANY_FAMILY = (_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK)
INTERNET = (_AF_INET, _AF_INET6, _AF_NETLINK)

_EVERYBODY = 0xFFFFFFFF  # kill(-1): the low half of the process id


def build_filter(
    machine: str, families: Sequence[int] = ANY_FAMILY, *, is_shared: bool = False, keeps_metadata: bool = False
) -> bytes:
    """Return the filter program for a processor.

    Args:
        machine: the kernel's name of it.
        families: the address families that sockets may have; a pair of connected unix sockets is always to be had.
        is_shared: no namespaces around the command.
        keeps_metadata: no mode, owner, time or attribute of any file may be changed.

    Raises:
        KeyError: there is none for this processor.
    """
    program = [
        _step(_LOAD, _ARCH_OFFSET), _step(_JUMP_EQ, _ARCH[machine], 1, 0), _step(_RETURN, _KILL),
        _step(_LOAD, _NUMBER_OFFSET),
    ]  # fmt: skip
    if machine == "x86_64":
        program += [_step(_JUMP_GE, _X32_BIT, 0, 1), _step(_RETURN, _KILL)]
    program += [_step(_JUMP_GE, _FIRST_UNKNOWN, 0, 1), _refuse(errno.ENOSYS)]
    kinds = ("refused", *["shared"] * is_shared, *["metadata"] * keeps_metadata)
    for number in (number for kind in kinds for (number,) in _calls(machine, kind)):
        program += _refuse_if(_JUMP_EQ, number)
    for (number,) in _calls(machine, "absent"):
        program += [_step(_JUMP_EQ, number, 0, 1), _refuse(errno.ENOSYS)]
    only_none = [_step(_JUMP_EQ, 0, 1, 0), _refuse(errno.EPERM)]
    checks = {
        "mode": _refuse_if(_JUMP_SET, _SET_ID_BITS),
        "clone": _refuse_if(_JUMP_SET, _NAMESPACES),
        "terminal": [*_refuse_if(_JUMP_EQ, _TIOCSTI), *_refuse_if(_JUMP_EQ, _TIOCLINUX)],
        "socket": _allow_only(families),
        "pair": _allow_only((_AF_UNIX,)),
    }
    if is_shared:  # what namespaces would keep apart, and a signal to everybody or limits for another process
        checks |= {"signal": _refuse_if(_JUMP_EQ, _EVERYBODY), "limits": only_none}
    if keeps_metadata:
        checks["times"] = only_none
    for kind, check in checks.items():
        for number, argument in _calls(machine, kind):
            program += _on(number, [_load(argument), *check])
    for number, flags, mode in _calls(machine, "open"):
        check = [_load(mode), *checks["mode"]]
        program += _on(number, [_load(flags), _step(_JUMP_SET, _CREATES, 0, len(check)), *check])
    program.append(_step(_RETURN, _ALLOW))
    return b"".join(program)


def _calls(machine: str, kind: str) -> list[list[int]]:
    """Return the numbers of the calls of a kind, each with the arguments that count."""
    column = 2 + list(_ARCH).index(machine)
    return [[int(row[column]), *map(int, row[4:])] for row in _CALLS if row[0] == kind and row[column] != "-"]


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


def _load(argument: int) -> bytes:
    return _step(_LOAD, _ARGUMENTS_OFFSET + 8 * argument)  # the low half; both architectures are little-endian


def _refuse(code: int) -> bytes:
    return _step(_RETURN, _ERRNO | code)


def _refuse_if(jump: int, value: int) -> list[bytes]:
    return [_step(jump, value, 0, 1), _refuse(errno.EPERM)]


def _allow_only(values: Sequence[int]) -> list[bytes]:
    allowed = [step for value in values for step in (_step(_JUMP_EQ, value, 0, 1), _step(_RETURN, _ALLOW))]
    return [*allowed, _refuse(errno.EPERM)]


def _on(number: int, steps: list[bytes]) -> list[bytes]:
    """Run `steps` for one call, then allow it; every other call continues behind them."""
    body = [*steps, _step(_RETURN, _ALLOW)]
    return [_step(_JUMP_EQ, number, 0, len(body)), *body]


OLDEST_ABI = 3  # of Landlock: the first that also guards truncation
_SYS_CREATE, _SYS_ADD, _SYS_RESTRICT = 444, 445, 446  # the same on every architecture
_ASK_FOR_ABI = 1
_BELOW_PATH = 1

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_MAKE_CHAR, _MAKE_BLOCK, _IOCTL_DEVICE = 1 << 6, 1 << 11, 1 << 15
_TRUNCATE = 1 << 14
_ALL_FILES = (1 << 16) - 1  # before ABI 5 not the last, ioctl on devices
_OF_A_FILE = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_WRITE = _ALL_FILES & ~(_MAKE_CHAR | _MAKE_BLOCK | _IOCTL_DEVICE)
_TCP = 0b11  # bind, connect
_SCOPES = 0b11  # abstract unix sockets, signals
_TCP_ABI, _SCOPE_ABI = 4, 6


def landlock_abi() -> int:
    """Return the kernel's version of the interface; 0 where there is none or it is switched off."""
    try:
        return linux.call(_SYS_CREATE, None, 0, _ASK_FOR_ABI)
    except OSError:
        return 0


def restrict_files(options: Settings, reads: Iterable[str]) -> None:
    """Give up all files but those of the settings and `reads`.  Needs no_new_privs.  Paths that do not exist are left out.

    Signals and abstract sockets reach only what is as restricted (ABI 6); without network TCP is refused (ABI 4).

    Raises:
        OSError: the kernel refuses; the process is as free as before then.
    """
    version = landlock_abi()
    if version < OLDEST_ABI:
        raise OSError(f"Landlock is at version {version} here, {OLDEST_ABI} is needed")
    handled = _ALL_FILES if version > 4 else _ALL_FILES & ~_IOCTL_DEVICE
    tcp = _TCP if version >= _TCP_ABI and not options.has_network else 0
    scopes = _SCOPES if version >= _SCOPE_ABI else 0
    size = 24 if version >= _SCOPE_ABI else 16 if version >= _TCP_ABI else 8
    ruleset = linux.call(_SYS_CREATE, struct.pack("=QQQ", handled, tcp, scopes), size, 0)
    try:
        readable, devices = (*options.landlock_reads, *reads), _READ_FILE | _WRITE_FILE
        for paths, rights in ((readable, _READ), (options.landlock_writes, _WRITE), (_DEVICES, devices)):
            for path in paths:
                _grant(ruleset, path, rights & handled)
        linux.call(_SYS_RESTRICT, ruleset, 0)
    finally:
        os.close(ruleset)


def _grant(ruleset: int, path: str, rights: int) -> None:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # not on this machine, or not for this user
    try:
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            rights &= _OF_A_FILE
        linux.call(_SYS_ADD, ruleset, _BELOW_PATH, struct.pack("=Qi", rights, fd), 0)
    finally:
        os.close(fd)


_LAST_CAPABILITY = 63
_NO_ROOT_FIXUPS = 0b1110_1111  # every SECBIT of linux/securebits.h with its lock, but keep-caps
OWN_PROC, _DEVICES = ([path for kind, path in read_table("system_files") if kind == each] for each in ("own", "device"))


def enter_reduced(options: Settings) -> None:
    """Restrict this process.

    Raises:
        OSError: something could not be given up; the process must not serve then.
    """
    drop_rights(options.owner, options.group)
    os.makedirs(options.environment["HOME"], exist_ok=True)
    linux.set_process(linux.PR_SET_NO_NEW_PRIVS, 1)
    restrict_files(options, ["/proc"])


def drop_rights(owner: int = -1, group: int = -1) -> None:
    """Give up every capability, also those that a program of root would get back; root turns into `owner` first.

    Raises:
        OSError: something could not be given up.
    """
    is_root = os.geteuid() == 0
    if is_root:
        for number in range(_LAST_CAPABILITY + 1):
            with suppress(OSError):  # one that this kernel does not know; the check from inside has the last word
                linux.set_process(linux.PR_CAPBSET_DROP, number)
        linux.set_process(linux.PR_SET_SECUREBITS, _NO_ROOT_FIXUPS)
    if is_root and owner >= 0:
        os.setgroups([])
        os.setresgid(group, group, group)
        os.setresuid(owner, owner, owner)
        linux.set_process(linux.PR_SET_DUMPABLE, 0)
    linux.drop_capabilities()
