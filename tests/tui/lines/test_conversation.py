from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from lmtui.core.events import (
    ApprovalRequested,
    ApprovalResolved,
    CallProgress,
    CheckpointCreated,
    CheckSummary,
    Envelope,
    Event,
    FilesChanged,
    FilesRestored,
    Level,
    MessageAdded,
    ModeChanged,
    ModelChanged,
    Notice,
    Outcome,
    RetryScheduled,
    Rewound,
    RuleRevoked,
    SandboxSelected,
    SessionOpened,
    TextDelta,
    ThinkingDelta,
    ToolCallFinished,
    ToolCallStarted,
    ToolOutputDelta,
    TurnEnded,
    TurnReason,
    TurnStarted,
    step_id,
)
from lmtui.core.messages import Role
from lmtui.core.model_events import Reminder
from lmtui.core.verification import CheckOutcome, CheckRan, Rung
from lmtui.core.workspace import FileChange, FileChangeKind
from lmtui.store.session_logs import EVENT_TYPES
from lmtui.tui.lines.calls import counted_tests
from lmtui.tui.lines.document import Document
from lmtui.tui.lines.styled_text import plain
from lmtui.tui.lines.transcript import ConversationBlocks
from tests.sets import for_each
from tests.tui.lines.stage import envelopes

DIFF = "--- a/x.py\n+++ b/x.py\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n"
STARTED = ToolCallStarted(call_id="c1", tool="shell", arguments={}, title="pytest -q")
FINISHED = ToolCallFinished(call_id="c1", tool="shell", ok=True, result="one\ntwo\nthree\nfour", elapsed_ms=1900)


def user(text: str) -> MessageAdded:
    return MessageAdded(role=Role.USER, text=text)


def answer(text: str, thinking: str = "", thinking_s: float = 0.0) -> MessageAdded:
    return MessageAdded(role=Role.ASSISTANT, text=text, thinking=thinking, thinking_s=thinking_s)


def squeezed(lines: list[str]) -> list[str]:
    return [re.sub(r"(?<=\S) {2,}", "  ", line) for line in lines]


def drawn(events: Iterable[Event], width: int = 60, unfold: bool = False) -> list[str]:
    return drawn_of(envelopes(events), width, unfold)


def drawn_of(numbered: Iterable[Envelope], width: int = 60, unfold: bool = False) -> list[str]:
    document = Document(width)
    conversation = ConversationBlocks(document, zone=UTC)
    for envelope in numbered:
        conversation.apply(envelope)
    for index, block in enumerate(document.blocks):
        block.is_folded = not unfold
        document.touch(index)
    return [plain(line).rstrip() for at in range(len(document)) for line in document.lines(at)]


CALLS = st.sampled_from(["c1", "c2", "c3"])
TEXT = st.lists(
    st.sampled_from(["word ", "\n\n", "- a\n", "```\n", "**b** ", "|a|b|\n|-|-|\n", "漢", "\x1b[3"]), max_size=8
).map("".join)
DELTAS = st.one_of(
    TEXT.map(lambda text: TextDelta(text=text)),
    TEXT.map(lambda text: ThinkingDelta(text=text)),
    st.just(RetryScheduled(attempt=1, attempts=5, wait_s=2.0, reason="busy")),
    st.just(CallProgress(tool="edit", size_chars=12)),
    st.builds(ToolOutputDelta, call_id=CALLS, text=TEXT),
)
STORED = st.one_of(
    TEXT.map(user),
    st.builds(MessageAdded, role=st.just(Role.ASSISTANT), text=TEXT, thinking=TEXT, thinking_s=st.sampled_from([0.0, 6.0])),
    st.builds(ToolCallStarted, call_id=CALLS, tool=st.just("shell"), arguments=st.just({}), title=TEXT),
    st.builds(ToolCallFinished, call_id=CALLS, tool=st.just("shell"), ok=st.booleans(), result=TEXT, elapsed_ms=st.just(5)),
    st.builds(ApprovalRequested, approval_id=CALLS, call_id=CALLS, tool=st.just("shell"), text=TEXT),
    st.builds(ApprovalResolved, approval_id=CALLS, outcome=st.sampled_from(Outcome), feedback=TEXT),
    st.just(FilesChanged(call_id="c1", files=("x.py",), changes=(FileChange("x.py", FileChangeKind.MODIFIED, 1, 1, DIFF),))),
    st.builds(Notice, level=st.sampled_from(Level), text=TEXT),
    st.builds(TurnStarted, turn_id=st.sampled_from(["t", "u"])),
    st.builds(Rewound, turn_id=st.sampled_from(["t", "u", "v"])),
    st.builds(
        FilesRestored,
        action=st.sampled_from(["undo", "redo", "restore", "rewind"]),
        calls=st.lists(st.integers(1, 9).map(step_id), max_size=2).map(tuple),
        files=st.lists(TEXT, max_size=2).map(tuple),
    ),
    st.builds(RuleRevoked, rule=TEXT),
    st.builds(
        CheckpointCreated,
        call_id=CALLS,
        checkpoint=st.just("x"),
        left_out=st.lists(TEXT, max_size=2).map(tuple),
        left_out_total=st.just(3),
    ),
    st.just(ModelChanged(model="m", url="u")),
    st.builds(TurnEnded, turn_id=st.just("t"), reason=st.sampled_from(TurnReason), error=TEXT),
)
STREAMED_ANSWERS = st.tuples(TEXT, st.lists(st.integers(0, 40), max_size=5)).map(
    lambda made: [*(TextDelta(text=part) for part in pieces(*made)), answer(made[0])]
)


