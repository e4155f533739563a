"""Steps before a process reads a setting or looks up a program: shut other processes out and fix its environment.

Imports only the standard library: until `protect_process` is called, a host has no secret in it.
"""

from __future__ import annotations

import ctypes
import json
import os
import socket
import sys
from collections.abc import Mapping, MutableMapping

ENVIRONMENT_SOCKET = "LMTUI_ENVIRONMENT_SOCKET"
READY = b"\n"
_PR_SET_DUMPABLE = 4
_NEEDED_AT_START = frozenset(
    ("PATH", "HOME", "LANG", "LANGUAGE", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "PYTHONPATH", "PYTHONHOME", "PYTHONUTF8",
     "PYTHONUSERBASE", "PYTHONNOUSERSITE", "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX")
)  # fmt: skip


def protect_process() -> bool:
    """Make this process undumpable (prctl(2), `PR_SET_DUMPABLE`) where the system can; tell whether it is.

    Other processes of the same user can then read neither its memory nor its environment.
    """
    if sys.platform != "linux":
        return False
    return bool(ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) == 0)


def drop_relative_path_entries(environ: MutableMapping[str, str] = os.environ) -> None:
    """Keep only absolute folders in `PATH`: a relative or empty entry would run programs of the workspace."""
    if "PATH" in environ:
        entries = environ["PATH"].split(os.pathsep)
        environ["PATH"] = os.pathsep.join(entry for entry in entries if entry.startswith("/")) or os.defpath


def environment_at_start(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that Python needs to start; all others go over the environment socket."""
    return {name: text for name, text in environ.items() if name in _NEEDED_AT_START or name.startswith("LC_")}


def receive_environment(environ: MutableMapping[str, str] = os.environ) -> None:
    """Take the rest of the environment from the process that started this one, where it named a socket for it.

    Call `protect_process` first: the sender waits for this process to say that it is ready.
    """
    descriptor = environ.pop(ENVIRONMENT_SOCKET, "")
    if descriptor.isdecimal():
        with socket.socket(fileno=int(descriptor)) as sender, sender.makefile("rb") as received:
            sender.sendall(READY)
            environ.update(json.loads(received.read()))
