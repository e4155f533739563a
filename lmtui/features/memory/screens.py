"""The list of memory: what sessions propose to remember and why, and the notes of this folder and of all folders."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date, datetime
from functools import partial

from textual.content import Content
from textual.style import Style

from lmtui.core.sanitize import pluralize, sanitize_line, sanitize_path
from lmtui.features.memory.notes import NO_NOTES, SCOPE_NAMES, MemoryScope, Note
from lmtui.features.memory.values import (
    KIND_NAMES,
    NO_PROPOSALS,
    MemoryProposal,
    ProposalKind,
    ProposalsChanged,
    SearchSource,
    WorkspaceMemory,
)
from lmtui.tui.commands import Command
from lmtui.tui.editor import edit_text
from lmtui.tui.lines.page_view import whole_text
from lmtui.tui.lines.styled_text import Line, Span, fit, indent, row, wrap
from lmtui.tui.modals.list_dialog import Cell, Column, ListDialog, content_of
from lmtui.tui.modals.picker import AskText, Confirm, Picker, Reading
from lmtui.tui.modals.results import Choice
from lmtui.tui.router import EventHandlers
from lmtui.tui.widgets.bars import Part
from lmtui.tui.workbench_api import FeatureController, Handler, tried

LOOK_S = 1.0
UNSEEN = "Nothing is remembered until you keep it."
_MOST_QUOTE_ROWS, _MOST_ABOUT_ROWS = 3, 30
_MOST_HITS = 20
_OTHER = {MemoryScope.PROJECT: MemoryScope.USER, MemoryScope.USER: MemoryScope.PROJECT}

Item = MemoryProposal | Note


class MemoryList(ListDialog[Item, None]):
    """Lists proposals and notes below headings.  `now` returns the time."""

    NAME, HEADING, CHOOSING, FILTER, IS_PAGE = "memory", "Memory", "show", "words of a note", True
    COLUMNS = (Column(), Column(most=24), Column(most=14, is_right=True, from_width=70))
    VERBS = (
        ("yes", "keep"), ("yes_all", "keep all"), ("edit", "edit"), ("switch", "change scope"), ("no", "discard"),
        ("no_all", "discard all"), ("delete", "forget"), ("add", "add…"), ("run", "read sessions"),
    )  # fmt: skip
    DEFAULT_CSS = """
    MemoryList #memory-box .list-about { max-height: 50%; }
    """

    def __init__(self, memory: WorkspaceMemory, now: Callable[[], datetime]) -> None:
        super().__init__()
        self._memory, self._now = memory, now
        self._changed: dict[str, MemoryProposal] = {}  # as the user wants to keep them
        self._seen: set[str] = set()
        self._waiting = 0
        self.noun = "note"

    def on_mount(self) -> None:
        self.set_interval(LOOK_S, self._look)

    def _look(self) -> None:
        if self._memory.waiting != self._waiting:
            self.reload()

    async def rows(self) -> Sequence[Item | str]:
        """Read the proposals and the notes."""
        proposals, notes = await self._memory.proposals(), await self._memory.notes()
        problem = sanitize_line(" ".join(await self._memory.warnings()))
        self._waiting = len(proposals)
        groups: dict[str, list[Item]] = {"Proposed": [self._changed.get(each.id, each) for each in proposals]}
        groups |= {SCOPE_NAMES[scope].capitalize(): [note for note in notes if note.scope is scope] for scope in MemoryScope}
        self.box.count(f"{len(proposals)} proposed, {pluralize(len(notes), 'note')}")
        self.box.show_head(problem or (UNSEEN if proposals else ""))
        return [row for heading, items in groups.items() if items for row in (heading, *items)]

    def key(self, row: Item) -> object:
        """Return what an item is known by."""
        return (row.scope, row.key) if isinstance(row, Note) else row.id

    def text(self, row: Item) -> str:
        """Return all that is searched."""
        return f"{_title(row)} {row.text}"

    def cells(self, row: Item) -> Sequence[Cell]:
        """Return an item with where it is from."""
        is_foreign = isinstance(row, MemoryProposal) and row.origins - {"you"}
        source = sanitize_line(row.source_text if isinstance(row, MemoryProposal) else row.source)
        return f"  {_title(row)}", (source, "warn" if is_foreign else "muted"), (_age(row.date, self._now), "muted")

    def about(self, row: Item | None) -> tuple[str | Content, Sequence[Command]]:
        """Return what is known of an item, and what can be done with it."""
        if row is None:
            return f"{NO_PROPOSALS}\n{NO_NOTES}", [each for each in self.verbs() if each.id in ("list.add", "list.run")]
        lines = details(row, max(30, self.table.content_width - 2))[:_MOST_ABOUT_ROWS]
        left_out = ["delete"] if isinstance(row, MemoryProposal) else ["yes", "no"]
        left_out += [] if self._waiting else ["yes_all", "no_all"]
        return content_of(lines), self.verbs(*left_out)

    def act(self) -> None:
        """Show all that is known of the marked item."""
        if (item := self.current) is not None:
            self._seen.add(item.id if isinstance(item, MemoryProposal) else "")
            _ = self.app.push_screen(Reading("Memory", partial(details, item)))

    # -- actions --------------------------------------------------------------------------------------------------------

    def _say(self, text: str, *, is_error: bool = False) -> None:
        self.app.notify(sanitize_line(text), severity="error" if is_error else "information", markup=False)

    async def do_add(self, item: Item | None) -> None:
        """Write a note."""
        scope = item.scope if isinstance(item, Note) else MemoryScope.PROJECT
        if text := await self._asked(f"Note for {SCOPE_NAMES[scope]}", ""):
            _ = await self._memory.add(Note(text, scope, "you"))

    async def do_run(self, _: Item | None) -> None:
        """Read finished sessions for proposals."""
        self._say("Reading finished sessions …")
        self._say(pluralize(await self._memory.reflect(), "new proposal"))

    async def do_edit(self, item: Item) -> None:
        """Edit a proposal or a note."""
        if isinstance(item, Note):
            if text := await self._asked("Edit note", item.text):
                await self._memory.change(item, replace(item, text=text))
        elif item.kind is ProposalKind.SKILL:
            written = await edit_text(self.app, item.text, "SKILL.md", say=partial(self._say, is_error=True))
            if written is not None and written.strip():
                self._changed[item.id] = replace(item, text=written)
        elif text := await self._asked("Edit before keeping", item.claim):
            self._changed[item.id] = replace(item, text=" ".join(text.split()))

    async def do_switch(self, item: Item) -> None:
        """Switch between this folder and all folders."""
        if isinstance(item, Note):
            await self._memory.change(item, replace(item, scope=_OTHER[item.scope]))
        else:
            self._changed[item.id] = replace(item, scope=_OTHER[item.scope], file="")

    async def do_delete(self, note: Note) -> None:
        """Forget a note."""
        if await self._is_sure("Forget this note?", sanitize_line(note.text)):
            await self._memory.remove([note])

    async def do_yes(self, item: MemoryProposal) -> None:
        """Keep a proposal; all but notes are read first."""
        if not item.is_note and item.id not in self._seen:
            self.act()
        else:
            self._say(f"Kept: {await self._keep(item)}")

    async def do_no(self, item: MemoryProposal) -> None:
        """Discard a proposal."""
        await self._memory.discard(item.id)

    async def _keep(self, item: MemoryProposal) -> str:
        where = await self._memory.keep(item.id, item.text if item.id in self._changed else "", item.scope)
        _ = self._changed.pop(item.id, None)
        return where

    async def do_yes_all(self, _: Item) -> None:
        """Keep all proposals that are listed."""
        await self._all(is_kept=True)

    async def do_no_all(self, _: Item) -> None:
        """Discard all proposals that are listed."""
        await self._all(is_kept=False)

    async def _all(self, *, is_kept: bool) -> None:
        listed = [each for each in self.table.rows if isinstance(each, MemoryProposal)]
        listed = [each for each in listed if not is_kept or each.is_note]  # others are read first
        title = f"{'Keep' if is_kept else 'Discard'} {pluralize(len(listed), 'proposal')}?"
        if listed and await self._is_sure(title, _summary(listed)):
            for each in listed:
                with self.showing_errors():
                    _ = await (self._keep(each) if is_kept else self._memory.discard(each.id))

    async def _asked(self, title: str, value: str) -> str:
        """Return another text, nothing where it is the same or the user left."""
        text = await self.app.push_screen_wait(AskText(title, value=value))
        return text if text and text != value else ""

    async def _is_sure(self, title: str, text: str) -> bool:
        is_sure = await self.app.push_screen_wait(Confirm(title, text))
        return bool(is_sure)


def _title(item: Item) -> str:
    is_named = isinstance(item, MemoryProposal) and not item.is_note
    claim = sanitize_line(item.text) if isinstance(item, Note) else item.claim
    return f"{KIND_NAMES[item.kind]}: {claim}" if is_named else claim


def details(item: Item, width: int) -> list[Line]:
    """Return all that is known of an item."""
    about = (item.source, item.date) if isinstance(item, Note) else (item.file,)
    short = " · ".join(sanitize_path(each) for each in (KIND_NAMES[item.kind], SCOPE_NAMES[item.scope], *about) if each)
    claim = sanitize_line(item.text if isinstance(item, Note) else item.claim)
    found = [*wrap(((claim, "strong"),), width), *wrap(((short, "muted"),), width)]
    if isinstance(item, Note):
        return found
    quotes = (_quote(each.text, "" if each.origin == "you" else each.speaker, each.turn, width) for each in item.evidence)
    found += [(), *itertools.chain.from_iterable(quotes), ()]
    near = [line for each in item.similar for line in indent(wrap(((sanitize_line(each), ""),), width - 2), (("· ", "muted"),))]
    found += [(("Similar, already kept", "strong"),), *near, ()] if near else []
    shown = "" if item.is_note else item.text
    return [*found, (("After you keep it", "strong"),), *whole_text(shown, width)] if shown else found


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


def _quote(text: str, speaker: str, turn: int, width: int) -> list[Line]:
    """Return what was said behind a bar, with who said it, where that was not the user, and when."""
    bar: Span = ("▌ ", "warn" if speaker else "accent")
    where = f"turn {turn}" if turn else ""
    lines = wrap(((sanitize_line(text), ""),), max(12, width - 12))[:_MOST_QUOTE_ROWS]
    first = row((bar, *lines[0]), ((where, "muted"),), width)
    source: Line = (bar, (f"from {speaker}", "warn"))
    return [first, *indent(lines[1:], (bar,)), *((source,) if speaker else ())]


class MemoryController(FeatureController):
    """Answers `/memory` and `/find`."""

    def handlers(self) -> dict[str, Handler]:
        """Return what answers the command."""
        return {"memory.show": lambda _: self._show(), "memory.find": self._find}

    def event_handlers(self) -> EventHandlers:
        """Return what keeps the number of proposed notes in the key row."""
        return {ProposalsChanged: lambda event: self._show_waiting(event.waiting)}

    def start(self) -> None:
        """Say how many notes are proposed."""
        if WorkspaceMemory in self.host.extensions:
            self._show_waiting(self.host.extensions[WorkspaceMemory].waiting)

    def _show_waiting(self, waiting: int) -> None:
        text = Content.styled(f"{pluralize(waiting, 'note')} proposed", "$accent")
        verb = Style.from_meta({"verb": "app.run_command('memory.show')"})
        self.hint = Part(text.stylize(verb), "", 3) if waiting else None
        self.workbench.draw()

    def _find(self, words: str) -> None:
        self.workbench.say("Searching…")
        _ = self.workbench.app.run_worker(tried(self.workbench, self._search(words)), group="find", exclusive=True)

    async def _search(self, words: str) -> None:
        """List what is found; the first time, the folder is indexed first.

        What is chosen is opened: a session, the notes, or where a file is, in the prompt.
        """
        screen = self.workbench.app.screen
        hits = await self.host.extensions[WorkspaceMemory].search(words, _MOST_HITS)
        if not hits:
            self.workbench.say("Nothing was found.")
            return
        if self.workbench.app.screen is not screen:
            self.workbench.say(f"/find {sanitize_line(words)}: {pluralize(len(hits), 'hit')}; search again to see them.")
            return
        self.workbench.say("")
        choices: list[Choice] = []
        for number, hit in enumerate(hits):
            place = SCOPE_NAMES[MemoryScope(hit.place)] if hit.source is SearchSource.MEMORY else hit.place
            said = sanitize_line(" ".join((hit.title or hit.text).split()))
            choices.append(Choice(str(number), sanitize_line(place), said, hit.text, hit.source))
        title = f'Find "{fit(sanitize_line(words), 40)}"'
        chosen = await self.workbench.app.push_screen_wait(Picker(title, choices, noun="hit"))
        if chosen is None:
            return
        hit = hits[int(chosen)]
        if hit.source is SearchSource.SESSION:
            self.open_session(hit.place)
        elif hit.source is SearchSource.MEMORY:
            self._show()
        else:
            self.workbench.type_on(f"@{hit.place} ")

    def _show(self) -> None:
        if not isinstance(self.workbench.app.screen, MemoryList):
            _ = self.workbench.app.push_screen(MemoryList(self.host.extensions[WorkspaceMemory], self.workbench.now))
