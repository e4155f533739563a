"""What a long conversation costs: streaming at its end, 100,000 messages against 100, memory, opening, search.

Everything is rendered to bytes; every figure with a × is a ratio to something measured in the same run.
"""

from __future__ import annotations

import asyncio
import gc
import os
import statistics
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC
from time import thread_time

from textual import events
from textual.app import App
from textual.geometry import Size

from benchmarks.harness import Meter, Typist, cost_ms, running
from benchmarks.report import Figure
from benchmarks.screen import SIZE, Bench, conversation, envelope, idle_key_ms, markdown, stream
from lmtui.core.events import Envelope, MessageAdded, TextDelta, TurnStarted
from lmtui.core.messages import Role
from lmtui.tui.lines.transcript import Transcript
from lmtui.tui.router import SessionView

_MANY, _FEW = 100_000, 100
_FLUSHES = 60
_SCREENFUL = 20


def figures() -> list[Figure]:
    """Measure and return every figure of this part."""
    return asyncio.run(_figures())


async def _figures() -> list[Figure]:
    base, _ = await idle_key_ms()
    found: list[Figure] = []
    for tokens in (1_000, 20_000, 100_000):
        key, ratio = await _streaming(tokens)
        found.append(Figure(f"key while streaming 200 tokens/s, document of {tokens:,} tokens ÷ B0", key / base, "×", 3))
        if tokens == 20_000:
            found.append(Figure("bytes written per byte of text", ratio, "B", 80))
    with _environ("SSH_CONNECTION", "1 2 3 4"):
        _, ratio = await _streaming(20_000)
    found.append(Figure("bytes written per byte of text, over ssh", ratio, "B", 40))
    pairs = [(await _flush_ms(1_000), await _flush_ms(100_000)) for _ in range(3)]
    small, large = (min(side) for side in zip(*pairs, strict=True))
    found.append(Figure("flush of 7 tokens at 100,000 tokens ÷ at 1,000", large / small, "×", 1.15))
    found += await _odd_texts(small)
    few, many = await _acts(_FEW), await _acts(_MANY)
    found += [Figure(f"{name}: 100,000 messages ÷ 100", many[name] / few[name], "×", 1.3) for name in few]
    found.append(Figure("100,000 messages: memory beyond the text", _memory_mb(), "MB", 25))
    found += await _opening()
    found += await _search()
    return found


