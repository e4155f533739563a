from __future__ import annotations

from lmtui.core.messages import Message, Role, ToolCall, ToolSpec
from lmtui.core.pictures import Image
from lmtui.engine.window import RequestParts

CALL = ToolCall("c1", "read", '{"path": "a.py"}')
MESSAGES = (
    Message(Role.SYSTEM, "x" * 400),
    Message(Role.USER, "y" * 80),
    Message(Role.ASSISTANT, "", tool_calls=(CALL,)),
    Message(Role.TOOL, "z" * 1000, call_id="c1"),
    Message(Role.TOOL, "w" * 40, call_id="gone"),
    Message(Role.ASSISTANT, "ä" * 20),
)
TOOLS = (ToolSpec("read", "reads", {"type": "object"}),)


def parts_of(*messages: Message) -> dict[str, tuple[int, int]]:
    return {part.name: (part.tokens, part.count) for part in RequestParts(lambda: (messages, TOOLS)).parts()}


def test_a_request_is_counted_by_parts() -> None:
    assert parts_of(*MESSAGES) == {
        "system prompt": (100, 1),
        "tools": (7, 1),
        "you": (20, 1),
        "answers": (10, 2),
        "tool calls": (5, 1),
        "results of read": (250, 1),
        "results of tools": (10, 1),
    }


def test_parts_that_are_not_there_are_left_out() -> None:
    assert list(parts_of(Message(Role.SYSTEM, "hello there"))) == ["system prompt", "tools"]


def test_pictures_are_counted() -> None:
    assert parts_of(Message(Role.USER, "look", images=(Image("a.png", "image/png", b"1"),)))["pictures"] == (1000, 1)
