"""The question about the effect of a command: its parts over the whole screen, the answers below."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from textual.content import Content

from lmtui.core.events import ApprovalRequested, Outcome
from lmtui.core.look_alikes import approval_warning
from lmtui.core.sanitize import escape_invisible_line, sanitize, sanitize_line
from lmtui.core.sessions import Answer
from lmtui.core.workspace import EffectKind
from lmtui.tui.commands import Scope
from lmtui.tui.lines.page_view import whole_text
from lmtui.tui.lines.styled_text import fit
from lmtui.tui.modals import approval_text as texts
from lmtui.tui.modals.approval import Approval, Decided
from lmtui.tui.modals.consent import Question
from lmtui.tui.modals.picker import Reading
from lmtui.tui.session_state import SessionState
from lmtui.tui.widgets.bars import Part
from lmtui.tui.widgets.effect_page import UNDECIDED, EffectPage

COMMAND_CELLS = 60
_CANNOT = "cannot be kept: "


def also_of(request: ApprovalRequested) -> list[str]:
    """Return what else the command did: what cannot be kept, and folders that go with their files."""
    listed = request.text.rpartition("\n\n")[2].split("\n")
    parts = {f"{part.kind} {part.path}" for part in request.parts}
    gone = [each.removeprefix("deletes ") for each in listed if each.startswith("deletes ") and each.endswith("/")]
    folders = [f"{each} is deleted with its files" for each in gone if f"deleted {each}" not in parts]
    return [*(each for each in listed if each.startswith(_CANNOT)), *folders]


def title_of(request: ApprovalRequested, state: SessionState) -> tuple[list[Part], list[Part]]:
    """Return the first row: the command, how it ended and where it ran."""
    command = fit(escape_invisible_line(texts.effect_command(request)), COMMAND_CELLS)
    ended = sanitize_line(request.limits)
    sign = ("✓ ", "$success") if ended.startswith("exit 0") else ("✗ ", "$error")
    notes = [Part(Content.assemble(sign, (ended, "$text")), "", 1)] if ended else []
    notes += [
        Part(texts.conditions(request, state)[0][0], "$text-muted", 3),
        Part("nothing has changed in your folder", "$text", 2),
    ]
    return [Part("Try first", "bold"), Part(command, "$text-secondary")], notes


class EffectApproval(Approval):
    """Lets each part of an effect be applied or skipped, once the user says so."""

    scopes = (Scope.EFFECT, Scope.EFFECTS, Scope.REQUEST, Scope.DIFF)
    guarded = ("effect.apply",)
    decisions = ("effect.apply", "effect.no", "effects.toggle", "effects.deletions", "request.because", "effects.everything")
    at_once: ClassVar[tuple[str, ...]] = ("effects.toggle", "effects.hunk")
    needs_reading = False
    page: EffectPage

    def __init__(self, request: ApprovalRequested, state: SessionState) -> None:
        self.page = EffectPage(*title_of(request, state))
        super().__init__(request, state, self.page.diff, self.page.list)
        self.takes_side = False

    def begin(self) -> None:
        """Show the parts."""
        self.page.changed = self.dialog.draw
        self.page.show(self.request.parts, also_of(self.request))

    def take_over(self, before: Question[Any]) -> None:
        """Go on with what was chosen."""
        super().take_over(before)
        if isinstance(before, EffectApproval):
            self.page.decisions = before.page.decisions

    def headline(self, width: int) -> Content:
        """Return what is asked, which of several it is, and what would be applied."""
        place = texts.place_of(self.request, self.state)
        asked = Content.assemble(
            (texts.question(self.request, self.state), "bold $warning"), (f"  {place}".rstrip(), "$text-muted")
        )
        said = self.page.decisions.said()
        gap = "   " if asked.cell_length + said.cell_length + 3 <= width else "\n"
        return Content.assemble(asked, gap, said)

    def notes(self) -> Content:
        """Return a warning about look-alike characters."""
        return Content.styled(approval_warning(self.request), "$error")

    def preferred(self) -> str:
        """Return the answer that is chosen first: to apply, once there is something to be applied."""
        return "effect.apply" if self.page.decisions.applied else "effects.toggle"

    def left_out(self) -> set[str]:
        """Return the ids of the answers that mean nothing now."""
        found = super().left_out() | {"request.session", "request.always"}
        return found if self._output() else found | {"effect.output"}

    def words(self) -> Mapping[str, str]:
        """Return how much would be applied."""
        decisions = self.page.decisions
        undecided = decisions.count(UNDECIDED)
        deletions = sum(part.kind is EffectKind.DELETED for part in decisions.parts)
        return {
            **super().words(),
            "effect.apply": decisions.verb() if decisions.applied else "",
            "effects.deletions": f"delete all {deletions}" if undecided else "",
            "effects.toggle": self.page.toggle_word(),
            "request.because": "discard with reason…",
            "effects.everything": "" if decisions.is_all_applied or undecided else "apply everything",
        }

    def values(self) -> Mapping[str, Decided]:
        """Return what the answers give that are about all of it."""
        return {**super().values(), "effect.no": Answer(Outcome.NO)}

    def handlers(self) -> Mapping[str, Callable[[], object]]:
        """Return what each answer does."""
        return {
            **super().handlers(),
            **self.page.handlers(),
            "diff.split": self.page.diff.toggle_split,
            "effect.apply": self._apply,
            "effect.output": self._show_output,
        }

    def close(self) -> None:
        """Go back from the change to the list; there, stop."""
        if not self.page.leave_diff():
            super().close()

    def _apply(self) -> None:
        """Apply what is chosen, and nothing else."""
        decisions = self.page.decisions
        if decisions.applied:
            _ = self.dialog.dismiss(Answer(Outcome.ONCE, hunks=None if decisions.is_all_applied else decisions.applied))
        else:
            self.dialog.app.notify(self.page.nothing_chosen(), markup=False)

    def _output(self) -> str:
        """Return what the command printed, as far as it is known."""
        bench = self.dialog.fit.chat.workbench
        current = bench.panes.current if bench is not None else None
        return current.transcript.conversation.written_by(self.request.call_id) if current is not None else ""

    def _show_output(self) -> None:
        text = sanitize(self._output())
        _ = self.dialog.app.push_screen(Reading("Output", lambda width: whole_text(text, width)))
