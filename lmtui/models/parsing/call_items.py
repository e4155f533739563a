"""Calls that are still being written: JSON values and Python calls, each fed until it ends, then read."""

from __future__ import annotations

import re

from lmtui.core.messages import ToolSpec
from lmtui.models.parsing.call_shapes import FIRST_KEYS, NAME_KEYS, ParsedCall, RejectedCall, calls_in, meant, with_arguments
from lmtui.models.parsing.literals import (
    MAX_DEPTH,
    LiteralReader,
    ToolNames,
    UnreadableLiteral,
    own_parameter,
    read_json,
    required,
)

_INSIDE = {quote: re.compile(rf"[{quote}\\]") for quote in "\"'”"}
_JSON_MARKS = re.compile(r"[\"'{}\[\]`<>“”]")
_PYTHON_MARKS = re.compile(r"[\"'()\[\]{}]")


class BoundaryScanner:
    """Follows brackets and strings up to the end of one value or Python call.

    `is_whole`: its last bracket has come; `is_broken`: something is where nothing may.
    """

    def __init__(self, marks: re.Pattern[str]) -> None:
        self.is_whole = False
        self.is_broken = False
        self.is_too_deep = False
        self._marks = marks
        self._depth = 0
        self._last = ""
        self._quote = ""
        self._escapes = False
        self._is_triple = False
        self._is_empty = False  # nothing of the string has come, or the last one was empty and ended just here
        self._run = 0

    @property
    def is_closing(self) -> bool:
        """Tell whether a bracket was the last that came: only the outermost ones are missing."""
        return not self._quote and self._last == "closed"

    @property
    def is_done(self) -> bool:
        """Tell whether nothing more is taken."""
        return self.is_whole or self.is_broken or self.is_too_deep

    def feed(self, text: str) -> int:
        """Take more; return how many characters of it belong to the value (all of them while it is open)."""
        at = 0
        while at < len(text):
            if self._escapes:
                at, self._escapes = at + 1, False
                continue
            if self._quote:
                at = self._follow_string(text, at)
                continue
            found = self._marks.search(text, at)
            end = found.start() if found else len(text)
            self._is_empty = self._is_empty and end == at
            self._last = "other" if text[at:end].strip() else self._last
            if found is None:
                return end
            self._outside(found[0])
            if self.is_done:
                return found.end() if self.is_whole else end
            at = found.end()
        return at

    def _follow_string(self, text: str, at: int) -> int:
        found = _INSIDE[self._quote].search(text, at)
        end = found.start() if found else len(text)
        if end > at:
            self._run, self._is_empty = 0, False
        if found is None:
            return end
        if found[0] == "\\":
            self._escapes, self._run, self._is_empty = True, 0, False
        else:
            self._run += 1
            if not self._is_triple or self._run == 3:
                self._is_empty = self._is_empty and not self._is_triple
                self._last, self._quote = self._quote, ""
        return found.end()

    def _outside(self, mark: str) -> None:
        """Take a mark outside strings."""
        if mark in "\"'“”":
            self._quote = "”" if mark in "“”" else mark
            self._is_triple = self._marks is _PYTHON_MARKS and self._is_empty and self._last == mark
            self._is_empty, self._run = True, 0
        elif mark == "{" and self._depth and self._last == "closed":
            self.is_broken = True
        elif mark in "([{":
            self._depth += 1
            self._last = "open"
            self.is_too_deep = self._depth > MAX_DEPTH
        elif mark in ")]}":
            self._depth -= 1
            self._last = "closed"
            self.is_whole = self._depth <= 0
        else:
            self.is_broken = True


Found = list[ParsedCall | RejectedCall]

CUT = "it was cut off"
_HEAD_CHARS = 400


class _BracketItem:
    """A call that ends with its last bracket.

    `is_done`: it takes no more.  `is_hopeless`: it is surely no call, what it took is text.  `form` names the shape.
    `spec` is the tool, as soon as it is known.  `left` is what it took to look ahead and gives back.
    """

    form = "json"
    left = ""

    def __init__(self, marks: re.Pattern[str], spec: ToolSpec | None = None) -> None:
        self.is_done = False
        self.is_hopeless = False
        self.size_chars = 0
        self.spec = spec
        self._is_known = spec is not None
        self._boundary = BoundaryScanner(marks)
        self._parts: list[str] = []
        self._head = ""

    @property
    def raw(self) -> str:
        """Return the text as it came."""
        return "".join(self._parts)

    def feed(self, text: str) -> int:
        """Take more; return how many characters of it belong here."""
        if len(self._head) < _HEAD_CHARS:
            self._head += text[: _HEAD_CHARS - len(self._head)]
            self._look()
            if self.is_hopeless:
                return 0
        count = self._boundary.feed(text)
        self._parts.append(text[:count])
        self.size_chars += count
        self.is_done = self._boundary.is_done
        return count

    def finish(self) -> None:
        """Take note that no more comes."""
        self.is_hopeless = self.is_hopeless or not self._is_known

    def _look(self) -> None:
        """Look at the beginning: what calls nothing is let go at once."""
        raise NotImplementedError


