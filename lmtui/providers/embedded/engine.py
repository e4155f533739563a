"""Starts and stops the child process that holds a model file."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import os
import secrets
import subprocess
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import IO

from lmtui.core.clean import clean_line
from lmtui.core.errors import Fault, ProviderError
from lmtui.core.servers import LoadProgress
from lmtui.paths import state_dir

CHILD = Path(__file__).with_name("child.py")
EXTRA = "Install it with `pip install 'lmtui[embedded]'`."
DEFAULT_WINDOW = 16_384
_STOP_LIMIT_S = 5.0
_TICK_S = 0.5
_LOG_TAIL_CHARS = 2_000
_SECRETS = ("LLM_API_KEY", "OPENAI_API_KEY", "LM_API_TOKEN", "HF_TOKEN")


def is_installed() -> bool:
    """Tell whether llama.cpp's wheel is there."""
    return importlib.util.find_spec("xllamacpp") is not None


class Engine:
    """One model file behind a loopback port with a key of its own; it ends with lmtui, however that ends.

    `url` is empty until it is ready.
    """

    def __init__(self, path: Path, window_tokens: int = 0, *, command: tuple[str, ...] = ()) -> None:
        self.path, self.name = path, path.stem
        self.key = secrets.token_urlsafe(24)
        self.url = ""
        self._window_tokens = window_tokens or DEFAULT_WINDOW
        self._command = command or (sys.executable, "-P", str(CHILD))  # -P: the folder one stands in is not searched
        self._process: subprocess.Popen[bytes] | None = None
        self._is_stopped = False

    def start(self) -> None:
        """Start it and wait until it answers; blocks (seconds to minutes).

        Raises:
            ProviderError: it does not run; the text says why.
        """
        if not self.path.is_file():
            raise ProviderError(Fault.UNKNOWN_MODEL, f"there is no model file {self.path}", "Name a .gguf file.")
        with _log_file().open("wb") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=_environment(),
                cwd=_log_file().parent,
                start_new_session=True,  # Ctrl+C in the terminal stops a turn, not the model
            )
        order = {
            "path": str(self.path),
            "key": self.key,
            "name": self.name,
            "window_tokens": self._window_tokens,
            "threads": max(1, (os.cpu_count() or 2) - (1 if (os.cpu_count() or 2) > 4 else 0)),
        }
        answer = {} if self._is_stopped else self._ask(self._process, order)
        if self._is_stopped or not answer.get("url"):
            self.stop()
            raise _failed(self.path, str(answer.get("error", "")))
        self.url = str(answer["url"])

    def _ask(self, process: subprocess.Popen[bytes], order: dict[str, object]) -> dict[str, object]:
        stdin, stdout = _pipes(process)
        try:
            stdin.write(json.dumps(order).encode() + b"\n")
            stdin.flush()
            answer = json.loads(stdout.readline())
        except (OSError, ValueError):
            return {}
        return answer if isinstance(answer, dict) else {}

    async def starting(self) -> AsyncGenerator[LoadProgress, None]:
        """Start it and tell the time that it takes; closed before it is ready, it is stopped."""
        clock = asyncio.get_running_loop().time
        started = clock()
        task = asyncio.create_task(asyncio.to_thread(self.start))
        try:
            while not task.done():
                yield LoadProgress(f"starting {self.name}, {clock() - started:.0f} s")
                _ = await asyncio.wait([task], timeout=_TICK_S)
            task.result()
        finally:
            if not task.done():
                self.stop()
                with contextlib.suppress(ProviderError):
                    await task

    def stop(self) -> None:
        """End it; idempotent."""
        self._is_stopped = True
        process, self._process, self.url = self._process, None, ""
        if process is None:
            return
        process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            _ = process.wait(_STOP_LIMIT_S)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


def _pipes(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    assert process.stdin is not None
    assert process.stdout is not None
    return process.stdin, process.stdout


def _environment() -> dict[str, str]:
    """Return the environment without keys; spinning threads are off, else two of them on a busy machine crawl."""
    kept = {name: value for name, value in os.environ.items() if name not in _SECRETS}
    return {"OMP_WAIT_POLICY": "passive", **kept}


def _log_file() -> Path:
    folder = state_dir()
    folder.mkdir(parents=True, exist_ok=True)
    return folder / "embedded.log"


def _failed(path: Path, why: str) -> ProviderError:
    if "not installed" in why:
        return ProviderError(Fault.REJECTED, f"llama.cpp's wheel is needed to run {path.name}", EXTRA)
    try:
        lines = _log_file().read_text(encoding="utf-8", errors="replace")[-_LOG_TAIL_CHARS:].splitlines()
    except OSError:
        lines = []
    told = next((line for line in lines if "failed" in line or "error" in line.lower()), "")
    said = clean_line(told or why or "its process ended")
    hint = f"Is it a whole GGUF file, and does it fit into memory?  Its log: {_log_file()}"
    return ProviderError(Fault.SERVER_ERROR, f"{path.name} does not run: {said}", hint)