@contextmanager
def _environ(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


async def _streaming(tokens: int) -> tuple[float, float]:
    """Return the median CPU of a key, and the bytes written per byte of streamed text."""
    transcript = Transcript(zone=UTC)
    async with running(Bench(transcript), SIZE) as (pilot, meter):
        transcript.apply(envelope(TurnStarted(turn_id="t")))
        transcript.apply(envelope(TextDelta(text="".join(markdown(tokens, 3)))))
        await meter.quiet(0.3)
        more = markdown(4000, 7)
        meter.size_bytes = 0
        sent = await stream(transcript, iter(more))
        ratio = meter.size_bytes / len("".join(more[:sent]).encode())
        typist = Typist(pilot.app, meter)
        typist.start()
        meter.key_ms.clear()
        await stream(transcript, iter(markdown(4000, 8)))
        typist.stop()
        return statistics.median(meter.key_ms), ratio


async def _flush_ms(tokens: int, texts: list[str] | None = None, before: str = "") -> float:
    """Return the mean CPU of a flush at the end of a document of so many tokens, of whatever `texts` are."""
    transcript = Transcript(zone=UTC)
    async with running(Bench(transcript), SIZE) as (_, meter):
        transcript.apply(envelope(TurnStarted(turn_id="t")))
        transcript.apply(envelope(TextDelta(text=before or _sections(tokens))))
        await meter.quiet(0.3)
        rest = markdown(600, 4)
        pieces = texts or ["".join(rest[at * 7 : at * 7 + 7]) for at in range(_FLUSHES)]

        def one(number: int) -> None:
            transcript.apply(envelope(TextDelta(text=pieces[number])))

        gc.collect()
        gc.disable()
        costs = [await cost_ms(meter, _numbered(one, at)) for at in range(len(pieces))]
        gc.enable()
        return statistics.mean(costs)


def _sections(tokens: int) -> str:
    """Return about so many tokens of Markdown that end with a whole section, not in a table or a code fence."""
    return "".join(markdown(tokens, 3)).rpartition("\n\n## ")[0] + "\n\n"


def _numbered(action: Callable[[int], None], number: int) -> Callable[[int], None]:
    return lambda _: action(number)


async def _odd_texts(usual: float) -> list[Figure]:
    head = "| name | value | words |\n|---|---|---|\n"
    rows = [f"| row {number} | {number * 7} | some more words |\n" for number in range(2_040)]
    table = await _flush_ms(0, rows[2_000:], head + "".join(rows[:2_000]))
    words = ["and then it went on with some more words " for _ in range(40)]
    paragraph = await _flush_ms(0, words, "a long paragraph without an end " * 1_312)
    return [
        Figure("flush in a table of 2,000 rows ÷ usual", table / usual, "×", 3),
        Figure("flush in a paragraph of 42,000 characters ÷ usual", paragraph / usual, "×", 3),
    ]


async def _acts(messages: int) -> dict[str, float]:
    """Return the CPU in ms of what a reader does with so many messages on screen."""
    transcript = Transcript(zone=UTC)
    async with running(Bench(transcript), SIZE) as (pilot, meter):
        conversation(transcript, messages)
        gc.freeze()  # as the app does behind a long history
        await meter.quiet(0.3)
        await _keys(pilot.app, meter, 1)
        found = {"key": await _keys(pilot.app, meter, 4)}
        found["append"] = await cost_ms(
            meter, lambda number: transcript.apply(envelope(MessageAdded(role=Role.USER, text=f"one more {number}"))), 15
        )
        sizes = [(180, 48), (200, 50)] * 6
        found["resize"] = statistics.median([await cost_ms(meter, _resized(pilot.app, size)) for size in sizes])
        themes = ["textual-light", "textual-dark"] * 6
        found["theme"] = await cost_ms(meter, lambda number: setattr(pilot.app, "theme", themes[number]), 12)
        return found


def _resized(app: App[None], size: tuple[int, int]) -> Callable[[int], None]:
    def act(_: int) -> None:
        assert app._driver is not None
        app._driver._size = size  # the headless driver's own idea of the terminal
        app.post_message(events.Resize(Size(*size), Size(*size)))

    return act


async def _keys(app: App[None], meter: Meter, seconds: float) -> float:
    meter.key_ms.clear()
    typist = Typist(app, meter)
    typist.start()
    await asyncio.sleep(seconds)
    typist.stop()
    return statistics.median(meter.key_ms)


def _messages(count: int) -> list[Envelope]:
    texts = ["".join(markdown(120, seed)) for seed in range(30)]
    roles = (Role.USER, Role.ASSISTANT)
    return [envelope(MessageAdded(role=roles[at % 2], text=f"{at} {texts[at % 30]}")) for at in range(count)]


def _memory_mb() -> float:
    history = _messages(_MANY)
    gc.collect()
    tracemalloc.start()
    transcript = Transcript(zone=UTC)
    for each in history:
        transcript.apply(each)
    gc.collect()
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return size / 1e6


class _Log:
    """A session that is only read."""

    def __init__(self, history: list[Envelope]) -> None:
        self.id = "log"
        self._history = history

    def history(self) -> list[Envelope]:
        return self._history

    def subscribe(self, _: object) -> Callable[[], None]:
        return lambda: None


async def _opening() -> list[Figure]:
    """Return the CPU to the first frame of 100,000 events ÷ that of a screenful, and the longest slice behind it."""

    async def first_frame(history: list[Envelope]) -> tuple[float, SessionView]:
        transcript = Transcript(zone=UTC)
        async with running(Bench(transcript), SIZE) as (_, meter):
            found: list[SessionView] = []

            def act(_: int) -> None:
                feed = SessionView(_Log(history), lambda _: None)  # type: ignore[arg-type]  # as much of a session as is read
                feed.panels = (transcript,)
                found.append(feed)
                feed.draw()
                transcript.redraw()

            cost = await cost_ms(meter, act)
            if len(history) > _SCREENFUL:
                slices = [_slice_ms(found[0]) for _ in range(20_000) if found[0].is_loading]
                found[0].slices = slices  # type: ignore[attr-defined]  # only here
            return cost, found[0]

    short = statistics.median([(await first_frame(_messages(_SCREENFUL)))[0] for _ in range(5)])
    history = _messages(_MANY)
    full, feed = await first_frame(history)
    slices: list[float] = feed.slices  # type: ignore[attr-defined]  # only here
    return [
        Figure("first frame of a session of 100,000 events ÷ of one of 20", full / short, "×", 2),
        Figure("loading 100,000 events behind: all slices together", sum(slices) / 1000, "s"),
        Figure("loading 100,000 events behind: slowest slice in 100", sorted(slices)[int(len(slices) * 0.99)], "ms", 16),
        Figure("loading 100,000 events behind: slowest slice", max(slices), "ms", 50),
    ]


def _slice_ms(feed: SessionView) -> float:
    began = thread_time()
    feed.load(0.006)
    return (thread_time() - began) * 1000


async def _search() -> list[Figure]:
    transcript = Transcript(zone=UTC)
    async with running(Bench(transcript), SIZE) as (_, meter):
        conversation(transcript, _MANY)
        await meter.quiet(0.3)
        began = thread_time()
        transcript.search.find("terminal")
        first = (thread_time() - began) * 1000
        await meter.quiet(1.0)
        assert transcript.search.is_done
        return [
            Figure("search in 100,000 messages: first matches", first, "ms", 16),
            Figure("search in 100,000 messages: all", (thread_time() - began), "s"),
        ]