_GAP = r"(?:\s|//[^\n]*\n|/\*[^*]*\*/)*"
_OPENS = rf"\s*[\[{{]{_GAP}(?:[\[{{]{_GAP}){{0,2}}"
_FIRST = re.compile(rf"{_OPENS}(?:[\"'“”]([^\"'“”\n]{{0,60}})[\"'”]|([A-Za-z_]\w{{0,60}})\s*:|[\]}}])")
_MAY_COME = re.compile(rf"{_OPENS}(?:[\"'“”][^\"'“”\n]{{0,60}}|[A-Za-z_]\w{{0,60}}\s{{0,20}}|/(?:/[^\n]*|\*[^*]*\*?)?)?\Z")
_NAME = re.compile(rf"[\"'“”{{,\s](?:{'|'.join(NAME_KEYS)})[\"'”]?\s*:\s*[\"'“”]([^\"'“”\n]{{1,100}})[\"'”]")


class JsonItem(_BracketItem):
    """An object or a list; with `hint` it holds the arguments of that tool."""

    def __init__(self, tools: ToolNames, *, hint: ToolSpec | None = None, is_marked: bool = False) -> None:
        super().__init__(_JSON_MARKS, hint)
        self._tools = tools
        self._hint = hint
        self._is_marked = is_marked

    def _look(self) -> None:
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
        """Return what is called; `is_cut`: the server ended the answer at its limit of tokens."""
        raw, boundary = self.raw, self._boundary
        if self._hint is None:
            self.spec = self._named(raw[:_HEAD_CHARS])
        if boundary.is_too_deep:
            return [RejectedCall("it is nested too deep", self.spec)]
        try:
            if boundary.is_whole:
                return self._meant(read_json(raw))
            if is_cut or not boundary.is_closing:
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


class LineItem:
    """The one text that a tool needs, up to the end of its line."""

    def __init__(self, spec: ToolSpec) -> None:
        self.form = "react"
        self.left = ""
        self.is_done = False
        self.is_hopeless = False
        self.size_chars = 0
        self.raw = ""
        self.spec: ToolSpec | None = spec

    def feed(self, text: str) -> int:
        """Take more; return how many characters of it belong here."""
        taken = text.partition("\n")[0]
        self.raw += taken
        self.size_chars += len(taken)
        self.is_done = len(taken) < len(text)
        return len(taken)

    def finish(self) -> None:
        """Take note that no more comes."""

    def found(self, *, is_cut: bool) -> Found:
        """Return what is called; see `JsonItem.found`."""
        if self.spec is None or (is_cut and not self.is_done):
            return [RejectedCall(CUT, self.spec)]
        given = self.raw.strip().strip("`")
        return [with_arguments(self.spec, "" if given in _NOTHING else given)]


_PY_HEAD = re.compile(r"\[?\s*[\w.]+\s*\(\s*(?:\)|[\"'{]|[A-Za-z_]\w*\s*=(?!=))")
_PY_MAY_COME = re.compile(r"\[?\s*[\w.]*\s*(?:\(\s*(?:[A-Za-z_]\w*\s*)?)?\Z")
_PY_CALL = re.compile(r"\s*([A-Za-z_][\w.\-]*)\s*\(")
_PY_NAME = re.compile(r"\s*([A-Za-z_]\w*)\s*=(?!=)\s*")


class PythonItem(_BracketItem):
    """`read(path="x")`, or a list of such calls in brackets."""

    form = "python"

    def __init__(self, tools: ToolNames) -> None:
        super().__init__(_PYTHON_MARKS)
        self._tools = tools

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
        """Return what is called; see `JsonItem.found`."""
        if not self._boundary.is_whole:
            return [RejectedCall(CUT if is_cut else "it ends too early", self.spec)] if self.spec else []
        try:
            return self._calls(self.raw.strip())
        except UnreadableLiteral as error:
            return [RejectedCall(str(error), self.spec)] if self.spec else []

    def _calls(self, text: str) -> Found:
        """Return the calls; empty if one is of no known tool.

        Raises:
            UnreadableLiteral: an argument is not a plain value, or it is not clear which it is.
        """
        is_list = text.startswith("[")
        reader = LiteralReader(text, 1 if is_list else 0, is_python=True)
        calls: Found = []
        while (mark := reader.peek()) and mark != "]":
            named = _PY_CALL.match(text, reader.at)
            spec = self._tools.find(named[1]) if named else None
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
