"""Calls written as tags: `<function=NAME><parameter=K>V</parameter></function>` and its relatives, read as they stream.

A value is what is between its tags, as it is: nothing in it is an escape.  Where it could end at two places the call is
refused.  Forms: Qwen3-Coder (`function=`), Claude, MiniMax, DeepSeek V3.2 (`invoke name=`), `tool name=`, GLM-4.5 (`arg_key`,
`arg_value` behind a bare name), Llama 3.1 (`function=` around JSON), and `<NAME><K>V</K></NAME>`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum, auto

from lmtui.core.messages import ToolSpec
from lmtui.models.parsing.call_items import CUT, Found
from lmtui.models.parsing.call_shapes import RejectedCall, meant, with_arguments
from lmtui.models.parsing.literals import ToolNames, UnreadableLiteral, own_parameter, read_json, type_of


class TagKind(Enum):
    """What a mark does.

    `OPEN` begins calls, `SOFT` may, `CLOSE` ends them, `SEP` is inside one.  `END` ends the message, `TURN` and `RESULT`
    begin what is not the model's to write.  `START` and `CHANNEL` begin a harmony header.
    """

    OPEN = auto()
    SOFT = auto()
    CLOSE = auto()
    SEP = auto()
    THINK = auto()
    THOUGHT = auto()
    END = auto()
    TURN = auto()
    RESULT = auto()
    START = auto()
    CHANNEL = auto()
    BREAK = auto()


@dataclass(frozen=True, slots=True)
class TagMark:
    """A mark that was found, and how long it is."""

    kind: TagKind
    size: int


_TABLE: dict[TagKind, str] = {
    TagKind.OPEN: """<tool_call> <tool_calls> <toolcall> <function_call> <function_calls> <functioncall> <|tool_call|>
