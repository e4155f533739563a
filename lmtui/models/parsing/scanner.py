"""Reads the text of an answer once, from left to right: what is text, code, thinking, a run of calls, or no more the model's.

Each decision rests on what has come and never on how it was cut, so pieces and the whole give the same.
"""

from __future__ import annotations

import re
from enum import Enum, auto

from lmtui.core.messages import ToolCallChunk
from lmtui.models.parsing.answer_builder import AnswerBuilder
from lmtui.models.parsing.call_block import CallBlockParser
from lmtui.models.parsing.call_items import LineItem
from lmtui.models.parsing.call_shapes import ToolNames
from lmtui.models.parsing.text_formats import (
    HEADER_CHARS,
    Beginning,
    Begins,
    TagKind,
    TagMark,
    arrows_at,
    beginning_at,
    header_at,
    heads_result,
    mark_at,
    may_be_mark,
)

_TAG = re.compile(
    r"<(?:[A-Za-z][\w:\-]{0,60}|[｜|]DSML[｜|]\w{0,20})(?:[=\s][^<>\n]{0,230})?>|<\{+|<\|open\|>call\s[^<>\n]{0,230}<\|sep\|>"
)
_TAG_MAY_COME = re.compile(
    r"<(?:(?:[A-Za-z][\w:\-]{0,60}|[｜|]D?S?M?L?[｜|]?\w{0,20}|\|open\|>c?a?l?l?)(?:[=\s][^<>\n]{0,230}(?:<\|?s?e?p?\|?)?)?|\{+)?\Z"
)
_HEAD = re.compile(r"\{\s{0,40}[\"'“{]")
_HEAD_MAY_COME = re.compile(r"\{\s{0,40}\Z")
_LEADS = frozenset(":.!?>—–")
_QUOTES = re.compile(
    r"(?:examples?|samples?|quote|blockquote|pre|xmp|details|documentation|documents?|document_content|files?|file_contents?|contents"
    r"|excerpt|snippet|log|transcript|history|web_?page|page|email|context|template|source|data)",
    re.IGNORECASE,
)
_QUOTE_TAG = re.compile(r"<([A-Za-z][\w\-]{0,30})(?:\s[^<>\n]{0,200})?>")
_COMMENT = "<!--"


def may_open_call(text: str, at: int, before: str, *, is_final: bool) -> bool | None:
    """Tell whether calls may begin at a place; None: it cannot be told yet.

    Args:
        text: what is read.
        at: where a bracket is.
        before: what was said before it; it ends in a line break at the start of a line.
        is_final: no more comes.
    """
    match text[at]:
        case "[":
            return before.endswith("\n")
        case "<":
            if _TAG.match(text, at) is not None:
                return True
            return None if not is_final and _TAG_MAY_COME.match(text, at) else False
        case "{" if before.rstrip()[-1:] in _LEADS:
            if not is_final and _HEAD_MAY_COME.match(text, at):
                return None
            return _HEAD.match(text, at) is not None
    return False


def quotation_at(text: str, at: int, tools: ToolNames, *, is_line_start: bool) -> tuple[str, int]:
    """Return what closes the quotation that a comment or a tag such as `<example>` opens, and how long its opening is."""
    if text.startswith(_COMMENT, at):
        return "-->", len(_COMMENT)
    tag = _QUOTE_TAG.match(text, at) if is_line_start else None
    if tag is None or _QUOTES.fullmatch(tag[1]) is None or tools.find(tag[1]) is not None:
        return "", 0
    return f"</{tag[1]}>", len(tag[0])


