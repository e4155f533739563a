"""Standard input beside the words of a task: read where something is piped in, never waited for without an end."""

from __future__ import annotations

import os
import select
import stat
from typing import TextIO

from lmtui.core.errors import UsageError

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
        print(f"nothing came on standard input in {_FIRST_BYTE_S:.0f} s: the task goes on without it", file=err)
        return ""
    data = source.buffer.read(MAX_BYTES + 1) if hasattr(source, "buffer") else source.read().encode()
    if len(data) > MAX_BYTES:
        hint = "Write it to a file in the folder and name that in the task."
        raise UsageError(f"standard input is more than {MAX_BYTES >> 20} MB", hint)
    return data.decode("utf-8", "replace")


def joined(task: str, piped: str) -> str:
    """Return the words for the model: the task, and what was piped in as what it is."""
    return f"{task}\n\n<stdin>\n{piped.rstrip()}\n</stdin>" if piped.strip() else task
