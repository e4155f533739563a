from __future__ import annotations

from datetime import UTC, datetime

from lmtui.core.events import Envelope, Event, MessageAdded, UsageUpdated
from lmtui.core.messages import Role, Usage
from lmtui.core.window import WindowItem, WindowPart
from lmtui.tui.lines.styled_text import plain, width_of
from lmtui.tui.modals.settings import (
    WindowScreen,
    cache_rows,
    request_text,
    turns_spent,
    window_rows,
)
from tests.sets import for_each

EVIL = "results of \x1b]52;evil"


def history(*events: Event) -> list[Envelope]:
    return [Envelope(number, datetime(2026, 1, 1, tzinfo=UTC), "s", event) for number, event in enumerate(events, 1)]


@for_each("width", [20, 60, 200])
def test_the_rows_of_the_window_fit(width: int) -> None:
    parts = [
        WindowPart("you", 1),
        WindowPart(EVIL, 10**9, 10**6, (WindowItem("c1", EVIL, 10**9, 0, "left out", is_pinned=True),)),
    ]
    lines = [row.line(WindowScreen.HEAD, width) for row in window_rows(parts, 8192, lambda tokens: tokens / 3)]
    assert not any("\x1b" in plain(line) for line in lines)
    assert width < 60 or all(width_of(line) <= width + 12 for line in lines)


def test_a_log_from_before_there_was_a_ledger_is_read_as_far_as_it_goes() -> None:
    turns = turns_spent(history(UsageUpdated(usage=Usage(1000, 10, 900), first_token_s=0.5)))
    (spent,) = turns[0].requests
    assert (spent.reused, spent.reread, spent.new, spent.read_s) == (900, 0, 100, 0.5)


def test_other_agents_are_left_out_and_turns_bear_what_was_asked() -> None:
    turns = turns_spent(
        history(
            MessageAdded(role=Role.USER, text="fix \x1b[31mit", turn_id="turn_1"),
            UsageUpdated(usage=Usage(100, 1), turn_id="turn_1", miss="first request"),
            UsageUpdated(usage=Usage(100, 1), turn_id="turn_1", agent="child"),
        )
    )
    assert len(turns[0].requests) == 1
    assert plain(cache_rows(turns)[0].line("", 80)).startswith("fix it")
    assert request_text(turns[0].requests[0]).startswith("0 reused, 0 read again, 100 new, inferred")
