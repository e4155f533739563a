"""The fixed marks that models put around calls, thinking and turns, and what each means.

Sources: the chat templates and the tool-call parsers' documentation of Hermes, Qwen, Mistral, Llama, gpt-oss (harmony), GLM,
Kimi K2, DeepSeek, Granite, Phi-4, Command R, InternLM, LFM2, Nemotron, Magistral and Gemma.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto


class Kind(Enum):
    """What a mark does.

    `OPEN` begins calls, `SOFT` may, `CLOSE` ends them, `SEP` stands inside one.  `END` ends the message, `TURN` and `RESULT`
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
class Mark:
    """A mark that was found, and how long it is."""

    kind: Kind
    size: int


_TABLE: dict[Kind, str] = {
    Kind.OPEN: """<tool_call> <tool_calls> <toolcall> <function_call> <function_calls> <functioncall> <|tool_call|> <|tool_call>
        <|tool_calls|> <|python_tag|> <|python_start|> [TOOL_CALLS] [TOOL_CALL] <|tool_call_start|> <|tool_calls_section_begin|>
        <|tool_call_begin|> <｜tool▁calls▁begin｜> <｜tool▁call▁begin｜> <|START_ACTION|> <|action_start|> <seed:tool_call>
        <minimax:tool_call> <｜DSML｜function_calls> <function_calls> <steptml:toolcall>""",
    Kind.SOFT: "<json> <tool> <function> <action>",
    Kind.CLOSE: """</tool_call> </tool_calls> </toolcall> </function_call> </function_calls> </functioncall> <|/tool_call|>
        <tool_call|> <|python_end|> [/TOOL_CALLS] [/TOOL_CALL] <|tool_call_end|> <|tool_calls_section_end|> <｜tool▁call▁end｜>
        <｜tool▁calls▁end｜> <|END_ACTION|> <|action_end|> </seed:tool_call> </minimax:tool_call> </｜DSML｜function_calls>
        </function_calls> </steptml:toolcall> </json> </tool> </function> </action> </invoke>""",
    Kind.SEP: "<|tool_call_argument_begin|> <｜tool▁sep｜> <|plugin|> [ARGS] <|constrain|>",
    Kind.THINK: "<think> <thinking> <thought> <reasoning> [THINK] <seed:think> <|START_THINKING|> ◁think▷ <|begin_of_thought|>",
    Kind.THOUGHT: """</think> </thinking> </thought> </reasoning> [/THINK] </seed:think> <|END_THINKING|> ◁/think▷
        <|end_of_thought|>""",
    Kind.END: """<|im_end|> <|eot_id|> <|eom_id|> <|end_of_text|> <|endoftext|> <end_of_turn> <|end_of_turn|> <|return|>
        <|END_OF_TURN_TOKEN|> <｜end▁of▁sentence｜> <|call|> <|endofprompt|> <|eot|>""",
    Kind.TURN: """<|im_start|> <|start_header_id|> <|header_start|> <start_of_turn> [INST] [/INST] <|START_OF_TURN_TOKEN|>
        <|user|> <｜User｜> <|start_of_role|> <|im_user|>""",
    Kind.RESULT: """<tool_response> <tool_responses> <|tool_response|> <tool_result> <tool_results> <function_results>
        <function_result> [TOOL_RESULTS] <｜tool▁outputs▁begin｜> <｜tool▁output▁begin｜> <|observation|> <tool_output>
        <observation>""",
    Kind.START: "<|start|>",
    Kind.CHANNEL: "<|channel|>",
    Kind.BREAK: "<|end|>",
}
_KINDS = {mark.lower(): kind for kind, marks in _TABLE.items() for mark in marks.split()}
_STARTS = frozenset(mark[:size] for mark in _KINDS for size in range(1, len(mark)))
_ANY = re.compile("|".join(re.escape(mark) for mark in sorted(_KINDS, key=len, reverse=True)), re.IGNORECASE)
_LONGEST = max(map(len, _KINDS))


def mark_at(text: str, at: int) -> Mark | None:
    """Return the mark that stands at a place."""
    found = _ANY.match(text, at)
    return Mark(_KINDS[found[0].lower()], found.end() - at) if found else None


def may_be_mark(text: str, at: int) -> bool:
    """Tell whether the text ends in what may become a mark."""
    return len(text) - at < _LONGEST and text[at:].lower() in _STARTS
