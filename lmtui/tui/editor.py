"""The user's own editor, over the screen: the app gives the terminal away and takes it back.  Sessions go on meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from textual.app import App, SuspendNotSupported

from lmtui.paths import without_keys
from lmtui.plain_files import editor_command


async def open_editor(app: App[Any], path: Path, line: int = 0, *, say: Callable[[str], None]) -> bool:
    """Open a file in the user's editor and wait for its end; True if it ended well, else `say` gets the reason.

    Nothing is drawn meanwhile, but everything continues: the event loop is not blocked.
    """
    command = editor_command(path, line, os.environ)
    if not command:
        say("no editor found: set VISUAL or EDITOR")
        return False
    try:
        with app.suspend(), app.batch_update(), _interrupts_are_the_editors():
            process = await asyncio.create_subprocess_exec(*command, env=without_keys(os.environ))
            code = await process.wait()
    except SuspendNotSupported:
        say("an editor cannot be opened here: the terminal cannot be given away")
        return False
    except OSError as error:
        say(f"{command[0]} could not be started: {error.strerror}; VISUAL or EDITOR name another")
        return False
    finally:
        app.refresh(layout=True)
    if code:
        say(f"{command[0]} exited with {code}; unsaved changes are lost")
    return code == 0


async def edit_text(app: App[Any], text: str, name: str, *, say: Callable[[str], None]) -> str | None:
    """Return what the user's editor made of a text, in a file of this name; None where it did not end well."""
    with tempfile.TemporaryDirectory(prefix="lmtui-") as folder:
        path = Path(folder) / name
        await asyncio.to_thread(path.write_text, text, encoding="utf-8", errors="replace")
        if not await open_editor(app, path, say=say):
            return None
        try:
            return await asyncio.to_thread(path.read_text, encoding="utf-8")
        except (OSError, UnicodeError) as error:
            say(f"the text cannot be read: {error}")
            return None


@contextlib.contextmanager
def _interrupts_are_the_editors() -> Iterator[None]:
    """Keep Ctrl+C in the editor from ending the app, which is in the same process group."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