def pieces(text: str, cuts: list[int]) -> list[str]:
    stops = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    return [text[start:end] for start, end in pairwise(stops)]


@given(st.lists(st.one_of(DELTAS.map(lambda each: [each]), STORED.map(lambda each: [each]), STREAMED_ANSWERS), max_size=20))
def test_live_equals_replay(groups: list[list[Event]]) -> None:
    live = [event for group in groups for event in group] + [TurnEnded(turn_id="t", reason=TurnReason.DONE)]
    numbered = list(envelopes(live))
    stored = [envelope for envelope in numbered if envelope.event.durable]
    assert drawn_of(numbered) == drawn_of(stored)
    assert drawn_of(numbered, unfold=True) == drawn_of(stored, unfold=True)


@for_each("kind", EVENT_TYPES)
def test_events_of_another_agent_change_nothing(kind: type[Event]) -> None:
    event = kind.__new__(kind)
    object.__setattr__(event, "agent", "child")
    assert drawn([event]) == []


def test_a_turn_reads_as_a_conversation() -> None:
    lines = drawn(
        [
            TurnStarted(turn_id="t"),
            user("Fix it."),
            answer("I will **look**.", thinking="hm", thinking_s=6.0),
            STARTED,
            FINISHED,
            answer("Done."),
            TurnEnded(turn_id="t", reason=TurnReason.DONE),
        ]
    )
    assert squeezed(lines) == [
        "▌ Fix it.  12:00",
        "",
        "▸ Thought 6 s",
        "",
        "I will look.",
        "",
        "✓ Run  pytest -q  1.9 s",
        "  │ three",
        "  │ four",
        "  │ ▸ 2 more lines",
        "",
        "Done.",
    ]
    assert (len(lines[0]), len(lines[6])) == (61, 60)


def test_a_running_command_shows_its_last_lines_and_a_finished_one_does_not() -> None:
    running = [STARTED, *(ToolOutputDelta(call_id="c1", text=f"line {number}\n") for number in range(9))]
    assert drawn(running) == [
        "● Run     pytest -q",
        *(f"  │ line {number}" for number in range(5, 9)),
    ]
    many = replace(FINISHED, result="\n".join("abcdefgh"))
    assert squeezed(drawn([*running, many]))[1:] == ["  │ g", "  │ h", "  │ ▸ 6 more lines"]


@for_each(
    ("result", "words"),
    [
        ("F..\n=== 1 failed, 2 passed in 0.12s ===", "1 failed, 2 passed"),
        ("2 passed, 1 warning in 3.10s", "2 passed"),
        (
            "test result: ok. 3 passed; 0 failed; 0 ignored\n\ntest result: FAILED. 1 passed; 2 failed; 0 ignored",
            "2 failed, 4 passed",
        ),
        ("Tests:       1 failed, 3 passed, 4 total", "1 failed, 3 passed"),
        ("I saw 3 failed attempts in 2s", ""),
    ],
)
def test_the_counts_of_test_runners_are_told_in_words(result: str, words: str) -> None:
    assert plain(counted_tests(result)) == words


