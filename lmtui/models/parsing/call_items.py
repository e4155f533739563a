"""Calls that are still being written: JSON values, Python calls and tags, each fed until it ends, then read.

A tag is `<function=NAME><parameter=K>V</parameter></function>` or a relative of it, read as it streams.  A value is what is
between its tags, as it is: nothing in it is an escape.  Where it could end at two places the call is refused.  Forms:
Qwen3-Coder (`function=`), Claude, MiniMax, DeepSeek V3.2 (`invoke name=`), `tool name=`, GLM-4.5 (`arg_key`, `arg_value`
behind a bare name), Llama 3.1 (`function=` around JSON), and `<NAME><K>V</K></NAME>`.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
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
    type_of,
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


_NAMESPACE = r"(?:antml:|minimax:|steptml:|seed:|｜DSML｜|\|DSML\||\|open\|>)?"
_TAG_END = r"[^<>\n]{0,100}(?:>|<\|sep\|>)"
OPENING = re.compile(
    rf"<{_NAMESPACE}(function|invoke|tool|tool_call|function_call|call)(?:=|\s+(?:name|tool)\s*=\s*)"
    rf"(?:\"([^\"<>\n]{{1,100}})\"|'([^'<>\n]{{1,100}})'|([\w.\-:]{{1,100}})){_TAG_END}"
)
_PARAMETER = re.compile(
    rf"<{_NAMESPACE}(?:parameter|param|arg|argument)(?:=|\s+(?:name|key)\s*=\s*)"
    rf"(?:\"([^\"<>\n]{{1,100}})\"|'([^'<>\n]{{1,100}})'|([\w.\-:]{{1,100}})){_TAG_END}"
)
_GLM = re.compile(r"(?:<arg_key>)?\s*([\w.\-]{1,100})\s*(?:(?:</arg_key>\s*)?<arg_value>|</arg_key>(?=\s*[^\s<]))")
_GLM_MAY_COME = re.compile(r"(?:<arg_key>)?\s*[\w.\-]{0,100}\s*(?:<\/?(?:a\w*>?)?\s*){0,2}\Z")
_CHILD = re.compile(r"<([A-Za-z_][\w\-]{0,60})>")
_CLOSE = re.compile(rf"(?:</{_NAMESPACE}|<\|close\|>)(?:function|invoke|tool|function_call|tool_call|call)(?:>|<\|sep\|>)")
_FOLLOWS = re.compile(
    rf"</?{_NAMESPACE}(?:tool_calls?|function_calls?|function|invoke|tool|parameter|param|arg|argument)\b"
    r"|<\||<arg_key>|[\w.\-]{1,100}</arg_key>"
)
GLM_END = "</tool_call>"
_LOOK_CHARS = 300
_KEPT_CHARS = 250


@dataclass(slots=True)
class _Value:
    """The value that is being read: its parameter (empty: JSON that holds all of them), what may end it, its text so far."""

    key: str
    ends: re.Pattern[str]
    parts: list[str] = field(default_factory=list)


class TagItem(Item):
    """One call in tags; `spec` is None where the name is of no known tool.

    Args:
        spec: the tool.
        opening: the tag that begins the call; it is the first that is fed.
        closer: the tag that ends the call, as a pattern.
        is_nested: parameters are tags of their own names.
    """

    form = "xml"

    def __init__(self, spec: ToolSpec | None, opening: str, closer: str = "", *, is_nested: bool = False) -> None:
        super().__init__(spec)
        self._opening = opening
        self._close = re.compile(closer) if closer else _CLOSE
        self._is_nested = is_nested
        self._held = ""
        self._value: _Value | None = None
        self._arguments: dict[str, object] = {}
        self._why = ""
        self._is_final = False
        self._is_closed = False

    @property
    def raw(self) -> str:
        return "".join(self._parts).removesuffix(self.left)

    def feed(self, text: str) -> int:
        if self._opening:
            opening, self._opening = self._opening, ""
            self._parts.append(opening)
            self.is_done = self._is_closed = opening.endswith("/>")
            return len(opening)
        self._parts.append(text)
        self._held += text
        while self._held and not self.is_done and (self._step_value(self._value) if self._value else self._step()):
            pass
        self.size_chars += len(text)
        self.left = self._held if self.is_done else ""
        return len(text)

    def finish(self) -> None:
        self._is_final = True
        self.feed("")

    def _step(self) -> bool:
        """Take the next tag of what is held; tell whether there may be more to take."""
        start = self._held.lstrip()
        if closed := self._close.match(start):
            self._held = start[closed.end() :]
            self.is_done = self._is_closed = True
        elif found := _PARAMETER.match(start) or _GLM.match(start) or (_CHILD.match(start) if self._is_nested else None):
            self._held = start[found.end() :]
            name = "arg_value" if found.re is _GLM else re.split(r"[\s=>]", found[0][1:], maxsplit=1)[0]
            own = "<|close|>argument<|sep|>" if name == "|open|" else f"</{name}>"
            key = next(group for group in found.groups() if group)
            ends = rf"(?P<own>{re.escape(own)})|(?P<call>{self._close.pattern})|\n[ \t]*{_PARAMETER.pattern}"
            self._value = _Value(key, re.compile(ends))
            return True
        elif start[:1] == "{" and not self._arguments:
            self._value = _Value("", re.compile(rf"(?P<call>{self._close.pattern})"))
            return True
        elif start and (self._is_final or not self._may_be_tag(start)):
            self.is_done = True
            self.is_hopeless = not self._arguments and not _FOLLOWS.match(start) and not self._is_final
        return False

    def _step_value(self, value: _Value) -> bool:
        """Look for the end of a value: its closing tag, that of the call, or the next parameter at the start of a line."""
        for found in value.ends.finditer(self._held):
            behind = self._held[found.end() :].lstrip()
            if found.lastgroup is None:
                key = next(group for group in found.groups()[2:] if group)
                if self.spec and own_parameter(self.spec, key) and key not in self._arguments and key != value.key:
                    self._end_value(value, found.start() + 1, found.start() + 1)
                    return True
                continue
            if value.key and not self._is_final and (not behind or self._may_be_tag(behind)):
                return False
            follows = (_FOLLOWS, self._close, *((_CHILD,) if self._is_nested else ()))
            if not value.key or not behind or any(pattern.match(behind) for pattern in follows):
                self._end_value(value, found.start(), found.end())
                self.is_done = self._is_closed = found.lastgroup == "call"
                return not self.is_done
            if found.lastgroup == "own":
                self._why = f"it is not clear where {value.key[:40]} ends"
        end = len(self._held) - (0 if self._is_final else min(len(self._held), _KEPT_CHARS))
        if self._is_final and not value.key:
            self._end_value(value, end, end)
        else:
            value.parts.append(self._held[:end])
            self._held = self._held[end:]
        return False

    def _may_be_tag(self, text: str) -> bool:
        """Tell whether a text begins with what may become a tag."""
        end = "<|sep|>" if text.startswith(("<|open|>", "<|close|>")) else ">"
        is_tag = text[:1] == "<" and end not in text
        is_glm = self._close.pattern == GLM_END or text.startswith("<arg_key>")
        return (is_tag or (is_glm and _GLM_MAY_COME.match(text) is not None)) and len(text) < _LOOK_CHARS

    def _end_value(self, value: _Value, start: int, end: int) -> None:
        """End a value at a place and go on at another."""
        text = "".join([*value.parts, self._held[:start]])
        text = text[1:].removesuffix("\n") if text.startswith("\n") else text
        self._held, self._value = self._held[end:], None
        given = text.strip() if self.spec and _is_short(self.spec, value.key, text) else text
        if self._arguments.get(value.key, given) != given:
            self._why = f"it gives {value.key[:40]} twice"
        self._arguments[value.key] = given

    def found(self, *, is_cut: bool) -> Found:
        if self.spec is None:
            return [RejectedCall(NO_SUCH_TOOL)]
        if self._value is not None or (is_cut and not self._is_closed):
            return [RejectedCall(CUT if is_cut else "it ends too early", self.spec)]
        if self._why:
            return [RejectedCall(self._why, self.spec)]
        if "" in self._arguments:
            try:
                return [with_arguments(self.spec, read_json(str(self._arguments[""]).strip()))]
            except UnreadableLiteral as error:
                return [RejectedCall(str(error), self.spec)]
        return [meant(self.spec, self._arguments)] if self._is_closed or not self._is_nested else []


def _is_short(spec: ToolSpec, key: str, text: str) -> bool:
    """Tell whether white space around a value means nothing: it is not text, or a path on one line."""
    return type_of(spec, key) not in ("", "string") or ("\n" not in text and own_parameter(spec, key) in ("path", "file"))
