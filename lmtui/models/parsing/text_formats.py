"""Marks and formats in text that begin a call: tags, fences, headers, `Action:`; and what begins a turn that is another's.

A tag is `<function=NAME><parameter=K>V</parameter></function>` or a relative of it, read as it streams.  A value is what is
between its tags, as it is: nothing in it is an escape.  Where it could end at two places the call is refused.  Forms:
Qwen3-Coder (`function=`), Claude, MiniMax, DeepSeek V3.2 (`invoke name=`), `tool name=`, GLM-4.5 (`arg_key`, `arg_value`
behind a bare name), Llama 3.1 (`function=` around JSON), and `<NAME><K>V</K></NAME>`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Literal

from lmtui.core.messages import ToolSpec
from lmtui.models.parsing.call_items import CUT, Found, Item
from lmtui.models.parsing.call_shapes import (
    NO_SUCH_TOOL,
    RejectedCall,
    ToolNames,
    UnreadableLiteral,
    meant,
    own_parameter,
    read_json,
    type_of,
    with_arguments,
)


class TagKind(Enum):
    """What a mark does.

    `OPEN` begins calls, `SOFT` may, `CLOSE` ends them, `SEP` is inside one.  `END` ends the message, `TURN` and `RESULT`
    begin what is not the model's to write.  `START` and `CHANNEL` begin a harmony header, `FRAME` is around what is shown.
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
    FRAME = auto()


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
        <minimax:tool_call> <｜DSML｜function_calls> <｜DSML｜tool_calls> <steptml:toolcall> <start_function_call>
        <|tools_prefix|> <|open|>tools<|sep|> <|tool_call:begin|> <|tool_call:name|>""",
    TagKind.SOFT: "<json> <tool> <function> <action> &lt;tool_call&gt; &lt;tool_calls&gt;",
    TagKind.CLOSE: """</tool_call> </tool_calls> </toolcall> </function_call> </function_calls> </functioncall> <|/tool_call|>
        <tool_call|> <|python_end|> [/TOOL_CALLS] [/TOOL_CALL] <|tool_call_end|> <|tool_calls_section_end|> <｜tool▁call▁end｜>
        <｜tool▁calls▁end｜> <|END_ACTION|> <|action_end|> </seed:tool_call> </minimax:tool_call> </｜DSML｜function_calls>
        </｜DSML｜tool_calls> </steptml:toolcall> </json> </tool> </function> </action> </invoke> <end_function_call>
        <|tools_suffix|> <|close|>tools<|sep|> <|close|>call<|sep|> <|tool_call:end|> &lt;/tool_call&gt; &lt;/tool_calls&gt;""",
    TagKind.SEP: "<|tool_call_argument_begin|> <｜tool▁sep｜> <|plugin|> [ARGS] <|constrain|> <tool_sep> <|tool_call:args|>",
    TagKind.THINK: "<think> <thinking> <thought> <reasoning> [THINK] <seed:think> <|START_THINKING|> ◁think▷ "
    "<|begin_of_thought|> <|open|>think<|sep|> <|channel>thought <|inner_prefix|> <|think|>",
    TagKind.THOUGHT: """</think> </thinking> </thought> </reasoning> [/THINK] </seed:think> <|END_THINKING|> ◁/think▷
        <|end_of_thought|> <|close|>think<|sep|> <channel|> <|inner_suffix|> assistantfinal""",
    TagKind.END: """<|im_end|> <|eot_id|> <|eom_id|> <|end_of_text|> <|endoftext|> <end_of_turn> <|end_of_turn|> <|return|>
        <|END_OF_TURN_TOKEN|> <｜end▁of▁sentence｜> <|call|> <|endofprompt|> <|eot|> <turn|> <|end_of_msg|>
        <|assistant_end|> <|flush|> <|calls|>""",
    TagKind.TURN: """<|im_start|> <|start_header_id|> <|header_start|> <start_of_turn> [INST] [/INST] <|START_OF_TURN_TOKEN|>
        <|user|> <｜User｜> <|start_of_role|> <|im_user|> <|turn> <|user_start|> <|begin|>user""",
    TagKind.RESULT: """<tool_response> <tool_responses> <|tool_response|> <tool_result> <tool_results> <function_results>
        <function_result> [TOOL_RESULTS] <｜tool▁outputs▁begin｜> <｜tool▁output▁begin｜> <|observation|> <tool_output>
        <observation> <|tool_response> <start_function_response> <|begin|>tool""",
    TagKind.START: "<|start|>",
    TagKind.CHANNEL: "<|channel|> assistantcommentary",
    TagKind.BREAK: "<|end|>",
    TagKind.FRAME: "<|open|>response<|sep|> <|close|>response<|sep|> <|close|>message<|sep|> <answer> </answer> "
    "<response> </response> <|begin|>assistant <|content|>",
}
# DeepSeek's marks as they are, as Step3 writes them, and as they come from servers that know only ASCII.
_WIDTHS: tuple[dict[int, int], ...] = ({}, str.maketrans("▁", "_"), str.maketrans("｜▁", "|_"))
_KINDS = {mark.translate(each).lower(): kind for kind, marks in _TABLE.items() for mark in marks.split() for each in _WIDTHS}
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


NAMESPACE = r"(?:antml:|minimax:|steptml:|seed:|｜DSML｜|\|DSML\||\|open\|>)?"
_TAG_END = r"[^<>\n]{0,100}(?:>|<\|sep\|>)"
OPENING = re.compile(
    rf"<{NAMESPACE}(function|invoke|tool|tool_call|function_call|call)(?:=|\s+(?:name|tool)\s*=\s*)"
    rf"(?:\"([^\"<>\n]{{1,100}})\"|'([^'<>\n]{{1,100}})'|([\w.\-:]{{1,100}})){_TAG_END}"
)
_PARAMETER = re.compile(
    rf"<{NAMESPACE}(?:parameter|param|arg|argument)(?:=|\s+(?:name|key)\s*=\s*)"
    rf"(?:\"([^\"<>\n]{{1,100}})\"|'([^'<>\n]{{1,100}})'|([\w.\-:]{{1,100}})){_TAG_END}"
)
_GLM = re.compile(r"(?:<arg_key>)?\s*([\w.\-]{1,100})\s*(?:(?:</arg_key>\s*)?<arg_value>|</arg_key>(?=\s*[^\s<]))")
_GLM_MAY_COME = re.compile(r"(?:<arg_key>)?\s*[\w.\-]{0,100}\s*(?:<\/?(?:a\w*>?)?\s*){0,2}\Z")
GLM_KEY = re.compile(r"<arg_key>|[\w.\-]{1,100}</arg_key>")
GLM_KEY_MAY_COME = re.compile(r"(?:[\w.\-]{0,100}</?|<)?[a-z_]{0,8}\Z")
_CHILD = re.compile(r"<([A-Za-z_][\w\-]{0,60})>")
_CLOSE = re.compile(rf"(?:</{NAMESPACE}|<\|close\|>)(?:function|invoke|tool|function_call|tool_call|call)(?:>|<\|sep\|>)")
_FOLLOWS = re.compile(
    rf"</?{NAMESPACE}(?:tool_calls?|function_calls?|function|invoke|tool|parameter|param|arg|argument)\b"
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


def glm_at(text: str, at: int, end: int, tools: ToolNames, *, is_final: bool) -> TagItem | Literal["more"] | None:
    """Return the call of GLM's that a name begins, also where one of its marks is missing; "more" must come to tell.

    Args:
        text: what is read.
        at: where the name is.
        end: where the name ends; a key may be glued to it.
        tools: what may be called.
        is_final: no more comes.
    """
    name = text[at:end]
    if text.startswith("</arg_key>", end):
        glued = {
            (each, spec.name): spec
            for spec in tools.specs
            for each in (spec.name, *spec.aliases)
            if name.startswith(each) and own_parameter(spec, name[len(each) :])
        }
        if len(glued) != 1:
            return None
        ((each, _), spec), keys = next(iter(glued.items())), 0
        return TagItem(spec, each, GLM_END)
    mark = mark_at(text, end)
    keys = end + (mark.size if mark and mark.kind is TagKind.SEP else 0)
    keys = len(text) - len(text[keys:].lstrip())
    if GLM_KEY.match(text, keys):
        return TagItem(tools.find(name), text[at:keys], GLM_END)
    return "more" if not is_final and GLM_KEY_MAY_COME.match(text, keys) else None


FENCES = frozenset(
    ("", "json", "jsonc", "json5", "tool_call", "tool_calls", "tool_code", "tool", "tools", "xml", "python", "py", "function")
)
JSON_FENCES = frozenset(("javascript", "js", "typescript", "ts", "bash", "sh", "shell", "console", "text", "txt", "plaintext"))
FENCE = re.compile(r"(`{3,20})[ \t]*([\w+\-.#]{0,30})[ \t]*(?:\r?\n|\Z)")
FENCE_MAY_COME = re.compile(r"`{1,20}[ \t]{0,20}[\w+\-.#]{0,30}[ \t]{0,20}\r?\Z")
WORD = re.compile(r"[A-Za-z_][\w.\-]{0,80}(?::\d{1,4})?")
GEMMA = re.compile(r"call:\s*(?:default_api[:.])?([A-Za-z_][\w.\-]{0,80})(?::[A-Za-z_][\w.\-]{0,80}){0,3}\s*(?=[({])")
GEMMA_MAY_COME = re.compile(r"call:\s*[\w.\-:]{0,200}\s*\Z")
_HEADER = re.compile(r"<\|(start|channel)\|>(.{0,300}?)<\|message\|>", re.DOTALL)
HEADER_CHARS = 330
_RECIPIENT = re.compile(r"\bto=([\w.\-]+)")
_BARE = re.compile(
    r" ?to=(functions\.[\w\-]+)(?:\s*(?:<\|(?:channel|constrain)\|>)?\s*(?:commentary|code|json)){0,3}\s*(?:<\|message\|>\s*)?"
)
BARE_CHARS = 120


@dataclass(frozen=True, slots=True)
class Header:
    """What a header says, and where it ends; `tool` is the name that a call is sent to, empty where it is not a call."""

    end: int
    tool: str = ""
    is_thinking: bool = False
    is_foreign: bool = False


def header_at(text: str, at: int) -> Header | None:
    """Return the header that begins at a place, None where there is none (or not all of it yet)."""
    found = _HEADER.match(text, at)
    if found is None:
        return None
    words = found[2].replace("<|channel|>", " ").strip()
    if found[1] == "start" and words and not words.startswith("assistant"):
        return Header(found.end(), is_foreign=True)
    to = _RECIPIENT.search(words)
    tool = to[1] if to is not None and to[1] != "assistant" else ""
    return Header(found.end(), tool, is_thinking=not tool and "analysis" in words)


_RESULTS = frozenset(("tool_output", "tool_outputs", "tool_result", "tool_results", "tool_response", "output", "outputs"))
_HEADING = re.compile(
    r"[*_#>\[✿ ]{0,6}(?:the )?(?:tool|function|call|command|shell)?[ _]?(?:results?|outputs?|responses?|stdout)[*_\]✿ ]{0,4}:",
    re.IGNORECASE,
)
_HEADING_CHARS = 40
_HEADING_BEGINS = re.compile(r"[*_#>\[✿ ]{0,6}([A-Za-z]*)")
_HEADING_WORDS = ("the", "tool", "function", "shell", "call", "command", "result", "output", "response", "stdout")
_REACT = re.compile(r"[\w✿]+:[ \t]*`?([\w.\-]{1,80})`?[ \t]*\r?\n[ \t]*(?:Action[ _]Input|✿ARGS✿):\s*(?=\S)")
_REACT_MAY_COME = re.compile(r"(?:Action|✿FUNCTION✿):[^\n]{0,100}(?:\n[^\n:]{0,20}(?::\s*)?)?\Z|✿[A-Z]{0,8}✿?\Z")
_ARROWS = re.compile(r">>>([A-Za-z_][\w.\-]{0,60})\n\s{0,20}(?=\{)")
_ARROWS_MAY_COME = re.compile(r">{1,2}\Z|>>>(?:[A-Za-z_][\w.\-]{0,60}(?:\n\s{0,20})?)?\Z")
_SPEAKERS = frozenset(("user", "human", "observation", "tool", "system"))
_WORD_CHARS = 80
_TILDES = re.compile(r"(~{3,20})[^\n]{0,80}(?:\n|\Z)")
_TILDES_MAY_COME = re.compile(r"~{1,2}\Z|~{3,20}[^\n]{0,80}\Z")
_TO = " to=functions."
_LEADS_TO = ("commentary", "assistant", "to")


class Begins(Enum):
    """What begins; `MORE`: it cannot be told yet."""

    MORE = auto()
    TEXT = auto()
    CODE = auto()
    CALLS = auto()
    NAMED_CALL = auto()
    NAMED_LINE = auto()
    RESULT = auto()
    SPEAKER = auto()


@dataclass(frozen=True, slots=True)
class Beginning:
    """What begins, up to where it was read, the fence or the name of the tool, and the shape of the call."""

    what: Begins
    end: int = 0
    name: str = ""
    form: str = "harmony"


def beginning_at(text: str, at: int, tools: ToolNames, *, is_final: bool) -> Beginning:
    """Return what begins at the first character of a line that is not white space."""
    first = text[at]
    if first == "{":
        return Beginning(Begins.CALLS, at)
    if first == "`":
        return _fence(text, at, is_final=is_final)
    if first == "~":
        return _tildes(text, at, is_final=is_final)
    if first == ">":
        return arrows_at(text, at, tools, is_final=is_final)
    if first.isalpha() or first == "_":
        return _word(text, at, tools, is_final=is_final)
    return _react(text, at, at, tools, is_final=is_final) if first == "✿" else Beginning(Begins.TEXT, at)


def _fence(text: str, at: int, *, is_final: bool) -> Beginning:
    found = FENCE.match(text, at)
    if not is_final and (found is None or found.end() == len(text)) and FENCE_MAY_COME.match(text, at):
        return Beginning(Begins.MORE)
    if found is None:
        return Beginning(Begins.TEXT, at)
    if found[2].lower() in FENCES | JSON_FENCES:
        return Beginning(Begins.CALLS, at)
    if found[2].lower() in _RESULTS:
        return Beginning(Begins.RESULT, found.end(), found[1])
    return Beginning(Begins.CODE, found.end(), found[1])


def _tildes(text: str, at: int, *, is_final: bool) -> Beginning:
    """Return code between tildes: models fence their calls with backticks, so whatever is in it is not a call."""
    if not is_final and _TILDES_MAY_COME.match(text, at):
        return Beginning(Begins.MORE)
    found = _TILDES.match(text, at)
    return Beginning(Begins.CODE, found.end(), found[1]) if found else Beginning(Begins.TEXT, at)


def _word(text: str, at: int, tools: ToolNames, *, is_final: bool) -> Beginning:
    word = WORD.match(text, at)
    end = word.end() if word else at + 1
    if not is_final and end == len(text) and end - at < _WORD_CHARS:
        return Beginning(Begins.MORE)
    name, behind = text[at:end], text[end : end + len(_TO)]
    if behind.startswith(":") and name.lower() in _SPEAKERS:
        return Beginning(Begins.SPEAKER, end + 1)
    if name == "Action" and behind.startswith(":"):
        return _react(text, at, end, tools, is_final=is_final)
    start = at if name == "to" else end
    to = _TO.lstrip() if name == "to" else _TO
    if name.lower().endswith(_LEADS_TO) and text[start:] and to.startswith(text[start : start + len(to)]):
        # a header of which the server left marks out: ` to=functions.read json{…}`, mostly behind `commentary`
        if (header := _BARE.match(text, start)) and text.startswith("{", header.end()):
            return Beginning(Begins.NAMED_CALL, header.end(), header[1])
        return Beginning(Begins.MORE) if not is_final and len(text) - end < BARE_CHARS else Beginning(Begins.TEXT, end)
    if name == "functools" and behind.startswith("["):
        return Beginning(Begins.CALLS, at)
    if name == "call" and behind.startswith(":"):
        gemma = GEMMA.match(text, at)
        if gemma is None and not is_final and GEMMA_MAY_COME.match(text, at):
            return Beginning(Begins.MORE)
        return Beginning(Begins.CALLS if gemma and tools.find(gemma[1]) else Begins.TEXT, at if gemma else end)
    is_marked = any(mark.startswith(behind[: len(mark)]) for mark in ("[ARGS]", "[CALL_ID]"))
    is_glm = "<arg_key>".startswith(text[end : end + 40].lstrip()[:9])
    is_named = behind[:2] in ("\n{", "" if is_final else "\n") and not text[:at].strip()  # GLM-4: the name, then the arguments
    if behind and is_named and tools.find(name) is not None:
        return Beginning(Begins.NAMED_CALL, end + 1, name, "tag") if len(behind) > 1 else Beginning(Begins.MORE)
    if behind and (behind[0] in "({" or is_marked or is_glm) and tools.find(name) is not None:
        return Beginning(Begins.CALLS, at)
    return Beginning(Begins.TEXT, end)


def _react(text: str, at: int, end: int, tools: ToolNames, *, is_final: bool) -> Beginning:
    """Return the call of `Action: NAME` and `Action Input: …`; the input is an object or the rest of the line."""
    found = _REACT.match(text, at)
    if found is None:
        return Beginning(Begins.MORE if not is_final and _REACT_MAY_COME.match(text, at) else Begins.TEXT, end)
    if tools.find(found[1]) is None:
        return Beginning(Begins.TEXT, end)
    is_object = text[found.end()] == "{"
    return Beginning(Begins.NAMED_CALL if is_object else Begins.NAMED_LINE, found.end(), found[1], "react")


def arrows_at(text: str, at: int, tools: ToolNames, *, is_final: bool) -> Beginning:
    """Return the call that `>>>NAME` begins, on its own line before an object (functionary)."""
    found = _ARROWS.match(text, at)
    if found is not None and tools.find(found[1]) is not None:
        return Beginning(Begins.NAMED_CALL, found.end(), found[1], "tag")
    is_open = found is None and not is_final and _ARROWS_MAY_COME.match(text, at) is not None
    return Beginning(Begins.MORE) if is_open else Beginning(Begins.TEXT, at)


def heads_result(text: str, at: int, *, is_final: bool) -> bool | None:
    """Tell whether a line begins as the heading of a result (“Result:”, “**Output:**”); None: it cannot be told yet."""
    head = text[at : at + _HEADING_CHARS]
    if _HEADING.match(head):
        return True
    begins = _HEADING_BEGINS.match(head)
    word = begins[1].lower() if begins else ""
    if not any(each.startswith(word) or word.startswith(each) for each in _HEADING_WORDS):
        return False
    if begins and not word and begins.end() < len(head):
        return False
    return False if is_final or len(head) == _HEADING_CHARS or ":" in head or "\n" in head else None
