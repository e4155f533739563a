from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lmtui.core.agent_events import PlanDecided, PlanOutcome, PlanProposed, WaitSet
from lmtui.core.events import Envelope, Event, SessionOpened, TurnEnded, TurnReason, TurnStarted
from lmtui.core.proposals import Proposal
from lmtui.store.session_logs import SessionStore
from lmtui.store.summaries import Summaries
from lmtui.tui.modals.switcher import SessionRow, state_words
from lmtui.tui.session_state import SessionState
from lmtui.tui.summary import activity_text, live_state
from tests.sets import for_each

NOW = datetime(2026, 3, 14, 14, 2, tzinfo=UTC)
UNTIL = NOW + timedelta(hours=12)
SESSION = "20260314_140200_abcdef"
WAITING: tuple[Event, ...] = (
    SessionOpened(workspace="/w", version="1"),
    TurnStarted(turn_id="turn_1"),
    WaitSet(until=UNTIL, why="the build", turn_id="turn_1"),
    TurnEnded(turn_id="turn_1", reason=TurnReason.WAITING),
)
WOKEN: tuple[Event, ...] = (*WAITING, TurnStarted(turn_id="turn_2"), TurnEnded(turn_id="turn_2", reason=TurnReason.DONE))
PLANNED: tuple[Event, ...] = (
    SessionOpened(workspace="/w", version="1"),
    TurnStarted(turn_id="turn_1"),
    PlanProposed(proposal_id="plan_1", proposal=Proposal(title="A plan", steps=())),
    TurnEnded(turn_id="turn_1", reason=TurnReason.WAITING),
    PlanDecided(proposal_id="plan_1", outcome=PlanOutcome.REJECTED),
)


def told(events: tuple[Event, ...]) -> list[Envelope]:
    return [Envelope(number, NOW, SESSION, event) for number, event in enumerate(events, 1)]


def state_of(*events: Event) -> SessionState:
    state = SessionState()
    for envelope in told(events):
        state.apply(envelope)
    return state


def stored(folder: Path, events: tuple[Event, ...]) -> SessionStore:
    store = SessionStore(folder)
    file = store.create(SESSION)
    for envelope in told(events):
        file.append(envelope)
    file.close()
    return store


def test_the_status_line_says_until_when_a_session_waits() -> None:
    clock = f"{UNTIL.astimezone():%a %H:%M}"
    assert activity_text(state_of(*WAITING), NOW) == f"◔ wakes {clock}"
    for events in (WOKEN, PLANNED, (*WAITING, *PLANNED[1:])):
        assert activity_text(state_of(*events), NOW) == "idle"


@for_each(
    ("events", "state", "wakes"),
    [(WAITING, "waiting", UNTIL), (WOKEN, "done", None), (PLANNED, "done", None), ((*WAITING, *PLANNED[1:]), "done", None)],
)
def test_the_list_says_when_a_session_wakes(
    tmp_path: Path, events: tuple[Event, ...], state: str, wakes: datetime | None
) -> None:
    summary = next(Summaries(stored(tmp_path, events)).find())
    assert (summary.state, summary.wakes) == (state, wakes)
    assert ("wakes" in state_words(SessionRow(summary), NOW)) == (wakes is not None)


def test_a_log_that_came_from_elsewhere_is_not_said_to_wake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = stored(tmp_path, WAITING)
    monkeypatch.setenv("LMTUI_HOME", str(tmp_path / "another"))
    assert [(each.state, each.wakes) for each in Summaries(store).find()] == [("done", None)]


def test_a_wait_whose_turn_a_crash_cut_off_is_a_wait_everywhere(tmp_path: Path) -> None:
    assert [(each.state, each.wakes) for each in Summaries(stored(tmp_path, WAITING[:-1])).find()] == [("waiting", UNTIL)]
    state = state_of(*WAITING[:-1], TurnEnded(turn_id="turn_1", reason=TurnReason.INTERRUPTED))
    assert (live_state(state), activity_text(state, NOW)[:7]) == ("waiting", "◔ wakes")


def test_a_log_that_tells_of_no_time_is_listed_all_the_same(tmp_path: Path) -> None:
    store = stored(tmp_path, WAITING)
    (path,) = (each for each in tmp_path.rglob("*") if each.is_file() and '"until"' in each.read_text())
    text = path.read_text().replace(f'"until":"{UNTIL.isoformat().replace("+00:00", "Z")}"', '"until":"9999-99-99"')
    assert "9999-99-99" in text
    path.write_text(text)
    assert [(each.state, each.wakes) for each in Summaries(store).find()] == [("waiting", None)]
