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
_BEHIND = re.compile(rf"\s*(?:</?{NAMESPACE}(?:tool_call|function_calls|tool_calls|function|invoke|tool|function_call)\b|<\|)")
_LOOK_CHARS = 300


@dataclass(frozen=True, slots=True)
class _Shape:
    """The tool of a call in tags (None: unknown), what closes the call, and whether its parameters are tags of their names."""

    spec: ToolSpec | None
    close: re.Pattern[str]
    is_nested: bool


@dataclass(slots=True)
class _OpenParameter:
    """The parameter whose value is being read: its name (empty for none), its closing tag, and the value so far."""

    key: str = ""
    close: str = ""
    value: list[str] = field(default_factory=list)


class TagItem:
    """One call in tags; `spec` is None where the name is of no known tool.

    Args:
        spec: the tool.
        opening: the tag that begins the call; it is the first that is fed.
        closer: the tag that ends the call, as a pattern.
        is_nested: parameters are tags of their own names.
    """

    def __init__(self, spec: ToolSpec | None, opening: str, closer: str = "", *, is_nested: bool = False) -> None:
        self.form = "xml"
        self.left = ""
        self.is_done = False
        self.is_hopeless = False
        self.size_chars = 0
        self._shape = _Shape(spec, re.compile(closer) if closer else _CLOSE, is_nested)
        self._opening = opening
        self._raw: list[str] = []
        self._held = ""
        self._open_parameter = _OpenParameter()
        self._json: list[str] = []
        self._arguments: dict[str, object] = {}
        self._why = ""
        self._is_final = False
        self._is_closed = False

    @property
    def raw(self) -> str:
        """Return the text as it came."""
        return "".join(self._raw) + self._held

    @property
    def spec(self) -> ToolSpec | None:
        """Return the tool."""
        return self._shape.spec

    def feed(self, text: str) -> int:
        """Take more; return how many characters of it belong here."""
        if self._opening:
            opening, self._opening = self._opening, ""
            self._raw.append(opening)
            self.is_done = self._is_closed = opening.endswith("/>")
            return len(opening)
        self._held += text
        while self._held and not self.is_done and self._step():
            pass
        self.size_chars += len(text)
        if self.is_done:
            self.left, self._held = self._held, ""
        return len(text)

    def finish(self) -> None:
        """Take note that no more comes: what was held for what might follow is decided."""
        self._is_final = True
        self.feed("")

    def _step(self) -> bool:
        """Take the next part of what is held; tell whether there may be more to take."""
        if self._open_parameter.key:
            return self._step_value()
        if self._json:
            return self._step_json()
        start = self._held.lstrip()
        if not start:
            return False
        for pattern in (self._shape.close, _PARAMETER, _GLM, *((_CHILD,) if self._shape.is_nested else ())):
            found = pattern.match(start)
            if found is not None:
                self._take(len(self._held) - len(start) + found.end())
                self._open(pattern, found)
                return True
        if start[0] in "{" and not self._arguments:
            self._json.append("")
            return True
        if start[0] == "<" and ">" not in start[:_LOOK_CHARS] and len(start) < _LOOK_CHARS and not self._is_final:
            return False
        if start.startswith("<arg_key>") and len(start) < _LOOK_CHARS and not self._is_final:
            return False
        self.is_done = True
        if not self._arguments and (start[0] != "<" or not _BEHIND.match(start)):
            self.is_hopeless = not self._is_final
        return False

    def _open(self, pattern: re.Pattern[str], found: re.Match[str]) -> None:
        if pattern is self._shape.close:
            self.is_done = self._is_closed = True
            return
        key = next(group for group in found.groups() if group)
        name = re.match(r"<[^\s=>]+", found[0])
        close = "</arg_value>" if pattern is _GLM else f"</{name[0][1:] if name else ''}>"
        self._open_parameter = _OpenParameter(key, close)

    def _step_json(self) -> bool:
        found = self._shape.close.search(self._held)
        if found is None:
            keep = 0 if self._is_final else min(len(self._held), 40)
            self._json.append(self._take(len(self._held) - keep))
            return False
        self._json.append(self._held[: found.start()])
        self._take(found.end())
        self.is_done = self._is_closed = True
        return False

    def _step_value(self) -> bool:
        """Look for the end of a parameter's value."""
        end = self._held.find(self._open_parameter.close)
        other = self._other_end(end if end >= 0 else len(self._held))
        if other is not None:
            return other
        if end < 0:
            keep = 0 if self._is_final else min(len(self._held), 150)
            self._open_parameter.value.append(self._take(len(self._held) - keep))
            return False
        behind = self._held[end + len(self._open_parameter.close) :]
        if not self._is_final and (not behind.strip() or self._may_follow(behind.lstrip())):
            return False
        if not behind.strip() or self._follows(behind):
            self._open_parameter.value.append(self._held[:end])
            self._take(end + len(self._open_parameter.close))
            self._keep()
        else:
            self._why = f"it is not clear where {self._open_parameter.key[:40]} ends"
            self._open_parameter.value.append(self._take(end + len(self._open_parameter.close)))
        return True

    def _other_end(self, limit: int) -> bool | None:
        """Look for a value's end without its own closing tag, before `limit`: None where there is none."""
        ends = [*self._shape.close.finditer(self._held, 0, limit), *_PARAMETER.finditer(self._held, 0, limit)]
        for found in sorted(ends, key=lambda each: each.start()):
            if found.re is self._shape.close:
                behind = self._held[found.end() :]
                if not self._is_final and (not behind.strip() or self._may_follow(behind.lstrip())):
                    return False
                if not behind.strip() or _BEHIND.match(behind):
                    self._end_value(found.start(), found.end())
                    self.is_done = self._is_closed = True
                    return False
            elif self._is_new(found):
                self._end_value(found.start(), found.start())
                return True
        return None

    def _end_value(self, start: int, end: int) -> None:
        """End a value at a place and go on at another."""
        self._open_parameter.value.append(self._held[:start])
        self._take(end)
        self._keep()

    def _is_new(self, found: re.Match[str]) -> bool:
        """Tell whether an opening tag inside a value begins the next parameter: on its own line, and a new one."""
        key = next(group for group in found.groups() if group)
        is_known = self._shape.spec is not None and bool(own_parameter(self._shape.spec, key))
        is_first = key not in self._arguments and key != self._open_parameter.key
        return is_known and is_first and self._held[: found.start()].rstrip(" \t")[-1:] == "\n"

    def _may_follow(self, behind: str) -> bool:
        return behind[0] == "<" and ">" not in behind and len(behind) < _LOOK_CHARS

    def _follows(self, behind: str) -> bool:
        start = behind.lstrip()
        patterns = (
            self._shape.close,
            _PARAMETER,
            _BEHIND,
            re.compile(r"<arg_key>"),
            *((_CHILD,) if self._shape.is_nested else ()),
        )
        return any(pattern.match(start) for pattern in patterns)

    def _take(self, count: int) -> str:
        taken, self._held = self._held[:count], self._held[count:]
        self._raw.append(taken)
        return taken

    def _keep(self) -> None:
        text = "".join(self._open_parameter.value)
        text = text.removeprefix("\n").removesuffix("\n")
        value = text.strip() if self._shape.spec and _is_short(self._shape.spec, self._open_parameter.key, text) else text
        if self._open_parameter.key in self._arguments and self._arguments[self._open_parameter.key] != value:
            self._why = f"it gives {self._open_parameter.key[:40]} twice"
        self._arguments[self._open_parameter.key] = value
        self._open_parameter = _OpenParameter()

    def found(self, *, is_cut: bool) -> Found:
        """Return what is called; see `JsonItem.found`."""
        if self._shape.spec is None:
            return [RejectedCall("no such tool")]
        if self._open_parameter.key or (is_cut and not self._is_closed):
            return [RejectedCall(CUT if is_cut else "it ends too early", self._shape.spec)]
        if self._why:
            return [RejectedCall(self._why, self._shape.spec)]
        if self._json:
            try:
                return [with_arguments(self._shape.spec, read_json("".join(self._json).strip()))]
            except UnreadableLiteral as error:
                return [RejectedCall(str(error), self._shape.spec)]
        if self._shape.is_nested and not self._is_closed:
            return []
        return [meant(self._shape.spec, self._arguments)]


def _is_short(spec: ToolSpec, key: str, text: str) -> bool:
    """Tell whether white space around a value means nothing: it is not text, or a path on one line."""
    return type_of(spec, key) not in ("", "string") or ("\n" not in text and own_parameter(spec, key) in ("path", "file"))


def opened(found: re.Match[str], tools: ToolNames) -> TagItem:
    """Return the call that an opening tag begins."""
    return TagItem(tools.find(next(group for group in found.groups()[1:] if group)), found[0])
