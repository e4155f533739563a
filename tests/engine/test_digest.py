from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lmtui.core.events import MessageAdded, ToolCallFinished, ToolCallStarted
from lmtui.core.messages import Role, ToolCall
from lmtui.core.plan import Plan, Todo, TodoStatus
from lmtui.engine.context import Conversation
from lmtui.engine.digest import Shares, digest

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
