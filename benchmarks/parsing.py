"""The parser of answers: 100,000 tokens of prose, code and calls against `json.loads` over the chunks they come in."""

from __future__ import annotations

import gc
import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from time import process_time

from benchmarks.report import Figure
from lmtui.models.parsing.answer import AnswerParser
from lmtui.models.stream_accumulator import StreamAccumulator
from lmtui.tools.registry import ToolRegistry

TOKENS = 100_000
_ROOT = Path(__file__).parents[1]
_TOKEN = re.compile(r" ?[A-Za-z_]{1,7}| ?\d{1,3}| ?[^\w\s]{1,3}|\s+|\w")
_CALL = '<tool_call>\n{"name": "read", "arguments": {"path": "src/part_%d.py", "offset": %d}}\n</tool_call>\n'


def answer_tokens() -> list[str]:
    """Return an answer in tokens of the usual size: prose, sources in fences between it, now and then a call."""
    prose = (_ROOT / "docs" / "guide.md").read_text(encoding="utf-8").split("\n\n")
    code = [path.read_text(encoding="utf-8") for path in sorted((_ROOT / "lmtui" / "engine").glob("*.py"))]
    tokens: list[str] = []
    place = 0
    while len(tokens) < TOKENS:
        parts = [prose[(place + each) % len(prose)] for each in range(8)]
        call = _CALL % (place, place) if place % 24 == 0 else ""
        text = "\n\n".join([*parts, f"```python\n{code[place // 8 % len(code)][:3000]}\n```\n{call}"])
        tokens += _TOKEN.findall(text)
        place += 8
    return tokens[:TOKENS]


def chunk(text: str) -> str:
    """Return a chunk as llama.cpp sends it."""
    delta = {"choices": [{"finish_reason": None, "index": 0, "delta": {"content": text}}], "created": 1763000000}
    rest = {
        "id": "chatcmpl-Wk2mJd8sNq1",
        "model": "qwen2.5-coder",
        "system_fingerprint": "b1-abc",
        "object": "chat.completion.chunk",
    }
    return json.dumps(delta | rest)


def cpu_s(work: Callable[[], None]) -> float:
    """Return the least CPU seconds of five runs."""
    times = []
    for _ in range(5):
        gc.collect()
        gc.disable()
        began = process_time()
        work()
        times.append(process_time() - began)
        gc.enable()
    return min(times)


def figures() -> list[Figure]:
    """Return how long the parser takes, alone and with the chunks' own JSON."""
    tokens = answer_tokens()
    lines = [chunk(token) for token in tokens]
    tools = ToolRegistry().specs()

    def loads() -> None:
        for line in lines:
            json.loads(line)

    def parse() -> None:
        parser = AnswerParser(tools)
        for token in tokens:
            parser.feed(token)
        parser.finish()

    def assemble() -> None:
        assembler = StreamAccumulator(lambda: "call", time.monotonic, tools)
        for line in lines:
            assembler.feed(line)

    base = cpu_s(loads)
    return [
        Figure("json.loads over 100,000 chunks", base * 1000, "ms"),
        Figure("    the parser over their text ÷ that", cpu_s(parse) / base, "×", 2),
        Figure("    chunks to pieces, their JSON included ÷ that", cpu_s(assemble) / base, "×"),
    ]
