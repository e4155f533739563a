from __future__ import annotations

import difflib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from lmtui.acp.acp_server import dumped
from lmtui.acp.projection import Projection, diff_parts, hunks_of, text_content
from lmtui.core import events
from lmtui.core.line_diff import split_lines
from lmtui.core.messages import ImageRef, Role, Usage
from lmtui.core.plan import Plan, Todo, TodoStatus
from lmtui.core.workspace import FileChange, FileChangeKind

NOW = datetime(2026, 11, 26, tzinfo=UTC)
WORK = Path("/work")


def projected(*found: events.Event, projection: Projection | None = None) -> list[dict[str, Any]]:
    projection = projection or Projection(WORK, "s")
    envelopes = [events.Envelope(seq, NOW + timedelta(seconds=seq), "s", event) for seq, event in enumerate(found, 1)]
    return [dumped(update) for envelope in envelopes for update in projection.updates(envelope)]


def answer(text: str, thinking: str = "") -> events.MessageAdded:
    return events.MessageAdded(role=Role.ASSISTANT, text=text, thinking=thinking)


def call(call_id: str = "c", tool: str = "read", agent: str = "root", **arguments: object) -> events.ToolCallStarted:
    return events.ToolCallStarted(call_id=call_id, tool=tool, arguments=arguments, agent=agent)


def ended(call_id: str = "c", tool: str = "read", agent: str = "root", *, ok: bool = True) -> events.ToolCallFinished:
    return events.ToolCallFinished(call_id=call_id, tool=tool, ok=ok, result="result", elapsed_ms=1, agent=agent)


def texts(updates: list[dict[str, Any]]) -> list[str]:
    return [each["content"]["text"] for each in updates]


def test_what_was_streamed_is_not_said_twice_and_what_was_not_is_said() -> None:
    live = projected(events.TextDelta(text=" Hello"), events.TextDelta(text=" you"), answer("Hello you, and more."))
    assert texts(live) == [" Hello", " you", ", and more."]
    assert len({each["messageId"] for each in live}) == 1
    assert texts(projected(events.TextDelta(text="call {}"), answer(""))) == ["call {}"]


def test_a_conversation_is_cleaned_of_control_sequences() -> None:
    said = events.MessageAdded(role=Role.USER, text="\x1b]0;title\x07you")
    found = texts(projected(events.TextDelta(text="\x1b[2Jred\u202e"), events.ThinkingDelta(text="\x00"), said))
    assert found == ["red<U+202E>", "␀", "you"]


def test_a_replay_gives_the_ids_that_were_given_live() -> None:
    first = (events.ThinkingDelta(text="Hm"), events.TextDelta(text="One"), answer("One", "Hm"))
    live = projected(*first, call(), ended(), answer("Two"))
    replayed = projected(answer("One", "Hm"), call(), ended(), answer("Two"))
    ids = [[each.get("messageId") for each in found] for found in (live, replayed)]
    assert ids[0] == ids[1]
    assert len({each for each in ids[0] if each}) == 3


def test_what_a_retry_makes_void_is_another_message() -> None:
    retry = events.RetryScheduled(attempt=1, attempts=3, wait_s=1.0, reason="cut off")
    found = projected(events.TextDelta(text="Hal"), retry, events.TextDelta(text="Hello"), answer("Hello"))
    assert texts(found) == ["Hal", "cut off\n", "Hello"]
    assert len({each["messageId"] for each in found}) == 3


def test_the_user_s_own_words_are_told_once_and_in_a_replay() -> None:
    said = events.MessageAdded(role=Role.USER, text="hello", images=(ImageRef("0", "image/png", "a.png"),))
    projection = Projection(WORK, "s")
    projection.expected = 1
    assert projected(said, projection=projection) == []
    assert texts(projected(said, projection=projection)) == ["hello\n[picture: a.png]"]


def test_calls_of_one_id_are_told_apart_and_sub_agents_are_named() -> None:
    found = projected(call(), ended(), call(), ended(), call(agent="helper"), ended(agent="helper"))
    ids = [each["toolCallId"] for each in found]
    assert ids[0] == ids[1] != ids[2] == ids[3] != ids[4] == ids[5]
    assert found[4]["title"].startswith("helper: ")
    assert projected(events.TextDelta(text="inner", agent="helper")) == []


