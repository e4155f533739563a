"""The question before files or the conversation go back: what would change is shown first, and nothing is preselected."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import ClassVar

from textual.content import Content

from lmtui.core.sanitize import pluralize, sanitize_line, sanitize_path
from lmtui.core.sessions import Restoration
from lmtui.tui.commands import Command, Scope, closing, command
from lmtui.tui.lines.diff_view import DiffView
from lmtui.tui.lines.patch import MINUS, patches_of
from lmtui.tui.modals.approval_words import titled
from lmtui.tui.modals.consent import ConsentDialog, Question

_MOST_NAMES = 6
_TITLES = {"undo": "Undo", "redo": "Do again", "restore": "Put back", "rewind": "Rewind to before this turn"}
_NO_FILES = "No file changes."


class Way(StrEnum):
    """What was answered."""

    ALL = "all"
    TALK = "talk"
    LOOK = "look"


class RestoreQuestion(Question[Way | None]):
    """Shows a plan.  One with conflicts cannot be agreed to; a rewind may leave the files as they are.

    A yes needs no reading: what was undone can be done again.
    """

    scope: ClassVar[Scope] = Scope.RESTORE
    guarded: ClassVar[tuple[str, ...]] = ("restore.yes", "restore.talk")
    needs_reading: ClassVar[bool] = False

    def __init__(self, plan: Restoration, what: str) -> None:
        self._diff = DiffView()
        super().__init__(self._diff)
        self._plan, self._what = plan, what
        self._diff.empty_text = _NO_FILES

    def begin(self) -> None:
        """Show what would change."""
        self._diff.show_patches(patches_of(self._plan.changes))

    def headline(self, width: int) -> Content:
        """Return what would be done, and how much of it."""
        changes = self._plan.changes
        added, removed = sum(each.added_lines for each in changes), sum(each.removed_lines for each in changes)
        counts = f"{pluralize(len(changes), 'file')}  +{added} {MINUS}{removed}" if changes else "no files"
        title = _TITLES.get(self._plan.action, sanitize_line(self._plan.action))
        return titled(f"{title}: {sanitize_path(self._what)}" if self._what else title, counts, "$text-muted", width)

    def notes(self) -> Content:
        """Return what is against it, and what it leaves out."""
        lines: list[Content] = []
        if len(self._plan.changes) == 1:
            lines.append(Content.styled(sanitize_path(self._plan.changes[0].path), "$text-muted"))
        if self._plan.conflicts:
            words = "refused: changed since by another hand: "
            lines.append(Content.assemble((words, "bold $error"), (_names(self._plan.conflicts), "$error")))
        if self._plan.unkept:
            words = "these are replaced, and their current content is lost: "
            lines.append(Content.assemble((words, "$warning"), (_names(self._plan.unkept), "$warning")))
        if self._plan.left_out:
            words = "not covered, they stay as they are: "
            lines.append(Content.assemble((words, "$text-muted"), (_names(self._plan.left_out), "$warning")))
        return Content("\n").join(lines)

    def choices(self) -> Sequence[Command]:
        """Return what can be answered."""
        found = [] if self._plan.conflicts else [command("restore.yes")]
        if self._plan.conflicts:
            found.append(command("restore.look"))
        if self._is_rewind:
            found.append(command("restore.talk"))
        return [*found, command("restore.no"), closing()] if found else [closing()]

    def handlers(self) -> Mapping[str, Callable[[], object]]:
        """Return what each answer does: all of it, the conversation only, a look at what changed since, nothing."""
        dialog, has_conflicts = self.dialog, bool(self._plan.conflicts)
        return {
            "restore.yes": lambda: dialog.is_live and not has_conflicts and dialog.dismiss(Way.ALL),
            "restore.talk": lambda: dialog.is_live and self._is_rewind and dialog.dismiss(Way.TALK),
            "restore.look": lambda: has_conflicts and dialog.dismiss(Way.LOOK),
            "restore.no": self.close,
        }

    def close(self) -> None:
        """Leave everything as it is."""
        _ = self.dialog.dismiss(None)

    @property
    def _is_rewind(self) -> bool:
        return self._plan.action == "rewind"


def restore_dialog(plan: Restoration, what: str, *, now: Callable[[], datetime]) -> ConsentDialog[Way | None]:
    """Return the dialog that asks whether a plan is carried out."""
    return ConsentDialog(RestoreQuestion(plan, what), now)


def _names(paths: Sequence[str]) -> str:
    rest = len(paths) - _MOST_NAMES
    return ", ".join(sanitize_path(path) for path in paths[:_MOST_NAMES]) + (f" and {rest} more" if rest > 0 else "")
