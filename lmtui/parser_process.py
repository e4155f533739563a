"""Runs what parses files that anyone may have written, in one separate process with little memory and time.

Parsers can be exponential, and hold the interpreter's lock meanwhile: a file of a kilobyte would freeze every session.  The
process parses and runs nothing; arguments and results are JSON.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import resource
import select
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

CPU_S = 2
_WALL_S = 60.0  # for a machine that is busy with other things
_MEMORY_BYTES = 1 << 30
_START = "import sys; sys.path[:0] = sys.argv[2:]; from lmtui.parser_process import serve; serve(int(sys.argv[1]))"


class TooComplex(Exception):
    """A text took more time or memory than any that people write; it was not parsed."""


class ParserProcess:
    """The process, started when it is first needed, and again after it was killed.  Safe to use from several threads."""

    def __init__(self, cpu_s: int = CPU_S, places: tuple[str, ...] = ()) -> None:
        self._arguments, self._lock = (str(cpu_s), str(Path(__file__).parents[1]), *places), threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0

    def call(self, function: Callable[..., object], arguments: tuple[object, ...]) -> Any:  # Any: JSON
        line = json.dumps([f"{function.__module__}:{function.__name__}", arguments]).encode() + b"\n"
        with self._lock:
            if self._owner != os.getpid():  # a fork must not use its parent's
                self._process, self._owner = None, os.getpid()
            if self._process is not None and self._process.poll() is not None:  # somebody else ended it
                self._end()
            process = self._process = self._process or _start(self._arguments)
            answer = b""
            try:
                answer = _exchange(process, line)
            except (OSError, EOFError) as error:
                raise TooComplex("too complex to be parsed") from error
            finally:
                if not answer:  # a later call must not get the answer to this one
                    self._end()
            return json.loads(answer)

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None and self._owner == os.getpid():
            process.kill()
            process.communicate()

    def close(self) -> None:
        """End it, and with it the call that is under way.  Blocks."""
        if (process := self._process) is not None and self._owner == os.getpid():
            process.kill()
        with self._lock:
            self._end()


def _start(arguments: tuple[str, ...]) -> subprocess.Popen[bytes]:
    arguments = (sys.executable, "-I", "-c", _START, *arguments)
    pipe = subprocess.PIPE
    return subprocess.Popen(
        arguments, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, cwd="/", env={"LANG": "C.UTF-8"}, start_new_session=True
    )


def _exchange(process: subprocess.Popen[bytes], line: bytes) -> bytes:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(line)
    process.stdin.flush()
    answer, until = bytearray(), time.monotonic() + _WALL_S
    while not answer.endswith(b"\n"):
        if not select.select([process.stdout], [], [], max(0.0, until - time.monotonic()))[0]:
            raise TimeoutError
        if not (piece := os.read(process.stdout.fileno(), 1 << 16)):
            raise EOFError
        answer += piece
    return bytes(answer)


_PROCESS = ParserProcess()
atexit.register(_PROCESS.close)


def parsed(function: Callable[..., object], *arguments: object) -> Any:  # Any: JSON
    """Return what a function of a module makes of some JSON, in the process.  Blocks (one call at a time).

    Raises:
        TooComplex: it took too much, or failed.
    """
    return _PROCESS.call(function, arguments)


def parser_apart(cpu_s: int) -> ParserProcess:
    """Return a process of one's own, which may take so many seconds and finds all modules that this one does."""
    here = Path.cwd().resolve()  # the folder one is in is somebody else's
    places = (path for path in sys.path if Path(path).is_absolute() and Path(path).resolve() != here)
    return ParserProcess(cpu_s, tuple(places))


def toml(text: str) -> dict[str, Any] | str:  # Any: TOML
    """Return what a TOML file says, or why it is not TOML.  For the process."""
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        return str(error)


def read_toml(text: str) -> dict[str, Any]:  # Any: TOML
    """Return what a TOML file of a folder says, nothing where it is not TOML or too complex.  Blocks."""
    with contextlib.suppress(TooComplex):
        found = parsed(toml, text) if text else {}
        return found if isinstance(found, dict) else {}
    return {}


def serve(cpu_s: int) -> None:
    """Answer calls until standard input ends, each with its own limit of time."""
    for limit, most in ((resource.RLIMIT_AS, _MEMORY_BYTES), (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_CORE, 0)):
        with contextlib.suppress(ValueError, OSError):  # macOS does not limit memory
            resource.setrlimit(limit, (most, most))
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    for line in sys.stdin.buffer:
        module, _, name = (call := json.loads(line))[0].partition(":")
        resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time()) + 1 + cpu_s, hard))
        answers.write(json.dumps(getattr(import_module(module), name)(*call[1]), default=str).encode() + b"\n")
