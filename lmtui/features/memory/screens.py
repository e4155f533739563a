"""The page of memory: what sessions propose to remember and why, and the notes of this folder and of all folders."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from functools import partial
from pathlib import Path
from typing import ClassVar

from textual import on
from textual.binding import BindingType
from textual.containers import Container, Horizontal, Vertical
from textual.content import Content
from textual.style import Style
from textual.widget import Widget
from textual.widgets import Input, Static

from lmtui.core.errors import LmtuiError
from lmtui.core.sanitize import pluralize, sanitize_line, sanitize_path
from lmtui.core.window import bytes_by_four
from lmtui.features.memory.commands import SCOPE
from lmtui.features.memory.values import (
    KIND_NAMES,
    NO_NOTES,
    NO_PROPOSALS,
    NOTE_KINDS,
    ORIGIN_NAMES,
    SCOPE_NAMES,
    Evidence,
    MemoryProposal,
    MemoryScope,
    Note,
    ProposalKind,
    SearchHit,
    SearchSource,
    WorkspaceMemory,
)
from lmtui.tui.commands import Command, Scope, bindings, command
from lmtui.tui.editor import edit_text
from lmtui.tui.lines.page_view import PageView, whole_text
from lmtui.tui.lines.patch import SIGN_ROLES
from lmtui.tui.lines.styled_text import Line, Span, StyleRole, crop, fill, fit, fit_path, indent, pad, row, wrap
from lmtui.tui.lines.table import Table
from lmtui.tui.modals.list_dialog import ListDialog
from lmtui.tui.modals.picker import AskText, Confirm
from lmtui.tui.screens.beside import BesideChat, tab_part
from lmtui.tui.widgets.bars import HEIGHTS, ONE_ROW_BELOW, WIDTHS, Part, Verbs
from lmtui.tui.wording import folder_text
from lmtui.tui.workbench_api import FeatureController, Handler

INBOX, FOLDER, EVERYWHERE = TABS = ("Inbox", "This folder", "All folders")
SPLIT_FROM = 100
LOOK_S = 1.0
UNSEEN = "Nothing is remembered until you keep it."
_COMMANDS = {INBOX: "memory.inbox", FOLDER: "memory.folder", EVERYWHERE: "memory.everywhere"}
_VERBS = {True: ("keep", "edit", "scope", "discard"), False: ("edit", "scope", "drop", "add")}
_KEYS = {True: ("keep_all", "discard_all", "search", "read", "pane"), False: ("search", "pane")}
_NAME_CELLS = 11
_DATED_FROM = 70
_MOST_QUOTE_ROWS = 3
_MOST_HITS, _MOST_HIT_LINES = 20, 6
_OTHER = {MemoryScope.PROJECT: MemoryScope.USER, MemoryScope.USER: MemoryScope.PROJECT}

Item = MemoryProposal | Note


class ItemTable(Table[Item]):
    """Lists proposals or notes, each with where it is from at the right."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        super().__init__(self._line, key_of, id="memory-list")
        self.cursor.is_always_shown = True
        self.empty_text = ""
        self._now = now

    def _line(self, item: Item, width: int) -> Line:
        style: StyleRole = "muted"
        if isinstance(item, Note):
            source, title = item.source, item.text
        else:
            source, style = item.source_text, "warn" if item.origins - {"you"} else "muted"
            title = item.claim if item.kind in NOTE_KINDS else f"{KIND_NAMES[item.kind]}: {item.claim}"
        age = _age(item.date, self._now) if width >= _DATED_FROM else ""
        about = " · ".join(filter(None, (sanitize_line(source), age)))
        return row(((f" {sanitize_line(title)}", ""),), ((f"{about} ", style),), width)


def key_of(item: Item) -> object:
    """Return what an item is known by."""
    return item.id if isinstance(item, MemoryProposal) else (item.scope, item.key)


