"""Tells the user at another window that a session is done or waits, and keeps the window's title.

Sequences: OSC 9 (iTerm2, Windows Terminal, WezTerm, kitty), OSC 777 (urxvt, foot, Ghostty), OSC 2 for the title, xterm's
CSI 22/23 t to keep and give back the title that was there.  Inside tmux they are wrapped, so that it passes them on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from lmtui.core.events import TurnReason
from lmtui.core.sanitize import sanitize_line
from lmtui.tui.lines.styled_text import fit
from lmtui.tui.summary import ENDINGS
from lmtui.tui.terminal_input import through_tmux

if TYPE_CHECKING:
    from lmtui.tui.router import SessionView
    from lmtui.tui.session_state import SessionState

AWAY_S, QUIET_S = 30.0, 3.0
TITLE_CHARS, TEXT_CHARS = 60, 120
KEEP_TITLE, GIVE_TITLE_BACK = "\x1b[22;2t", "\x1b[23;2t"
_OSC_777 = ("foot", "ghostty", "rxvt")
_ENDS = {TurnReason.DONE: "done", **ENDINGS}


_Seen = tuple[bool, frozenset[str]]  # whether a turn runs, and the ids of the approvals


class TerminalNotifier:
    """Watches the state of all sessions.  `way` is the setting: auto, osc9, osc777, bell or off."""

    def __init__(
        self, write: Callable[[str], None], way: str, environ: Mapping[str, str], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._write = write
        self._way = chosen_way(way, environ)
        self._is_in_tmux = bool(environ.get("TMUX"))
        self._clock = clock
        self._seen: dict[str, _Seen] = {}
        self._title = ""
        self._is_in_front = True
        self._knows_focus = False
        self._last_key = clock()

    def focus_changed(self, *, is_in_front: bool) -> None:
        """Take note that the terminal said whether it is in front."""
        self._knows_focus, self._is_in_front = True, is_in_front

    def key_pressed(self) -> None:
        """Take note that somebody is there."""
        self._last_key = self._clock()

    @property
    def is_away(self) -> bool:
        """Tell whether nobody looks: the window is not in front, or where no terminal says so, no key was pressed lately."""
        return not self._is_in_front if self._knows_focus else self._clock() - self._last_key > AWAY_S

    @property
    def is_quiet(self) -> bool:
        """Tell whether nobody types."""
        return self.is_away or self._clock() - self._last_key > QUIET_S

    def look(self, views: Iterable[SessionView], active: SessionView | None) -> None:
        """Compare with what was seen last: tell what is new, and bring the title in line."""
        for view in views:
            state, before = view.state, self._seen.get(view.session.id, (False, frozenset()))
            now = state.turn.is_running, frozenset(state.approvals)
            if now != before:
                self._seen[view.session.id] = now
                text = _news(state, before, now)
                if text and self.is_away:
                    self._notify(text)
        title = title_text(active.state if active is not None else None, sum(view.state.waits for view in views))
        if title != self._title:
            if not self._title:
                self._write(KEEP_TITLE)
            self._title = title
            self._write(f"\x1b]2;{title}\x07")

    def leave(self) -> None:
        """Give the window's title back."""
        if self._title:
            self._title = ""
            self._write(GIVE_TITLE_BACK)

    def _notify(self, text: str) -> None:
        text = text.replace(";", ",")  # it parts arguments: `9;4;…` is a progress bar in some terminals
        sequence = f"\x1b]9;{text}\x07" if self._way == "osc9" else f"\x1b]777;notify;lmtui;{text}\x07"
        if self._way == "bell":
            self._write("\x07")
        elif self._way != "off":
            self._write(through_tmux(sequence) if self._is_in_tmux else sequence)


def chosen_way(way: str, environ: Mapping[str, str]) -> str:
    """Return how to notify: what the setting says, for `auto` what the terminal is known to take, else its bell."""
    if way != "auto":
        return way
    term, program = environ.get("TERM", ""), environ.get("TERM_PROGRAM", "")
    if any(name in f"{term} {program}".lower() for name in _OSC_777):
        return "osc777"
    knows_osc_9 = program in ("iTerm.app", "WezTerm") or "kitty" in term or bool(environ.get("WT_SESSION"))
    return "osc9" if knows_osc_9 else "bell"


def title_text(state: SessionState | None, waiting: int) -> str:
    """Return the window's title: what waits first, then what continues."""
    if state is None:
        return "lmtui"
    activity = f"{waiting} waiting" if waiting else "working" if state.turn.is_running else ""
    mode = "plan mode" if state.work.planning.is_on else ""
    name = _short(state.title, TITLE_CHARS)
    return " · ".join(part for part in (activity, mode, name, "lmtui") if part)


def _news(state: SessionState, before: _Seen, now: _Seen) -> str:
    name = _short(state.title, TITLE_CHARS) or "session"
    (was_running, known), (is_running, approvals) = before, now
    if asked := approvals - known:
        request = state.approvals[min(asked)]
        return _short(f"{name} needs you: {request.tool} {request.text.partition(chr(10))[0]}", TEXT_CHARS)
    if was_running and state.waits and state.proposal is not None:
        return _short(f"{name} needs you: plan {state.proposal.proposal.title}", TEXT_CHARS)
    if was_running and not is_running and state.turn.reason in _ENDS:
        return _short(f"{name}: {_ENDS[state.turn.reason]}" + (f", {state.turn.error}" if state.turn.error else ""), TEXT_CHARS)
    return ""


def _short(text: str, size: int) -> str:
    return fit(sanitize_line(text), size)
