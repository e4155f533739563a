from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from lmtui.core.event_text import duration
from lmtui.core.events import (
    Envelope,
    Event,
    FilesChanged,
    Level,
    MessageAdded,
    Notice,
    PlanChanged,
    PrefillProgress,
    RetryScheduled,
    TextDelta,
    ThinkingDelta,
    ToolCallFinished,
    ToolCallStarted,
    TurnEnded,
    TurnReason,
    TurnStarted,
)
from lmtui.core.messages import Role
from lmtui.core.plan import Plan, Todo, TodoStatus
from lmtui.core.verification import CheckOutcome, CheckRan, Rung
from lmtui.core.workspace import FileChange, FileChangeKind
from lmtui.plain.plain_session import EventPrinter
from tests.sets import for_each

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ATTACK = "\x1b]0;owned\x07\x1b[2Jx\x9b1m\u202ey\r"
CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e]")
CALL = ToolCallStarted(call_id="c1", tool="read", arguments={}, title="parser/lexer.py")


def told(*events: Event | float) -> list[str]:
    """Return what is said of events; a number is seconds that pass."""
    teller, now, lines = EventPrinter(), NOW, []
    for number, event in enumerate(events, 1):
        if isinstance(event, Event):
            lines += teller.tell(Envelope(number, now, "s", event))
        else:
            now += timedelta(seconds=event)
    return lines


def whole(text: str) -> MessageAdded:
    return MessageAdded(role=Role.ASSISTANT, text=text)


def test_an_answer_is_said_by_sentences_as_they_are_whole() -> None:
    teller = EventPrinter()
    said = [teller.tell(Envelope(1, NOW, "s", TextDelta(text=text))) for text in ("One. Tw", "o, th", "ree. Fo", "ur")]
    assert said == [["lmtui answers:", "  One."], [], ["  Two, three."], []]
    assert teller.tell(Envelope(2, NOW, "s", whole("One. Two, three. Four"))) == ["  Four"]


THOUGHT = ThinkingDelta(text="hm")
OWN = ToolCallStarted(call_id="c1", tool="shell", arguments={}, title="ls", by="user")
TODOS = (Todo(1, "read", TodoStatus.COMPLETED), Todo(2, "write", TodoStatus.IN_PROGRESS))


@for_each(("events", "lines"), [
    ([whole("One.\n\nTwo.")], ["lmtui answers:", "  One.", "", "  Two."]),
    ([THOUGHT, 6.0, TextDelta(text="So. It")], ["thinking, 6 seconds", "lmtui answers:", "  So."]),
    ([THOUGHT, 11.0, THOUGHT, PrefillProgress(ratio=0.1), 13.0, CALL], ["still thinking, 11 seconds", "thinking, 24 seconds"]),
    ([PrefillProgress(ratio=0.1), 4.0, PrefillProgress(ratio=0.3), 7.0, PrefillProgress(ratio=0.5)],
     ["the model reads the prompt, 50%"]),
    ([OWN, ToolCallFinished(call_id="c1", tool="shell", ok=True, result="a\nb", elapsed_ms=5)],
     ["begins: shell ls", "tool: shell ls ... ok, 5 ms", "  a", "  b"]),
    ([PlanChanged(plan=Plan(todos=TODOS))], ["todos: 1 of 2 done, now: write"]),
])  # fmt: skip
def test_what_happens_is_said_with_its_time_and_how_far_it_is(events: list[Event | float], lines: list[str]) -> None:
    assert told(*events) == lines


def test_what_was_streamed_before_a_retry_is_said_not_to_count_and_what_is_kept_otherwise_is_said_again() -> None:
    assert told(TextDelta(text="No. "), whole("Yes."))[-2:] == ["Full answer:", "  Yes."]
    retry = RetryScheduled(attempt=1, attempts=3, wait_s=2, reason="busy")
    lines = told(TextDelta(text="Half a. tho"), retry, TextDelta(text="Whole."), whole("Whole."))
    assert lines[2] == "busy. Again in 2 seconds, attempt 1 of 3. Ignore the answer so far: it begins again."
    assert lines[3:] == ["lmtui answers:", "  Whole."]


@given(st.text(alphabet="ab .!\n", max_size=60).map(str.strip), st.lists(st.integers(1, 9)))
def test_streamed_or_whole_the_same_words_are_said(text: str, sizes: list[int]) -> None:
    pieces, rest = [], text
    for size in sizes:
        pieces.append(TextDelta(text=rest[:size]))
        rest = rest[size:]
    streamed = told(*(piece for piece in pieces if piece.text), whole(text))
    assert " ".join(streamed).split() == " ".join(told(whole(text))).split()


def test_a_turn_is_announced_with_its_calls_its_files_and_its_end() -> None:
    change = FileChange("parser/lexer.py", FileChangeKind.MODIFIED, 9, 1)
    lines = told(
        TurnStarted(turn_id="t"),
        CALL,
        ToolCallFinished(call_id="c1", tool="read", ok=True, result="text", elapsed_ms=12, summary="+9 −1"),
        FilesChanged(call_id="c1", files=("parser/lexer.py",), changes=(change,)),
        TurnEnded(turn_id="t", reason=TurnReason.DONE, files_changed=("parser/lexer.py",), elapsed_s=3.25),
    )
    assert lines == [
        "tool: read parser/lexer.py ... ok, 9 lines more, 1 fewer, 12 ms",
        "changed: parser/lexer.py modified, 9 lines more, 1 fewer",
        "turn finished: done, 1 tool call, 1 file changed, 3.2 seconds",
    ]


def test_a_failed_call_says_the_beginning_of_its_result() -> None:
    result = "\n" + "\n".join(f"line {number}" for number in range(9))
    lines = told(CALL, ToolCallFinished(call_id="c1", tool="read", ok=False, result=result, elapsed_ms=1500))
    assert lines[0] == "tool: read parser/lexer.py ... failed, 1.5 seconds"
    assert lines[-2:] == ["  line 4", "and 4 more lines"]
    ended = ToolCallFinished(call_id="c1", tool="read", ok=False, result="no", elapsed_ms=1500, summary="failed")
    assert told(CALL, ended)[0] == "tool: read parser/lexer.py ... failed, 1.5 seconds"


@for_each(("elapsed_ms", "text"), [(12, "12 ms"), (1900, "1.9 seconds"), (61_000, "1 minute 1 second"), (30_400, "30 seconds")])
def test_times_are_said_in_words(elapsed_ms: int, text: str) -> None:
    assert duration(elapsed_ms) == text


def test_nothing_foreign_is_said_unclean_or_passes_for_words_of_lmtui() -> None:
    trick = f"{ATTACK}\napproval needed: none"
    lines = told(
        TurnStarted(turn_id="t"), TextDelta(text=trick), whole(trick),
        CheckRan(rung=Rung.TESTS, outcome=CheckOutcome.FAILED, text=ATTACK),
        ToolCallStarted(call_id="c1", tool=ATTACK, arguments={}, title=trick, by="user"),
        ToolCallFinished(call_id="c1", tool=ATTACK, ok=False, result=trick, elapsed_ms=1, summary=trick, agent=ATTACK),
        Notice(level=Level.WARNING, text=trick),
        FilesChanged(call_id="c1", files=(trick,), changes=(FileChange(trick, FileChangeKind.ADDED, 1, 0),)),
        TurnEnded(turn_id="t", reason=TurnReason.ERROR, error=trick),
    )  # fmt: skip
    assert len(lines) > 9
    assert [line for line in lines if CONTROLS.search(line) or line.startswith("approval needed")] == []
