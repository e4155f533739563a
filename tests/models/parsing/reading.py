"""What tests do with an answer: feed it in pieces and look at the result."""

from __future__ import annotations

import json
from collections.abc import Iterable

from lmtui.core.messages import StreamChunk, ToolCallFormat, ToolSpec
from lmtui.models.parsing.answer import AnswerParser, ParsedAnswer


def read(
    parts: Iterable[str],
    tools: tuple[ToolSpec, ...],
    form: ToolCallFormat = ToolCallFormat.TEXT,
    *,
    is_cut: bool = False,
    is_native: bool = False,
) -> tuple[ParsedAnswer, list[StreamChunk], bool]:
    """Return the answer that comes in these parts, its pieces, and whether the parser would have stopped the server."""
    parser = AnswerParser(tools, form)
    pieces: list[StreamChunk] = []
    for part in parts:
        pieces += parser.feed(part)
    if is_native:
        parser.has_native_calls()
    last, answer = parser.finish(is_cut=is_cut)
    return answer, pieces + last, parser.is_over


def calls_of(answer: ParsedAnswer) -> list[tuple[str, dict[str, object]]]:
    """Return the calls with their arguments as values."""
    return [(call.name, json.loads(call.arguments)) for call in answer.calls]