class StreamBuffer:
    """What is not yet read is in `text` from `at` on."""

    def __init__(self) -> None:
        self.text = ""
        self.at = 0

    @property
    def is_read(self) -> bool:
        """Tell whether nothing is left."""
        return self.at == len(self.text)

    def put(self, text: str) -> None:
        """Add text at the end, and forget what was read."""
        self.text = self.text[self.at :] + text if not self.is_read else text
        self.at = 0

    def take(self, end: int) -> str:
        """Read up to a place."""
        taken = self.text[self.at : end]
        self.at = max(end, self.at)
        return taken

    def rewind(self, text: str) -> None:
        """Go back to before a text that was read, whether it is still here or not."""
        if self.at >= len(text) and self.text.startswith(text, self.at - len(text)):
            self.at -= len(text)
        else:
            self.text = text + self.text[self.at :]
            self.at = 0


_MARKS = re.compile(r"[<\[{`◁\n>&]")
_TICKS = re.compile(r"[`\n]")
_THINK_MARKS = (re.compile(r"[<\[◁]"), re.compile(r"[<\[◁a]"))  # in harmony also `assistantfinal`
_BLANK = re.compile(r"\s*")
_NOTHING_IN = (re.compile(r"(?:<[|｜][^<>]*>\s*)+"), re.compile(r"(?:<[|｜][^<>]*>\s*)+|[`\n ]*`[`\n ]*"))
_RUN = re.compile(r"`+|\[+|<+|\{+|>+")
_FENCE_MAY_END = re.compile(r"[ \t]{0,8}[`~]{0,20}[ \t]{0,8}\Z")
_ANSWER = "it began to write a tool's answer itself"
_OTHER_SIDE = "it began to write the other side of the conversation"


class State(Enum):
    """What the scanner is in."""

    TEXT = auto()
    CODE = auto()
    QUOTE = auto()
    THINK = auto()
    CALLS = auto()
    OVER = auto()


