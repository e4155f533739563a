from __future__ import annotations

from datetime import UTC, datetime

from lmtui.core.agent_events import WaitSet
from lmtui.core.events import Event, MessageAdded, TurnEnded, TurnReason, TurnStarted
from lmtui.core.messages import Role
from lmtui.core.model_events import Reminder
from lmtui.engine.open_work import TaskSteps
from lmtui.engine.repair import CUT_OFF

SAID = MessageAdded(role=Role.ASSISTANT, text="")
WAIT = WaitSet(until=datetime(2026, 1, 1, tzinfo=UTC))


def begun(text: str) -> list[Event]:
    return [TurnStarted(turn_id="t"), MessageAdded(role=Role.USER, text=text)]


def counted(*events: Event) -> int:
    steps = TaskSteps()
    for event in events:
        steps = steps.apply(event)
    return steps.count


def test_a_task_that_was_cut_off_counts_on_and_another_one_begins_anew() -> None:
    cut = (*begun("do it"), SAID, SAID, TurnEnded(turn_id="t", reason=TurnReason.INTERRUPTED, error=CUT_OFF))
    assert (counted(*cut, *begun("go on"), SAID), counted(*cut, *begun("now the docs"), SAID)) == (3, 1)


def test_what_is_done_after_a_wait_begins_anew() -> None:
    end, wake = TurnEnded(turn_id="t", reason=TurnReason.WAITING), Reminder(text="You waited.", turn_id="t")
    assert counted(*begun("do it"), SAID, SAID, WAIT, end) == 0
    assert counted(*begun("do it"), SAID, SAID, WAIT, end, TurnStarted(turn_id="t"), wake, SAID) == 1
