"""What a supervisor without namespaces does to itself before it serves: no rights of root, then Landlock.

Its commands are put into a domain of their own below this one, so that they cannot signal or trace it (Landlock ABI 6).
"""

from __future__ import annotations

import os
import struct
from contextlib import suppress

from . import landlock, linux
from .settings import Settings

_CAPABILITY_HEADER = struct.pack("=II", 0x20080522, 0)  # _LINUX_CAPABILITY_VERSION_3, this process
_NO_CAPABILITIES = bytes(24)
_LAST_CAPABILITY = 63
_NO_ROOT_FIXUPS = 0b1110_1111  # every SECBIT of linux/securebits.h with its lock, but keep-caps
# What programs look up about themselves and the machine; other processes' folders stay closed.
_PROC = (
    "/proc/self", "/proc/meminfo", "/proc/cpuinfo", "/proc/stat", "/proc/loadavg", "/proc/uptime", "/proc/version",
    "/proc/filesystems", "/proc/sys/kernel/osrelease", "/proc/sys/kernel/ostype", "/proc/sys/kernel/pid_max",
    "/proc/sys/kernel/cap_last_cap", "/proc/sys/vm/overcommit_memory", "/sys/devices/system/cpu",
)  # fmt: skip
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")


def enter(options: Settings) -> None:
    """Restrict this process.

    Raises:
        OSError: something could not be given up; the process must not serve then.
    """
    drop_rights(options.owner, options.group)
    os.makedirs(options.environment["HOME"], exist_ok=True)
    linux.set_process(linux.PR_SET_NO_NEW_PRIVS, 1)
    landlock.restrict([*options.landlock_reads, "/proc"], options.landlock_writes, _DEVICES, has_network=options.has_network)


def restrict_command(options: Settings) -> None:
    """Put this process, which becomes a command, into its own domain."""
    reads = [*options.landlock_reads, *_PROC]
    landlock.restrict(reads, options.landlock_writes, _DEVICES, has_network=options.has_network)


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
    linux.set_capabilities(_CAPABILITY_HEADER, _NO_CAPABILITIES)
