"""The settings with their sources, what fills the model's window, and how its prompts were read: three dialogs of rows.

A changed setting goes into the user's own file.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.cells import cell_len
from textual.screen import Screen

from lmtui.core.errors import LmtuiError
from lmtui.core.event_text import calls_words
from lmtui.core.events import ROOT, Envelope, MessageAdded, UsageUpdated
from lmtui.core.messages import Role
from lmtui.core.sanitize import pluralize, sanitize_line
from lmtui.core.sessions import Session, SettingRow, SettingsControls
from lmtui.core.window import WindowItem, WindowPart
from lmtui.tui.commands import Command, Scope
from lmtui.tui.lines.styled_text import Line, StyleRole, fit, fit_middle, pad
from lmtui.tui.modals.list_dialog import ListDialog, shown_group
from lmtui.tui.modals.picker import WIDE_ROW, AskText, Picker
from lmtui.tui.modals.results import Choice
from lmtui.tui.router import SessionView
from lmtui.tui.session_state import SessionState
from lmtui.tui.wording import tokens_text, window_text
from lmtui.tui.workbench_api import Handler, WorkbenchApi, tried, wanted_session

LEAST_TITLE = 10
PIN = "pinned"
OPEN, SHUT = "▾ ", "▸ "
TOOLS = "tools"
FOLDS = "Enter collapses the group (display only)."
FIXED = "Only results and what came with your messages can be folded, left out or pinned."


@dataclass(frozen=True, slots=True)
class GroupRow:
    """One row: a title, and behind it what the columns hold.  `key` is empty for a group's own line, else unique in it.

    `about` is what can be said of it, `item` the message that it is about.
    """

    group: str
    key: str
    title: str
    role: StyleRole
    cells: Line
    about: str
    item: WindowItem | None = None

    def line(self, head: str, width: int) -> Line:
        """Return it for a width, with the room for its cells that the names of the columns take."""
        room = max(LEAST_TITLE, width - len(head))
        return ((pad(fit(sanitize_line(self.title), room - 1), room), self.role), *self.cells)


def window_head(parts: Sequence[WindowPart], state: SessionState) -> str:
    """Return how much of the window is used, in words."""
    total = sum(part.tokens for part in parts)
    size = state.model.window_tokens
    window = f" of {window_text(size)}" if size else "; the server does not say how large it is"
    usage = state.usage
    last = "" if usage is None or usage.is_estimate else f"; {tokens_text(usage.usage.prompt_tokens)} in the last request"
    return f"about {tokens_text(total)} tokens{window}{last}"


def window_rows(
    parts: Sequence[WindowPart], window_tokens: int, read_s: Callable[[int], float], about_tools: str = ""
) -> list[GroupRow]:
    """Return a row for each part and, below it, for each message in it; at the end what is free."""
    total = sum(part.tokens for part in parts)
    whole = max(window_tokens, total, 1)

    def cells(tokens: int, seconds: float, state: str = "", role: StyleRole = "") -> Line:
        return (
            (f"{tokens_text(tokens):>8}", role),
            (f"{tokens / whole:>6.0%}", "muted"),
            (f"{seconds_text(seconds):>8}", "muted"),
            (f"  {fit(state, 20)}" if state else "", "accent"),
        )

    rows: list[GroupRow] = []
    for part in parts:
        title = part.name + (f"  {part.count:,}×" if part.count > 1 else "")
        about = about_tools if part.name == TOOLS else FOLDS
        rows.append(GroupRow(part.name, "", title, "strong", cells(part.tokens, read_s(part.tokens)), about))
        for at, item in enumerate(part.items):
            state = " · ".join(filter(None, (item.state, PIN if item.is_pinned else "")))
            shown = cells(item.tokens, read_s(item.tokens), state)
            about = cost_text(item, read_s) if item.id else FIXED
            role: StyleRole = "muted" if item.state else ""
            rows.append(GroupRow(part.name, item.id or f"#{at}", f"  {item.title}", role, shown, about, item))
    if window_tokens > total:
        rows.append(GroupRow("free", "", "free", "muted", cells(window_tokens - total, 0.0, role="muted"), FOLDS))
    return rows


def cost_text(item: WindowItem, read_s: Callable[[int], float]) -> str:
    """Return what it costs to change a message in the middle of what was sent: all behind it is read again."""
    behind = max(0, item.reread_tokens - item.tokens)
    if not behind:
        return "Nothing follows it: a change costs no reading."
    seconds = seconds_text(read_s(behind), " (", ")")
    return f"To fold it, leave it out or bring it back costs reading about {behind:,} tokens again{seconds}."


def seconds_text(seconds: float, before: str = "", after: str = "") -> str:
    """Return seconds of reading in few characters, an empty text where the speed is not known."""
    if seconds <= 0:
        return ""
    return f"{before}{seconds:.1f} s{after}" if seconds < 100 else f"{before}{seconds / 60:.0f} min{after}"


FIRST = "first request"
OF_A_TURN = "Enter folds a turn. ~ is inferred: the server does not say what it reused."


@dataclass(frozen=True, slots=True)
class Spent:
    """What one request, or several together, cost to read.  `is_told`: the server said what it reused."""

    reused: int = 0
    reread: int = 0
    new: int = 0
    read_s: float = 0.0
    requests: int = 0
    is_told: bool = True
    miss: str = ""
    written_per_s: float = 0.0


def total_of(requests: Sequence[Spent]) -> Spent:
    """Return what several requests took together; what one alone is told of is left out."""
    counted = ("reused", "reread", "new", "read_s", "requests")
    totals = {name: sum(getattr(each, name) for each in requests) for name in counted}
    return Spent(**totals, is_told=all(each.is_told for each in requests))


@dataclass(frozen=True, slots=True)
class TurnSpent:
    """The requests of a turn; `title` is what the user asked."""

    turn_id: str
    title: str
    requests: tuple[Spent, ...]


def turns_spent(history: Sequence[Envelope]) -> list[TurnSpent]:
    """Return what the turns of a session cost to read, oldest first; what was rewound was read all the same."""
    titles: dict[str, str] = {}
    found: dict[str, list[Spent]] = {}
    for envelope in history:
        event = envelope.event
        if event.agent != ROOT:
            continue
        if isinstance(event, MessageAdded) and event.role is Role.USER:
            titles.setdefault(event.turn_id, event.text)
        elif isinstance(event, UsageUpdated):
            found.setdefault(event.turn_id, []).append(_spent(event))
    return [TurnSpent(turn or "earlier", titles.get(turn, "earlier"), tuple(requests)) for turn, requests in found.items()]


def cache_head(turns: Sequence[TurnSpent]) -> str:
    """Return the sums in words."""
    whole = total_of([spent for turn in turns for spent in turn.requests])
    if not whole.requests:
        return "no request yet"
    sent_before = whole.reused + whole.reread
    share = whole.reused / sent_before if sent_before else 1.0
    read = f"{tokens_text(whole.reread + whole.new)} tokens read{seconds_text(whole.read_s, ' in ')}"
    requests = pluralize(whole.requests, "request")
    return f"{requests} · {share:.0%} reused · {read}, {tokens_text(whole.reread)} of them again"


def cache_rows(turns: Sequence[TurnSpent]) -> list[GroupRow]:
    """Return a row for each turn with its sum and below it one for each request."""
    rows: list[GroupRow] = []
    number = 0
    for turn in turns:
        rows.append(GroupRow(turn.turn_id, "", turn.title, "strong", _cells(total_of(turn.requests)), OF_A_TURN))
        for spent in turn.requests:
            number += 1
            rows.append(GroupRow(turn.turn_id, str(number), f"  request {number}", "", _cells(spent), request_text(spent)))
    return rows


def request_text(spent: Spent) -> str:
    """Return a request in words."""
    source = "as the server said" if spent.is_told else "inferred: the server does not say"
    again = f"{spent.reread:,} read again" + (f" ({spent.miss})" if spent.reread and spent.miss else "")
    wrote = f"; wrote {spent.written_per_s:.0f} tokens a second" if spent.written_per_s else ""
    return f"{spent.reused:,} reused, {again}, {spent.new:,} new, {source}{wrote}"


def _spent(event: UsageUpdated) -> Spent:
    prompt = event.usage.prompt_tokens
    reused = event.reused_tokens or (0 if event.reread_tokens or event.miss else event.usage.cached_tokens)
    new = max(0, prompt - reused - event.reread_tokens)
    read_s = event.read_s or event.first_token_s
    return Spent(
        reused, event.reread_tokens, new, read_s, 1, event.is_cache_told, sanitize_line(event.miss), event.tokens_per_s
    )


def _cells(spent: Spent) -> Line:
    read = spent.reread + spent.new
    speed = f"{read / spent.read_s:.0f}" if spent.read_s > 0 and read >= 50 else ""  # too few tokens say nothing
    about = "" if spent.is_told or spent.requests != 1 else "~"
    return (
        (f"{about + tokens_text(spent.reused):>7}", "good" if spent.reused else "muted"),
        (f"{tokens_text(spent.reread):>7}", "warn" if spent.reread else "muted"),
        (f"{tokens_text(spent.new):>7}", ""),
        (f"{seconds_text(spent.read_s):>8}{speed:>6}", "muted"),
        (f"  {fit(spent.miss, 18)}", "muted" if spent.miss == FIRST else "warn"),
    )


class Grouped(ListDialog[GroupRow, None]):
    """Shows groups of rows below `summary`; choosing a row folds or unfolds its group.

    `HEAD` are the names of the columns, as wide as the columns are.
    """

    CLOSING: ClassVar[str] = "back"
    HEAD: ClassVar[str]

    def __init__(self, shut: set[str]) -> None:
        super().__init__()
        self._shut = shut

    @abstractmethod
    def summary(self) -> str:
        """Return the sums in words."""

    @abstractmethod
    def rows(self) -> Sequence[GroupRow]:
        """Return the rows."""

    def on_mount(self) -> None:
        self.draw()

    def draw(self, at: object = None) -> None:
        """Show what there is now: of the groups that are folded, their own lines."""
        rows = self.rows()
        self.box.show_head(self.summary())
        self.show([row for row in rows if not row.key or row.group not in self._shut], at)

    def key(self, row: GroupRow) -> tuple[str, str]:
        """Return the group and the place in it."""
        return row.group, row.key

    def columns(self, width: int) -> Line:
        """Return the names of the columns."""
        return ((" " * max(LEAST_TITLE + len(OPEN), width - len(self.HEAD)) + self.HEAD.rstrip(), "muted"),)

    def line(self, row: GroupRow, width: int) -> Line:
        """Return a row, before it whether its group is folded."""
        sign = "  " if row.key else SHUT if row.group in self._shut else OPEN
        return ((sign, "muted"), *row.line(self.HEAD, width - len(OPEN)))

    def about(self, row: GroupRow | None) -> tuple[str, Sequence[Command]]:
        """Return what can be said of a row."""
        return row.about if row is not None else "", self.verbs()

    def act(self) -> None:
        """Fold the marked group, or unfold it."""
        if self.current is not None:
            self._shut ^= {self.current.group}
            self.draw((self.current.group, ""))


class WindowScreen(Grouped):
    """Shows each part of the next request and lets single ones be folded, left out, brought back and pinned."""

    NAME, HEADING, SCOPE, CHOOSING = "window", "Context", Scope.CONTEXT, "group"
    HEAD = "  tokens share to read" + " " * 10

    def __init__(self, session: Session, state: SessionState) -> None:
        self._use, self._session, self._session_state = session.window_use, session, state
        self._parts = self._use.parts()
        super().__init__({part.name for part in self._parts if not part.name.startswith("results")})

    def summary(self) -> str:
        """Return how much of the window is used."""
        return window_head(self._parts, self._session_state)

    def rows(self) -> Sequence[GroupRow]:
        """Return parts and messages as they are now; of a message, what a change would cost."""
        self._parts = self._use.parts()
        calls = f"{calls_words(self._session)}; /calls changes it."
        return window_rows(self._parts, self._session_state.model.window_tokens, self._use.read_s, calls)

    def action_window(self, step: str) -> None:
        """Fold, leave out, bring back or pin what is selected."""
        item, use = self.current.item if self.current is not None else None, self._use
        if item is not None and item.id and (item.state or step != "back"):
            if step == "pin":
                use.pin(item.id, is_pinned=not item.is_pinned)
            else:
                {"fold": use.fold, "leave_out": use.leave_out, "back": use.bring_back}[step](item.id)
            self.draw()


class CacheScreen(Grouped):
    """Shows, by turn and request, what of each prompt was reused, read again and new."""

    NAME, HEADING, CHOOSING = "cache", "Prompt cache", "turn"
    HEAD = " reused  again    new reading tok/s  why again" + " " * 9

    def __init__(self, history: Sequence[Envelope]) -> None:
        self._turns = turns_spent(history)
        super().__init__({turn.turn_id for turn in self._turns[:-1]})
        self.table.empty_text = "no request yet"

    def summary(self) -> str:
        """Return the sums."""
        return cache_head(self._turns)

    def rows(self) -> Sequence[GroupRow]:
        """Return turns and requests."""
        return cache_rows(self._turns)


LEAST_NAME, GROUP_CELLS, VALUE_CELLS, MUCH_ROOM = 12, 13, 30, 100
HIGHER = ("flag", "environment", ".env", ".lmagent")


class SettingsScreen(ListDialog[SettingRow, None]):
    """Lists the settings and changes them; calls `changed` with each one that was changed."""

    NAME, HEADING, SCOPE, CHOOSING = "settings", "Settings", Scope.SETTINGS, "change"
    FILTER, FILTERS_AT_ONCE = "Type to filter", True

    def __init__(self, settings: SettingsControls, changed: Callable[[SettingRow], None]) -> None:
        super().__init__()
        self._settings, self._changed = settings, changed
        self.noun = "setting"

    def on_mount(self) -> None:
        rows = self._settings.rows()
        groups = sorted(dict.fromkeys(row.group for row in rows), key=lambda group: group == "General")
        self.show([row for group in groups for row in rows if row.group == group])

    def key(self, row: SettingRow) -> str:
        """Return the setting's name."""
        return row.name

    def text(self, row: SettingRow) -> str:
        """Return what is searched."""
        return f"{row.label} {row.name} {row.group} {row.doc}"

    def line(self, row: SettingRow, width: int) -> Line:
        """Return a setting in aligned columns."""
        cells = max(cell_len(each.label or each.name) for each in self.all_rows) + 2
        return setting_line(row, shown_group(self.table.rows, row), cells, width)

    def about(self, row: SettingRow | None) -> tuple[str, Sequence[Command]]:
        """Return what a setting is for."""
        return help_text(row) if row is not None else "", self.verbs()

    def act(self) -> None:
        """Ask for another value of the marked setting."""
        if self.current is not None:
            self.run_worker(self._ask(self.current), group="settings", exclusive=True)

    def action_settings_reset(self) -> None:
        """Remove the marked setting from the user's own file."""
        if self.current is not None:
            self.run_worker(self._put(self.current.name, None), group="settings", exclusive=True)

    async def _ask(self, row: SettingRow) -> None:
        if row.choices:
            choices = [Choice(each, each) for each in row.choices]
            text = await self.app.push_screen_wait(Picker(row.label or row.name, choices, chosen=row.text, note=row.doc))
        else:
            text = await self._ask_text(row, row.text)
        while text is not None and (problem := await self._put(row.name, text)) and not row.choices:
            text = await self._ask_text(row, text, problem)

    async def _ask_text(self, row: SettingRow, text: str, problem: str = "") -> str | None:
        hint = "with commas between" if row.is_list else row.doc
        title, value = row.label or row.name, sanitize_line(text)
        asked = AskText(title, value=value, placeholder=hint, problem=problem, is_secret=row.is_secret)
        return await self.app.push_screen_wait(asked)

    async def _put(self, name: str, text: str | None) -> str:
        """Change a setting; return why it cannot have that value, which is said, or an empty text."""
        try:
            row = await asyncio.to_thread(self._settings.change, name, text)
        except LmtuiError as error:
            self.say(error.full_text(), "$error")
            return error.full_text()
        self.show([row if each.name == name else each for each in self.all_rows], name)
        self._changed(row)
        is_overruled = any(each in row.source for each in HIGHER)
        saved = f"{name} = {sanitize_line(row.value)}  ·  saved in your config.toml"
        self.say(after_words(row) if is_overruled else saved, "$text")
        return ""


