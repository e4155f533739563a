"""The parser of one answer: text and thinking go in as they come, pieces come out as soon as they are certain."""

from __future__ import annotations

import html
import json
import re
from dataclasses import dataclass
from itertools import islice

from pydantic_core import from_json

from lmtui.core.lenient_json import fit_text
from lmtui.core.messages import StreamChunk, ToolCall, ToolCallChunk, ToolCallFormat, ToolSpec
from lmtui.models.parsing.answer_builder import AnswerBuilder, RepetitionGuard, has_stray_end, identity
from lmtui.models.parsing.call_block import ParsedEntry
from lmtui.models.parsing.call_items import CUT
from lmtui.models.parsing.call_shapes import (
    NO_SUCH_TOOL,
    ParsedCall,
    RejectedCall,
    ToolNames,
    UnreadableLiteral,
    calls_in,
    parameters,
    read_json,
    required,
)
from lmtui.models.parsing.scanner import Scanner, State


def wanted(spec: ToolSpec, form: ToolCallFormat) -> str:
    """Return how a tool is to be called."""
    names = required(spec) or tuple(parameters(spec))[:1]
    if form is ToolCallFormat.NATIVE:
        needs = f" with {' and '.join(names)}" if names else ""
        return f"Send the whole call again as a tool call of {spec.name}{needs}."
    call = json.dumps({"name": spec.name, "arguments": dict.fromkeys(names, "…")}, ensure_ascii=False)
    shown = f"<tool_call>{call}</tool_call>" if form is ToolCallFormat.TEXT else call
    return f"Send the whole call again as one JSON object, quotes and line breaks inside texts escaped:\n{shown}"


DONE = "done"


class SchemaReader:
    """Reads one object; text of the answer is given out as it comes.

    `is_other`: this is not such an object (the server did not hold to the schema), `raw` is to be read as any other text.
    """

    def __init__(self, tools: ToolNames, gathered: AnswerBuilder) -> None:
        self.is_other = False
        self.raw = ""
        self._tools = tools
        self._out = gathered
        self._said = ""
        self._is_call = False
        self._spec: ToolSpec | None = None

    def feed(self, text: str) -> None:
        """Take more text."""
        self.raw += text
        self.is_other = self.raw.lstrip()[:1] not in ("", "{")
        if not self.is_other and not self._is_call:
            self._look()
        if self._spec is not None:
            self._out.pieces.append(ToolCallChunk(self._spec.name, len(self.raw)))

    def _look(self) -> None:
        """Give out what has come of the answer, or take note of the tool.

        What is not strict JSON is read at the end.
        """
        try:
            value = from_json(self.raw, allow_partial="trailing-strings")
        except ValueError:
            return
        name, arguments = value.get("name"), value.get("arguments")
        if next(iter(value), "") != "name" or not isinstance(arguments, dict):
            return
        self._spec = self._tools.find(name)
        self._is_call = self._spec is not None or name != DONE
        answer = arguments.get("answer")
        if not self._is_call and isinstance(answer, str) and answer.startswith(self._said) and answer != self._said:
            self._out.say(answer[len(self._said) :])
            self._said = answer

    def finish(self, *, is_cut: bool) -> None:
        """Take note that no more comes."""
        if not self.raw.strip():
            return
        try:
            value = read_json(self.raw, may_close=not is_cut)
        except UnreadableLiteral as error:
            if not self._said:
                self._take(RejectedCall(CUT if is_cut else str(error), self._spec))
            return
        answer = _answer(value) if self._tools.find(DONE) is None else None
        found = calls_in(value, self._tools, is_marked=True) if answer is None and not self._said else []
        if found:
            self._take(found[0])
        elif answer != self._said and (answer is not None or not self._said):
            self._out.say((self.raw if answer is None else answer).removeprefix(self._said))

    def _take(self, found: ParsedCall | RejectedCall) -> None:
        self._out.call([ParsedEntry(self.raw, "schema", [found])], self.raw, is_marked=True)


def _answer(value: object) -> str | None:
    """Return the answer of a `done` object."""
    if not isinstance(value, dict) or value.get("name") != DONE:
        return None
    arguments = value.get("arguments")
    texts = [each for each in arguments.values() if isinstance(each, str)] if isinstance(arguments, dict) else []
    return fit_text(texts[0]) if len(texts) == 1 else None