class MemoryScreen(BesideChat):
    """Shows the inbox and the notes.  `folder` is this one, `now` returns the time."""

    HORIZONTAL_BREAKPOINTS = WIDTHS
    VERTICAL_BREAKPOINTS = HEIGHTS
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(SCOPE), *bindings(Scope.APP), *bindings(Scope.MOVING)]
    SCOPE: ClassVar[str] = SCOPE
    DEFAULT_CSS = """
    MemoryScreen #memory-note { height: auto; padding: 0 2; background: $background; }
    MemoryScreen #memory-filter { height: 1; padding: 0 2; background: $background; }
    MemoryScreen #memory-filter Static { width: 2; color: $text-muted; }
    MemoryScreen #memory-panes { height: 1fr; layout: vertical; background: $background; padding: 0 1; }
    MemoryScreen #memory-list { max-height: 40%; }
    MemoryScreen #memory-about { height: 1fr; padding: 1 1 0 1; }
    MemoryScreen.-split #memory-panes { layout: horizontal; padding: 1 1 0 1; }
    MemoryScreen.-split #memory-list { width: 45%; max-height: 100%; }
    MemoryScreen.-split #memory-about { width: 1fr; border-left: solid $faint 55%; padding: 0 1 0 2; }
    MemoryScreen.-bare #memory-about, MemoryScreen.-bare #memory-list { display: none; }
    MemoryScreen.-low Verbs, MemoryScreen.-flat #memory-about { display: none; }
    """
    tab = "Memory"

    def __init__(
        self,
        memory: WorkspaceMemory,
        folder: Path,
        now: Callable[[], datetime],
        confirm: Callable[[str, str], Confirm] = Confirm,
    ) -> None:
        super().__init__()
        self._memory, self._folder = memory, folder
        self._actions = ItemActions(memory, self, confirm)
        self._table, self._detail, self._verbs = ItemTable(now), PageView(lambda _: [], id="memory-detail"), Verbs()
        self._note, self._filter = Static("", id="memory-note", markup=False), Input(compact=True, select_on_focus=False)
        self._filter.cursor_blink = False
        self._filter_row = Horizontal(Static("/", markup=False), self._filter, id="memory-filter")
        self._filter_row.display = False
        self._shown, self._problem = INBOX, ""
        self._items: Mapping[str, Sequence[Item]] = {}

    def content(self) -> Iterable[Widget]:
        """Return the note, the search, the list, and what is known of the marked item."""
        about = Vertical(self._detail, self._verbs, id="memory-about")
        return self._note, self._filter_row, Container(self._table, about, id="memory-panes")

    def on_mount(self) -> None:
        self.set_interval(LOOK_S, self._look)
        self._do(self._read)
        self._table.focus()

    def placed(self) -> None:
        """Lay out for the size."""
        self.set_class(self.app.size.width >= SPLIT_FROM, "-split")
        self._show()

    def tab_parts(self) -> list[Part]:
        """Return the title and the tabs."""
        tabs = (tab_part(each, command(_COMMANDS[each]), is_here=each == self._shown) for each in TABS)
        return [Part("Memory", "bold", 4), *tabs]

    # -- showing --------------------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        proposals, notes = await self._memory.proposals(), await self._memory.notes()
        self._problem = sanitize_line(" ".join(await self._memory.warnings()))
        self._items = {
            INBOX: [self._actions.changed.get(each.id, each) for each in proposals],
            FOLDER: [each for each in notes if each.scope is MemoryScope.PROJECT],
            EVERYWHERE: [each for each in notes if each.scope is MemoryScope.USER],
        }
        self._show()

    def _look(self) -> None:
        if self._items and self._memory.waiting != len(self._items[INBOX]):
            self._do(self._read)

    @property
    def _is_inbox(self) -> bool:
        return self._shown == INBOX

    @property
    def _listed(self) -> list[Item]:
        """Return what the tab lists, as far as it has the words that are searched for."""
        words = self._filter.value.casefold().split() if self._filter_row.display else []
        found = self._items.get(self._shown, ())
        return [each for each in found if all(word in _text_of(each).casefold() for word in words)]

    def _show(self) -> None:
        if not self.is_attached:
            return
        found, every = self._listed, self._items.get(self._shown, ())
        is_split = self.has_class("-split")
        self._table.show(found)
        self._table.styles.height = "1fr" if is_split else max(1, len(found))
        text = self._problem or (UNSEEN if self._is_inbox and self.app.size.height >= ONE_ROW_BELOW else "")
        if not found and self._items and (every or not self._problem):
            typed = sanitize_line(self._filter.value)
            text = f'Nothing matches "{typed}"' if every else NO_PROPOSALS if self._is_inbox else NO_NOTES
        self._note.update(Content.styled(text, "$text-muted"))
        self._note.display = bool(text)
        self.set_class(not found, "-bare")
        count = f"{len(every)} proposed" if self._is_inbox else pluralize(len(every), "note")
        self.draw_tabs([Part(count, "$text", 1)] if self._items else [])
        self._about()

    @on(Table.Marked)
    def _about(self) -> None:
        """Show what is known of the marked item, and what can be done."""
        item, is_split = self._table.current, self.has_class("-split")
        folder = sanitize_line(folder_text(self._folder, Path.home()))
        self._detail.show(
            lambda width: details(item, folder, max(20, width - 1), is_split=is_split) if item is not None else []
        )
        verbs = [command(f"memory.{each}") for each in _VERBS[self._is_inbox]] if item is not None else []
        if isinstance(item, Note):
            verbs[1] = replace(verbs[1], hint=f"move to {SCOPE_NAMES[_OTHER[item.scope]]}")
        self._verbs.show(verbs)
        usable = _KEYS[self._is_inbox] if item is not None else (("read",) if self._is_inbox else ("add",))
        self.show_keys(command(f"memory.{each}") for each in usable)

    def action_memory_pane(self) -> None:
        """Go from the list to the text, or back."""
        (self._table if self._detail.has_focus else self._detail).focus()

    # -- actions --------------------------------------------------------------------------------------------------------

    def say(self, text: str, *, is_error: bool = False) -> None:
        """Show a notice."""
        self.app.notify(sanitize_line(text), severity="error" if is_error else "information", markup=False)

    def _do(self, *works: Callable[[], Awaitable[object]]) -> None:
        """Do one thing after the other, the last one whatever became of those before; show why something fails."""

        async def done() -> None:
            for work in works:
                try:
                    _ = await work()
                except LmtuiError as error:
                    self.say(error.full_text(), is_error=True)

        _ = self.run_worker(done(), group="memory")

    def action_memory_do(self, what: str) -> None:
        """Do something with the marked item, or all that are listed."""
        scope = MemoryScope.USER if self._shown == EVERYWHERE else MemoryScope.PROJECT
        item, listed = self._table.current, [each for each in self._listed if isinstance(each, MemoryProposal)]
        self._do(lambda: self._actions.do(what, item, listed, scope), self._read)

    def action_memory_tab(self, tab: str) -> None:
        """Show another tab."""
        self._shown = tab
        self._show()
        self._table.action_move("home")
        self._table.focus()

    def action_memory_search(self) -> None:
        self._filter_row.display = True
        self._filter.focus()

    @on(Input.Changed)
    def _narrow(self) -> None:
        self._show()

    @on(Input.Submitted)
    def _narrowed(self) -> None:
        self._table.focus()

    def action_close_or_stop(self) -> None:
        """Leave the search, or close."""
        if not self._filter_row.display:
            _ = self.dismiss(None)
            return
        self._filter.value = ""
        self._filter_row.display = False
        self._show()
        self._table.focus()


