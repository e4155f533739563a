"""The system call profile of a Docker container: the calls of `syscalls.txt` and nothing else.

Coarse on purpose: commands get the finer filter of `inside/seccomp.py` on top.  Format: the engine's seccomp profile, JSON.
"""

from __future__ import annotations

import errno
import json
from pathlib import Path

_NAMES = Path(__file__).parent / "syscalls.txt"
_NAMESPACE_FLAGS = 0x7E020000
_FAMILIES = (1, 2, 10, 16)  # AF_UNIX, AF_INET, AF_INET6, AF_NETLINK
_PERSONALITIES = (0, 0x8, 0x20000, 0xFFFFFFFF)  # plain, PER_LINUX32, UNAME26, "only tell"


def profile() -> str:
    """Return the profile for the engine's `security_opt`."""
    rules: list[dict[str, object]] = [
        {"names": _NAMES.read_text(encoding="ascii").split(), "action": "SCMP_ACT_ALLOW"},
        _allow("clone", 0, _NAMESPACE_FLAGS, "SCMP_CMP_MASKED_EQ"),
        {"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": errno.ENOSYS},  # libc falls back to clone
        _allow("socketpair", 0, 1),
        *(_allow("socket", 0, family) for family in _FAMILIES),
        *(_allow("personality", 0, value) for value in _PERSONALITIES),
    ]
    architectures = [
        {"architecture": "SCMP_ARCH_X86_64", "subArchitectures": []},
        {"architecture": "SCMP_ARCH_AARCH64", "subArchitectures": []},
    ]
    return json.dumps({"defaultAction": "SCMP_ACT_ERRNO", "archMap": architectures, "syscalls": rules})


def _allow(name: str, index: int, value: int, operation: str = "SCMP_CMP_EQ") -> dict[str, object]:
    argument = {"index": index, "value": value, "valueTwo": 0, "op": operation}
    return {"names": [name], "action": "SCMP_ACT_ALLOW", "args": [argument]}
