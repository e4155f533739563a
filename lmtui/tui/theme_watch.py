"""Shows a user's own theme again whenever its file is saved; costs nothing while a theme that ships is in use."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from watchfiles import awatch


class ThemeWatch:
    """Watches one file at a time and calls `changed` with the theme's name after each save."""

    def __init__(self, changed: Callable[[str], None]) -> None:
        self._changed = changed
        self._task: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()
        self._file: Path | None = None

    def watch(self, file: Path | None) -> None:
        """Watch this file from now on, and no other (None: no file at all)."""
        if file == self._file:
            return
        self._file = file
        self._stop.set()
        self._stop = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._run(file, self._stop)) if file is not None else None

    async def _run(self, file: Path, stop: asyncio.Event) -> None:
        """Look at the folder, as editors replace files; a folder that goes away ends it."""

        def is_it(_: object, path: str) -> bool:
            return Path(path).name == file.name

        try:
            async for _ in awatch(file.parent, watch_filter=is_it, stop_event=stop, debounce=200, recursive=False):
                self._changed(file.stem)
        except OSError:
            return