class ItemActions:
    """What can be done with proposals and notes; `changed` are proposals, by id, as the user wants to keep them."""

    def __init__(self, memory: WorkspaceMemory, screen: MemoryScreen, confirm: Callable[[str, str], Confirm]) -> None:
        self._memory, self._screen, self._confirm = memory, screen, confirm
        self.changed: dict[str, MemoryProposal] = {}

    async def do(self, what: str, item: Item | None, listed: Sequence[MemoryProposal], scope: MemoryScope) -> None:
        """Do something; what counts for no such item does nothing.

        Raises:
            LmtuiError: it fails.
        """
        match what, item:
            case "add", _:
                if text := await self._asked(f"Note for {SCOPE_NAMES[scope]}", ""):
                    _ = await self._memory.add(Note(text, scope, "you"))
            case "read", _:
                self._screen.say("Reading finished sessions …")
                self._screen.say(pluralize(await self._memory.reflect(), "new proposal"))
            case _, Note():
                await self._do_note(what, item)
            case _, MemoryProposal():
                await self._do_proposal(what, item, listed)
            case _:
                pass

    async def _do_note(self, what: str, note: Note) -> None:
        match what:
            case "edit":
                if text := await self._asked("Edit note", note.text):
                    await self._memory.change(note, replace(note, text=text))
            case "scope":
                await self._memory.change(note, replace(note, scope=_OTHER[note.scope]))
            case "drop":
                if await self._is_sure("Forget this note?", sanitize_line(note.text)):
                    await self._memory.remove(note)
            case _:
                pass

    async def _do_proposal(self, what: str, item: MemoryProposal, listed: Sequence[MemoryProposal]) -> None:
        match what:
            case "keep":
                self._screen.say(f"Kept: {await self._keep(item)}")
            case "discard":
                await self._memory.discard(item.id)
            case "keep_all" | "discard_all":
                await self._all(listed, is_kept=what == "keep_all")
            case "edit":
                await self._edit(item)
            case "scope" if item.kind is ProposalKind.INSTRUCTIONS:
                self._screen.say("An instruction is for this folder.")
            case "scope":
                self.changed[item.id] = replace(item, scope=_OTHER[item.scope], file="", result="")
            case _:
                pass

    async def _keep(self, item: MemoryProposal) -> str:
        is_line = item.kind is ProposalKind.INSTRUCTIONS
        text = item.text if is_line else ""  # what was shown of a file is kept only if it is the same still
        if (changed := self.changed.get(item.id)) is not None:
            text = changed.name if is_line else changed.text
        where = await self._memory.keep(item.id, text, item.scope)
        _ = self.changed.pop(item.id, None)
        return where

    async def _all(self, listed: Sequence[MemoryProposal], *, is_kept: bool) -> None:
        verb = "Keep" if is_kept else "Discard"
        listed = [each for each in listed if not is_kept or each.kind in NOTE_KINDS]  # others are read first
        if await self._is_sure(f"{verb} {pluralize(len(listed), 'proposal')}?", _summary(listed)):
            for each in listed:
                _ = await (self._keep(each) if is_kept else self._memory.discard(each.id))

    async def _edit(self, item: MemoryProposal) -> None:
        if item.kind is not ProposalKind.SKILL:
            if text := await self._asked("Edit before keeping", item.claim):
                self.changed[item.id] = reworded(item, text)
            return
        tell = partial(self._screen.say, is_error=True)
        written = await edit_text(self._screen.app, item.text, "SKILL.md", say=tell)
        if written is not None and written.strip():
            self.changed[item.id] = replace(item, text=written)

    async def _asked(self, title: str, value: str) -> str:
        """Return another text, nothing where it is the same or the user left."""
        text = await self._screen.app.push_screen_wait(AskText(title, value=value))
        return text if text and text != value else ""

    async def _is_sure(self, title: str, text: str) -> bool:
        is_sure = await self._screen.app.push_screen_wait(self._confirm(title, text))
        return bool(is_sure)


