"""A model of paper behind a fake server: it looks at how it is asked, and can do what the test says and no more."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from tests.models.fake_server import Reply, failed

CALL = ("write", {"path": "hello.txt", "content": "hello\n"})


@dataclass
class PaperModel:
    """Answers chat requests.

    `forms` are the forms in which it calls rightly; in `broken` ones it writes calls that cannot be read.  `as_text`: asked for
    native calls, it writes them as text.
    """

    forms: frozenset[str] = frozenset({"native", "text", "schema"})
    broken: frozenset[str] = frozenset()
    as_text: bool = False
    refuses_tools: str = ""
    refuses_schema: bool = False
    asked: list[str] = field(default_factory=list)

    def __call__(self, body: dict[str, Any]) -> Reply:
        """Answer one request."""
        form = "native" if "tools" in body else "schema" if "response_format" in body else "text"
        self.asked.append(form)
        if form == "native" and self.refuses_tools:
            return failed(400, self.refuses_tools)
        if form == "schema" and self.refuses_schema:
            return failed(400, "response_format is not supported")
        return _stream(self._delta(body["messages"][-1]["content"], form))

    def _delta(self, ask: str, form: str) -> dict[str, Any]:
        if "hello.txt" not in ask:
            return {"content": "ready"}
        if form in self.broken:
            return {"content": '```json\n{"name": "read", "arguments": {"path": }\n```'}
        if form not in self.forms and not (form == "native" and self.as_text):
            text = "I would do that."
            return {"content": json.dumps({"name": "done", "arguments": {"answer": text}}) if form == "schema" else text}
        name, arguments = CALL
        if form == "native" and not self.as_text:
            function = {"name": name, "arguments": json.dumps(arguments)}
            return {"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": function}]}
        call = json.dumps({"name": name, "arguments": arguments})
        return {"content": call if form == "schema" else f"```json\n{call}\n```"}


def _stream(delta: dict[str, Any]) -> Reply:
    reason = "tool_calls" if "tool_calls" in delta else "stop"
    chunks: list[dict[str, Any]] = [
        {"choices": [{"index": 0, "delta": {"role": "assistant", **delta}, "finish_reason": None}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]},
    ]
    lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
    return 200, "".join([*lines, "data: [DONE]\n\n"]).encode()
