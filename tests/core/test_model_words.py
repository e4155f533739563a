from __future__ import annotations

from lmtui.core.event_text import model_words
from lmtui.core.events import ApprovalResolved, Event, Outcome, TurnStarted
from lmtui.core.model_events import CallFormChanged, LoopSuspected, Reminder
from lmtui.core.sessions import answer_words, refusal_words
from lmtui.features.hooks.values import HookRan
from tests.sets import for_each


@for_each(("event", "words"), [
    (CallFormChanged(form="\x1b[31mnew"), "from here on the model calls tools new"),
    (Reminder(text="Answer with one call.\nLike this:"), "sent to the model: Answer with one call."),
    (Reminder(text="x" * 500), f"sent to the model: {'x' * 400}…"),
    (TurnStarted(turn_id="t"), ""),
    (LoopSuspected(what="read a\x1b[2J, 3 times", count=3), "this looks like a loop: read a, 3 times"),
    (LoopSuspected(what="read a", count=5, is_over=True), ""),
    (HookRan(event="Stop", command="true"), ""),
    (HookRan(event="Stop", command="true", decision="allow"), ""),
    (
        HookRan(event="PreToolUse", command="g", exit_code=2, decision="deny", said="no\nmore"),
        "hook PreToolUse (g) said no: no",
    ),
    (HookRan(event="Stop", command="g", exit_code=1), "hook Stop (g) failed with exit code 1"),
    (HookRan(event="Stop", command="g\x1b[2J\nx", exit_code=-1), "hook Stop (g⏎x) did not end by itself"),
])  # fmt: skip
def test_a_change_is_told_in_one_line(event: Event, words: str) -> None:
    assert model_words(event) == words


@for_each(("by", "outcome", "feedback", "part", "told"), [
    ("user", Outcome.NO, "use make", "", "no by user: use make"), ("user", Outcome.SESSION, "", "", "session by user"),
    ("user", Outcome.ONCE, "", "2 of 3 hunks by", "2 of 3 hunks by user"),
    ("headless", Outcome.NO, "running unattended", "", "no: running unattended"),
    ("interrupt", Outcome.NO, "", "", "no by interrupt"),
])  # fmt: skip
def test_an_answer_says_whose_it_is(by: str, outcome: Outcome, feedback: str, part: str, told: str) -> None:
    event = ApprovalResolved(approval_id="a", outcome=outcome, by=by, feedback=feedback)
    assert answer_words(event, part) == told
    assert refusal_words(event) == ("running unattended" if by == "headless" else f"you: {feedback}")