_THOUGHT_CHARS = 100_000
_BARE_NAME = re.compile(
    r"\s*`{3,} *(?:json|tool_calls?|tools?|function)? *\n\s*"
    r"""(?:"?([A-Za-z_][\w\-]{0,60})"?|\{\s*"name"\s*:\s*"([\w\-]{1,60})"\s*\})\s*\n?`{3,}\s*"""
)
_CODE_BLOCK = re.compile(r"(`{3,}|~{3,}).*?(?:\1|\Z)|`[^`\n]*`", re.DOTALL)
_CALL_TAG = r"<[^<>\s]{0,40}(?:tool|call|function|invoke|action)[^<>\n]{0,80}>"
_ANY_MARK = rf"<[|｜][^<>\n]{{1,60}}>|{_CALL_TAG}|\[[A-Z_]*(?:TOOL|CALL|ARGS)[A-Z_]*\]|call:|to="
_KNOWN_MARK = r"</?arg_|</?tool_calls?>|to=functions\.|<[|｜][\w▁ :/\-]{1,60}[|｜]>|✿[A-Z]+✿|\[TOOL_CALLS\]"
_MARKED = re.compile(rf"({_KNOWN_MARK})|^[ \t]*(?:{_ANY_MARK})", re.MULTILINE)
_NAME = re.compile(r"[A-Za-z_][\w.\-]{0,60}(?=\s*[<({\[|\"'\n]|:\S)|(?<=to=)[\w.]+")
_AROUND_CHARS = 400
_MOST_MARKS = 20


@dataclass(frozen=True, slots=True)
class ParsedAnswer:
    """What an answer was in the end.

    `problem` says, for the model, why something that it meant as a call was not run; `stopped`, for the user, why the answer
    ended before the server ended it.  `quoted` is the only call of an answer that calls nothing: by its words an example.
    """

    text: str
    thinking: str
    calls: tuple[ToolCall, ...]
    problem: str = ""
    stopped: str = ""
    is_unknown_tool: bool = False
    quoted: ToolCall | None = None


