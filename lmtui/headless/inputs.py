"""Where lmtui can draw a screen, and where it is better not to."""

from __future__ import annotations

import os
import select
import stat
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from lmtui.command_line import say
from lmtui.core.errors import UsageError
from lmtui.core.messages import MAX_IMAGE_BYTES, MAX_IMAGES, Image, picture

MAX_BYTES = 1_048_576
_FIRST_BYTE_S = 3.0


def read_piped(source: TextIO, err: TextIO, *, is_waited_for: bool) -> str:
    """Return what is piped in, empty for a terminal or where nothing comes.

    Args:
        source: standard input.
        err: where it is said that nothing came.
        is_waited_for: it is the task itself, so that its first byte may come late.

    Raises:
        UsageError: it is more than `MAX_BYTES`.
    """
    try:
        number = source.fileno()
        mode = os.fstat(number).st_mode
    except (OSError, ValueError):  # closed, or no file at all
        return ""
    if stat.S_ISCHR(mode) or stat.S_ISDIR(mode):  # a terminal, or /dev/null
        return ""
    is_pipe = stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
    if is_pipe and not is_waited_for and not select.select([number], [], [], _FIRST_BYTE_S)[0]:
        say(f"nothing came on standard input in {_FIRST_BYTE_S:.0f} s: the task continues without it", file=err)
        return ""
    data = source.buffer.read(MAX_BYTES + 1) if hasattr(source, "buffer") else source.read().encode()
    if len(data) > MAX_BYTES:
        hint = "Write it to a file in the folder and name that in the task."
        raise UsageError(f"standard input is more than {MAX_BYTES >> 20} MB", hint)
    return data.decode("utf-8", "replace")


def joined(task: str, piped: str) -> str:
    """Return the words for the model: the task, and what was piped in as what it is."""
    return f"{task}\n\n<stdin>\n{piped.rstrip()}\n</stdin>" if piped.strip() else task


def read_pictures(names: Sequence[str]) -> tuple[Image, ...]:
    """Read picture files.  Blocks (disk).

    Raises:
        UsageError: one cannot be read, is none or too large, or there are too many; the text names it.
    """
    if len(names) > MAX_IMAGES:
        raise UsageError(f"{len(names)} pictures are too many", f"One message takes up to {MAX_IMAGES}.")
    return tuple(_read(Path(name)) for name in names)


def _read(path: Path) -> Image:
    try:
        if path.exists() and not path.is_file():  # a pipe may never get a writer
            raise UsageError(f"picture {path} is not a regular file", "Name a PNG, JPEG, GIF or WebP file.")
        with path.open("rb") as file:
            return picture(path.name, file.read(MAX_IMAGE_BYTES + 1))
    except OSError as error:
        raise UsageError(f"picture {path} cannot be read: {error.strerror}", "Check its name.") from error


PLAIN_WAY = "`lmtui --plain` works here, line by line."


def wants_plain(*, is_asked: bool) -> bool:
    """Tell whether the linear mode is wanted: by its flag, or by `ACCESSIBLE` in the environment."""
    return is_asked or os.environ.get("ACCESSIBLE", "").strip() not in ("", "0")


def is_tab() -> bool:
    """Tell whether this process is the app in a tab of a browser."""
    return os.environ.get("TEXTUAL_DRIVER", "").endswith(":WebDriver")


def check_screen() -> None:
    """Make sure that a screen can be drawn.

    Raises:
        UsageError: no terminal, or it cannot place a cursor or show what a screen is drawn with.
    """
    if is_tab():
        return
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("the full-screen app needs a terminal", 'Use `lmtui run "TASK"` without one.')
    if os.environ.get("TERM", "dumb") in ("", "dumb"):
        raise UsageError("the full-screen app cannot draw on TERM=dumb", f"Set TERM; {PLAIN_WAY}")
    written = sys.__stderr__.encoding if sys.__stderr__ is not None else ""
    if written.lower().replace("-", "") != "utf8":
        raise UsageError(
            f"the full-screen app needs UTF-8 and this terminal is said to take {written or 'nothing'}",
            f"Set LANG to a UTF-8 locale such as C.UTF-8 (and PYTHONIOENCODING to nothing); {PLAIN_WAY}",
        )


def write_answer(path: Path, answer: str) -> None:
    """Write what a run answered.

    Raises:
        UsageError: it cannot be written.
    """
    try:
        path.write_text(f"{answer}\n" if answer else "", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"the answer cannot be written to {path}: {error.strerror}") from error
