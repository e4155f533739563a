from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from lmtui.core import events
from lmtui.core.events import Envelope, Event, TurnReason
from lmtui.core.model_events import ModelLoaded, ModelLoading
from lmtui.core.verification import CheckOutcome, CheckRan, CheckStarted, Rung
from lmtui.core.workspace import FileChange, FileChangeKind
from lmtui.tui.session_state import SessionState
from lmtui.tui.summary import activity_text, checks_content, sandbox_style, sandbox_text
from tests.sets import for_each
from tests.tui.fakes import START


def state_of(*happened: Event) -> SessionState:
    state = SessionState()
    for number, event in enumerate(happened):
        state.apply(Envelope(number + 1, START, "s", event))
    return state


TURN = events.TurnStarted(turn_id="t")
CALL = events.ToolCallStarted(call_id="c", tool="shell", arguments={}, title="pytest -q")


@for_each(
    ("happened", "seconds", "words"),
    [
        ((), 0, "idle"),
        ((TURN,), 4, "waiting for the model · 4 s"),
        ((TURN, events.PrefillProgress(ratio=0.41)), 12, "reading prompt 41 % · 12 s"),
        ((TURN, events.PrefillProgress(tokens=1200, estimate_s=20.0)), 5, "reading 1.2k tokens, about 20 s · 5 s"),
        (
            (TURN, events.PrefillProgress(tokens=1200), events.PrefillProgress(queued=2)),
            3,
            "waiting for the server: 2 before this · 3 s",
        ),
        ((TURN, events.ThinkingDelta(text="hm")), 2, "thinking · 2 s"),
        ((TURN, events.TextDelta(text="x" * 400)), 5, "writing · 5 s"),
        ((TURN, events.CallProgress(tool="edit", size_chars=9)), 3, "writing an edit · 3 s"),
        ((TURN, CALL), 4, "Running pytest -q · 4 s"),
        ((TURN, ModelLoading(model="big", text="loading big, 12 s")), 2, "loading big, 12 s"),
        ((TURN, ModelLoading(model="big", text="loading big", ratio=0.4)), 0, "loading big · 40%"),
        ((TURN, ModelLoading(model="big", text="loading"), ModelLoaded(model="big")), 0, "waiting for the model"),
        ((ModelLoading(model="big", text="loading"),), 0, "idle"),
        ((TURN, events.RetryScheduled(attempt=1, attempts=3, wait_s=2, reason="busy")), 0, "trying again in 2 s · busy"),
        ((TURN, events.RetryScheduled(attempt=1, attempts=3, wait_s=2, reason="busy")), 1, "trying again in 1 s · busy"),
        ((TURN, events.RetryScheduled(attempt=1, attempts=3, wait_s=2, reason="busy")), 3, "trying again · busy"),
        ((TURN, events.TurnEnded(turn_id="t", reason=TurnReason.DONE)), 9, "idle"),
        ((TURN, events.ApprovalRequested(approval_id="a", call_id="c", tool="shell", text="x")), 9, "1 approval needed · F3"),
    ],
)
def test_activity_is_said_in_words(happened: tuple[Event, ...], seconds: float, words: str) -> None:
    assert activity_text(state_of(*happened), START + timedelta(seconds=seconds)) == words


def test_a_file_that_was_added_stays_added_when_it_is_modified() -> None:
    changes = [
        events.FilesChanged(call_id="c", files=("a",), changes=(FileChange("a", kind, 2, 1, "d\n"),))
        for kind in (FileChangeKind.ADDED, FileChangeKind.MODIFIED)
    ]
    change = state_of(*changes).changes["a"]
    assert change == FileChange("a", FileChangeKind.ADDED, 4, 2, "d\nd\n")


@for_each(
    ("backend", "network", "words", "style"),
    [
        ("docker", "none", "docker, no network", "$text-muted"),
        ("docker", "on", "docker, network on: internet and LAN", "bold $error"),
        ("bubblewrap", "proxy: 3 hosts", "bubblewrap, proxy: 3 hosts", "$text-muted"),
        ("landlock", "none", "landlock (reduced), no network", "$warning"),
        ("process", "none", "no sandbox, no network", "bold $error"),
    ],
)
def test_the_sandbox_is_said_in_words_and_a_weak_one_in_colour(backend: str, network: str, words: str, style: str) -> None:
    state = state_of(events.SandboxSelected(backend=backend, network=network, text=""))
    assert (sandbox_text(state), sandbox_style(state)) == (words, style)
    bare = state_of(events.SandboxSelected(backend=backend, network=network, text="", has_overlays=False))
    assert sandbox_text(bare) == f"{words}, no overlays" if backend in ("docker", "bubblewrap") else words


def test_a_check_that_runs_is_what_the_session_does() -> None:
    state = state_of(TURN, CheckStarted(command="make test"))
    assert activity_text(state, START + timedelta(seconds=3)) == "Checking make test · 3 s"
    state.apply(Envelope(9, START, "s", CheckRan(rung=Rung.SUITE, outcome=CheckOutcome.PASSED)))
    assert activity_text(state, START) == "waiting for the model"


def test_an_own_command_says_nothing_of_the_work_and_undo_ends_what_checks_said() -> None:
    red = events.TurnEnded(turn_id="t", reason=TurnReason.UNFINISHED, error="not finished: x", verified="red")
    own = replace(CALL, by="user")
    state = state_of(TURN, red, replace(TURN, turn_id="u"), own, events.TurnEnded(turn_id="u", reason=TurnReason.DONE))
    assert (state.turn.reason, state.turn.doubt) == (TurnReason.UNFINISHED, "checks fail")
    state = state_of(TURN, red, events.FilesRestored(action="undo", calls=("1",), files=("a",)))
    assert (state.turn.reason, state.turn.doubt) == (TurnReason.INTERRUPTED, "")


def test_the_checks_of_a_turn_are_one_line_in_the_colour_of_the_worst_while_it_runs() -> None:
    ran = [CheckRan(rung=Rung.LINT, outcome=CheckOutcome.NOT_RUN), CheckRan(rung=Rung.TESTS, outcome=CheckOutcome.FAILED)]
    red = state_of(TURN, *ran)
    assert (checks_content(red)[0].plain, checks_content(red)[1]) == ("Checks  lint !  tests ✗", "-bad")
    green = state_of(TURN, *ran, CheckRan(rung=Rung.TESTS, outcome=CheckOutcome.PASSED))
    assert (checks_content(green)[0].plain, checks_content(green)[1]) == ("Checks  lint !  tests ✓", "-warn")
    over = state_of(TURN, *ran, events.TurnEnded(turn_id="t", reason=TurnReason.DONE))
    assert not checks_content(over)[0]
