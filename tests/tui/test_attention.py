from __future__ import annotations

from typing import Any

from textual.events import AppBlur

from lmtui.core import events
from lmtui.core.events import TurnReason
from lmtui.tui.router import SessionView
from lmtui.tui.session_state import SessionState
from lmtui.tui.terminal_notifier import GIVE_TITLE_BACK, KEEP_TITLE, TerminalNotifier, chosen_way
from tests.sets import for_each
from tests.tui.driving import running
from tests.tui.fakes import FakeSession


class Terminal:
    def __init__(self, way: str = "osc9", environ: dict[str, str] | None = None) -> None:
        self.written: list[str] = []
        self.time = 0.0
        self.attention = TerminalNotifier(self.written.append, way, environ or {}, lambda: self.time)

    @property
    def notes(self) -> list[str]:
        return [each for each in self.written if "]2;" not in each and each not in (KEEP_TITLE, GIVE_TITLE_BACK)]

    @property
    def titles(self) -> list[str]:
        return [each[4:-1] for each in self.written if "]2;" in each]


def feed(**state: Any) -> SessionView:
    found = SessionView(FakeSession(), lambda _: None)
    found.state = SessionState(title="nested comments")
    for name, value in state.items():
        setattr(found.state.turn if name == "is_running" else found.state, name, value)
    return found


def request(text: str = "npm run build") -> dict[str, events.ApprovalRequested]:
    return {"a1": events.ApprovalRequested(approval_id="a1", call_id="c1", tool="shell", text=text)}


def ended(terminal: Terminal, reason: TurnReason, error: str = "") -> None:
    shown = feed(is_running=True)
    terminal.attention.look([shown], shown)
    shown.state.turn.is_running, shown.state.turn.reason, shown.state.turn.error = False, reason, error
    terminal.attention.look([shown], shown)


def test_a_question_is_told_once_and_nothing_to_who_looks_or_interrupted_it() -> None:
    terminal = Terminal()
    terminal.attention.focus_changed(is_in_front=True)
    ended(terminal, TurnReason.DONE)
    terminal.attention.focus_changed(is_in_front=False)
    ended(terminal, TurnReason.INTERRUPTED)
    assert terminal.notes == []
    shown = feed(is_running=True, approvals=request())
    for _ in range(3):
        terminal.attention.look([shown], shown)
    assert terminal.notes == ["\x1b]9;nested comments needs you: shell npm run build\x07"]


def test_where_no_terminal_tells_of_its_focus_a_pause_of_the_keys_counts() -> None:
    terminal = Terminal()
    terminal.time = 29.0
    ended(terminal, TurnReason.DONE)
    assert terminal.notes == []
    terminal.time = 31.0
    ended(terminal, TurnReason.DONE)
    assert len(terminal.notes) == 1
    terminal.attention.key_pressed()
    ended(terminal, TurnReason.DONE)
    assert len(terminal.notes) == 1


def test_no_control_sequence_of_a_model_reaches_the_terminal() -> None:
    terminal = Terminal()
    terminal.attention.focus_changed(is_in_front=False)
    shown = feed(is_running=True, approvals=request("a\x1b]52;c;ZXZpbA==\x07\n\x9b31m"))
    shown.state.title = "x\x1b]0;evil\x07\x9c"
    terminal.attention.look([shown], shown)
    assert all(each.count("\x1b") <= 1 and each.count("\x07") <= 1 for each in terminal.written)
    assert not any(char in each for each in terminal.written for char in "\x9b\x9c")


@for_each(
    ("way", "environ", "notes"),
    [
        ("bell", {}, ["\x07"]),
        ("off", {}, []),
        ("osc777", {}, ["\x1b]777;notify;lmtui;nested comments: done\x07"]),
        ("osc9", {"TMUX": "/tmp/tmux-0/default,1,0"}, ["\x1bPtmux;\x1b\x1b]9;nested comments: done\x07\x1b\\"]),
    ],
)
def test_the_setting_says_how_and_inside_tmux_a_note_is_wrapped(way: str, environ: dict[str, str], notes: list[str]) -> None:
    terminal = Terminal(way, environ)
    terminal.attention.focus_changed(is_in_front=False)
    ended(terminal, TurnReason.DONE)
    assert terminal.notes == notes


@for_each(
    ("environ", "way"),
    [
        ({"TERM": "xterm-kitty"}, "osc9"),
        ({"WT_SESSION": "1"}, "osc9"),
        ({"TERM_PROGRAM": "ghostty"}, "osc777"),
        ({"TERM": "xterm-256color"}, "bell"),
    ],
)
def test_without_a_setting_the_terminal_decides(environ: dict[str, str], way: str) -> None:
    assert chosen_way("auto", environ) == way


async def test_the_app_sets_the_title_and_notes_the_focus() -> None:
    async with running() as driver:
        written: list[str] = []
        driver.app.notifier = TerminalNotifier(written.append, "osc9", {})
        driver.app.post_message(AppBlur())
        await driver.settle()
        driver.host.session.begin_turn("nest them")
        driver.host.session.say("All in.")
        await driver.settle()
        driver.host.session.end_turn()
        await driver.settle()
        await driver.until(lambda: any(each.startswith("\x1b]9;nest them: done") for each in written))
        assert any("working" in each for each in written)