def details(item: Item, folder: str, width: int, *, is_split: bool) -> list[Line]:
    """Return all that is known of an item; next to the list with its facts, a line each."""
    where = SCOPE_NAMES[item.scope] + (f"  {folder}" if item.scope is MemoryScope.PROJECT else "")
    if isinstance(item, Note):
        about = (
            ("Scope", where),
            ("Kind", KIND_NAMES[item.kind]),
            ("From", item.source),
            ("Since", item.date),
        )
        return [*wrap(((sanitize_line(item.text), "strong"),), width), (), *_named(about, width)]
    found = [*wrap(((item.claim, "strong"),), width), ()]
    if is_split:
        tokens = f"at the start of sessions, {bytes_by_four(item.claim):,} tokens" if item.kind in NOTE_KINDS else ""
        facts = (("Scope", where), ("Sent", tokens), ("File", item.file), ("Session", item.session))
        found += [*_named((("Kind", KIND_NAMES[item.kind]), *facts), width), (), (("Why it was proposed", "strong"),), ()]
    else:
        short = " · ".join(filter(None, (KIND_NAMES[item.kind], SCOPE_NAMES[item.scope], sanitize_path(item.file))))
        found += [crop(((short, "muted"),), width), ()]
    found += [line for each in item.evidence for line in (*_quote(each, width), ())]
    if item.similar:
        near = (
            indent(wrap(((sanitize_line(each), ""),), width - 2), (("· ", "muted"),), (("  ", ""),)) for each in item.similar
        )
        found += [(("Similar, already kept", "strong"),), (), *(line for each in near for line in each), ()]
    if item.kind is ProposalKind.SKILL:
        found += [(("SKILL.md", "strong"), (" after you keep it", "muted")), (), *whole_text(item.text, width)]
    elif item.result:
        name = sanitize_path(item.file).rpartition("/")[2]
        found += [((name, "strong"), (" after you keep it", "muted")), (), *_diff(item.result, width)]
    return found


