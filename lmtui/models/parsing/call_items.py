"""Calls that are still being written: JSON values and Python calls, each fed until it ends, then read."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod

from lmtui.core.messages import ToolSpec
from lmtui.models.parsing.call_shapes import (
    FIRST_KEYS,
    NAME_KEYS,
    NO_SUCH_TOOL,
    ParsedCall,
    RejectedCall,
    calls_in,
    meant,
    with_arguments,
)
from lmtui.models.parsing.literals import (
    MAX_DEPTH,
    LiteralReader,
    ToolNames,
    UnreadableLiteral,
    own_parameter,
    read_json,
    required,
)

_OUTSIDE = re.compile(r"[\"'{}\[\]`<>/“”]")
_INSIDE = {'"': re.compile(r'["\\]'), "'": re.compile(r"['\\]"), "”": re.compile(r"[”\\]")}


class JsonBoundaryScanner:
    """Follows one object or list.  `is_whole`: its last bracket has come; `is_broken`: something is where nothing may."""

    def __init__(self) -> None:
        self.is_whole = False
        self.is_broken = False
        self.is_too_deep = False
        self._depth = 0
        self._quote = ""
        self._escapes = False
        self._last = ""
        self._comment = ""

    @property
    def is_closing(self) -> bool:
        """Tell whether a bracket was the last that came: only the outermost ones are missing."""
        return not self._quote and self._last == "closed"

    def feed(self, text: str) -> int:
        """Take more; return how many characters of it belong to the value (all of them while it is open)."""
        at = 0
        while True:
            if self._escapes:
                if at >= len(text):
                    return len(text)
                at, self._escapes = at + 1, False
            if self._comment:
                if at >= len(text):
                    return len(text)
                at = self._skip_comment(text, at)
                continue
            if self._quote:
                found = _INSIDE[self._quote].search(text, at)
                if found is None:
                    return len(text)
                at = found.end()
                if found[0] == "\\":
                    self._escapes = True
                else:
                    self._quote, self._last = "", "string"
                continue
            found = _OUTSIDE.search(text, at)
            if found is None:
                self._note(text[at:])
                return len(text)
            self._note(text[at : found.start()])
            if self._outside(found[0]):
                return found.end() if self.is_whole else found.start()
            at = found.end()

    def _skip_comment(self, text: str, at: int) -> int:
        """Return where a comment ends, behind the text if it continues; `_comment` is as much of its beginning as matters."""
        if self._comment == "/":
            self._comment = f"/{text[at]}" if text[at] in "/*" else ""
            self._last = self._last if self._comment else "other"
            return at + 1 if self._comment else at
        if self._comment == "//":
            end = text.find("\n", at) + 1
            self._comment = "" if end else "//"
            return end or len(text)
        if self._comment == "/**" and text[at] == "/":
            self._comment = ""
            return at + 1
        end = text.find("*/", at) + 2
        self._comment = "" if end > 1 else "/**" if text.endswith("*") else "/*"
        return end if end > 1 else len(text)

    def _outside(self, mark: str) -> bool:
        """Take a mark outside strings; tell whether the value ends with it."""
        if mark in "\"'":
            self._quote = mark
        elif mark in "“”":
            self._quote = "”"
        elif mark == "/":
            self._comment = "/"
        elif mark in "{[":
            if self._depth and self._last == "closed" and mark == "{":
                self.is_broken = True
                return True
            self._depth += 1
            self._last = "open"
            self.is_too_deep = self._depth > MAX_DEPTH
        elif mark in "}]":
            self._depth -= 1
            self._last = "closed"
            self.is_whole = self._depth <= 0
        else:
            self.is_broken = True
        return self.is_whole or self.is_broken or self.is_too_deep

    def _note(self, between: str) -> None:
        if between and not between.isspace():
            self._last = "other"


Found = list[ParsedCall | RejectedCall]

CUT = "it was cut off"
_HEAD_CHARS = 400
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


class JsonItem(Item):
    """An object or a list; with `hint` it holds the arguments of that tool."""

    def __init__(self, tools: ToolNames, *, hint: ToolSpec | None = None, is_marked: bool = False) -> None:
        super().__init__(hint, is_known=hint is not None)
        self._tools = tools
        self._hint = hint
        self._is_marked = is_marked
        self._extent = JsonBoundaryScanner()
        self._head = ""

    def feed(self, text: str) -> int:
        if len(self._head) < _HEAD_CHARS:
            self._head += text[: _HEAD_CHARS - len(self._head)]
            self._look()
            if self.is_hopeless:
                return 0
        count = self._extent.feed(text)
        taken = text[:count]
        self._parts.append(taken)
        self.size_chars += count
        self.is_done = self._extent.is_whole or self._extent.is_broken or self._extent.is_too_deep
        return count

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
        if self._extent.is_too_deep:
            return [RejectedCall("it is nested too deep", self.spec)]
        try:
            if self._extent.is_whole:
                return self._meant(read_json(raw))
            if is_cut or not self._extent.is_closing:
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


_PY_OUTSIDE = re.compile(r"[\"'()\[\]{}<]")
_RAW_QUOTES = ('<|"|>', "<escape>")
_RAW = re.compile(r'<\|"\|>(.*?)<\|"\|>|<escape>(.*?)<escape>', re.DOTALL)
_PY_HEAD = re.compile(r"\[?\s*[\w.]+\s*\(\s*(?:\)|[\"'{]|[A-Za-z_]\w*\s*=(?!=))")
_PY_MAY_COME = re.compile(r"\[?\s*[\w.]*\s*(?:\(\s*(?:[A-Za-z_]\w*\s*)?)?\Z")
_PY_CALL = re.compile(r"\s*([A-Za-z_][\w.\-]*)\s*\(")
_PY_NAME = re.compile(r"\s*([A-Za-z_]\w*)\s*=(?!=)\s*")


class PythonItem(Item):
    """`read(path="x")`, or a list of such calls in brackets."""

    form = "python"

    def __init__(self, tools: ToolNames, spec: ToolSpec | None = None, *, is_known: bool = False) -> None:
        super().__init__(spec, is_known=is_known)
        self._tools = tools
        self._held = ""
        self._head = ""
        self._quote = ""
        self._depth = 0

    @property
    def raw(self) -> str:
        return "".join(self._parts) + self._held

    def feed(self, text: str) -> int:
        if not self._is_known:
            self._head = (self._head + text)[:200]
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

    def _look(self) -> None:
        if _PY_HEAD.match(self._head):
            self._is_known = True
            named = _PY_CALL.match(self._head.lstrip("["))
            self.spec = self._tools.find(named[1]) if named else None
            self.is_hopeless = self.spec is None
        elif not _PY_MAY_COME.match(self._head):
            self.is_hopeless = True

    def _follow(self, data: str) -> int:
        """Return up to where the data was followed: a quote or backslash at its end may need what comes next."""
        at = 0
        while at < len(data):
            if self._quote:
                at, is_open = self._in_quote(data, at)
                if is_open:
                    return at
                continue
            found = _PY_OUTSIDE.search(data, at)
            if found is None:
                return len(data)
            at = found.start()
            mark = found[0]
            if mark == "<":
                if any(each.startswith(data[at:]) and data[at:] != each for each in _RAW_QUOTES):
                    return at
                self._quote = next((each for each in _RAW_QUOTES if data.startswith(each, at)), "")
                at += len(self._quote) or 1
                continue
            if mark in "\"'":
                if len(data) - at < 3:
                    if data[at:] == mark or data[at:] == mark * 2:
                        return at
                    self._quote, at = mark, at + 1
                    continue
                self._quote = mark * 3 if data.startswith(mark * 3, at) else mark
                at += len(self._quote)
                continue
            self._depth += 1 if mark in "([{" else -1
            at += 1
            if self._depth <= 0:
                self.is_done = True
                return at
        return at

    def _in_quote(self, data: str, at: int) -> tuple[int, bool]:
        """Return up to where a string was followed, and whether more must come to go on."""
        end = data.find(self._quote, at)
        slash = -1 if self._quote in _RAW_QUOTES else data.find("\\", at, end if end >= 0 else len(data))
        if slash >= 0:
            return (slash, True) if slash + 1 >= len(data) else (slash + 2, False)
        if end < 0:
            return max(at, len(data) - len(self._quote) + 1), True
        at, self._quote = end + len(self._quote), ""
        return at, False

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
