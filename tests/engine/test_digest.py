from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lmtui.core.events import FilesChanged, MessageAdded, ToolCallFinished, ToolCallStarted
from lmtui.core.messages import Role, ToolCall
from lmtui.core.plan import Plan, Todo, TodoStatus
from lmtui.engine.context import Conversation
from lmtui.engine.transcript_summary import Shares, TranscriptSummary, digest
from tests.sets import for_each

SHARES = Shares(4000, 3000, 2000, 2000)
PLAN = Plan(todos=(Todo(1, "write the parser", TodoStatus.COMPLETED), Todo(2, "write its tests")))


def talk_of(*calls: tuple[str, str, str, bool], said: tuple[str, ...] = ("the task",)) -> Conversation:
    talk = Conversation("root", lambda *_: "prompt")
    for text in said:
        talk.apply(MessageAdded(role=Role.USER, text=text))
    for number, (tool, title, result, ok) in enumerate(calls):
        call = ToolCall(f"c{number}", tool, "{}")
        talk.apply(MessageAdded(role=Role.ASSISTANT, text=f"step {number}", tool_calls=(call,)))
        talk.apply(ToolCallStarted(call_id=call.id, tool=tool, arguments={}, title=title))
        summary = "" if ok else "exit 1"
        talk.apply(ToolCallFinished(call_id=call.id, tool=tool, ok=ok, result=result, elapsed_ms=1, summary=summary))
    return talk


def test_it_tells_what_was_read_changed_run_and_what_failed() -> None:
    talk = talk_of(
        ("read", "a.py", "text", True),
        ("write", "b.py", "ok", True),
        ("edit", "a.py", "no such text", False),
        ("shell", "pytest -q", "2 failed", False),
        ("read", "a.py", "text", True),
        said=("the task", "and mind the docs", "go on"),
    )
    text = digest(talk.gist(len(talk.entries)), PLAN, SHARES)
    assert "- files you changed, the newest first: b.py" in text
    assert "- files you read: a.py\n" in text
    assert "shell pytest -q → exit 1" in text
    assert "shell pytest -q: 2 failed" in text
    assert "“and mind the docs”" in text
    assert "“go on”" not in text  # it is sent word for word
    assert "the task" not in text
    assert "- the plan: 1 of 2 done; 2 [pending] write its tests" in text
    assert "- you said last: step 4" in text


def test_what_is_newest_stands_first_and_the_rest_is_counted() -> None:
    talk = talk_of(*(("read", f"file_with_a_long_name_{number}.py", "text", True) for number in range(100)))
    text = digest(talk.gist(len(talk.entries)), Plan(), SHARES.scaled(0.3))
    assert "files you read: file_with_a_long_name_99.py; file_with_a_long_name_98.py" in text
    assert "more" in text
    assert "file_with_a_long_name_1.py" not in text


def test_it_is_the_same_every_time() -> None:
    talk = talk_of(("read", "a.py", "text", True), ("shell", "ls", "x", True))
    assert digest(talk.gist(len(talk.entries)), PLAN, SHARES) == digest(talk.gist(len(talk.entries)), PLAN, SHARES)


@given(st.lists(st.text(max_size=3000), max_size=40), st.floats(0.05, 3))
def test_it_is_bounded(texts: list[str], ratio: float) -> None:
    calls = [("shell" if number % 2 else "read", text, text, number % 3 > 0) for number, text in enumerate(texts)]
    talk = talk_of(*calls, said=("task", *texts))
    shares = SHARES.scaled(ratio)
    assert len(digest(talk.gist(len(talk.entries)), PLAN, shares)) <= shares.total + 900


FAILED = ("shell", "pytest -q", "E   assert 1 == 2", False)
MISSED = ("edit", "a.py", "the text is not there", False)


