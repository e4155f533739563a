"""The questions about an effect, of a command or in an overlay: a list of parts, the diff of the marked one, the answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widget import Widget

from lmtui.core.errors import LmtuiError
from lmtui.core.events import ApprovalRequested, Outcome
from lmtui.core.look_alikes import approval_warning
from lmtui.core.sanitize import escape_invisible_line, pluralize, sanitize, sanitize_line, sanitize_path
from lmtui.core.sessions import Answer
from lmtui.core.workspace import EffectKind, EffectPart, EffectReview, units_of
from lmtui.tui.commands import Scope
from lmtui.tui.lines.diff_view import DiffView
from lmtui.tui.lines.page_view import whole_text
from lmtui.tui.lines.patch import MINUS, FilePatch, parse_patch
from lmtui.tui.lines.styled_text import Line, Span, StyleRole, fit, fit_path, join_roles, row
from lmtui.tui.lines.table import Table
from lmtui.tui.modals import approval_text as texts
from lmtui.tui.modals.approval import Approval, Decided
from lmtui.tui.modals.consent import ConsentDialog, Question, YesNo
from lmtui.tui.modals.picker import Reading
from lmtui.tui.session_state import SessionState
from lmtui.tui.widgets.bars import Bar, Part

SIGNS: dict[EffectKind, tuple[str, StyleRole, str]] = {
    EffectKind.DELETED: (MINUS, "bad", "$error"),
    EffectKind.CHANGED: ("~", "warn", "$warning"),
    EffectKind.RENAMED: ("→", "accent", "$accent"),
    EffectKind.CREATED: ("+", "good", "$success"),
}  # the sign, its role in a line, its style in a bar
APPLY, SKIP = "apply", "skip"
DELETE, KEEP_FILE, UNDECIDED = "delete", "keep file", "delete?"
MARK_CELLS, NOTE_FROM, DETAIL_FROM, NARROW_BELOW, ROOMY_FROM_ROWS = 9, 33, 43, 100, 30
NOT_IN_GIT = "not in git"
_NOT_APPLIED = (DELETE, SKIP, KEEP_FILE, UNDECIDED)
_LONGEST_DIFF = 65_000
_EMPTY = {EffectKind.RENAMED: "The text is the same."}
_NO_TEXT = "No text to compare: it is binary, empty or too large."


class EffectDecisions:
    """Which parts of an effect are applied.  Deletions are undecided at first, and their files stay; all else is applied.

    Earlier decisions (`before`) about unchanged parts stay.
    """

    def __init__(self, parts: Sequence[EffectPart], before: EffectDecisions | None = None) -> None:
        self.parts = tuple(parts)
        self._units = units_of(parts)
        known = {part: before.of(number) for number, part in enumerate(before.parts)} if before is not None else {}
        self._chosen: list[bool | None] = []
        for part in parts:
            fresh = [None if part.kind is EffectKind.DELETED else True] * part.hunks
            self._chosen += known.get(part, fresh)

    def of(self, number: int) -> list[bool | None]:
        """Return for each hunk of a part whether it is applied; None where that is undecided."""
        return [self._chosen[unit] for unit in self._units[number]]

    def toggle(self, number: int, hunk: int | None = None) -> None:
        """Skip a part, or one hunk of it, if all of it is applied; else apply it.  A deletion has a third choice, undecided."""
        units = self._units[number] if hunk is None else self._units[number][hunk : hunk + 1]
        self._set(units, chosen=None if self.mark(number) == KEEP_FILE else not all(self._chosen[unit] for unit in units))

    def apply_all(self, kind: EffectKind | None = None) -> None:
        """Apply all parts of a kind, or all there are."""
        for part, units in zip(self.parts, self._units, strict=True):
            if kind in (None, part.kind):
                self._set(units, chosen=True)

    def _set(self, units: Iterable[int], *, chosen: bool | None) -> None:
        for unit in units:
            self._chosen[unit] = chosen

    @property
    def applied(self) -> tuple[int, ...]:
        """Return the units that are applied."""
        return tuple(unit for unit, is_applied in enumerate(self._chosen) if is_applied)

    @property
    def is_all_applied(self) -> bool:
        """Tell whether there is something, and all of it is applied."""
        return bool(self._chosen) and all(self._chosen)

    def mark(self, number: int) -> str:
        """Return the decision about a part in a word."""
        found = self.of(number)
        applied = sum(map(bool, found))
        if self.parts[number].kind is EffectKind.DELETED:
            return {None: UNDECIDED, True: DELETE, False: KEEP_FILE}[found[0]]
        return APPLY if applied == len(found) else f"{applied} of {len(found)}" if applied else SKIP

    def count(self, word: str) -> int:
        """Return how many parts have a decision; those applied in part count as applied."""
        found = Counter(self.mark(number) for number in range(len(self.parts)))
        return found[word] if word != APPLY else len(self.parts) - sum(found[each] for each in _NOT_APPLIED)

    def verb(self) -> str:
        """Return what applying does now, such as `apply 5, delete 1`."""
        return ", ".join(f"{word} {self.count(word)}" for word in (APPLY, DELETE) if self.count(word)) or APPLY

    def said(self) -> Content:
        """Return the counts in words."""
        found = [(f"{word} {self.count(word)}", "$text") for word in (APPLY, DELETE, SKIP, KEEP_FILE) if self.count(word)]
        if undecided := self.count(UNDECIDED):
            whose = "its file stays" if undecided == 1 else "their files stay"
            found.append((f"{pluralize(undecided, 'deletion')} undecided, {whose}", "bold $warning"))
        return Content.styled(" · ", "$text-muted").join([Content.styled(*each) for each in found])


@dataclass(frozen=True, slots=True)
class EffectRow:
    """A row of the list: a part by its number, else a title or a note."""

    number: int = -1
    left: Line = ()


def rows_of(parts: Sequence[EffectPart], also: Sequence[str] = ()) -> Iterator[EffectRow]:
    """Yield the parts under the titles of their kinds, then notes on what cannot be kept by itself."""
    for kind, found in groupby(enumerate(parts), key=lambda each: each[1].kind):
        numbers = [number for number, _ in found]
        if numbers[0]:
            yield EffectRow()
        yield EffectRow(left=((kind.capitalize(), join_roles(SIGNS[kind][1], "strong")), (f" {len(numbers):,}", "muted")))
        yield from map(EffectRow, numbers)
    if also:
        yield from ((EffectRow(),) if parts else ())
        yield EffectRow(left=(("Also", "strong"),))
        yield from (EffectRow(left=((" · ", "muted"), (sanitize_line(each), ""))) for each in also)


def part_line(part: EffectPart, mark: str, width: int) -> Line:
    """Return a part: its sign and path, its size, whether git tracks it, and the decision about it."""
    sign, role, _ = SIGNS[part.kind]
    detail = f"{size_text(part)}{'' if part.is_tracked else f' · {NOT_IN_GIT}'}"
    detail = detail if width >= DETAIL_FROM else "" if part.is_tracked or width < NOTE_FROM else NOT_IN_GIT
    styles: dict[str, StyleRole] = {
        APPLY: "good", SKIP: "muted", DELETE: "bad strong", KEEP_FILE: "muted", UNDECIDED: "warn strong"
    }  # fmt: skip
    right: Line = ((f"{detail}  ", "muted" if part.is_tracked else "warn"), (f"{mark:>{MARK_CELLS}}", styles.get(mark, "")))
    room = max(8, width - 5 - sum(len(text) for text, _ in right))
    return row(((f" {sign} ", role), (name_of(part, room), "muted strike" if mark == SKIP else "")), right, width)


def name_of(part: EffectPart, room: int) -> str:
    """Return the path of a part, behind its former one where it was renamed."""
    name, source = sanitize_path(part.path), sanitize_path(part.source)
    if not source:
        return fit_path(name, room)
    half = (room - 3) // 2
    before, after = fit_path(source, max(half, room - 3 - len(name))), fit_path(name, max(half, room - 3 - len(source)))
    return f"{before} → {after}"


def size_text(part: EffectPart) -> str:
    """Return the size of a part in words, and its permission bits if they changed."""
    if not part.mode:
        return _amount(part)
    is_all = part.kind is EffectKind.CHANGED and not (part.added_lines or part.removed_lines or part.diff)
    return f"mode {part.mode:o}" if is_all else f"{_amount(part)} · mode {part.mode:o}"


def _amount(part: EffectPart) -> str:
    if part.kind is EffectKind.RENAMED:
        return "same text"
    if part.path.endswith("/"):
        return "folder"
    if part.kind is EffectKind.CHANGED and (part.added_lines or part.removed_lines):
        counts = (("+", part.added_lines), (MINUS, part.removed_lines))
        return " ".join(f"{sign}{count}" for sign, count in counts if count)
    size = part.size_bytes
    if size < 1000:
        return f"{size} B"
    unit, size_of_unit = ("kB", 1e3) if size < 999_500 else ("MB", 1e6)
    return f"{size / size_of_unit:.{1 if size < 9.95 * size_of_unit else 0}f} {unit}"


def patches_of_part(part: EffectPart) -> tuple[FilePatch, ...]:
    """Return the change of a part, nothing for binary content; it says so where it is cut."""
    note = "the rest is not shown" if len(part.diff) >= _LONGEST_DIFF else ""
    is_text = not {"\0", "\ufffd"} & {*part.diff}
    return tuple(replace(each, note=note) for each in parse_patch(part.diff, part.path)) if is_text else ()


class HunkList(DiffView, inherit_bindings=False):
    """A diff in which the arrow keys go from hunk to hunk where there are several."""

    def action_move(self, step: str) -> None:
        """Go to another hunk, or scroll."""
        if step in ("up", "down") and self.scroller.hunk_count > 1:
            self.scroller.go_to_hunk(self.scroller.hunk + (1 if step == "down" else -1))
        else:
            super().action_move(step)


class EffectPage(Vertical):
    """Lists the parts of an effect, with the change of the marked one next to it; `changed` is called with every choice.

    `title` and `note` are the ends of the first row.  Where there are fewer than 100 columns, the list is above the change.
    """

    def __init__(self, title: Sequence[Part] = (), note: Sequence[Part] = (), *, split_from: int = 89) -> None:
        super().__init__()
        self.decisions = EffectDecisions(())
        self.changed: Callable[[], object] = lambda: None
        self._title = title, note
        self.list = Table(self._line, lambda each: each.number, can_mark=lambda each: each.number >= 0, id="effect-list")
        self.list.cursor.is_always_shown = True
        self.diff = HunkList(split_from, heading=self._heading, id="effect-diff")
        self._head = Bar(id="effect-head")
        self._shown: EffectPart | None = None

    def compose(self) -> ComposeResult:
        bar = Bar(id="effect-title")
        bar.show(*self._title)
        bar.display = any(self._title)
        yield bar
        yield Horizontal(self.list, Vertical(self._head, self.diff, id="effect-change"), id="effect-body")

    def show(self, parts: Sequence[EffectPart], also: Sequence[str] = (), empty_text: str = "Nothing was changed.") -> None:
        """Show the parts of an effect; earlier decisions about them stay."""
        self.decisions = EffectDecisions(parts, self.decisions)
        self.list.empty_text = empty_text
        self.list.show([*rows_of(parts, also)])

    def handlers(self) -> dict[str, Callable[[], object]]:
        """Return what the keys of a page of effects do."""
        return {
            "effects.toggle": self.toggle,
            "effects.deletions": lambda: self._apply_all(EffectKind.DELETED),
            "effects.everything": self._apply_all,
            "effects.hunks": lambda: self.leave_diff() or self.diff.focus(),
            "effects.zoom": self._zoom,
        }

    @property
    def is_in_diff(self) -> bool:
        """Tell whether the keys are those of the change."""
        return self.diff.has_focus

    def toggle_word(self) -> str:
        """Return what toggling means for the marked part."""
        part = self._part
        return "delete or keep" if part is not None and part.kind is EffectKind.DELETED else "apply or skip"

    def nothing_chosen(self) -> str:
        """Return what to do where nothing is chosen."""
        return f"Nothing is chosen. Space: {self.toggle_word()} the selected file. D: delete all listed as deleted."

    def leave_diff(self) -> bool:
        """Go back to the list; False where one is there."""
        is_left = self.is_in_diff or not self.list.display
        self.list.display = True
        self.list.focus()
        return is_left

    def toggle(self) -> None:
        """Go to the next choice for the marked part, or for the marked hunk of it."""
        marked = self.list.current
        if marked is not None:
            hunk = self.diff.scroller.hunk if self.is_in_diff and self._is_by_hunk else None
            self.decisions.toggle(marked.number, hunk)
            self._redraw()

    @property
    def _part(self) -> EffectPart | None:
        marked = self.list.current
        return self.decisions.parts[marked.number] if marked is not None else None

    @property
    def _is_by_hunk(self) -> bool:
        part = self._part
        return part is not None and 1 < part.hunks == self.diff.scroller.hunk_count

    def _apply_all(self, kind: EffectKind | None = None) -> None:
        self.decisions.apply_all(kind)
        self._redraw()

    def _redraw(self) -> None:
        self.list.redraw()
        self._draw()

    def _zoom(self) -> None:
        if not self.leave_diff():
            self.list.display = False
            self.diff.focus()

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.width < NARROW_BELOW, "-narrow")
        self.set_class(self.app.size.height >= ROOMY_FROM_ROWS, "-roomy")
        self.call_after_refresh(self._draw)

    @on(events.DescendantFocus)
    @on(DiffView.HunkChanged)
    def _draw(self) -> None:
        """Draw the heading of the diff, and which pane has the keys."""
        part, number = self._part, self.list.current.number if self.list.current is not None else -1
        self.diff.lay_out()
        if part is None:
            self._head.show((), ())
        else:
            why = NOT_IN_GIT if self.has_class("-narrow") else f"{NOT_IN_GIT}: undo is the only way back"
            notes = [] if part.is_tracked else [Part(why, "$warning", 1)]
            if part.hunks > 1:
                applied = sum(map(bool, self.decisions.of(number)))
                notes.append(Part(f"apply {applied} of {part.hunks} hunks", "$text-muted", 1))
            room = self._head.size.width - len(part.kind) - 3 - sum(len(note.text) + 2 for note in notes)
            name = Part(name_of(part, max(12, room)), "bold")
            self._head.show([Part(part.kind.capitalize(), f"bold {SIGNS[part.kind][2]}"), name], notes)
        self.changed()

    @on(Table.Marked)
    def _show_change(self) -> None:
        part = self._part
        if part is not self._shown:
            self._shown = part
            is_folder = part is not None and part.path.endswith("/")
            self.diff.empty_text = "" if part is None else _EMPTY.get(part.kind, _NO_TEXT) if not is_folder else "A folder."
            self.diff.show_patches(patches_of_part(part) if part is not None else ())
        self._draw()

    def on_click(self, event: events.Click) -> None:
        """Choose for what was clicked on: the mark of a part, or the heading of a hunk."""
        widget: Widget | None = event.widget
        if widget is self.list and event.y + self.list.scroll_offset.y == self.list.cursor.row:
            if event.x >= self.list.content_width - MARK_CELLS:
                self.toggle()
        elif widget is self.diff and event.y + self.diff.scroll_offset.y < self.diff.source.total():
            clicked = self.diff.source.layout.at(event.y + self.diff.scroll_offset.y)[0]
            if clicked.kind == "hunk":
                self.diff.scroller.go_to_hunk(clicked.hunk)
                self.toggle()

    def _line(self, each: EffectRow, width: int) -> Line:
        if each.number < 0:
            return row(each.left, (), width)
        return part_line(self.decisions.parts[each.number], self.decisions.mark(each.number), width)

    def _heading(self, hunk: int) -> Span:
        """Return what is above a hunk that can be applied by itself."""
        marked = self.list.current
        found = self.decisions.of(marked.number) if marked is not None else []
        if not 1 < len(found) > hunk:
            return "", ""
        is_applied = found[hunk]
        is_here = self.is_in_diff and hunk == self.diff.scroller.hunk
        shown: Span = (APPLY, "good") if is_applied else (SKIP, "muted")
        sign = "▌" if is_here else "✓" if is_applied else " "
        return f"{sign} Hunk {hunk + 1}  {shown[0]}", "warn strong" if is_here else shown[1]


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
    at_once: ClassVar[tuple[str, ...]] = ("effects.toggle",)
    needs_reading = False
    page: EffectPage

    def __init__(self, request: ApprovalRequested, state: SessionState) -> None:
        self.page = EffectPage(*title_of(request, state))
        super().__init__(request, state, self.page.diff, self.page.list)
        self.takes_side = False

    def begin(self) -> None:
        """Show the parts."""
        self.page.changed = self.dialog.draw
        last = self._output().rstrip().rpartition("\n")[2]
        is_told = last and not self.request.limits.startswith("exit 0")
        why = [f"it ended with: {last}"] if is_told else []
        self.page.show(self.request.parts, [*why, *also_of(self.request)])

    def take_over(self, before: Question[Any]) -> None:
        """Go on with what was chosen."""
        super().take_over(before)
        if isinstance(before, EffectApproval):
            self.page.decisions = before.page.decisions

    def headline(self, width: int) -> Content:
        """Return what is asked, which of several it is, and what would be applied."""
        place = texts.place_of(self.request, self.state)
        return _headline(f"{texts.question(self.request, self.state)}  {place}".rstrip(), self.page, width)

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
        return {**super().words(), **_words(self.page), "request.because": "discard with reason…"}

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


def _headline(asked: str, page: EffectPage, width: int) -> Content:
    said = page.decisions.said()
    gap = "   " if len(asked) + said.cell_length + 3 <= width else "\n"
    return Content.assemble((asked, "bold $warning"), gap, said)


def _words(page: EffectPage) -> dict[str, str]:
    """Return what the answers would do now."""
    decisions = page.decisions
    undecided = decisions.count(UNDECIDED)
    deletions = sum(part.kind is EffectKind.DELETED for part in decisions.parts)
    return {
        "effect.apply": decisions.verb() if decisions.applied else "",
        "effects.deletions": f"delete all {deletions}" if undecided else "",
        "effects.toggle": page.toggle_word(),
        "effects.everything": "" if decisions.is_all_applied or undecided else "apply everything",
    }


class EffectReviewQuestion(Question[bool]):
    """Lets parts of the effect in an overlay be applied; the rest stays there.  The result: whether something was applied."""

    scopes = (Scope.EFFECT, Scope.EFFECTS, Scope.DIFF)
    decisions = EffectApproval.decisions
    at_once = EffectApproval.at_once
    needs_reading = has_delay = False  # the user has just asked for it
    page: EffectPage

    def __init__(self, review: EffectReview, title: str, about: str) -> None:
        self.page = EffectPage([Part(sanitize_line(title), "bold"), Part(sanitize_line(about), "$text-muted", 2)])
        super().__init__(self.page.list)
        self.page.list.empty_text, self.page.diff.empty_text = "Loading the changes …", ""
        self._review, self._is_kept, self._said = review, False, Content("")

    def begin(self) -> None:
        """Read what is there."""
        self.page.changed = self.dialog.draw
        self._do(self._look)

    def headline(self, width: int) -> Content:
        """Return what is asked, and what would be applied."""
        return _headline("Apply these changes?", self.page, width)

    def notes(self) -> Content:
        """Return what came of the last answer."""
        return self._said

    def preferred(self) -> str:
        """Return the answer that is chosen first: to apply, once there is something to be applied."""
        return "effect.apply" if self.page.decisions.applied else "effects.toggle"

    def left_out(self) -> tuple[str, ...]:
        """Return the output: it is not known any more."""
        return ("effect.output",)

    def words(self) -> Mapping[str, str]:
        """Return how much would be applied."""
        return _words(self.page)

    def handlers(self) -> Mapping[str, Callable[[], object]]:
        """Return what each answer does."""
        return {
            **self.page.handlers(),
            "diff.split": self.page.diff.toggle_split,
            "effect.apply": lambda: self._do(self._keep),
            "effect.no": self._ask_to_drop,
        }

    def close(self) -> None:
        """Go back to the list, or leave everything in the overlay."""
        if not self.page.leave_diff():
            _ = self.dialog.dismiss(self._is_kept)

    async def _look(self) -> None:
        self.page.show(await self._review.parts(), empty_text="No changes.")

    async def _keep(self) -> None:
        decisions = self.page.decisions
        if not decisions.applied:
            self._said = Content.styled(self.page.nothing_chosen() if decisions.parts else "", "$warning")
            return
        notes = await self._review.keep(None if decisions.is_all_applied else decisions.applied)
        self._is_kept = True
        count = decisions.count(APPLY) + decisions.count(DELETE)
        said = sanitize_line(" · ".join([f"Applied {count} of {len(decisions.parts)}", *notes]))
        if decisions.is_all_applied:
            self.dialog.app.notify(said, markup=False)
            _ = self.dialog.dismiss(result=True)
        else:
            self._said = Content.styled(said, "$text-muted")
            await self._look()

    def _ask_to_drop(self) -> None:
        if parts := self.page.decisions.parts:
            text = f"{pluralize(len(parts), 'change')} in the overlay will be lost. Your files stay unchanged."
            self.dialog.ask(YesNo("Discard all?", text), lambda is_sure: self._do(self._drop) if is_sure else None)

    async def _drop(self) -> None:
        await self._review.drop()
        _ = self.dialog.dismiss(self._is_kept)

    def _do(self, change: Callable[[], Awaitable[None]]) -> None:
        self.dialog.run_worker(self._try(change), group="effects", exclusive=True)

    async def _try(self, change: Callable[[], Awaitable[None]]) -> None:
        try:
            await change()
        except LmtuiError as error:
            self.page.list.empty_text = ""
            self._said = Content.styled(sanitize_line(error.full_text()), "$error")
        self.dialog.draw()


class EffectReviewScreen(ConsentDialog[bool]):
    """The review of an overlay, under a title that says what it is, and `about` of what."""

    def __init__(self, review: EffectReview, title: str, about: str = "") -> None:
        super().__init__(EffectReviewQuestion(review, title, about))