def reworded(item: MemoryProposal, text: str) -> MemoryProposal:
    """Return a proposal in other words, as it is shown and kept."""
    line = " ".join(text.split())
    result = item.result.replace(f"+- {item.claim}", f"+- {line}", 1)
    return (
        replace(item, name=line, result=result)
        if item.kind is ProposalKind.INSTRUCTIONS
        else replace(item, text=line, result=result)
    )


def _text_of(item: Item) -> str:
    return item.text if isinstance(item, Note) else f"{item.name} {item.text}"


def _summary(found: Sequence[MemoryProposal]) -> str:
    """Return the first proposals, a line each."""
    more = [f"and {len(found) - 8} more"] if len(found) > 8 else []
    return "\n".join([*(fit(each.claim, 60) for each in found[:8]), *more])


def _age(day: str, now: Callable[[], datetime]) -> str:
    """Return in words how long ago a day is."""
    try:
        days = (now().astimezone().date() - date.fromisoformat(day)).days
    except ValueError:
        return ""
    return "today" if days <= 0 else "yesterday" if days == 1 else f"{days} days ago"


def _named(facts: Iterable[tuple[str, str]], width: int) -> list[Line]:
    return [
        crop(((name.ljust(_NAME_CELLS), "muted"), (fit_path(text, width - _NAME_CELLS) if name == "File" else text, "")), width)
        for name, text in facts
        if text
    ]


def _quote(evidence: Evidence, width: int) -> list[Line]:
    """Return what was said behind a bar, with who said it, unless the user did, and when."""
    is_own = evidence.origin == "you"
    bar: Span = ("▌ ", "accent" if is_own else "warn")
    where = f"turn {evidence.turn}" if evidence.turn else ""
    lines = wrap(((sanitize_line(evidence.text), ""),), max(12, width - 12))[:_MOST_QUOTE_ROWS]
    first = row((bar, *lines[0]), ((where, "muted"),), width)
    source: Line = (bar, (f"from {ORIGIN_NAMES.get(evidence.origin, evidence.origin)}", "warn"))
    return [first, *indent(lines[1:], (bar,)), *(() if is_own else (source,))]


