"""What the line panes cost, as ratios to a bare Textual app in the same process and harness.

Run `python -m benchmarks.screen` on a machine that is otherwise quiet; it takes about two minutes.
"""

from __future__ import annotations

import asyncio
import random
import re
import statistics
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from time import process_time
from typing import ClassVar

from textual.app import App, ComposeResult
from textual.widgets import Input

from benchmarks.harness import Typist, cost_ms, running
from lmtui.core.events import Envelope, Event, MessageAdded, TextDelta, ToolCallStarted, TurnStarted
from lmtui.core.messages import Role
from lmtui.tui.lines.line_view import VirtualLineView
from lmtui.tui.lines.tool_log import ToolLog
from lmtui.tui.lines.transcript import Transcript
from lmtui.tui.themes import DEFAULT, find_theme

SIZE = (200, 50)
RATE_TOKENS_PER_S = 200
STREAM_S = 5.0
WORDS = tuple(
    re.findall(
        r"\w+",
        "the agent reads a file then edits function class returns value cache token stream render block layout terminal "
        "widget compositor async worker thread latency frame budget because however instead measured without growing",
    )
)
CODE = (
    "def f(a: int, b: str = 'x') -> int:",
    "    return a + len(b)  # comment",
    "for k in range(9):",
    "    x = {'a': [1]}",
    "",
)
NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Bench(App[None]):
    """An input line, and above it what is measured."""

    CSS: ClassVar[str] = "Input { dock: bottom; }"

    def __init__(self, view: VirtualLineView | None = None) -> None:
        super().__init__()
        self.view = view

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Give our panes their colours under Textual's own theme."""
        return find_theme(DEFAULT).variables

    def compose(self) -> ComposeResult:
        """Put the pane, if there is one, above the input."""
        if self.view is not None:
            yield self.view
        field = Input()
        field.cursor_blink = False
        yield field

    def on_mount(self) -> None:
        """Type into the input."""
        self.query_one(Input).focus()


def markdown(tokens: int, seed: int = 1) -> list[str]:
    """Return an answer of about so many tokens of four characters: prose, code, lists, headings and tables."""
    source = random.Random(seed)
    found: list[str] = []
    while len(found) < tokens:
        kind = source.random()
        words = [source.choice(WORDS) for _ in range(source.randint(30, 90))]
        if kind < 0.12:
            part = f"## Section {words[0]}"
        elif kind < 0.6:
            part = " ".join(word if source.random() > 0.1 else f"`{word}`" for word in words).capitalize() + "."
        elif kind < 0.8:
            part = "```python\n" + "\n".join(source.choice(CODE) for _ in range(source.randint(6, 24))) + "\n```"
        elif kind < 0.94:
            part = "\n".join(f"- item {' '.join(words[:9])}" for _ in range(source.randint(3, 8)))
        else:
            part = "| name | value |\n|---|---|\n" + "\n".join(f"| {word} | {len(word)} |" for word in words[:6])
        found += [*re.findall(r" ?\w{1,6}|\n+|[^\w\n]{1,3}", part), "\n\n"]
    return found[:tokens]


def envelope(event: Event) -> Envelope:
    """Return an event in an envelope."""
    return Envelope(1, NOW, "s", event)


def conversation(transcript: Transcript, messages: int) -> None:
    """Fill a transcript with messages, half of them the user's."""
    texts = ["".join(markdown(120, seed)) for seed in range(30)]
    for number in range(messages):
        role = Role.ASSISTANT if number % 2 else Role.USER
        transcript.apply(envelope(MessageAdded(role=role, text=f"{number} {texts[number % 30]}")))


async def idle_key_ms() -> tuple[float, float]:
    """Return CPU and bytes of one key in the bare app."""
    async with running(Bench(), SIZE) as (pilot, meter):
        typist = Typist(pilot.app, meter)
        meter.size_bytes = 0
        typist.start()
        await asyncio.sleep(4)
        typist.stop()
        return statistics.median(meter.key_ms), meter.size_bytes / max(1, len(meter.key_ms))


