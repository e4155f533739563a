"""Projects in the app: lists them, and starts lmtui again in the one that is chosen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

from lmtui.core.folders import NO_PROJECTS, KnownProject, Projects
from lmtui.core.sanitize import pluralize, sanitize_line
from lmtui.tui.commands import Command
from lmtui.tui.lines.styled_text import Line, Span, fit, pad
from lmtui.tui.modals.list_dialog import ListDialog
from lmtui.tui.modals.picker import Confirm
from lmtui.tui.terminal_app import ThemedApp
from lmtui.tui.wording import folder_text
from lmtui.tui.workbench_api import FeatureController, Handler


class ProjectList(ListDialog[KnownProject, str | None]):
    """Lists the projects; the result is the path of the one to go to."""

    NAME, HEADING, CHOOSING, FILTER = "projects", "Projects", "open", "name or path"

    def __init__(self, projects: Projects, here: Path, now: Callable[[], datetime]) -> None:
        super().__init__()
        self._projects, self._here, self._now = projects, str(here), now
        self.noun = "project"

    def on_mount(self) -> None:
        self.run_worker(self._read(), group="projects", exclusive=True)

    async def _read(self) -> None:
        self.show(await self._projects.read(), at=self._here)

    def key(self, row: KnownProject) -> str:
        """Return the project's path."""
        return row.path

    def text(self, row: KnownProject) -> str:
        """Return its path, name and tags."""
        return " ".join((row.path, row.name, *row.tags))

    def line(self, row: KnownProject, width: int) -> Line:
        """Return a project in aligned columns."""
        mark: Span = (" ! ", "bad") if row.problem else (" ● ", "warn") if row.needs else (" · ", "muted")
        room = max(10, width - 3 - 17 - 24)
        return (
            mark,
            (pad(fit(sanitize_line(row.name), room), room), ""),
            (pad(fit(row.used_text(self._now()), 16), 17), "muted"),
            (fit(row.plans_text, 24), "muted"),
        )

    def about(self, row: KnownProject | None) -> tuple[str, Sequence[Command]]:
        """Return all there is to know of a project."""
        if row is None:
            return NO_PROJECTS, ()
        here = "you are here" if row.path == self._here else ""
        failed = pluralize(row.failed, "failed task") if row.failed and not row.needs else ""
        tags = " ".join(f"#{sanitize_line(tag)}" for tag in row.tags)
        parts = (sanitize_line(folder_text(Path(row.path), Path.home())), row.state_text, failed, tags, here)
        return " · ".join(each for each in parts if each), self.verbs()

    def act(self) -> None:
        """Go to the marked project."""
        row = self.current
        if row is not None and row.problem:
            self.say(row.state_text, "$error")
        elif row is not None:
            _ = self.dismiss(row.path if row.path != self._here else None)


class ProjectsController(FeatureController):
    """Answers `/projects`."""

    def handlers(self) -> dict[str, Handler]:
        """Return what answers the command."""
        return {"projects.show": lambda _: self._show()}

    def _show(self) -> None:
        dialog = ProjectList(self.host.extensions[Projects], self.host.workspace, self.workbench.now)
        _ = self.workbench.app.push_screen(dialog, self._chosen)

    def _chosen(self, path: str | None) -> None:
        if path and self.workbench.app.is_web:
            self.workbench.say("a browser stays in its folder: use `lmtui serve DIR`", "warning")
        elif path:
            _ = self.workbench.app.run_worker(self._go_to(path), group="projects")

    async def _go_to(self, path: str) -> None:
        """Leave, so that lmtui is started again in a folder; asks first where something would be stopped."""
        app, sessions = self.workbench.app, self.workbench.sessions
        assert isinstance(app, ThemedApp)
        if sessions.working or sessions.unmerged:
            text = "Turns stop; their work is saved, and sessions can be resumed. Changes of try mode are saved as a patch."
            if not await app.push_screen_wait(Confirm(f"Switch to {sanitize_line(Path(path).name)}?", text)):
                return
        app.next_folder = path
        app.leave_now(0)