def after_words(row: SettingRow) -> str:
    """Return what is in force where something stronger than the user's file says it."""
    return f"kept, but {row.name} = {sanitize_line(row.value)} holds: it comes from {sanitize_line(row.source)}"


def help_text(row: SettingRow) -> str:
    """Return what a setting is for, where its value came from and what else it may be."""
    parts = [row.doc, f"{row.name}, from {sanitize_line(row.source)}"]
    parts += [f"one of {', '.join(row.choices)}"] if row.choices else []
    parts += [f"environment: {', '.join(row.variables)}"] if row.variables else []
    return "  ·  ".join(parts)


def setting_line(row: SettingRow, group: str, label_cells: int, width: int) -> Line:
    """Return a setting in aligned columns: group, name, value (bold where it was changed), and what it is for."""
    group_cells = GROUP_CELLS if width > WIDE_ROW else 0
    label_cells = min(label_cells, max(LEAST_NAME, width // 2))
    value_cells = VALUE_CELLS if width >= MUCH_ROOM else max(8, width - group_cells - label_cells)
    doc_cells = max(0, width - group_cells - label_cells - value_cells)
    value = pad(fit_middle(sanitize_line(row.value), value_cells - 2), value_cells)
    return (
        (pad(fit(group, group_cells), group_cells), "muted"),
        (pad(fit(row.label or row.name, label_cells - 2), label_cells), ""),
        (value, "muted" if row.source == "default" else "strong"),
        (fit(row.doc, doc_cells), "muted"),
    )


class SettingsController:
    """Opens them.  `use_theme` takes a theme by its name at once."""

    def __init__(self, workbench: WorkbenchApi, use_theme: Callable[[str], None]) -> None:
        self._workbench = workbench
        self._use_theme = use_theme

    def handlers(self) -> dict[str, Handler]:
        """Return what answers the commands."""
        return {
            "settings.show": lambda _: self._show_settings(),
            "window.show": lambda _: self._show(lambda view: WindowScreen(view.session, view.state)),
            "cache.show": lambda _: self._show(lambda view: CacheScreen(view.session.history())),
        }

    def _show_settings(self) -> None:
        host = self._workbench.sessions.host
        if host is not None:
            _ = self._workbench.app.push_screen(SettingsScreen(host.settings, self._changed))

    def _changed(self, row: SettingRow) -> None:
        if row.name == "theme" and row.text:
            self._use_theme(row.text)

    def keep_theme(self, name: str) -> None:
        """Keep a theme in the user's settings."""
        host = self._workbench.sessions.host
        if host is not None:
            work = tried(self._workbench, self._keep(host.settings, name))
            _ = self._workbench.app.run_worker(work, group="settings-theme", exclusive=True)

    async def _keep(self, settings: SettingsControls, name: str) -> None:
        row = await asyncio.to_thread(settings.change, "theme", name)
        if row.text != name:
            self._workbench.say(after_words(row))

    def _show(self, screen: Callable[[SessionView], Screen[None]]) -> None:
        if (active := wanted_session(self._workbench)) is not None:
            _ = self._workbench.app.push_screen(screen(active))
