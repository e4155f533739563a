r"""The clipboard of the person at the terminal: by the terminal itself (OSC 52), and by a program of this machine.

Over ssh only the terminal knows the right clipboard.  In tmux a sequence goes plain (`set-clipboard on`) and wrapped for the
terminal around it (`allow-passthrough on`), and tmux itself is asked (`load-buffer -w`).  OSC 52 per xterm's ctlseqs; the
wrapping (`ESC P tmux; … ESC \`, every ESC doubled) per tmux(1).
"""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

LARGEST_OSC_BYTES = 74_994
PROGRAM_LIMIT_S = 3.0


@dataclass(frozen=True)
class Route:
    """How a text gets to the clipboard: a program that reads it, and whether the terminal is asked as well."""

    program: tuple[str, ...] = ()
    is_in_tmux: bool = False


def find_route(environ: Mapping[str, str] = os.environ, which: Callable[[str], str | None] = shutil.which) -> Route:
    """Choose by the environment; without a program the terminal alone is asked."""
    is_remote = bool(environ.get("SSH_CONNECTION") or environ.get("SSH_TTY"))
    is_in_tmux = bool(environ.get("TMUX"))
    candidates: list[tuple[str, ...]] = []
    if not is_remote:
        if environ.get("WAYLAND_DISPLAY"):
            candidates.append(("wl-copy",))
        if environ.get("DISPLAY"):
            candidates += [("xclip", "-selection", "clipboard"), ("xsel", "--clipboard", "--input")]
        candidates += [("pbcopy",), ("clip.exe",)]
    if is_in_tmux:
        candidates.append(("tmux", "load-buffer", "-w", "-"))
    found = next((each for each in candidates if which(each[0])), ())
    return Route(found, is_in_tmux)


def osc_52(text: str, *, is_in_tmux: bool = False) -> str:
    """Return the sequence that sets the terminal's clipboard; empty where the text is too large for terminals to take."""
    data = text.encode("utf-8", "replace")
    if len(data) > LARGEST_OSC_BYTES:
        return ""
    plain = f"\x1b]52;c;{base64.b64encode(data).decode()}\x07"
    if not is_in_tmux:
        return plain
    doubled = plain.replace("\x1b", "\x1b\x1b")
    return f"{plain}\x1bPtmux;{doubled}\x1b\\"


def run_program(program: tuple[str, ...], text: str) -> bool:
    """Give a text to a clipboard program; False where it failed.  Blocks, for a limited time: call it in a thread."""
    data = text.encode("utf-16-le" if program[0] == "clip.exe" else "utf-8", "replace")
    try:
        done = subprocess.run(
            program,
            input=data,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=PROGRAM_LIMIT_S,
            check=False,
            start_new_session=True,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def keep_in_file(text: str, folder: Path) -> Path:
    """Write what no clipboard takes to a file that only the user can read, and return its path.

    Raises:
        OSError: it cannot be written.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / f"copied-{os.urandom(4).hex()}.txt"
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        _ = file.write(text.encode("utf-8", "replace"))
    return path


def size_text(text: str) -> str:
    """Return how much was copied, in words."""
    lines = text.count("\n") + 1
    return f"{lines:,} lines" if lines > 1 else f"{len(text):,} characters"


def copy_by_program(route: Route, text: str, *, has_osc: bool, folder: Path) -> tuple[str, bool]:
    """Do what may take time and return what to say, and whether it worked.  Blocks: call it in a thread.

    `has_osc` tells that the terminal was asked already; terminals do not answer, so that counts as done.
    """
    if route.program and run_program(route.program, text):
        return f"copied {size_text(text)}", True
    if has_osc:
        return f"copied {size_text(text)} by the terminal", True
    try:
        path = keep_in_file(text, folder)
    except OSError as error:
        return f"not copied, and not written to a file either: {error.strerror or error}", False
    return f"too large for the terminal's clipboard ({size_text(text)}); it is in {path}", True
