"""A model of paper behind a fake server: it looks at how it is asked, and can do what the test says and no more."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from tests.models.fake_server import Reply, failed

CALLS = {
    "Which files": ("ls", {}),
    "hello.txt": ("write", {"path": "hello.txt", "content": "hello\n"}),
    "total.py": ("edit", {"path": "total.py", "search": "return a - b", "replace": "return a + b"}),
}


@dataclass
class PaperModel:
    """Answers chat requests.

    `forms` are the forms in which it calls rightly; in `broken` ones it writes calls that cannot be read.  `window_tokens` is
    what it reads, `overflow` the status text with which more is refused (empty: the beginning is cut off in silence).
    """

    forms: frozenset[str] = frozenset({"native", "text", "schema"})
    broken: frozenset[str] = frozenset()
    as_text: bool = False
    refuses_tools: str = ""
    refuses_schema: bool = False
    window_tokens: int = 1_000_000
    overflow: str = ""
    has_usage: bool = True
    thinking: str = ""
    misquotes: bool = False
    is_silent: bool = False
    counts_words: bool = False
    asked: list[str] = field(default_factory=list)

    def __call__(self, body: dict[str, Any]) -> Reply:
        """Answer one request."""
        form = "native" if "tools" in body else "schema" if "response_format" in body else "text"
        self.asked.append(form)
        tokens = len(json.dumps(body["messages"])) // 4
        if self.counts_words:
            tokens = sum(words_and_signs(each["content"]) for each in body["messages"])
        if form == "native" and self.refuses_tools:
            return failed(400, self.refuses_tools)
        if form == "schema" and self.refuses_schema:
            return failed(400, "response_format is not supported")
        if tokens > self.window_tokens and self.overflow:
            return failed(400, self.overflow)
        usage = {"prompt_tokens": min(tokens, self.window_tokens), "completion_tokens": 20} if self.has_usage else None
        return _stream(self._delta(body["messages"], form, is_cut=tokens > self.window_tokens), usage)

    def _delta(self, messages: list[dict[str, Any]], form: str, *, is_cut: bool) -> dict[str, Any]:
        if self.is_silent:
            return {"content": ""}
        asks = [each["content"] for each in messages if each["role"] == "user" and "<tool_response>" not in each["content"]]
        thinking = {"reasoning_content": self.thinking} if self.thinking else {}
        return thinking | self._said(asks[-1], form, messages[-1], is_cut=is_cut)

    def _said(self, ask: str, form: str, last: dict[str, Any], *, is_cut: bool) -> dict[str, Any]:
        if "secret word" in ask:
            found = re.search(r"secret word is (\S+)\.", ask)
            return {"content": "none" if is_cut or found is None else found[1]}
        name, arguments = next((call for word, call in CALLS.items() if word in ask), ("", {}))
        if not name:
            return {"content": "1 2 3 4 5 6"}
        is_answered = last["role"] == "tool" or "<tool_response>" in last["content"]
        if is_answered and not (name == "edit" and self.misquotes):
            return {"content": _done("It is 8123.", form)}
        if form in self.broken:
            return {"content": '```json\n{"name": "read", "arguments": {"path": }\n```'}
        if form not in self.forms and not (form == "native" and self.as_text):
            return {"content": _done("I would do that.", form)}
        if name == "edit" and self.misquotes:
            arguments = arguments | {"search": "return b - a"}
        return self._call(name, arguments, form)

    def _call(self, name: str, arguments: dict[str, Any], form: str) -> dict[str, Any]:
        if form == "native" and not self.as_text:
            function = {"name": name, "arguments": json.dumps(arguments)}
            return {"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": function}]}
        call = json.dumps({"name": name, "arguments": arguments})
        return {"content": call if form == "schema" else f"```json\n{call}\n```"}


def _done(text: str, form: str) -> str:
    return json.dumps({"name": "done", "arguments": {"answer": text}}) if form == "schema" else text


def words_and_signs(text: str) -> int:
    """Return how many words and signs a text has: code has many for its length, plain words few."""
    return len(re.findall(r"[^\W\d_]+|[^\sA-Za-z]", text))


def _stream(delta: dict[str, Any], usage: dict[str, int] | None) -> Reply:
    reason = "tool_calls" if "tool_calls" in delta else "stop"
    chunks: list[dict[str, Any]] = [
        {"choices": [{"index": 0, "delta": {"role": "assistant", **delta}, "finish_reason": None}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]},
    ]
    chunks += [{"choices": [], "usage": usage}] if usage else []
    lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
    return 200, "".join([*lines, "data: [DONE]\n\n"]).encode()
