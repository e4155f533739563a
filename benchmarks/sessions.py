"""Many sessions: switching between large ones, listing and searching a thousand, the tool log to a million lines."""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import perf_counter, process_time
from typing import cast

from textual.app import App

from benchmarks.harness import running
from benchmarks.report import Figure
from benchmarks.screen import Bench
from lmtui.core.events import (
    Envelope,
    Event,
    MessageAdded,
    ModelChanged,
    SessionOpened,
    SessionRenamed,
    ToolCallFinished,
    ToolCallStarted,
    TurnEnded,
    TurnReason,
    TurnStarted,
)
from lmtui.core.messages import Role
from lmtui.store.session_logs import SessionStore
from lmtui.store.summaries import Summaries
from lmtui.tui.app import LmtuiApp
from lmtui.tui.lines.tool_log import ToolLog
from lmtui.tui.options import StartOptions
from tests.tui.fakes import FakeClock, FakeHost, FakeSession

SIZE = (160, 40)
SESSIONS, EVENTS = 5, 10_000
LISTED = 1000
NOW = datetime(2026, 3, 14, 12, 0, tzinfo=UTC)


def figures() -> list[Figure]:
    """Measure."""
    found = [*asyncio.run(_switching()), *_listing()]
    return [*found, *asyncio.run(_log())]


class CountingApp(LmtuiApp):
    """Counts its frames."""

    frames_drawn = 0

    def post_display_hook(self) -> None:
        """Count a frame."""
        self.frames_drawn += 1


def fill(session: FakeSession, count: int) -> None:
    """Say and do something until a session has so many events."""
    while len(session.history()) < count:
        at = len(session.history())
        session.begin_turn(f"Task {at}: look at **this** and `that`.")
        for call in range(4):
            call_id = f"{at}-{call}"
            session.start_call(call_id, "read", f"parser/module_{at}.py")
            session.finish_call(call_id, "read", result="line\n" * 20)
        session.say(f"Here is what I found in {at}:\n\n- one\n- two\n\n```python\nprint({at})\n```\n")
        session.end_turn()


async def _switching() -> list[Figure]:
    clock = FakeClock()
    host = FakeHost(clock=clock)
    with tempfile.TemporaryDirectory() as home:
        os.environ["LMTUI_HOME"] = home
        for number in range(SESSIONS):
            session = FakeSession(f"20260314_1200{number:02}_abcdef", clock=clock, title=f"session {number}")
            fill(session, EVENTS)
            host.opened[session.id] = session
        ids = list(host.opened)
        app = CountingApp(lambda: host, StartOptions(workspace=str(host.workspace), session_id=ids[0]), now=clock)
        async with running(cast("App[None]", app), SIZE) as (_, meter):
            await _until(lambda: app.workbench.active is not None)
            first: list[float] = []
            again: list[float] = []
            for kept in (first, again, again):
                for session_id in ids[1:] + ids[:1]:
                    kept.append(await _switch(app, session_id))
                    await _until(lambda: not _is_loading(app))
                    await meter.quiet(0.1, 1.0)
            behind = host.opened[ids[2]]
            fill(behind, EVENTS + 2000)
            pending = await _switch(app, ids[2])
    return [
        Figure(f"switch to one of {SESSIONS} sessions of {EVENTS:,} events, its first time, to its frame", max(first), "ms"),
        Figure("    the same again, median", statistics.median(again), "ms", 50),
        Figure("    the same again, slowest", max(again), "ms", 50),
        Figure("    after 2,000 events came in behind", pending, "ms", 50),
    ]


async def _switch(app: CountingApp, session_id: str) -> float:
    frames = app.frames_drawn
    began = process_time()
    await app.workbench.ready.session_controller.open(session_id)
    await _until(lambda: app.frames_drawn > frames, 0)
    return (process_time() - began) * 1000


def _is_loading(app: LmtuiApp) -> bool:
    return app.workbench.active is not None and app.workbench.active.is_loading


