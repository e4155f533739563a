from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lmtui.sandbox.guest import confinement, linux

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="filters are Linux's")
_ENOSYS, _EPERM = 38, 1
_FILE_GETATTR = 468  # the same on every architecture; in kernels from 6.17 on
_SHMGET = 194 if os.uname().machine == "aarch64" else 29


def _errno_of(call: Callable[[], object]) -> int:
    try:
        call()
    except OSError as error:
        return error.errno or 0
    return 0


def _in_child(program: bytes, call: Callable[[], object]) -> int:
    """Return the error number of a call in a child process under a filter, 0 where it succeeds."""
    pid = os.fork()
    if pid == 0:
        code = 255
        try:
            linux.set_process(linux.PR_SET_NO_NEW_PRIVS, 1)
            linux.install_filter(program)
            code = _errno_of(call)
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_calls_that_came_later_do_not_exist() -> None:
    program = confinement.build_filter(os.uname().machine)
    assert _in_child(program, lambda: linux.call(_FILE_GETATTR, -100, b"/", bytes(24), 24, 0)) == _ENOSYS
    assert _in_child(program, lambda: linux.call(600)) == _ENOSYS


def test_shared_memory_is_refused_only_where_it_is_everybody_s() -> None:
    def make() -> int:
        return linux.call(_SHMGET, 0, 4096, 0o600)  # private, gone with the process

    assert _in_child(confinement.build_filter(os.uname().machine, is_shared=True), make) == _EPERM
    assert _in_child(confinement.build_filter(os.uname().machine), make) != _EPERM


def test_limits_of_another_process_are_refused_where_processes_are_shared() -> None:
    program = confinement.build_filter(os.uname().machine, is_shared=True)
    prlimit = 261 if os.uname().machine == "aarch64" else 302
    parent = os.getpid()
    assert _in_child(program, lambda: linux.call(prlimit, parent, 7, None, bytes(16))) == _EPERM
    assert _in_child(program, lambda: linux.call(prlimit, 0, 7, None, bytes(16))) == 0


def test_metadata_is_kept_where_it_is_asked_for(tmp_path: Path) -> None:
    path = str(tmp_path)
    fd = os.open(path, os.O_RDONLY)
    calls: dict[str, Callable[[], object]] = {
        "chmod": lambda: Path(path).chmod(0o777),
        "fchmod": lambda: os.fchmod(fd, 0o777),
        "utime": lambda: os.utime(path, (1, 1)),
        "setxattr": lambda: os.setxattr(path, "user.x", b"y"),
    }
    program = confinement.build_filter(os.uname().machine, keeps_metadata=True)
    assert {name: _in_child(program, call) for name, call in calls.items()} == dict.fromkeys(calls, _EPERM)
    os.close(fd)
