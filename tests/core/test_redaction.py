from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lmtui.core.events import FilesChanged, MessageAdded, ToolCallFinished, ToolCallStarted
from lmtui.core.messages import Role, ToolCall
from lmtui.core.sanitize import REDACTED, Redactor
from lmtui.core.workspace import FileChange, FileChangeKind

KEY = "sk-proj-0123456789abcdefXYZ"


def test_a_key_is_taken_out_of_every_field_of_an_event() -> None:
    redactor = Redactor([KEY])
    started = ToolCallStarted(
        call_id="c", tool="shell", arguments={"command": f"curl -H {KEY}", "deep": [{KEY: KEY}]}, title=KEY
    )
    message = MessageAdded(
        role=Role.ASSISTANT, text=KEY, thinking=KEY, tool_calls=(ToolCall("c", "shell", f'{{"a": "{KEY}"}}'),)
    )
    changed = FilesChanged(call_id="c", files=("a",), changes=(FileChange("a", FileChangeKind.ADDED, 1, 0, f"+{KEY}"),))
    for event in (started, message, changed):
        cleaned = redactor.value(event)
        assert KEY not in repr(cleaned)
        assert REDACTED in repr(cleaned)
        assert type(cleaned) is type(event)


def test_an_event_without_a_key_is_the_same_object() -> None:
    event = ToolCallFinished(call_id="c", tool="shell", ok=True, result="fine", elapsed_ms=1)
    assert Redactor([KEY]).value(event) is event


def test_placeholders_that_local_servers_take_for_a_key_are_left() -> None:
    assert not Redactor(["lm-studio", "none", "aaaaaaaaaaaaaaaaaaaaaaa", "", "sk-1234"])


def test_a_key_that_holds_another_is_taken_out_whole() -> None:
    assert Redactor([KEY, KEY + "-longer"]).text(f"a {KEY}-longer b") == f"a {REDACTED} b"


@given(st.text(), st.text())
def test_no_text_keeps_the_key(before: str, after: str) -> None:
    assert KEY not in Redactor([KEY]).text(f"{before}{KEY}{after}").replace(REDACTED, "\0")
