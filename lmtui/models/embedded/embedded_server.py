"""Starts and stops the child process that holds a model file."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import os
import re
import secrets
import subprocess
import sys
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path

from lmtui.core.errors import Fault, ProviderError
from lmtui.core.sanitize import sanitize_line
from lmtui.core.servers import LoadProgress
from lmtui.models.servers.server_client import TICK_S, passing
from lmtui.paths import install_hint, state_dir, without_keys

MOST_FILES = 200
_LEAST_BYTES = 1_000_000
ModelFiles = dict[str, tuple[Path, int]]
_NO_MODEL = re.compile(r"mmproj|-(?!00001)[0-9]{5}-of-[0-9]{5}$", re.IGNORECASE)  # part of one; a later part


def find_files(home: Path, environment: Mapping[str, str] = os.environ) -> ModelFiles:
    """Return the model files of the usual folders by name, each with its bytes; blocks (disk).

    Of several with the same name it is the first.
    """
    hub = environment.get("HF_HUB_CACHE") or Path(environment.get("HF_HOME") or home / ".cache/huggingface", "hub")
    own = environment.get("LLAMA_CACHE") or home / ".cache/llama.cpp"
    folders = (home / ".lmstudio/models", home / ".cache/lm-studio/models", Path(hub), Path(own))
    found: ModelFiles = {}
    patterns = ["*/" * depth + "*.gguf" for depth in range(7)]  # these follow links
    for path in (path for folder in folders for each in patterns for path in folder.glob(each)):
        with contextlib.suppress(OSError):
            if not _NO_MODEL.search(path.stem) and (size_bytes := path.stat().st_size) >= _LEAST_BYTES:
                found.setdefault(path.stem, (path, size_bytes))
    return dict(sorted(found.items(), key=lambda item: item[0].lower())[:MOST_FILES])


CHILD = Path(__file__).with_name("child.py")
DEFAULT_WINDOW = 16_384
_STOP_LIMIT_S = 5.0
_LOG_TAIL_CHARS = 2_000


def is_installed() -> bool:
    """Tell whether llama.cpp's wheel is there."""
    return importlib.util.find_spec("xllamacpp") is not None


class Engine:
    """One model file behind a loopback port with its own key; it ends with lmtui, however that ends.

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
            raise ProviderError(Fault.UNKNOWN_MODEL, f"no model file {self.path}", "Name a .gguf file.")
        caches = prompt_caches_dir()
        caches.mkdir(parents=True, exist_ok=True, mode=0o700)  # a prompt cache holds the conversation
        with _log_file().open("wb") as log:
            process = self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env={"OMP_WAIT_POLICY": "passive", **without_keys(os.environ)},  # two that spin on a busy machine crawl
                cwd=caches.parent,
                start_new_session=True,  # Ctrl+C in the terminal stops a turn, not the model
            )
        order = {
            "path": str(self.path),
            "key": self.key,
            "name": self.name,
            "window_tokens": self._window_tokens,
            "threads": max(1, (os.cpu_count() or 2) - (1 if (os.cpu_count() or 2) > 4 else 0)),
            "slot_folder": f"{caches}/",
        }
        answer: object = None
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(OSError, ValueError):  # if it has ended, what it wrote says why
            process.stdin.write(json.dumps(order).encode() + b"\n")
            process.stdin.flush()
        with contextlib.suppress(OSError, ValueError):
            answer = json.loads(process.stdout.readline())
        told = answer if isinstance(answer, dict) and not self._is_stopped else {}
        if self._is_stopped or not told.get("url"):
            self.stop()
            raise _failed(self.path, str(told.get("error", "")))
        self.url = str(told["url"])

    async def starting(self) -> AsyncGenerator[LoadProgress, None]:
        """Start it and tell the time that it takes; closed before it is ready, it is stopped."""
        task = asyncio.create_task(asyncio.to_thread(self.start))
        try:
            async with contextlib.aclosing(passing(task, f"starting {self.name}", TICK_S)) as steps:
                async for step in steps:
                    yield step
            task.result()
        finally:
            if not self.url:
                self.stop()

    def stop(self) -> None:
        """End it; idempotent."""
        self._is_stopped = True
        process, self._process, self.url = self._process, None, ""
        if process is None:
            return
        process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            _ = process.wait(_STOP_LIMIT_S)
        for pipe in filter(None, (process.stdin, process.stdout)):
            with contextlib.suppress(OSError):
                pipe.close()


def prompt_caches_dir() -> Path:
    """Return the folder in which our own server keeps prompt caches."""
    return state_dir() / "prompt-caches"


def _log_file() -> Path:
    return state_dir() / "embedded.log"


def _failed(path: Path, why: str) -> ProviderError:
    if "not installed" in why:
        return ProviderError(Fault.REJECTED, f"llama.cpp's wheel is needed to run {path.name}", install_hint("embedded"))
    lines: list[str] = []
    with contextlib.suppress(OSError):
        lines = _log_file().read_text(encoding="utf-8", errors="replace")[-_LOG_TAIL_CHARS:].splitlines()
    told = next((line for line in lines if "failed" in line or "error" in line.lower()), "")
    said = sanitize_line(told or why or "its process ended")
    hint = f"Is it a whole GGUF file, and does it fit into memory?  Its log: {_log_file()}"
    return ProviderError(Fault.SERVER_ERROR, f"{path.name} does not run: {said}", hint)
