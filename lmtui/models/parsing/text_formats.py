"""Marks and formats in text that begin a call: tags, fences, headers, `Action:`; and what begins a turn that is another's."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto

from lmtui.models.parsing.call_shapes import ToolNames


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


FENCES = frozenset(
    ("", "json", "jsonc", "json5", "tool_call", "tool_calls", "tool_code", "tool", "tools", "xml", "python", "py", "function")
)
JSON_FENCES = frozenset(("javascript", "js", "typescript", "ts", "bash", "sh", "shell", "console", "text", "txt", "plaintext"))
FENCE = re.compile(r"(`{3,20})[ \t]*([\w+\-.#]{0,30})[ \t]*(?:\r?\n|\Z)")
FENCE_MAY_COME = re.compile(r"`{1,20}[ \t]{0,20}[\w+\-.#]{0,30}[ \t]{0,20}\r?\Z")
WORD = re.compile(r"[A-Za-z_][\w.\-]{0,80}(?::\d{1,4})?")
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
        return Beginning(Begins.CALLS, at)
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
