"""Calls that are still being written: JSON values and Python calls, each fed until it ends, then read."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

from lmtui.core.messages import ToolSpec
from lmtui.models.parsing.call_shapes import (
    FIRST_KEYS,
    MAX_DEPTH,
    NAME_KEYS,
    NO_SUCH_TOOL,
    LiteralReader,
    ParsedCall,
    RejectedCall,
    ToolNames,
    UnreadableLiteral,
    calls_in,
    meant,
    own_parameter,
    read_json,
    required,
    with_arguments,
)

Found = list[ParsedCall | RejectedCall]

CUT = "it was cut off"
_HEAD_CHARS = 400
_ESCAPING = "\"'“”"
_LONGEST_QUOTE = 8
_GAP = r"(?:\s|//[^\n]*\n|/\*[^*]*\*/)*"
_OPENS = rf"\s*[\[{{]{_GAP}(?:[\[{{]{_GAP}){{0,2}}"
_FIRST = re.compile(rf"{_OPENS}(?:[\"'“”]([^\"'“”\n]{{0,60}})[\"'”]|([A-Za-z_]\w{{0,60}})\s*:|[\]}}])")
_MAY_COME = re.compile(rf"{_OPENS}(?:[\"'“”][^\"'“”\n]{{0,60}}|[A-Za-z_]\w{{0,60}}\s{{0,20}}|/(?:/[^\n]*|\*[^*]*\*?)?)?\Z")
_NAME = re.compile(rf"[\"'“”{{,\s](?:{'|'.join(NAME_KEYS)})[\"'”]?\s*:\s*[\"'“”]([^\"'“”\n]{{1,100}})[\"'”]")


class Item(ABC):
    """One call, or list of calls, that is being written.

    `spec` is the tool, as soon as it is known.  `is_done`: it takes no more.  `is_hopeless`: it is
    surely no call, what it took is text.  `form` names the shape.  `left` is what it took to look
    ahead and gives back.
    """

    form = "json"

    def __init__(self, spec: ToolSpec | None, *, is_known: bool = True) -> None:
        self.spec = spec
        self.left = ""
        self.is_done = False
        self.is_hopeless = False
        self.size_chars = 0
        self._parts: list[str] = []
        self._is_known = is_known

    @property
    def raw(self) -> str:
        """Return the text as it came."""
        return "".join(self._parts)

    @abstractmethod
    def feed(self, text: str) -> int:
        """Take more; return how many characters of it belong here."""

    def finish(self) -> None:
        """Take note that no more comes."""
        self.is_hopeless = self.is_hopeless or not self._is_known

    @abstractmethod
    def found(self, *, is_cut: bool) -> Found:
        """Return what is called; `is_cut`: the server ended the answer at its limit of tokens."""


class BracketItem(Item):
    """A text up to the bracket that closes its first one.

    `quotes` are what opens a string or a comment, with what closes it; `marks` finds them and all
    brackets, and `wrong` what ends the call where it is outside of them.
    """

    quotes: ClassVar[Mapping[str, str]]
    marks: re.Pattern[str]
    wrong = ""

    def __init__(self, tools: ToolNames, spec: ToolSpec | None = None, *, is_known: bool = False) -> None:
        super().__init__(spec, is_known=is_known)
        self._tools = tools
        self._held = ""
        self._head = ""
        self._quote = ""
        self._depth = 0
        self._last = ""
        self._is_whole = False

    @property
    def raw(self) -> str:
        return "".join(self._parts) + self._held

    def feed(self, text: str) -> int:
        if len(self._head) < _HEAD_CHARS:
            self._head += text[: _HEAD_CHARS - len(self._head)]
            self._look()
            if self.is_hopeless:
                return 0
        before = len(self._held)
        data, self._held = self._held + text, ""
        at = self._follow(data)
        self._parts.append(data[:at])
        if not self.is_done:
            self._held, at = data[at:], len(data)
        self.size_chars += at - before
        return at - before

    @abstractmethod
    def _look(self) -> None:
        """Look at the beginning: what is surely no call is let go at once."""

    def _is_wrong(self, mark: str) -> bool:
        """Tell whether a mark is where it cannot be, so that the call ends before it."""
        return mark in self.wrong

    def _follow(self, data: str) -> int:
        """Return up to where the data was followed: a mark or backslash at its end may need what comes next."""
        at = 0
        while at < len(data):
            if self._quote:
                at, is_open = self._in_quote(data, at)
                if is_open:
                    return at
                continue
            found = self.marks.search(data, at)
            between = data[at : found.start() if found else len(data)]
            self._last = "other" if between and not between.isspace() else self._last
            if found is None:
                return len(data)
            at, mark, start = found.end(), found[0], data[found.start() : found.start() + _LONGEST_QUOTE]
            if any(each.startswith(start) and each != start for each in self.quotes):
                return found.start()
            if mark in self.quotes:
                self._quote = mark
            elif self._is_wrong(mark):
                self.is_done = True
                return found.start()
            elif mark in "([{":
                self._depth, self._last = self._depth + 1, mark
            elif mark in ")]}":
                self._depth, self._last = self._depth - 1, mark
                self.is_done = self._is_whole = self._depth <= 0
                if self.is_done:
                    return at
            else:
                self._last = "other"
        return at

    def _in_quote(self, data: str, at: int) -> tuple[int, bool]:
        """Return up to where a string was followed, and whether more must come to go on."""
        close = self.quotes[self._quote]
        end = data.find(close, at)
        slash = data.find("\\", at, end if end >= 0 else len(data)) if self._quote[0] in _ESCAPING else -1
        if slash >= 0:
            return (slash, True) if slash + 1 >= len(data) else (slash + 2, False)
        if end < 0:
            return max(at, len(data) - len(close) + 1), True
        self._last = self._last if self._quote[0] == "/" else close
        self._quote = ""
        return end + len(close), False


class JsonItem(BracketItem):
    """An object or a list; with `hint` it holds the arguments of that tool."""

    quotes: ClassVar[Mapping[str, str]] = {'"': '"', "'": "'", "“": "”", "”": "”", "//": "\n", "/*": "*/"}
    marks = re.compile(r"//|/\*|[\"'{}\[\]`<>/“”]")
    wrong = "`<>"

    def __init__(self, tools: ToolNames, *, hint: ToolSpec | None = None, is_marked: bool = False) -> None:
        super().__init__(tools, hint, is_known=hint is not None)
        self._hint = hint
        self._is_marked = is_marked
        self._is_too_deep = False

    def _is_wrong(self, mark: str) -> bool:
        self._is_too_deep = mark in "{[" and self._depth >= MAX_DEPTH
        is_second = mark == "{" and self._depth > 0 and self._last in ("]", "}")
        return self._is_too_deep or is_second or super()._is_wrong(mark)

    def _look(self) -> None:
        """Look at the first name: data that calls nothing is let go at once."""
        if not self._is_known:
            first = _FIRST.match(self._head)
            if first is not None:
                key = first[1] or first[2] or ""
                self._is_known = key in FIRST_KEYS or self._tools.find(key) is not None
                self.is_hopeless = not self._is_known
            elif not _MAY_COME.match(self._head):
                self.is_hopeless = True
        if self.spec is None and self._is_known:
            self.spec = self._named(self._head)

    def _named(self, head: str) -> ToolSpec | None:
        named = _NAME.search(head)
        return self._tools.find(named[1]) if named else None

    def found(self, *, is_cut: bool) -> Found:
        raw = self.raw
        self.spec = self._hint or self._named(raw[:_HEAD_CHARS])
        if self._is_too_deep:
            return [RejectedCall("it is nested too deep", self.spec)]
        try:
            if self._is_whole:
                return self._meant(read_json(raw))
            is_closing = self._quote in ("", "//", "/*") and self._last in ("]", "}")
            if is_cut or not is_closing:
                return [*self._complete(raw), RejectedCall(CUT if is_cut else "it ends too early", self.spec)]
            return self._meant(read_json(raw, may_close=True))
        except UnreadableLiteral as error:
            return [RejectedCall(str(error), self.spec)] if self.spec or self._is_marked else []

    def _meant(self, value: object) -> Found:
        if self._hint is None:
            return calls_in(value, self._tools, is_marked=self._is_marked)
        return [with_arguments(self._hint, value)]

    def _complete(self, raw: str) -> Found:
        """Return the calls of a list that came whole before it was cut."""
        if not raw.startswith("["):
            return []
        reader, calls = LiteralReader(raw, 1), []
        try:
            while reader.peek() == "{":
                calls += calls_in(reader.value(1), self._tools, is_marked=True)
                if reader.peek() == ",":
                    reader.at += 1
        except UnreadableLiteral:
            pass
        return calls


_NOTHING = frozenset(("None", "none", "null", "N/A", "n/a", "''", '""'))


class LineItem(Item):
    """The one text that a tool needs, up to the end of its line."""

    form = "react"

    def feed(self, text: str) -> int:
        taken = text.partition("\n")[0]
        self._parts.append(taken)
        self.size_chars += len(taken)
        self.is_done = len(taken) < len(text)
        return len(taken)

    def found(self, *, is_cut: bool) -> Found:
        if self.spec is None or (is_cut and not self.is_done):
            return [RejectedCall(CUT, self.spec)]
        given = self.raw.strip().strip("`")
        return [with_arguments(self.spec, "" if given in _NOTHING else given)]


_RAW = re.compile(r'<\|"\|>(.*?)<\|"\|>|<escape>(.*?)<escape>', re.DOTALL)
_PY_HEAD = re.compile(r"\[?\s*[\w.]+\s*\(\s*(?:\)|[\"'{]|[A-Za-z_]\w*\s*=(?!=))")
_PY_MAY_COME = re.compile(r"\[?\s*[\w.]*\s*(?:\(\s*(?:[A-Za-z_]\w*\s*)?)?\Z")
_PY_CALL = re.compile(r"\s*([A-Za-z_][\w.\-]*)\s*\(")
_PY_NAME = re.compile(r"\s*([A-Za-z_]\w*)\s*=(?!=)\s*")


class PythonItem(BracketItem):
    """`read(path="x")`, or a list of such calls in brackets."""

    form = "python"
    quotes: ClassVar[Mapping[str, str]] = {each: each for each in ('"""', "'''", '"', "'", '<|"|>', "<escape>")}
    marks = re.compile(r"""<\|"\|>|<escape>|\"{3}|'{3}|["'()\[\]{}<]""")

    def _look(self) -> None:
        if self._is_known:
            return
        if _PY_HEAD.match(self._head):
            self._is_known = True
            named = _PY_CALL.match(self._head.lstrip("["))
            self.spec = self._tools.find(named[1]) if named else None
            self.is_hopeless = self.spec is None
        elif not _PY_MAY_COME.match(self._head):
            self.is_hopeless = True

    def found(self, *, is_cut: bool) -> Found:
        if not self.is_done:
            return [RejectedCall(CUT if is_cut else "it ends too early", self.spec)] if self.spec else []
        try:
            return python_calls(self.raw, self._tools)
        except UnreadableLiteral as error:
            return [RejectedCall(str(error), self.spec)] if self.spec else []


