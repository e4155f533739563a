"""HTML into Markdown, in a process of its own with little time and memory: a page is somebody else's, and parsing is slow."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from pathlib import Path

from lmtui.core.errors import ToolError

_TIME_S = 20
_SELECTOR_PROBLEMS = {3: "matches nothing on the page", 4: "is not a CSS selector"}  # by the converter's exit code
_CONVERTER = Path(__file__).with_name("html_converter.py")


async def to_markdown(html: str, selector: str = "") -> str:
    """Return a page as Markdown, or only what a CSS selector matches.

    Raises:
        ToolError: it takes too long or breaks the parser, or the selector is invalid or matches nothing.
    """
    environ = {"PATH": os.environ.get("PATH", ""), "PYTHONPATH": os.pathsep.join(_own_places())}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",
        str(_CONVERTER),
        selector,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=environ,
        cwd="/",
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(_TIME_S):
            out, _ = await process.communicate(html.encode("utf-8", "replace"))
    except TimeoutError as error:
        raise ToolError("the page is too much to be read as text") from error
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if why := _SELECTOR_PROBLEMS.get(process.returncode or 0):
        raise ToolError(f"css_selector {selector[:80]!r} {why}", "Leave it out to get the whole page.")
    if process.returncode:
        raise ToolError("the page cannot be read as HTML")
    return out.decode("utf-8", "replace")


def _own_places() -> list[str]:
    """Return where modules are taken from: never the folder one stands in, which is somebody else's."""
    here = Path.cwd().resolve()
    return [path for path in sys.path if Path(path).is_absolute() and Path(path).resolve() != here]