def _diff(text: str, width: int) -> list[Line]:
    """Return a difference, without its head."""
    found: list[Line] = []
    for line in text.splitlines():
        if line.startswith(("--- ", "+++ ", "@@")):
            continue
        ground, mark = SIGN_ROLES.get(line[:1], ("", "muted"))
        for number, each in enumerate(wrap(((sanitize_line(line[1:]), "" if ground else "muted"),), max(12, width - 3))):
            shown: Line = ((f"{' ' if number else line[:1]} ", mark), *each)
            found.append(fill(shown, width, ground) if ground else shown)
    return found


class FindList(ListDialog[SearchHit, SearchHit | None]):
    """Lists what a search of memory finds for some words; the result is the hit that is chosen."""

    NAME, HEADING, CHOOSING, FILTER = "find", "Find", "open", "words of a hit"

    def __init__(self, memory: WorkspaceMemory, words: str) -> None:
        super().__init__(f'Find "{fit(sanitize_line(words), 40)}"')
        self._memory, self._words, self._is_done = memory, words, False
        self.noun = "hit"

    def on_mount(self) -> None:
        """Search; the first time, the folder is indexed first."""
        self.show(())
        self.run_worker(self._find(), group="find", exclusive=True)

    async def _find(self) -> None:
        try:
            found = await self._memory.search(self._words, _MOST_HITS)
        except LmtuiError as error:
            self.say(error.full_text(), "$error")
            return
        self._is_done = True
        self.show(found)

    def key(self, row: SearchHit) -> object:
        """Return the place with the text."""
        return row.place, row.text

    def text(self, row: SearchHit) -> str:
        """Return all that is searched."""
        return f"{row.source} {row.place} {row.title} {row.text}"

    def line(self, row: SearchHit, width: int) -> Line:
        """Return a hit in aligned columns: what it is, where, and how it begins."""
        place = sanitize_line(row.place if row.source is not SearchSource.MEMORY else SCOPE_NAMES[MemoryScope(row.place)])
        room = min(48, max(12, width // 2))
        said = " ".join(row.text.split())
        return (
            (pad(f" {row.source}", 10), "muted"),
            (pad(fit_path(place, room), room + 2), ""),
            (fit(sanitize_line(row.title or said), max(4, width - room - 13)), "muted"),
        )

    def about(self, row: SearchHit | None) -> tuple[str, Sequence[Command]]:
        """Return how a hit begins."""
        if row is None:
            return "Nothing was found." if self._is_done else "Searching…", ()
        lines = [fit(sanitize_line(line.rstrip()), 100) for line in row.text.splitlines() if line.strip()]
        return "\n".join(lines[:_MOST_HIT_LINES]), self.verbs()

    def act(self) -> None:
        """Choose the marked hit."""
        _ = self.dismiss(self.current) if self.current is not None else None


class MemoryController(FeatureController):
    """Answers `/memory` and `/find`."""

    def handlers(self) -> dict[str, Handler]:
        """Return what answers the command."""
        return {"memory.show": lambda _: self._show(), "memory.find": self._find}

    def hint_part(self) -> Part | None:
        """Return how many notes are proposed."""
        waiting = self.host.extensions[WorkspaceMemory].waiting if WorkspaceMemory in self.host.extensions else 0
        text = Content.styled(f"{pluralize(waiting, 'note')} proposed", "$accent")
        return Part(text.stylize(Style.from_meta({"verb": "app.run_command('memory.show')"})), "", 3) if waiting else None

    def _find(self, words: str) -> None:
        _ = self.workbench.app.push_screen(FindList(self.host.extensions[WorkspaceMemory], words), self._chosen)

    def _chosen(self, hit: SearchHit | None) -> None:
        """Open a session, write where a file is into the prompt, or show the notes."""
        if hit is None:
            return
        match hit.source:
            case SearchSource.SESSION:
                self.open_session(hit.place)
            case SearchSource.MEMORY:
                self._show()
            case _:
                self.workbench.type_on(f"@{hit.place} ")

    def _show(self) -> None:
        if not isinstance(self.workbench.app.screen, MemoryScreen):
            memory = self.host.extensions[WorkspaceMemory]
            _ = self.workbench.app.push_screen(MemoryScreen(memory, self.host.workspace, self.workbench.now))