class GemmaItem(PythonItem):
    """`call:read{path:<|"|>x<|"|>}`: what is between its quotes is as it is; some write JSON, or Python, in its place."""

    form = "tag"

    def found(self, *, is_cut: bool) -> Found:
        if self.spec is None or not self.is_done:
            return [RejectedCall(NO_SUCH_TOOL if self.spec is None else CUT if is_cut else "it ends too early", self.spec)]
        body = _RAW.sub(lambda raw: json.dumps(raw[1] if raw[2] is None else raw[2]), self.raw)
        body = body[min(body.find(each) for each in "({" if each in body) :]
        try:
            if body[0] == "(" and _PY_HEAD.match(f"f{body}") and ":" not in body.partition("=")[0]:
                return python_calls(self.spec.name + body, self._tools)
            return [with_arguments(self.spec, read_json(f"{{{body[1:-1]}}}"))]
        except UnreadableLiteral as error:
            return [RejectedCall(str(error), self.spec)]


def python_calls(text: str, tools: ToolNames) -> Found:
    """Return the calls of a text such as `read(path="x")` or `[ls(), read(path="x")]`; empty if one is of no known tool.

    Raises:
        Unreadable: an argument is not a plain value, or it is not clear which it is.
    """
    text = text.strip()
    is_list = text.startswith("[")
    reader = LiteralReader(text, 1 if is_list else 0, is_python=True)
    calls: Found = []
    while (mark := reader.peek()) and mark != "]":
        named = _PY_CALL.match(text, reader.at)
        spec = tools.find(named[1]) if named else None
        if named is None or spec is None:
            return []
        reader.at = named.end()
        calls.append(_call(spec, reader))
        if reader.peek() == "," and is_list:
            reader.at += 1
        elif not is_list:
            break
    return calls


def _call(spec: ToolSpec, reader: LiteralReader) -> ParsedCall | RejectedCall:
    arguments: dict[str, object] = {}
    while (mark := reader.peek()) != ")":
        named = _PY_NAME.match(reader.text, reader.at)
        if named is not None:
            reader.at = named.end()
            key = named[1]
        elif mark and mark in "\"'" and not arguments and len(required(spec)) == 1:
            key = required(spec)[0]
        else:
            raise UnreadableLiteral("its arguments have no names")
        if key in arguments:
            raise UnreadableLiteral(f"it gives {key[:40]} twice")
        arguments[key] = reader.value()
        if reader.peek() == ",":
            reader.at += 1
        elif reader.peek() != ")":
            raise UnreadableLiteral("it holds something that is not a plain value")
    reader.at += 1
    if unknown := [key for key in arguments if not own_parameter(spec, key)]:
        return RejectedCall(f"it has no argument {unknown[0][:40]}", spec)
    return meant(spec, arguments)