def test_states_of_a_call_have_signs_and_say_who_decided() -> None:
    asked = ApprovalRequested(approval_id="a", call_id="c1", tool="shell", text="pytest")
    assert squeezed(drawn([STARTED, asked])) == ["▲ Run  pytest -q  waiting"]
    refused = ToolCallFinished(call_id="c1", tool="shell", ok=False, result="no: use tox", elapsed_ms=0, decision="no")
    answered = ApprovalResolved(approval_id="a", outcome=Outcome.NO, feedback="use tox")
    assert squeezed(drawn([STARTED, asked, answered])) == ['✗ Run  pytest -q  denied: "use tox"']
    assert squeezed(drawn([STARTED, asked, replace(answered, feedback="")])) == ["✗ Run  pytest -q  denied"]
    alone = ApprovalResolved(approval_id="a", outcome=Outcome.NO, by="headless", feedback="running unattended")
    assert squeezed(drawn([STARTED, asked, alone])) == ["✗ Run  pytest -q  denied: running unattended"]
    assert squeezed(drawn([STARTED, asked, answered, refused])) == ['✗ Run  pytest -q  denied: "use tox"']
    ruled = replace(refused, summary="refused", decision="rule", rule="Shell(pytest*)")
    assert squeezed(drawn([STARTED, ruled])) == ["✗ Run  pytest -q  denied by rule"]
    other = replace(answered, feedback="", by="bob@sofa pts/3")
    assert squeezed(drawn([STARTED, asked, other, refused]))[0] == "✗ Run  pytest -q  denied by bob@sofa"
    tried, by_mode = replace(answered, outcome=Outcome.TRY, feedback=""), replace(FINISHED, decision="mode", elapsed_ms=8)
    for answers, ended, words in (
        ([tried], by_mode, "tried first"), ([tried], replace(by_mode, decision="rule"), "allowed by rule"),
        ([tried, asked, replace(tried, outcome=Outcome.ONCE)], replace(by_mode, decision="once"), "allowed once"),
    ):  # fmt: skip
        assert words in drawn([STARTED, asked, *answers, ended])[0]
    allowed = replace(FINISHED, decision="once", elapsed_ms=8)
    assert "allowed once by bob@sofa" in drawn([STARTED, asked, replace(other, outcome=Outcome.ONCE), allowed])[0]
    ran = ApprovalResolved(approval_id="a", outcome=Outcome.ONCE, edited="pytest -x")
    assert "  You ran instead: pytest -x" in drawn([STARTED, asked, ran, FINISHED])
    foreign = replace(STARTED, tool="github_search", title="parsers")
    assert squeezed(drawn([foreign])) == ["● Call  github_search parsers"]
    long = replace(answered, feedback="use tox, which knows the versions that we support")
    assert drawn([STARTED, asked, long, refused])[1:] == [f'  "{long.feedback}"']
    assert squeezed(drawn([STARTED, TurnEnded(turn_id="t", reason=TurnReason.INTERRUPTED)]))[0] == "■ Run  pytest -q"


def test_an_edit_shows_counts_and_unfolds_to_its_diff() -> None:
    events = [
        ToolCallStarted(call_id="e", tool="edit", arguments={}, title="x.py"),
        FilesChanged(call_id="e", files=("x.py",), changes=(FileChange("x.py", FileChangeKind.MODIFIED, 1, 1, DIFF),)),
        ToolCallFinished(call_id="e", tool="edit", ok=True, result="ok", elapsed_ms=8, summary="+1 −1", decision="once"),
    ]
    assert squeezed(drawn(events)) == [
        "✓ Edit  x.py  +1 −1  allowed once", "    1  a", "    2 − b", "    2 + c",
    ]  # fmt: skip
    by_mode, by_rule = (
        replace(FINISHED, call_id="e", tool="edit", elapsed_ms=8, summary="+1 −1", decision=decision, rule=rule)
        for decision, rule in (("mode", ""), ("rule", "Edit(*)"))
    )
    assert squeezed(drawn([*events[:2], by_mode]))[0] == "✓ Edit  x.py  +1 −1  auto"
    assert squeezed(drawn([*events[:2], by_rule]))[0] == "✓ Edit  x.py  +1 −1  allowed by rule"
    assert drawn(events, unfold=True)[1:] == ["  M x.py  +1 −1", "    1   1   a", "    2     − b", "        2 + c"]
    read = replace(STARTED, tool="read", title="x.py")
    assert squeezed(drawn([read, replace(FINISHED, tool="read", elapsed_ms=5, decision="mode")])) == ["✓ Read  x.py"]