<|tool_call>
        <|tool_calls|> <|python_tag|> <|python_start|> [TOOL_CALLS] [TOOL_CALL] <|tool_call_start|> <|tool_calls_section_begin|>
        <|tool_call_begin|> <｜tool▁calls▁begin｜> <｜tool▁call▁begin｜> <|START_ACTION|> <|action_start|> <seed:tool_call>
        <minimax:tool_call> <｜DSML｜function_calls> <function_calls> <steptml:toolcall>""",
    TagKind.SOFT: "<json> <tool> <function> <action>",
    TagKind.CLOSE: """</tool_call> </tool_calls> </toolcall> </function_call> </function_calls> </functioncall> <|/tool_call|>
        <tool_call|> <|python_end|> [/TOOL_CALLS] [/TOOL_CALL] <|tool_call_end|> <|tool_calls_section_end|> <｜tool▁call▁end｜>
        <｜tool▁calls▁end｜> <|END_ACTION|> <|action_end|> </seed:tool_call> </minimax:tool_call> </｜DSML｜function_calls>
        </function_calls> </steptml:toolcall> </json> </tool> </function> </action> </invoke>""",
    TagKind.SEP: "<|tool_call_argument_begin|> <｜tool▁sep｜> <|plugin|> [ARGS] <|constrain|>",
    TagKind.THINK: "<think> <thinking> <thought> <reasoning> [THINK] <seed:think> <|START_THINKING|> ◁think▷ "
    "<|begin_of_thought|>",
    TagKind.THOUGHT: """</think> </thinking> </thought> </reasoning> [/THINK] </seed:think> <|END_THINKING|> ◁/think▷
        <|end_of_thought|>""",
    TagKind.END: """<|im_end|> <|eot_id|> <|eom_id|> <|end_of_text|> <|endoftext|> <end_of_turn> <|end_of_turn|> <|return|>
        <|END_OF_TURN_TOKEN|> <｜end▁of▁sentence｜> <|call|> <|endofprompt|> <|eot|>""",
    TagKind.TURN: """<|im_start|> <|start_header_id|> <|header_start|> <start_of_turn> [INST] [/INST] <|START_OF_TURN_TOKEN|>
        <|user|> <｜User｜> <|start_of_role|> <|im_user|>""",
    TagKind.RESULT: """<tool_response> <tool_responses> <|tool_response|> <tool_result> <tool_results> <function_results>
        <function_result> [TOOL_RESULTS] <｜tool▁outputs▁begin｜> <｜tool▁output▁begin｜> <|observation|> <tool_output>
        <observation>""",
    TagKind.START: "<|start|>",
    TagKind.CHANNEL: "<|channel|>",
    TagKind.BREAK: "<|end|>",
}
_KINDS = {mark.lower(): kind for kind, marks in _TABLE.items() for mark in marks.split()}
_STARTS = frozenset(mark[:size] for mark in _KINDS for size in range(1, len(mark)))
_ANY = re.compile("|".join(re.escape(mark) for mark in sorted(_KINDS, key=len, reverse=True)), re.IGNORECASE)
_LONGEST = max(map(len, _KINDS))


def mark_at(text: str, at: int) -> TagMark | None:
    """Return the mark that is at a place."""
    found = _ANY.match(text, at)
    return TagMark(_KINDS[found[0].lower()], found.end() - at) if found else None


def may_be_mark(text: str, at: int) -> bool:
    """Tell whether the text ends in what may become a mark."""
    return len(text) - at < _LONGEST and text[at:].lower() in _STARTS


NAMESPACE = r"(?:antml:|minimax:|steptml:|seed:|｜DSML｜)?"
OPENING = re.compile(
    rf"<{NAMESPACE}(function|invoke|tool|tool_call|function_call)(?:=|\s+(?:name|tool)\s*=\s*)"
    rf"(?:\"([^\"<>\n]{{1,100}})\"|'([^'<>\n]{{1,100}})'|([\w.\-:]{{1,100}}))[^<>\n]{{0,100}}>"
)
_PARAMETER = re.compile(
    rf"<{NAMESPACE}(?:parameter|param|arg|argument)(?:=|\s+name\s*=\s*)"
    rf"(?:\"([^\"<>\n]{{1,100}})\"|'([^'<>\n]{{1,100}})'|([\w.\-:]{{1,100}}))[^<>\n]{{0,100}}>"
)
_GLM = re.compile(r"<arg_key>\s*([\w.\-]{1,100})\s*</arg_key>\s*<arg_value>")
_CHILD = re.compile(r"<([A-Za-z_][\w\-]{0,60})>")
_CLOSE = re.compile(rf"</{NAMESPACE}(?:function|invoke|tool|function_call|tool_call)>")
_FOLLOWS = re.compile(
    rf"</?{NAMESPACE}(?:tool_calls?|function_calls?|function|invoke|tool|parameter|param|arg|argument)\b|<arg_key>|<\|"
)
_LOOK_CHARS = 300
_KEPT_CHARS = 250


@dataclass(slots=True)
class _Value:
    """The value that is being read: its parameter (empty: JSON that holds all of them), what may end it, its text so far."""

    key: str
    ends: re.Pattern[str]
    parts: list[str] = field(default_factory=list)


class TagItem:
    """One call in tags; `spec` is None where the name is of no known tool.

    Args:
        spec: the tool.
        opening: the tag that begins the call; it is the first that is fed.
        closer: the tag that ends the call, as a pattern.
        is_nested: parameters are tags of their own names.
    """

    form = "xml"

    def __init__(self, spec: ToolSpec | None, opening: str, closer: str = "", *, is_nested: bool = False) -> None:
        self.spec = spec
        self.left = ""
        self.is_done = False
        self.is_hopeless = False
        self.size_chars = 0
        self._opening = opening
        self._close = re.compile(closer) if closer else _CLOSE
        self._is_nested = is_nested
        self._parts: list[str] = []
        self._held = ""
        self._value: _Value | None = None
        self._arguments: dict[str, object] = {}
        self._why = ""
        self._is_final = False
        self._is_closed = False

    @property
    def raw(self) -> str:
        """Return the text as it came."""
        return "".join(self._parts).removesuffix(self.left)

    def feed(self, text: str) -> int:
        """Take more; return how many characters of it belong here."""
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
        """Take note that no more comes: what was held for what might follow is decided."""
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
            key = next(group for group in found.groups() if group)
            ends = rf"(?P<own></{re.escape(name)}>)|(?P<call>{self._close.pattern})|\n[ \t]*{_PARAMETER.pattern}"
            self._value = _Value(key, re.compile(ends))
            return True
        elif start[:1] == "{" and not self._arguments:
            self._value = _Value("", re.compile(rf"(?P<call>{self._close.pattern})"))
            return True
        elif start and (
            self._is_final or not (_may_be_tag(start) or (start.startswith("<arg_key>") and len(start) < _LOOK_CHARS))
        ):
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
            if value.key and not self._is_final and (not behind or _may_be_tag(behind)):
                return False
            if not value.key or not behind or self._may_follow(behind):
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

    def _may_follow(self, behind: str) -> bool:
        patterns = (_FOLLOWS, self._close, *((_CHILD,) if self._is_nested else ()))
        return any(pattern.match(behind) for pattern in patterns)

    def _end_value(self, value: _Value, start: int, end: int) -> None:
        """End a value at a place and go on at another."""
        text = "".join([*value.parts, self._held[:start]]).removeprefix("\n").removesuffix("\n")
        self._held, self._value = self._held[end:], None
        given = text.strip() if self.spec and _is_short(self.spec, value.key, text) else text
        if self._arguments.get(value.key, given) != given:
            self._why = f"it gives {value.key[:40]} twice"
        self._arguments[value.key] = given

    def found(self, *, is_cut: bool) -> Found:
        """Return what is called; see `Item.found`."""
        if self.spec is None:
            return [RejectedCall("no such tool")]
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


def _may_be_tag(text: str) -> bool:
    """Tell whether a text begins with what may become a tag."""
    return text[:1] == "<" and ">" not in text and len(text) < _LOOK_CHARS


def _is_short(spec: ToolSpec, key: str, text: str) -> bool:
    """Tell whether white space around a value means nothing: it is not text, or a path on one line."""
    return type_of(spec, key) not in ("", "string") or ("\n" not in text and own_parameter(spec, key) in ("path", "file"))


def opened(found: re.Match[str], tools: ToolNames) -> TagItem:
    """Return the call that an opening tag begins."""
    return TagItem(tools.find(next(group for group in found.groups()[1:] if group)), found[0])
