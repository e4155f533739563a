"""Pictures as lines of cells: two pixels above each other in one character, decoded in a process of its own."""

from __future__ import annotations

import asyncio
import sys
from itertools import groupby
from pathlib import Path

from lmtui.core.clean import clean_line
from lmtui.tui.lines.text import Line

TIMEOUT_S = 15.0
MAX_COLUMNS, MAX_ROWS = 200, 100
HALF = "▀"
_DECODER = Path(__file__).with_name("picture_decoder.py")


class PictureError(Exception):
    """A picture cannot be shown; the text says why."""


async def picture_lines(data: bytes, columns: int, rows: int) -> list[Line]:
    """Return a picture as lines, at most so many cells wide and high.

    Raises:
        PictureError: it is broken, too large, or nothing here decodes pictures.
    """
    size = (str(max(1, min(columns, MAX_COLUMNS))), str(max(1, min(rows, MAX_ROWS))))
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-I", str(_DECODER), *size,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env={},
    )  # fmt: skip
    try:
        async with asyncio.timeout(TIMEOUT_S):
            found, reason = await process.communicate(data)
    except TimeoutError as error:
        raise PictureError("it takes too long to decode") from error
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise PictureError(clean_line(reason.decode("utf-8", "replace").strip()[-200:]) or "its decoder was stopped")
    return _lines(found)


def _lines(found: bytes) -> list[Line]:
    head, _, pixels = found.partition(b"\n")
    columns, rows = (int(part) for part in head.split())
    if len(pixels) != columns * rows * 6:
        raise PictureError("its decoder sent something else")
    width = columns * 3
    lines: list[Line] = []
    for row in range(rows):
        upper = pixels[2 * row * width : (2 * row + 1) * width]
        lower = pixels[(2 * row + 1) * width : (2 * row + 2) * width]
        cells = [(upper[at : at + 3].hex(), lower[at : at + 3].hex()) for at in range(0, width, 3)]
        lines.append(tuple((HALF * len(list(run)), f"fg:#{top} bg:#{bottom}") for (top, bottom), run in groupby(cells)))
    return lines