def test_a_retry_voids_what_was_streamed_and_says_so() -> None:
    retry = RetryScheduled(attempt=2, attempts=5, wait_s=4.0, reason="the server is busy")
    assert drawn([TextDelta(text="half an ans"), retry]) == ["! the server is busy; trying again (2 of 5)"]
    assert drawn([TextDelta(text="half"), retry, TextDelta(text="whole")]) == ["whole▌"]
    lines = drawn([TextDelta(text="one "), Notice(level=Level.WARNING, text="careful"), TextDelta(text="two")])
    assert lines == ["! careful", "", "one two▌"]
    end = TurnEnded(turn_id="t1", reason=TurnReason.ERROR, error="no model server answers at x.", fault="unreachable")
    assert "Alt+E chooses another" in " ".join(drawn([end]))


@for_each(
    ("event", "line"),
    [
        (TurnEnded(turn_id="t", reason=TurnReason.INTERRUPTED), "! Stopped"),
        (TurnEnded(turn_id="t", reason=TurnReason.ERROR, error="no server"), "✗ Error: no server"),
        (TurnEnded(turn_id="t", reason=TurnReason.LIMIT), "! Stopped early"),
        (
            SandboxSelected(backend="landlock", network="none", text="no shell", is_weaker=True, reason="no docker"),
            "! sandbox: no shell (no docker)",
        ),
        (RuleRevoked(rule="Shell(make*)"), "· rule revoked: Shell(make*)"),
        (
            CheckpointCreated(call_id="c1", checkpoint="x", left_out=("big.bin", "data/a"), left_out_total=7),
            "· undo does not cover: big.bin, data/a and 5 more",
        ),
    ],
)
def test_what_the_user_must_know_is_a_line_and_what_other_panes_show_is_none(event: Event, line: str) -> None:
    usual = SandboxSelected(backend="docker", network="none", text="docker")
    assert drawn([SessionOpened(workspace="/w", version="1"), ModeChanged(mode="auto"), usual, event]) == [line]


def test_hostile_text_is_named_and_stripped_everywhere() -> None:
    evil = "a\x1b[2J\u202eb\x07"
    put_back = FilesRestored(action=evil, calls=("z",), files=(evil,))
    left_out = CheckpointCreated(call_id="z", checkpoint="x", left_out=(evil,), left_out_total=1)
    call = ToolCallStarted(call_id="z", tool=evil, arguments={}, title=evil)
    done = ToolCallFinished(call_id="z", tool=evil, ok=False, result=evil, elapsed_ms=1, summary=evil)
    notice = Notice(level=Level.ERROR, text=evil)
    asked = ApprovalRequested(approval_id="a", call_id="z", tool=evil, text=evil)
    resolved = ApprovalResolved(approval_id="a", outcome=Outcome.NO, feedback=evil, edited=evil)
    told = [put_back, left_out, RuleRevoked(rule=evil)]
    lines = drawn([user(evil), answer(evil, thinking=evil), call, asked, resolved, done, notice, *told], unfold=True)
    assert all(char.isprintable() for line in lines for char in line)
    assert sum("<U+202E>" in line for line in lines) >= 5


TOUCHED = FilesChanged(call_id="c1", files=("x.py",))
UNDONE = FilesRestored(action="undo", calls=("step_3",), files=("x.py", "y.py"))


def test_what_was_undone_is_a_line_and_marks_the_call_until_it_is_done_again() -> None:
    lines = squeezed(drawn([STARTED, FINISHED, TOUCHED, UNDONE]))
    assert lines[0] == "↶ Run  pytest -q  undone  1.9 s"
    assert lines[-1] == "· undone: x.py, y.py"
    again = FilesRestored(action="redo", calls=("step_3",), files=("x.py",))
    lines = squeezed(drawn([STARTED, FINISHED, TOUCHED, UNDONE, again]))
    assert lines[0] == "✓ Run  pytest -q  1.9 s"
    assert lines[-1] == "· done again: x.py"
    lines = squeezed(drawn([STARTED, FINISHED, TOUCHED, FilesRestored(action="restore", calls=("step_3",), files=("x.py",))]))
    assert lines[0].startswith("✓")
    assert lines[-1] == "· put back: x.py"


_NAME = "python3 -m pytest -q"
_RED = CheckRan(
    rung=Rung.SUITE, outcome=CheckOutcome.FAILED, command=_NAME, text="FAILED test_a\ntest_a.py:3\nE  3 == 4", elapsed_s=3.4,
    decides=True,
)  # fmt: skip
_UNFINISHED = TurnEnded(
    turn_id="t", reason=TurnReason.UNFINISHED, verified="red", checks=(CheckSummary(_NAME, 1, 3.4),),
    error=f"not finished: 2 todos open (1 a (b), 2 c); the check `{_NAME}` fails: FAILED test_a",
)  # fmt: skip