def test_output_is_told_at_most_twice_a_second_with_its_end() -> None:
    projection = Projection(WORK, "s")
    _ = projected(call(tool="shell"), projection=projection)
    told = []
    for number in range(100):
        event = events.ToolOutputDelta(call_id="c", text=f"{number:0100}\n")
        envelope = events.Envelope(number, NOW + timedelta(seconds=number / 100), "s", event)
        told += [dumped(update) for update in projection.updates(envelope)]
    assert [each.get("status") for each in told] == ["in_progress", None, None]
    assert len(told[-1]["content"][0]["content"]["text"]) < 5_000


def test_changed_files_are_differences_with_places() -> None:
    diff = "--- a/f\n+++ b/f\n@@ -9,2 +9,2 @@\n same\n-old\n+new\n"
    change = FileChange("a/f.py", FileChangeKind.MODIFIED, 1, 1, diff)
    changed = events.FilesChanged(call_id="c", files=("a/f.py",), changes=(change,))
    found = projected(call(tool="edit", path="a/f.py"), changed, ended(tool="edit"))
    expected = [{"type": "diff", "path": "/work/a/f.py", "oldText": "same\nold\n", "newText": "same\nnew\n"}]
    assert found[0]["locations"] == [{"path": "/work/a/f.py"}]
    assert found[1]["content"] == expected
    assert found[1]["locations"] == [{"path": "/work/a/f.py", "line": 9}]
    assert (found[2]["status"], found[2]["content"]) == ("completed", expected)


def test_plan_usage_and_notices() -> None:
    todos = (Todo(1, "one", TodoStatus.COMPLETED), Todo(2, "two", TodoStatus.IN_PROGRESS), Todo(3, "three", TodoStatus.BLOCKED))
    found = projected(
        events.PlanChanged(plan=Plan(todos=todos)),
        events.UsageUpdated(usage=Usage(100, 20), window_tokens=1000),
        events.UsageUpdated(usage=Usage(100, 20)),
        events.Notice(level=events.Level.WARNING, text="careful"),
        events.Notice(level=events.Level.INFO, text="by the way"),
        events.SessionRenamed(title="a title"),
        events.ModeChanged(mode="auto"),
    )
    assert [each["status"] for each in found[0]["entries"]] == ["completed", "in_progress", "pending"]
    assert found[1] == {"sessionUpdate": "usage_update", "used": 120, "size": 1000}
    assert texts(found[2:3]) == ["warning: careful\n"]
    assert [each["sessionUpdate"] for each in found[2:]] == [
        "agent_thought_chunk", "session_info_update", "current_mode_update",
    ]  # fmt: skip


NO_END = "\n\\ No newline at end of file\n"
LINES = st.lists(st.text(st.characters(exclude_characters="\n\r", exclude_categories=["Cs"]), max_size=5), max_size=12)


@given(LINES, LINES, st.booleans(), st.booleans())
def test_the_hunks_of_a_difference_are_the_lines_of_both_sides(
    old: list[str], new: list[str], old_ends: bool, new_ends: bool
) -> None:
    before = "\n".join(old) + ("\n" if old and old_ends else "")
    after = "\n".join(new) + ("\n" if new and new_ends else "")
    sides = map(split_lines, (before, after))
    one, two = ([line if line[-1:] == "\n" else f"{line}{NO_END}" for line in side] for side in sides)
    hunks = list(hunks_of("".join([*difflib.unified_diff(one, two, n=100), "@@ -9 +9 @@"])))[:-1]
    assert [(hunk.old, hunk.new) for hunk in hunks] == ([(before, after)] if before != after else [])


def test_a_new_file_has_no_old_text_and_a_long_text_is_cut() -> None:
    diff = "--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+new\n"
    assert [dumped(each) for each in diff_parts(WORK, "f", diff, is_new=True)[0]] == [
        {"type": "diff", "path": "/work/f", "newText": "new\n"}
    ]
    shown = dumped(text_content("x" * 100_000 + "\x1b[2Jend"))["content"]["text"]
    assert len(shown) < 31_000
    assert shown.endswith("end")
    assert "\x1b" not in shown
