"""Answers that a server holds to a JSON schema: one object, a call of a tool or `done` with the answer, read as it streams.

`{"name": TOOL, "arguments": {…}}` or `{"name": "done", "arguments": {"answer": "…"}}`.
"""

from __future__ import annotations

import json
import re

from lmtui.core.messages import CallPiece
from lmtui.providers.parsing.gathered import Gathered
from lmtui.providers.parsing.items import CUT
from lmtui.providers.parsing.literals import Unreadable, read_json
from lmtui.providers.parsing.names import ToolNames
from lmtui.providers.parsing.shapes import Meant, Refused, calls_in
from lmtui.providers.parsing.zone import Entry

DONE = "done"
_HEAD = re.compile(r'\s*\{\s*"name"\s*:\s*"([^"\\]{1,100})"\s*,\s*"arguments"\s*:\s*\{\s*')
_ANSWER = re.compile(r'"answer"\s*:\s*"')
_HEAD_CHARS = 400
_CODE = r"u[dD][89abAB][0-9a-fA-F]{2}\\u[0-9a-fA-F]{4}|u(?![dD][89abAB])[0-9a-fA-F]{4}"
_WHOLE = re.compile(rf'(?:[^"\\]+|\\(?:{_CODE}|[^u]))*', re.DOTALL)
_ESCAPE = re.compile(rf"\\(?:{_CODE}|.)", re.DOTALL)
_LONGEST_ESCAPE = 12


class SchemaReader:
    """Reads one object; text of the answer is given out as it comes.

    `is_other`: this is no such object (the server did not hold to the schema), `raw` is to be read as any other text.
    """

    def __init__(self, tools: ToolNames, gathered: Gathered) -> None:
        self.is_other = False
        self._tools = tools
        self._out = gathered
        self._parts: list[str] = []
        self._head = ""
        self._name = ""
        self._size = 0
        self._pending: str | None = None
        self._is_answered = False
        self._is_decided = False

    @property
    def raw(self) -> str:
        """Return all text as it came."""
        return "".join(self._parts)

    def feed(self, text: str) -> None:
        """Take more text."""
        self._parts.append(text)
        if self._is_answered:
            return
        if self._pending is not None:
            self._stream(text)
        elif not self._is_decided:
            self._head += text
            self._look()
        if self._name:
            self._size += len(text)
            self._out.pieces.append(CallPiece(0, self._name, self._size))

    def _look(self) -> None:
        start = self._head.lstrip()
        if start and start[0] != "{":
            self.is_other = self._is_decided = True
            return
        found = _HEAD.match(self._head)
        if found is None:
            self._is_decided = len(self._head) > _HEAD_CHARS
            return
        spec = self._tools.find(found[1])
        if found[1] != DONE or spec is not None:
            self._name = spec.name if spec else ""
            self._is_decided = True
            return
        answer = _ANSWER.match(self._head, found.end())
        if answer is not None:
            self._is_decided = True
            self._pending = ""
            self._stream(self._head[answer.end() :])
        elif len(self._head) - found.end() > 40:
            self._is_decided = True

    def _stream(self, text: str) -> None:
        """Give out what is whole of the answer: escapes may be in pieces, one that is none stays as it is."""
        data = (self._pending or "") + text
        at = 0
        while True:
            whole = _WHOLE.match(data, at)
            end = whole.end() if whole else at
            self._out.say(_ESCAPE.sub(_character, data[at:end]))
            at = end
            if at >= len(data) or data[at] == '"' or len(data) - at <= _LONGEST_ESCAPE:
                break
            self._out.say(data[at])
            at += 1
        self._is_answered = data[at : at + 1] == '"'
        self._pending = data[at:] if not self._is_answered else ""

    def finish(self, *, is_cut: bool) -> None:
        """Take note that no more comes."""
        raw = self.raw
        if self._pending is not None or not raw.strip():
            return
        try:
            value = read_json(raw, may_close=not is_cut)
        except Unreadable as error:
            spec = self._tools.find(self._name) if self._name else None
            self._take(raw, Refused(CUT if is_cut else str(error), spec))
            return
        answer = _answer(value)
        if answer is not None and self._tools.find(DONE) is None:
            self._out.say(answer)
            return
        for found in calls_in(value, self._tools, is_marked=True)[:1]:
            self._take(raw, found)
            return
        self._out.say(raw)

    def _take(self, raw: str, found: Meant | Refused) -> None:
        self._out.call([Entry(raw, "schema", [found])], raw, is_marked=True)


def _character(found: re.Match[str]) -> str:
    try:
        return str(json.loads(f'"{found[0]}"')).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    except ValueError:
        return found[0]


def _answer(value: object) -> str | None:
    """Return the answer of a `done` object."""
    if not isinstance(value, dict) or value.get("name") != DONE:
        return None
    arguments = value.get("arguments")
    texts = [each for each in arguments.values() if isinstance(each, str)] if isinstance(arguments, dict) else []
    return texts[0] if len(texts) == 1 else None