def test_a_turn_with_a_half_accepted_edit_that_breaks_a_test_says_everything_once() -> None:
    diff = "@@ -1,9 +1,9 @@\n a\n" + "".join(f"-old {at}\n+new {at}\n" for at in range(6))
    edit = ToolCallStarted(call_id="e", tool="edit", arguments={}, title="x.py")
    events = [
        TurnStarted(turn_id="t"), user("Make comments nest."), edit,
        FilesChanged(call_id="e", files=("x.py",), changes=(FileChange("x.py", FileChangeKind.MODIFIED, 6, 6, diff),)),
        replace(FINISHED, call_id="e", tool="edit", elapsed_ms=5, summary="+6 −6", decision="once", result="ok"),
        _RED, Reminder(text=f"Not finished: The check `{_NAME}` fails:\nFAILED test_a"),
        answer("The test needs the other two."),
        replace(_RED, command="make test"), Reminder(text="Not finished yet: 2 todos open (1 a, 2 b). Call a tool."),
        answer("The test needs the other two."), _UNFINISHED,
    ]  # fmt: skip
    lines = squeezed(drawn(events, width=80))
    assert len(lines[2:]) <= 18, lines
    assert [line for line in lines if "sent to the model" in line] == [f"✗ Check  {_NAME}  failed  3.4 s  sent to the model"]
    assert lines.count("The test needs the other two.") == 1
    assert lines[-1] == "! Stopped with 2 open todos and a failing check"
    undone = FilesRestored(action="undo", calls=("step_4",), files=("x.py",))
    assert "! Stopped with 2 open todos · changes undone" in squeezed(drawn([*events, undone]))
    green = replace(_RED, outcome=CheckOutcome.PASSED, text="")
    assert squeezed(drawn([*events, green]))[-1] == "! Stopped with 2 open todos · checks pass now"
    assert squeezed(drawn([TurnEnded(turn_id="t1", reason=TurnReason.DONE), green])) == [f"✓ Check  {_NAME}  passed  3.4 s"]


@for_each(
    ("end", "line"),
    [
        (replace(_UNFINISHED, error="not finished: 1 todo open (1 a)", verified="unverified"),
            "! Stopped with 1 open todo · full test run skipped"),
        (replace(_UNFINISHED, reason=TurnReason.DONE, error=""), "! Done · checks fail"),
        (replace(_UNFINISHED, error="not finished: x.py does not parse (line 1)", verified=""),
            "! Stopped: x.py does not parse (line 1)"),
    ],
)  # fmt: skip
def test_a_turn_ends_with_one_line(end: TurnEnded, line: str) -> None:
    assert drawn([end], width=80) == [line]


def test_todo_calls_in_a_row_are_one_row() -> None:
    tools = [(f"t{number}", tool) for number, tool in enumerate(("todo_add", "todo_add", "todo_add", "todo_complete"))]
    calls = [replace(event, call_id=call_id, tool=tool) for call_id, tool in tools for event in (STARTED, FINISHED)]
    assert squeezed(drawn(calls)) == ["✓ Todo  3 added, 1 completed  ▸"]
    assert len(drawn(calls[:2])) == 1


def read(number: int, *, ok: bool = True) -> list[Event]:
    return [
        ToolCallStarted(call_id=f"r{number}", tool="read", arguments={"path": f"f{number}.py"}, title=f"f{number}.py"),
        ToolCallFinished(call_id=f"r{number}", tool="read", ok=ok, result="1  x", elapsed_ms=5, summary="1–9 of 9"),
    ]


def test_three_reads_are_rows_and_a_fourth_folds_them_to_one() -> None:
    events = [event for number in range(3) for event in read(number)]
    assert [line.split()[:3] for line in drawn(events)] == [["✓", "Read", f"f{number}.py"] for number in range(3)]
    assert drawn([*events, *read(3), *read(4)]) == ["✓ Read    5 files  ▸"]
    assert len(drawn([*events, *read(3)], unfold=True)) == 5
    failed = drawn([*events, *read(3, ok=False)])
    assert failed[0] == "✓ Read    4 files  ▸"
    assert failed[1].split()[:3] == ["✗", "Read", "f3.py"]
    lines = drawn([*events[:4], answer("So."), *read(2), *read(3)])
    assert len([line for line in lines if "Read" in line]) == 4