@for_each(("calls", "is_open"), [
    ([FAILED], True), ([FAILED, ("shell", "pytest -q", "3 passed", True)], False),
    ([FAILED, ("shell", "ls", "a.py", True)], True), ([FAILED, ("write", "a.py", "written", True)], True), ([MISSED], True),
    ([MISSED, ("edit", "a.py", "edited", True)], False), ([MISSED, ("write", "a.py", "written", True)], False),
    ([MISSED, ("edit", "b.py", "edited", True)], True), ([MISSED, ("read", "a.py", "text", True)], True),
    ([("read", "a.py from 90", "no such file", False), ("write", "a.py", "written", True)], False),
    ([("shell", "make", "error", False), ("shell", "make", "built", True), ("shell", "make", "error", False)], True),
])  # fmt: skip
def test_an_error_is_open_until_the_call_goes_well_or_its_file_is_changed(
    calls: list[tuple[str, str, str, bool]], is_open: bool
) -> None:
    talk = talk_of(*calls)
    text = digest(talk.gist(len(talk.entries)), Plan(), SHARES)
    assert ("what failed and is not fixed yet" in text) == is_open
    assert not is_open or calls[-1 if calls[-1][3] is False else 0][2] in text


def test_files_that_any_call_changed_are_told_and_mend_what_was_about_them() -> None:
    talk = talk_of(MISSED)
    talk.apply(MessageAdded(role=Role.ASSISTANT, text="", tool_calls=(ToolCall("s", "shell", "{}"),)))
    talk.apply(ToolCallStarted(call_id="s", tool="shell", arguments={}, title="sed -i s/x/y/ a.py"))
    talk.apply(FilesChanged(call_id="s", files=("a.py", "b.py")))
    talk.apply(ToolCallFinished(call_id="s", tool="shell", ok=True, result="", elapsed_ms=1))
    text = digest(talk.gist(len(talk.entries)), Plan(), SHARES)
    assert "- files you changed, the newest first: b.py; a.py" in text
    assert "not mended" not in text


def test_a_call_that_was_not_understood_is_forgotten_with_the_next_that_goes_well() -> None:
    talk = talk_of()
    talk.apply(MessageAdded(role=Role.ASSISTANT, text="", tool_calls=(ToolCall("m", "raed", "{}"),)))
    talk.apply(ToolCallStarted(call_id="m", tool="raed", arguments={}))
    end = ToolCallFinished(call_id="m", tool="raed", ok=False, result="no such tool", elapsed_ms=1, summary="not understood")
    talk.apply(end)
    gist = talk.gist(len(talk.entries))
    assert "no such tool" in digest(gist, Plan(), SHARES)
    gist.take(talk_of(("read", "a.py", "text", True)).entries)
    assert not gist.errors


def test_all_open_todos_are_told_whole_and_done_ones_are_counted() -> None:
    todos = tuple(
        Todo(each, f"todo {each} " * 4, TodoStatus.PENDING if each % 2 else TodoStatus.COMPLETED) for each in range(1, 31)
    )
    text = digest(TranscriptSummary(), Plan(todos=todos), SHARES)
    assert all(todo.text in text for todo in todos if todo.is_open)
    assert "15 of 30 done" in text
    assert "todo 2 " not in text
    narrow = digest(TranscriptSummary(), Plan(todos=todos), SHARES.scaled(0.1))
    assert "todo 1 " in narrow
    assert "more" in narrow


def test_of_many_words_the_newest_are_whole_and_older_ones_clipped() -> None:
    gist = TranscriptSummary(said=["the task", *(f"wish {number}: " + "word " * 40 for number in range(40)), "last"])
    text = digest(gist, Plan(), SHARES)
    whole = [number for number in range(40) if f"wish {number}: " + "word " * 40 in text]
    assert whole == list(range(40 - len(whole), 40))
    assert sum(len(gist.said[number + 1]) for number in whole) <= SHARES.words < 15 * 210
    assert "word word …" in text


def test_of_a_long_task_before_the_last_words_the_beginning_is_told_as_far_as_there_is_room() -> None:
    long = "do this: " + "and a detail of it; " * 400
    text = digest(TranscriptSummary(said=["the task", long, "and quickly", "go on"]), Plan(), SHARES)
    assert "“and quickly”" in text
    assert long[:2_500] in text
    assert long[: SHARES.words] not in text
