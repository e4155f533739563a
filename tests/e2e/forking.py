"""Runs the program in forks of a process that has loaded it: what it does is the same, only its imports are done once.

    python -m tests.e2e.forking

The process takes requests on its standard input, a socket: one JSON object (`arguments`, `folder`, `environ`) with four file
descriptors, the three standard streams and a pipe for the exit code.  It ends with the socket.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from lmtui.registry import features

ROOT = Path(__file__).parents[2]
_MOST_BYTES = 1_000_000
_PRELOADED = ("openai", "httpcore2", "lmtui.cli", "lmtui.headless.run", "lmtui.app.host", "lmtui.models.openai_client")


class ProgramForks:
    """The process that has the program loaded, started at the first request; closed with the tests' own process."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def run(
        self, arguments: Sequence[str], folder: Path, environ: Mapping[str, str], stdin: str, limit_s: float
    ) -> tuple[int, str, str]:
        """Return exit code (negative: the signal), output and errors of one run.  Blocks.

        Raises:
            TimeoutError: it does not end in time; it is killed.
        """
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            input_end, our_input = os.pipe()
            our_code, code_end = os.pipe()
            request = json.dumps({"arguments": list(arguments), "folder": str(folder), "environ": dict(environ)})
            fds = [input_end, out.fileno(), err.fileno(), code_end]
            socket.send_fds(self._connection(), [request.encode()], fds)
            os.close(input_end)
            os.close(code_end)
            writer = threading.Thread(target=_write, args=(our_input, stdin.encode()))
            writer.start()
            code = _code(our_code, limit_s)
            writer.join()
            return code, _text(out), _text(err)

    def close(self) -> None:
        """End the process."""
        if self._socket is not None and self._process is not None:
            self._socket.close()
            self._process.wait(10)

    def _connection(self) -> socket.socket:
        if self._socket is None:
            self._socket, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with other:
                self._process = subprocess.Popen([sys.executable, "-m", "tests.e2e.forking"], cwd=ROOT, stdin=other.fileno())
        return self._socket


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


def _write(pipe: int, data: bytes) -> None:
    with contextlib.suppress(BrokenPipeError), os.fdopen(pipe, "wb") as file:
        file.write(data)


def _code(pipe: int, limit_s: float) -> int:
    """Return the exit code that comes through a pipe behind the process's id."""
    with os.fdopen(pipe, "rb") as file:
        process = int(file.readline())
        ended: list[bytes] = []
        reader = threading.Thread(target=lambda: ended.append(file.readline()))
        reader.start()
        reader.join(limit_s)
        if not ended:
            os.kill(process, signal.SIGKILL)
            reader.join()
            raise TimeoutError(f"the program has not ended after {limit_s} s")
        return os.waitstatus_to_exitcode(int(ended[0]))


def _serve() -> bool:
    """Fork at each request; return whether this process is to be the program, else at the end."""
    for module in _PRELOADED:
        __import__(module)
    for feature in features():
        if feature.service:
            feature.load(feature.service)
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    connection = socket.socket(fileno=os.dup(0))
    while True:
        data, fds, _, _ = socket.recv_fds(connection, _MOST_BYTES, 4)
        if not data:
            return False
        if os.fork() == 0:
            connection.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _become(json.loads(data), fds)
            return True
        for fd in fds:
            os.close(fd)


def _become(request: dict[str, object], fds: list[int]) -> None:
    """Wait for the program in one process and report how it ended; return in the other, which is the program."""
    code = os.fdopen(fds[3], "wb", buffering=0)
    if process := os.fork():
        code.write(b"%d\n" % process)
        code.write(b"%d\n" % os.waitpid(process, 0)[1])
        os._exit(0)
    code.close()
    for number, fd in enumerate(fds[:3]):
        os.dup2(fd, number)
        os.close(fd)
    environ, arguments = request["environ"], request["arguments"]
    assert isinstance(environ, dict)
    assert isinstance(arguments, list)
    os.chdir(str(request["folder"]))
    os.environ.clear()
    os.environ.update(environ)
    time.tzset()
    tempfile.tempdir = None
    sys.argv = ["lmtui", *arguments]


FORKS = ProgramForks()

if __name__ == "__main__" and _serve():
    runpy.run_module("lmtui", run_name="__main__", alter_sys=True)