async def _until(is_so: Callable[[], bool], pause_s: float = 0.02) -> None:
    for _ in range(1_000_000):
        if is_so():
            return
        await asyncio.sleep(pause_s)


def _story(session_id: str, number: int) -> list[Envelope]:
    events: list[Event] = [
        SessionOpened(workspace="/w", version="1"),
        ModelChanged(model="qwen2.5-coder:7b", url="http://x/v1"),
    ]
    events.append(SessionRenamed(title=f"session number {number}"))
    for turn in range(10):
        events.append(TurnStarted(turn_id=f"t{turn}"))
        events.append(MessageAdded(role=Role.USER, text=f"Look at module {turn} of {number}."))
        for call in range(3):
            title, call_id = f"src/{call}.py", f"{turn}-{call}"
            events.append(ToolCallStarted(call_id=call_id, tool="read", arguments={"path": title}, title=title))
            events.append(ToolCallFinished(call_id=call_id, tool="read", ok=True, result="some text\n" * 120, elapsed_ms=3))
        events.append(MessageAdded(role=Role.ASSISTANT, text="It is as it should be.\n" * 5))
        events.append(TurnEnded(turn_id=f"t{turn}", reason=TurnReason.DONE))
    if number == 0:
        events.append(MessageAdded(role=Role.ASSISTANT, text="The needle is here."))
    return [Envelope(seq, NOW, session_id, event) for seq, event in enumerate(events, 1)]


def _listing() -> list[Figure]:
    with tempfile.TemporaryDirectory() as home:
        os.environ["LMTUI_HOME"] = home
        store = SessionStore(Path(home))
        for number in range(LISTED):
            session_id = f"{NOW + timedelta(minutes=number):%Y%m%d_%H%M%S}_abcdef"
            log = store.create(session_id)
            for envelope in _story(session_id, number):
                log.append(envelope)
            log.close()
        summaries = Summaries(store)
        listed = _timed(summaries, "")
        known = _timed(summaries, "")
        found = _timed(summaries, "module look")
        needle = _timed(summaries, "needle")
    return [
        Figure(f"list of {LISTED:,} sessions, the first 30", listed[0], "ms", 100),
        Figure("    all of them, read for the first time (in a thread)", listed[1], "ms"),
        Figure("    all of them again", known[1], "ms"),
        Figure("search for words that all have, the first hit", found[0], "ms", 100),
        Figure("search for a word that only the oldest has", needle[1], "ms"),
    ]


def _timed(summaries: Summaries, words: str) -> tuple[float, float]:
    began = perf_counter()
    first = 0.0
    wanted = 1 if words else 30
    for number, _ in enumerate(summaries.find(words, LISTED), 1):
        if number == wanted:
            first = perf_counter() - began
    return first * 1000, (perf_counter() - began) * 1000


async def _log() -> list[Figure]:
    log = ToolLog()
    async with running(Bench(log), SIZE) as (_, meter):
        tenths: list[float] = []
        for tenth in range(10):
            began = process_time()
            for at in range(100_000):
                event = ToolCallStarted(
                    call_id=f"{tenth}-{at}", tool="read", arguments={}, title=f"lmtui/tui/lines/file_{at}.py"
                )
                log.apply(Envelope(1, NOW, "s", event))
                if at % 200 == 199:
                    await asyncio.sleep(0)
            tenths.append((process_time() - began) * 10)
            await meter.quiet(0.05, 0.5)
        began = process_time()
        log.narrow("file_99999.py")
        first = (process_time() - began) * 1000
        await _until(lambda: log.source.counts[0] == 10)
        whole = (process_time() - began) * 1000
    return [
        Figure("tool log, a line, first 100,000", tenths[0], "µs", 15),
        Figure("tool log, a line, last 100,000 of a million", tenths[-1], "µs", 15),
        Figure("tool log, last tenth ÷ first", tenths[-1] / tenths[0], "×", 1.5),
        Figure("filter of a million lines, the key that begins it", first, "ms", 16),
        Figure("filter of a million lines, until all is looked through", whole, "ms"),
    ]
