"""A file of the workspace, or how the session changed it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.screen import Screen

from lmtui.core.clean import clean_line
from lmtui.core.errors import LmtuiError
from lmtui.core.sessions import SessionHost
from lmtui.core.workspace import FileChange
from lmtui.tui.commands import Scope, bindings, hint_text, of_scope
from lmtui.tui.lines.diff_view import DiffView
from lmtui.tui.lines.file_view import FileView
from lmtui.tui.widgets.bars import Bar
from lmtui.tui.widgets.fit import Part


class Viewer(Screen[None]):
    """Shows one file; where it was changed, `n` and `p` go through all changed files."""

    CSS_PATH = "../dialogs.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [each for scope in (Scope.VIEWER, Scope.MOVING) for each in bindings(scope)]

    SCOPE: ClassVar[Scope] = Scope.VIEWER

    def __init__(self, host: SessionHost, changes: Mapping[str, FileChange], path: str, *, as_diff: bool) -> None:
        super().__init__()
        self._host, self._changes, self._path, self._as_diff = host, dict(changes), path, as_diff
        self._title_bar, self._hints = Bar(id="viewer-title"), Bar(id="viewer-hints")
        self._diff, self._file = DiffView(id="viewer-diff"), FileView(id="viewer-file")

    def compose(self) -> ComposeResult:
        """Lay out title, text and keys."""
        yield self._title_bar
        yield self._diff
        yield self._file
        yield self._hints

    def on_mount(self) -> None:
        """Show the file."""
        self._hints.show([Part(f"{hint_text(of_scope(Scope.VIEWER))} · esc close", "$text-muted")], [])
        self._show()

    def action_viewer_next(self) -> None:
        """Show the next changed file."""
        self._step(1)

    def action_viewer_previous(self) -> None:
        """Show the changed file before."""
        self._step(-1)

    def action_close_or_stop(self) -> None:
        """Close."""
        _ = self.dismiss(None)

    def _step(self, step: int) -> None:
        paths = list(self._changes)
        if paths:
            index = paths.index(self._path) if self._path in paths else -step
            self._path, self._as_diff = paths[(index + step) % len(paths)], True
            self._show()

    def _show(self) -> None:
        diff, file = self._diff, self._file
        diff.display, file.display = self._as_diff, not self._as_diff
        change = self._changes.get(self._path)
        counts = [Part(f"+{change.added_lines} −{change.removed_lines}", "$text-muted")] if change else []
        self._title_bar.show([Part(clean_line(self._path), "bold")], counts)
        if self._as_diff and change is not None:
            diff.empty_text = "No text to compare: the file is binary or too large."
            diff.show_diff(change.diff, self._path)
            diff.focus()
        else:
            file.focus()
            self.run_worker(self._load(), group="viewer", exclusive=True)

    async def _load(self) -> None:
        path = self._path
        file = self._file
        try:
            file.show(path, (await self._host.files.read(path)).data)
        except LmtuiError as error:
            file.show(path, error.full_text())