async def stream(transcript: Transcript, tokens: Iterator[str]) -> int:
    """Stream at the set rate for the set time and return how many tokens went in."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    sent = 0
    while loop.time() - began < STREAM_S:
        due = int((loop.time() - began) * RATE_TOKENS_PER_S)
        for _ in range(due - sent):
            transcript.apply(envelope(TextDelta(text=next(tokens))))
        sent = max(sent, due)
        await asyncio.sleep(1 / RATE_TOKENS_PER_S)
    return sent


async def streaming(messages: int) -> tuple[float, float, float, float, float]:
    """Return key CPU (median, 95 %), bytes a token, key CPU at rest, and load CPU, with so many messages behind."""
    transcript = Transcript(zone=UTC)
    async with running(Bench(transcript), SIZE) as (pilot, meter):
        load = await cost_ms(meter, lambda _: conversation(transcript, messages))
        transcript.apply(envelope(TurnStarted(turn_id="t")))
        typist = Typist(pilot.app, meter)
        typist.start()
        await asyncio.sleep(2)
        rest = statistics.median(meter.key_ms)
        meter.key_ms.clear()
        meter.size_bytes = 0
        sent = await stream(transcript, iter(markdown(4000, 7)))
        typist.stop()
        keys = sorted(meter.key_ms)
        return statistics.median(keys), keys[int(len(keys) * 0.95)], meter.size_bytes / sent, rest, load


async def flush_ms(tokens: int) -> float:
    """Return the CPU of a flush of seven tokens at the end of a document of so many."""
    transcript = Transcript(zone=UTC)
    async with running(Bench(transcript), SIZE) as (_, meter):
        transcript.apply(envelope(TurnStarted(turn_id="t")))
        transcript.apply(envelope(TextDelta(text="".join(markdown(tokens, 3)))))
        await meter.quiet(0.3)
        rest = markdown(600, 4)

        def one(number: int) -> None:
            for token in rest[number * 7 : number * 7 + 7]:
                transcript.apply(envelope(TextDelta(text=token)))

        costs = [await cost_ms(meter, lambda _, at=at: one(at)) for at in range(60)]  # type: ignore[misc]  # a default binds
        return statistics.mean(costs)


async def log_us() -> tuple[float, float, float]:
    """Return CPU in µs a line for the first and the last tenth of 100,000 lines, and ms of the frame after one more."""
    log = ToolLog()
    async with running(Bench(log), SIZE) as (_, meter):
        tenths: list[float] = []
        for tenth in range(10):
            began = process_time()
            for at in range(10_000):
                call_id = f"{tenth}-{at}"
                title = "lmtui/tui/lines/file.py"
                log.apply(envelope(ToolCallStarted(call_id=call_id, tool="read", arguments={}, title=title)))
                if at % 200 == 199:
                    await asyncio.sleep(0)
            tenths.append((process_time() - began) * 100)
            await meter.quiet(0.05, 0.5)
        extra = ToolCallStarted(call_id="x", tool="read", arguments={}, title="x")
        return tenths[0], tenths[-1], await cost_ms(meter, lambda _: log.apply(envelope(extra)))


def show(name: str, value: float, unit: str, base: float = 0.0, goal: str = "") -> None:
    """Print a row of the table."""
    ratio = f"{value / base:6.2f} ×" if base else " " * 8
    print(f"{name:<58}{value:>10.2f} {unit:<7}{ratio}   {goal}")


async def measure() -> None:
    """Measure and print."""
    base, base_bytes = await idle_key_ms()
    show("B0: key in a bare app", base, "ms", base)
    show("B0: bytes a key", base_bytes, "B")
    medians: list[float] = []
    for messages in (100, 1_000, 10_000):
        median, high, size, rest, load = await streaming(messages)
        medians.append(median)
        show(f"key while streaming 200 tokens/s, {messages:,} messages", median, "ms", base, "goal 4 ×")
        show(f"    95 % of the keys, {messages:,} messages", high, "ms", base)
        show(f"    key at rest, {messages:,} messages", rest, "ms", base)
        show(f"    bytes a streamed token, {messages:,} messages", size, "B")
        show(f"    loading {messages:,} messages to their first frame", load, "ms")
    show("largest ÷ smallest of the three sizes", max(medians) / min(medians), "×", 0, "goal 1.3")
    small = await flush_ms(1_000)
    show("flush of 7 tokens, document of 1,000 tokens", small, "ms", base)
    show("flush of 7 tokens, document of 20,000 tokens", await flush_ms(20_000), "ms", small, "goal 1.15 × of 1,000")
    first, last, frame = await log_us()
    show("tool log, a line, first 10,000", first, "µs")
    show("tool log, a line, last 10,000 of 100,000", last, "µs", first, "goal 15 µs, flat")
    show("tool log, one more line at 100,000 to its frame", frame, "ms", base)


if __name__ == "__main__":
    asyncio.run(measure())
    sys.exit(0)