class Scanner:
    """Feeds a `AnswerBuilder`; `state` is where it is, `stopped` why the message is over before the server ended it."""

    def __init__(self, tools: ToolNames, gathered: AnswerBuilder) -> None:
        self.state = State.TEXT
        self.stopped = ""
        self.thought_is_closed = False
        self._tools = tools
        self._out = gathered
        self._tape = StreamBuffer()
        self._zone: CallBlockParser | None = None
        self._is_line_start = True
        self._ticks = ""
        self._fence = ""
        self._closer = ""
        self._tail = ""
        self._is_harmony = False
        self._has_thought = False
        self._call_count = 0

    def feed(self, text: str) -> None:
        """Take more text."""
        is_in_line = self._tape.is_read and not self._is_line_start and self.state is State.TEXT
        if is_in_line and (_TICKS if self._ticks else _MARKS).search(text) is None:
            if not text.isspace():
                self._tail = text
            self._out.say(text)
            return
        self._tape.put(text)
        self._run(is_final=False, is_cut=False)

    def finish(self, *, is_cut: bool) -> None:
        """Take note that no more comes; `is_cut`: the server ended the answer at its limit."""
        self._run(is_final=True, is_cut=is_cut)
        if self._zone is not None:
            self._out.call(self._zone.entries, self._zone.raw, is_marked=self._zone.is_marked)

    def _run(self, *, is_final: bool, is_cut: bool) -> None:
        going = True
        while going and (not self._tape.is_read or (is_final and self.state is State.CALLS)):
            match self.state:
                case State.TEXT if self._is_line_start:
                    going = self._step_line(is_final=is_final)
                case State.TEXT:
                    going = self._step_text(is_final=is_final)
                case State.CODE:
                    going = self._step_code(is_final=is_final)
                case State.QUOTE:
                    going = self._step_quote(is_final=is_final)
                case State.THINK:
                    going = self._step_think(is_final=is_final)
                case State.CALLS:
                    going = self._step_calls(is_final=is_final, is_cut=is_cut)
                case State.OVER:  # what is behind the end is dropped; if something is, the server is stopped
                    going = False
                    if self._tape.take(len(self._tape.text)).strip() and not self.stopped:
                        self.stopped = "the model went on behind the end of its answer"

    def _say(self, end: int) -> None:
        """Give out text up to a place."""
        text = self._tape.take(end)
        if text:
            self._out.say(text)
            if not text.isspace():
                self._tail = text

    def _step_line(self, *, is_final: bool) -> bool:
        """Look at the beginning of a line."""
        tape = self._tape
        blank = _BLANK.match(tape.text, tape.at)
        self._say(blank.end() if blank else tape.at)
        if tape.is_read:
            return False
        if tape.text[tape.at] in "<[◁&":
            return self._step_mark(is_final=is_final)
        if (is_thinking := self._may_think_unmarked(is_final=is_final)) is not False:
            return bool(is_thinking)
        is_after_call = bool(self._call_count) and self._out.has_meant
        is_result = heads_result(tape.text, tape.at, is_final=is_final) if is_after_call else False
        found = Beginning(Begins.MORE if is_result is None else Begins.RESULT)
        if is_result is False:
            found = beginning_at(tape.text, tape.at, self._tools, is_final=is_final)
        match found.what:
            case Begins.MORE:
                return False
            case Begins.CALLS:
                self._open_calls(CallBlockParser(self._tools))
            case Begins.NAMED_CALL | Begins.NAMED_LINE:
                return self._open_named(found)
            case Begins.RESULT if is_after_call:
                self._end(_ANSWER)
            case Begins.CODE | Begins.RESULT:
                self._fence, self.state = found.name, State.CODE
                self._say(found.end)
            case Begins.SPEAKER if self._call_count:
                self._end(_OTHER_SIDE)
            case _:
                self._is_line_start = False
                self._say(found.end)
        return True

    def _may_think_unmarked(self, *, is_final: bool) -> bool | None:
        """Begin the thinking of an answer whose harmony marks the server left out; None: it cannot be told yet."""
        text, at = self._tape.text, self._tape.at
        is_begun = not self._out.is_blank or self._has_thought or self._call_count
        if is_begun or not "analysis".startswith(text[at : at + 8]):
            return False
        if not is_final and len(text) - at < 9:
            return None
        if not text[at + 8 : at + 9].isupper():
            return False
        self._is_harmony = True
        self._begin_think(8)
        return True

    def _step_text(self, *, is_final: bool) -> bool:
        tape = self._tape
        found = (_TICKS if self._ticks else _MARKS).search(tape.text, tape.at)
        self._say(found.start() if found else len(tape.text))
        if found is None:
            return False
        if found[0] == "\n":
            self._say(found.end())
            self._is_line_start, self._ticks = True, ""
            return True
        return self._step_ticks(is_final=is_final) if found[0] == "`" else self._step_mark(is_final=is_final)

    def _step_ticks(self, *, is_final: bool) -> bool:
        """Enter or leave code in a line, in which no mark counts."""
        tape = self._tape
        run = _RUN.match(tape.text, tape.at)
        end = run.end() if run else tape.at + 1
        if end == len(tape.text) and not is_final and end - tape.at < 20:
            return False
        ticks = tape.text[tape.at : end]
        if not self._ticks:
            self._ticks = ticks
        elif self._ticks == ticks:
            self._ticks = ""
        self._say(end)
        return True

    def _step_code(self, *, is_final: bool) -> bool:
        """Pass code through up to the line that closes its fence."""
        tape = self._tape
        if self._is_line_start:
            line = re.compile(rf"[ \t]{{0,8}}{self._fence}[`~]*[ \t]*(\n|\Z)").match(tape.text, tape.at)
            if line is not None and (line[1] or is_final):
                self.state = State.TEXT
                self._say(line.end())
                return True
            if not is_final and _FENCE_MAY_END.match(tape.text, tape.at):
                return False
        end = tape.text.find("\n", tape.at) + 1
        self._is_line_start = bool(end)
        self._say(end or len(tape.text))
        return True

    def _step_quote(self, *, is_final: bool) -> bool:
        """Pass a quotation through up to what closes it."""
        tape = self._tape
        closer = re.compile(re.escape(self._closer), re.IGNORECASE).search(tape.text, tape.at)
        if closer is None:
            self._say(len(tape.text) if is_final else max(tape.at, len(tape.text) - len(self._closer) + 1))
            return False
        self._say(closer.end())
        self.state = State.TEXT
        return True

    def _step_think(self, *, is_final: bool) -> bool:
        tape = self._tape
        found = _THINK_MARKS[self._is_harmony].search(tape.text, tape.at)
        self._out.think(tape.take(found.start() if found else len(tape.text)))
        if found is None:
            return False
        mark = mark_at(tape.text, tape.at)
        if mark is None:
            if not is_final and may_be_mark(tape.text, tape.at):
                return False
            self._out.think(tape.take(tape.at + 1))
            return True
        match mark.kind:
            case TagKind.THOUGHT | TagKind.BREAK:
                tape.at += mark.size
                self._end_think()
            case TagKind.CHANNEL | TagKind.START if self._is_harmony:
                self._end_think()
            case TagKind.END | TagKind.TURN | TagKind.RESULT:
                self._end_mark(mark)
            case _:
                self._out.think(tape.take(tape.at + mark.size))
        return True

    def _begin_think(self, size: int) -> None:
        self._tape.at += size
        self._has_thought, self.thought_is_closed = True, False
        self.state = State.THINK

    def _end_think(self) -> None:
        self.thought_is_closed = True
        self.state = State.CALLS if self._zone is not None else State.TEXT
        self._is_line_start = True
        self._out.skips_space = True

    def _step_mark(self, *, is_final: bool) -> bool:
        """Look at what may be a mark."""
        text, at = self._tape.text, self._tape.at
        mark = mark_at(text, at)
        if mark is not None:
            return self._take_mark(mark, is_final=is_final)
        if not is_final and may_be_mark(text, at):
            return False
        first = text[at]
        if first == ">":
            found = arrows_at(text, at, self._tools, is_final=is_final)
            if found.what is Begins.NAMED_CALL:
                return self._open_named(found)
            if found.what is Begins.MORE:
                return False
        if first == "<":
            if not is_final and text[at : at + len(_COMMENT)] != _COMMENT and _COMMENT.startswith(text[at:]):
                return False
            self._closer, size = quotation_at(text, at, self._tools, is_line_start=self._is_line_start)
            if self._closer:
                self.state, self._is_line_start = State.QUOTE, False
                self._say(at + size)
                return True
        may_call = may_open_call(text, at, "\n" if self._is_line_start else self._tail, is_final=is_final)
        if may_call is None:
            return False
        if may_call:
            self._open_calls(CallBlockParser(self._tools))
            return True
        run = _RUN.match(text, at)
        self._is_line_start = False
        self._say(max(at + 1, run.end() - 1) if run else at + 1)
        return True

    def _take_mark(self, mark: TagMark, *, is_final: bool) -> bool:
        tape = self._tape
        match mark.kind:
            case TagKind.OPEN | TagKind.SOFT:
                self._open_calls(CallBlockParser(self._tools))
            case TagKind.THINK if self._is_line_start:
                self._begin_think(mark.size)
            case TagKind.THOUGHT:
                self._take_thought(mark.size)
            case TagKind.START | TagKind.CHANNEL:
                return self._take_header(is_final=is_final)
            case TagKind.BREAK if self._is_harmony:
                tape.at += mark.size
            case TagKind.FRAME | TagKind.CLOSE if tape.text[tape.at + 1] in "|｜" or (
                self._has_thought and mark.kind is TagKind.FRAME
            ):
                tape.at += mark.size
                self._is_line_start = True
            case TagKind.END | TagKind.TURN | TagKind.RESULT | TagKind.BREAK:
                self._end_mark(mark)
            case _:
                self._is_line_start = False
                self._say(tape.at + mark.size)
        return True

    def _take_thought(self, size: int) -> None:
        """Take the end of thinking whose beginning the chat template kept to itself: all before it was thinking."""
        if not self._has_thought:
            self._out.recall_as_thinking()
            self._has_thought = True
            self._call_count = 0
        self._tape.at += size
        self._end_think()

    def _take_header(self, *, is_final: bool) -> bool:
        tape = self._tape
        header = header_at(tape.text, tape.at)
        if header is None:
            if not is_final and len(tape.text) - tape.at < HEADER_CHARS:
                return False
            self._is_line_start = False
            self._say(tape.at + 1)
            return True
        if header.is_foreign:
            self._end(_OTHER_SIDE)
            return True
        self._is_harmony = self._is_line_start = True
        tape.at = header.end
        if header.tool:
            return self._open_named(Beginning(Begins.NAMED_CALL, header.end, header.tool))
        if header.is_thinking:
            self._begin_think(0)
        return True

    def _end_mark(self, mark: TagMark) -> None:
        """End the message at a mark."""
        if mark.kind is TagKind.RESULT:
            self._end(_ANSWER)
        elif mark.kind is TagKind.TURN:
            self._end(_OTHER_SIDE)
        else:
            self._tape.at += mark.size
            self.state = State.OVER

    def _end(self, why: str) -> None:
        self.stopped = why
        self.state = State.OVER

    def _open_named(self, found: Beginning) -> bool:
        """Open the call of a tool whose name has come; true: the scanner continues."""
        self._tape.at = found.end
        zone = CallBlockParser(self._tools, is_marked=True, form=found.form)
        spec = self._tools.find(found.name)
        if found.what is Begins.NAMED_LINE and spec is not None:
            zone.item = LineItem(spec)
        else:
            zone.expect(spec)
        self._open_calls(zone)
        return True

    def _open_calls(self, zone: CallBlockParser) -> None:
        self._zone = zone
        self.state = State.CALLS

    def _step_calls(self, *, is_final: bool, is_cut: bool) -> bool:
        zone, tape = self._zone, self._tape
        if zone is None:
            return False
        count = len(zone.entries)
        tape.at = zone.feed(tape.text, tape.at, is_final=is_final, is_cut=is_cut)
        if zone.item is not None and zone.item.spec is not None:
            self._out.pieces.append(ToolCallChunk(zone.item.spec.name, zone.item.size_chars))
        if zone.returned:
            tape.rewind(zone.returned)
            zone.returned = ""
        if zone.thinks:
            mark = mark_at(tape.text, tape.at)
            zone.thinks = False
            self._begin_think(mark.size if mark else 0)
            return True
        if any(map(self._out.is_loop, zone.entries[count:])):
            self._close_calls(zone)
            self._end("it repeated the same calls")
        elif zone.is_done:
            self._close_calls(zone)
        return zone.is_done or len(zone.entries) > count

    def _close_calls(self, zone: CallBlockParser) -> None:
        """Give out what a run of calls was, and go on behind it."""
        self._zone, self.state = None, State.TEXT
        raw = zone.raw
        is_code = zone.fence.is_spoilt or bool(zone.fence.ticks and zone.rejected is not None)
        if is_code:
            self._out.say(raw)
            self.state, self._fence = State.CODE, zone.fence.ticks
        elif zone.entries:
            self._call_count += sum(len(entry.found) for entry in zone.entries)
            self._out.call(zone.entries, raw, is_marked=zone.is_marked)
        elif raw and not (self._tape.is_read and zone.rejected is None and _NOTHING_IN[bool(self._call_count)].fullmatch(raw)):
            self._out.say(raw)
        blank = raw[len(raw.rstrip()) :]
        self._tail = raw if raw.strip() else self._tail
        self._is_line_start = "\n" in blank or (self._is_line_start and not raw.strip())
        if zone.rejected:
            self._tape.rewind(zone.rejected)
        if zone.rejected is not None or not raw:
            self._is_line_start = is_code and self._is_line_start
            self._say(self._tape.at + (not is_code))
