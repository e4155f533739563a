from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from acp import schema
from acp.exceptions import RequestError

from lmtui.acp.editor_session import EditorSession
from lmtui.core.tool_servers import Form
from tests.sets import for_each

SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}, "odd": 5}, "required": ["name", "odd"]}


class FakeEditor:
    """Answers a question with what it is given."""

    def __init__(self, answer: Any, *, has_forms: bool = True, has_addresses: bool = True) -> None:
        self.answer = answer
        offered: dict[str, Any] = {"form": {} if has_forms else None, "url": {} if has_addresses else None}
        self.capabilities = schema.ClientCapabilities.model_validate({"elicitation": offered})
        self.asked: list[tuple[str, Mapping[str, Any]]] = []

    async def request(self, method: str, params: Mapping[str, Any]) -> Any:
        self.asked.append((method, params))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def session(editor: FakeEditor) -> EditorSession:
    host: Any = SimpleNamespace(workspace=Path("/work"))
    session: Any = SimpleNamespace(id="s", history=tuple)
    made: Any = editor
    return EditorSession(made, host, session, [])


async def test_a_form_has_only_the_fields_that_can_be_asked() -> None:
    editor = FakeEditor({"action": "accept", "content": {"name": "Ada"}})
    assert await session(editor).elicit(Form("server", "Who\x1b[2J?", SCHEMA)) == {"name": "Ada"}
    assert editor.asked == [
        (
            "elicitation/create",
            {
                "sessionId": "s",
                "message": "server: Who?",
                "mode": "form",
                "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
            },
        )
    ]


async def test_an_address_is_asked_about_and_nothing_comes_back_with_it() -> None:
    editor = FakeEditor({"action": "accept"})
    assert await session(editor).elicit(Form("server", "Log in", url="https://example.org/login")) == {}
    method, params = editor.asked[0]
    assert (method, params["mode"], params["url"]) == ("elicitation/create", "url", "https://example.org/login")
    assert params["elicitationId"].startswith("s-")


@for_each("answer", [{"action": "decline"}, {"action": "cancel"}, {}, None, 5, RequestError(-32601, "no")])
async def test_anything_else_is_a_no(answer: Any) -> None:
    assert await session(FakeEditor(answer)).elicit(Form("server", "Who?", SCHEMA)) is None


@for_each("url", ["", "https://example.org/login", "file:///etc/passwd"])
async def test_what_the_editor_does_not_show_is_not_asked(url: str) -> None:
    editor = FakeEditor({"action": "accept"}, has_forms=False, has_addresses=url.startswith("file"))
    assert await session(editor).elicit(Form("server", "Who?", {} if url else SCHEMA, url)) is None
    assert editor.asked == []
