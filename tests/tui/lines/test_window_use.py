from __future__ import annotations

from datetime import UTC, datetime

from lmtui.core.events import (
    ApprovalResolved,
    Envelope,
    Event,
    MessageAdded,
    Outcome,
    ToolCallFinished,
    ToolCallStarted,
    UsageUpdated,
)
from lmtui.core.messages import Role, Usage
from lmtui.tui.modals.usage_tabs import trace_of


def history(*events: Event) -> list[Envelope]:
    return [Envelope(number, datetime(2026, 1, 1, tzinfo=UTC), "s", event) for number, event in enumerate(events, 1)]


def test_a_log_that_says_little_is_read_as_far_as_it_goes() -> None:
    ((title, (step,)),) = trace_of(history(UsageUpdated(usage=Usage(1000, 10, 900), first_token_s=0.5)))
    assert (title, step.reused, step.parts) == ("earlier", 900, (0.0, 0.5, 0.0, 0.0, 0.0))


def test_a_step_has_the_time_of_its_parts_and_turns_bear_what_was_asked() -> None:
    ((title, steps),) = trace_of(
        history(
            MessageAdded(role=Role.USER, text="fix \x1b[31mit", turn_id="turn_1"),
            UsageUpdated(usage=Usage(100, 30), turn_id="turn_1", first_token_s=3.0, read_s=2.0, elapsed_s=4.5),
            ToolCallStarted(call_id="c", tool="shell", arguments={}, title="pytest -q"),
            ApprovalResolved(approval_id="a", outcome=Outcome.ONCE, elapsed_ms=6000),
            ToolCallFinished(call_id="c", tool="shell", ok=True, result="", elapsed_ms=7000),
            UsageUpdated(usage=Usage(100, 1), turn_id="turn_1", agent="child"),
        )
    )
    assert (title, [step.what for step in steps]) == ("fix it", ["Run pytest -q"])
    assert steps[0].parts == (1.0, 2.0, 1.5, 1.0, 6.0)