class AnswerParser:
    """Reads one answer; the result does not depend on how it was cut into pieces.

    The server's own structured calls are not read here: tell of them with `has_native_calls`, then all text is text.
    Where only the end of thinking is marked, what was given out as text becomes thinking in the result.

    Args:
        tools: what may be called; nothing else ever is.
        form: how the model was asked to call.
        is_guarded: a model that repeats itself without end is stopped.
    """

    def __init__(
        self, tools: tuple[ToolSpec, ...] = (), form: ToolCallFormat = ToolCallFormat.NATIVE, *, is_guarded: bool = True
    ) -> None:
        self.names = ToolNames(tools)
        self._form = form
        self._out = AnswerBuilder()
        self._scanner = Scanner(self.names, self._out)
        self._schema = SchemaReader(self.names, self._out) if form is ToolCallFormat.SCHEMA else None
        self._guard = RepetitionGuard()
        self._thought_guard = RepetitionGuard()
        self._is_guarded = is_guarded
        self._stopped = ""
        self._has_field = False

    @property
    def is_over(self) -> bool:
        """Tell whether nothing that may still come counts: the server can be stopped."""
        return bool(self._stopped or self._scanner.stopped)

    def feed(self, text: str) -> list[StreamChunk]:
        """Take some more of the answer's text."""
        if self._guard.passes(text):
            self._scan(text)
            return self._pieces()
        for part in self._guard.parts(text):
            if self.is_over:
                break
            self._scan(part)
            is_code = self._scanner.state in (State.CODE, State.CALLS)
            if self._guard.feed(part, is_code=is_code) and self._is_guarded and not self._scanner.stopped:
                self._stopped = "it repeated itself"
        return self._pieces()

    def feed_thinking(self, text: str) -> list[StreamChunk]:
        """Take some more of the thinking that the server told apart."""
        self._has_field = True
        for part in self._thought_guard.parts(text):
            if self.is_over:
                break
            self._out.think(part)
            if self._thought_guard.feed(part) and self._is_guarded:
                self._stopped = "it repeated itself in its thinking"
        return self._pieces()

    def has_native_calls(self) -> None:
        """Take note that the server itself sent tool calls."""
        self._out.is_native = True

    def finish(self, *, is_cut: bool = False) -> tuple[list[StreamChunk], ParsedAnswer]:
        """Return the last pieces and the whole; `is_cut`: the server ended the answer at its limit of tokens."""
        is_cut = is_cut or bool(self._stopped)
        if self._schema is not None:
            self._schema.finish(is_cut=is_cut)
        self._scanner.finish(is_cut=is_cut)
        self._out.finish(is_over=bool(self._scanner.stopped))
        if self._stopped and self._guard.period and self._scanner.state is not State.THINK:
            self._out.trim(self._guard.period)
        found = [(entry.form, each) for entry, each in self._out.found()]
        text = self._out.text()
        if not found and not self._out.is_native and self._out.is_blank:
            found = self._found_in_thinking(is_cut=is_cut)
        if not found and not is_cut and not self._out.is_native:
            found = self._bare_name(text)
        if not found and not is_cut and not self._out.is_native and not self._out.quoted:
            found = self._unread(text)
        pieces = self._pieces()
        calls = _once(found, text)
        stopped = self._stopped or self._scanner.stopped
        problem = self._problem(found, calls, text)
        is_unknown = any(isinstance(each, RejectedCall) and each.why == NO_SUCH_TOOL for _, each in found)
        answer = ParsedAnswer(text, "".join(self._out.thinking), calls, problem, stopped, is_unknown, self._quoted(found))
        return pieces, answer

    def _scan(self, text: str) -> None:
        if self.is_over:
            return
        if self._schema is None:
            self._scanner.feed(text)
            return
        self._schema.feed(text)
        if self._schema.is_other:
            raw, self._schema = self._schema.raw, None
            self._scanner.feed(raw)

    def _pieces(self) -> list[StreamChunk]:
        pieces = self._out.pieces
        if pieces:
            self._out.pieces = []
        return pieces

    def _bare_name(self, text: str) -> list[tuple[str, ParsedCall | RejectedCall]]:
        """Return the call of an answer that is nothing but the name of a tool which needs no arguments."""
        named = _BARE_NAME.fullmatch(text)
        spec = self.names.find(named[1] or named[2]) if named else None
        return [("fence", ParsedCall(spec, {}))] if spec is not None and not required(spec) else []

    def _unread(self, text: str) -> list[tuple[str, ParsedCall | RejectedCall]]:
        """Return the call that marks and the name of a tool show, in a form that nothing here can read."""
        said = html.unescape(_CODE_BLOCK.sub("", text))
        for mark in islice(_MARKED.finditer(said), _MOST_MARKS):
            start = max(mark.start() - _AROUND_CHARS, 0) if mark[1] else mark.start()
            near = said[start : mark.end() + _AROUND_CHARS]
            if spec := next(filter(None, map(self.names.find, _NAME.findall(near))), None):
                return [("tag", RejectedCall("it is in a form that cannot be read", spec))]
        return [("tag", RejectedCall("it names no known tool"))] if "<arg_value>" in said and self.names.specs else []

    def _quoted(self, found: list[tuple[str, ParsedCall | RejectedCall]]) -> ToolCall | None:
        if found or self._out.is_native:
            return None
        calls = _once([("quoted", each) for each in self._out.quoted], "")
        return calls[0] if len(calls) == len(self._out.quoted) == 1 else None

    def _found_in_thinking(self, *, is_cut: bool) -> list[tuple[str, ParsedCall | RejectedCall]]:
        """Return the calls at the very end of thinking that no answer follows.

        Where the thinking was closed, only calls between marks count: without them it is a draft.
        """
        thinking = "".join(self._out.thinking)[-_THOUGHT_CHARS:]
        if not thinking.strip():
            return []
        inner = AnswerBuilder(remark_chars=0)
        scanner = Scanner(self.names, inner)
        scanner.feed(thinking)
        scanner.finish(is_cut=is_cut)
        inner.finish()
        if not inner.ends_with_call:
            return []
        is_closed = self._scanner.thought_is_closed or (self._has_field and self._scanner.state is not State.THINK)
        found = [(entry.form, each) for entry, each in inner.found() if isinstance(each, ParsedCall)]
        return [each for each in found if not is_closed or each[0] not in ("json", "fence", "python")]

    def _problem(self, found: list[tuple[str, ParsedCall | RejectedCall]], calls: tuple[ToolCall, ...], text: str) -> str:
        """Return why nothing was run and how to call instead.

        The only names in it are tools and their own arguments.
        """
        for form, meant in found:
            is_torn = isinstance(meant, ParsedCall) and form == "xml" and has_stray_end(text)
            each = RejectedCall("it is not clear where one of its values ends", meant.spec) if is_torn else meant
            if not isinstance(each, RejectedCall) or (calls and each.why == CUT):
                continue
            if each.spec is None:
                names = ", ".join(spec.name for spec in self.names.specs)
                return f"Nothing was run: {each.why}. The tools are: {names}."
            return f"{each.spec.name} was not run: {each.why}. {wanted(each.spec, self._form)}"
        if not calls and not text and "answer itself" in self._scanner.stopped and not self._out.is_native:
            return "No tool was run: the answer of a tool comes only after a call of it. Call the tool, then wait."
        return ""


def _once(found: list[tuple[str, ParsedCall | RejectedCall]], text: str) -> tuple[ToolCall, ...]:
    """Return each call once and without an id, in their order; none whose values may go on behind it."""
    calls: dict[tuple[str, str], ToolCall] = {}
    for form, each in found:
        if isinstance(each, ParsedCall) and not (form == "xml" and has_stray_end(text)):
            called = ToolCall("", each.spec.name, json.dumps(each.arguments, ensure_ascii=False), form)
            calls.setdefault(identity(each), called)
    return tuple(calls.values())
