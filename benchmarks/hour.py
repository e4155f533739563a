"""A scripted hour of work in the whole app, without its pauses: how long the event loop was blocked at a time.

Twenty turns over a fake session: answers streamed at 200 tokens a second, thinking, calls with output; meanwhile keys,
scrolling, search, resizes, themes, and every main screen opened and closed.  Each callback of the loop is timed in CPU of its
thread; the percentile is over the longest callback between two beats, twenty milliseconds from each other.
"""

from __future__ import annotations

import asyncio
import random
from asyncio.events import Handle
from collections.abc import Iterator
from contextlib import contextmanager
from time import thread_time
from typing import Any

import psutil
from textual.geometry import Size
from textual.pilot import Pilot

from benchmarks.harness import running
from benchmarks.report import Figure
from benchmarks.screen import markdown
from lmtui.core import events
from lmtui.tui.app import LmtuiApp
from lmtui.tui.options import StartOptions
from tests.tui.fakes import FakeHost, FakeSession

TURNS = 20
SIZES = ((160, 45), (120, 35), (80, 24), (160, 45))
SCREENS = (("f2", "escape"), ("f10", "escape"), ("f11", "escape"), ("f1", "escape"), ("ctrl+p", "escape"))
WARM_UP = 2
TOKENS_A_PIECE, TOKENS_PER_S = 7, 200
BEAT_S = 0.02


def figures() -> list[Figure]:
    """Measure and return every figure of this part."""
    return asyncio.run(_figures())


async def _figures() -> list[Figure]:
    host = FakeHost()
    app = LmtuiApp(lambda: host, StartOptions(workspace=str(host.workspace)), now=host.clock)
    blocks: list[float] = []
    beats: list[float] = []
    source = random.Random(7)
    async with running(app, SIZES[0]) as (pilot, _):  # type: ignore[arg-type]  # an app with a result
        while app.workbench.active is None:
            await pilot.pause(0.02)
        rss: list[float] = []
        own = psutil.Process()
        with _timed(blocks):
            heart = asyncio.create_task(_beat(blocks, beats))
            for turn in range(TURNS):
                if turn == WARM_UP:
                    beats.clear()
                await _turn(pilot, app, host.session, turn, source)
                rss.append(own.memory_info().rss / 2**20)
            heart.cancel()
    worst = sorted(beats)
    return [
        Figure("an hour of work: longest block of the loop", worst[-1], "ms", 100),
        Figure("an hour of work: blocks of the loop, 99th percentile", worst[int(len(worst) * 0.99)], "ms", 16),
        Figure("an hour of work: memory grown in its second half", rss[-1] - rss[TURNS // 2], "MB", 25),
    ]


async def _beat(blocks: list[float], beats: list[float]) -> None:
    """Keep the longest callback between two beats."""
    while True:
        await asyncio.sleep(BEAT_S)
        beats.append(max(blocks, default=0.0))
        blocks.clear()


@contextmanager
def _timed(blocks: list[float]) -> Iterator[None]:
    """Time every callback of the loop, in milliseconds of CPU."""
    run = Handle._run

    def timed(handle: Handle) -> Any:
        began = thread_time()
        try:
            return run(handle)
        finally:
            blocks.append((thread_time() - began) * 1000)

    Handle._run = timed  # type: ignore[method-assign,assignment]  # only here, and put back
    try:
        yield
    finally:
        Handle._run = run  # type: ignore[method-assign]  # as it was


async def _turn(pilot: Pilot[None], app: LmtuiApp, session: FakeSession, turn: int, source: random.Random) -> None:
    session.begin_turn(f"step {turn}: make it so")
    session.emit(events.ThinkingDelta(text="I wonder how this is done. " * 20))
    pieces = markdown(1500, seed=turn)
    for at in range(0, len(pieces), TOKENS_A_PIECE):
        session.emit(events.TextDelta(text="".join(pieces[at : at + TOKENS_A_PIECE])))
        await pilot.pause(TOKENS_A_PIECE / TOKENS_PER_S)
    for number in range(4):
        call = f"call-{turn}-{number}"
        session.start_call(call, "shell", f"pytest -q tests/test_{number}.py")
        for _ in range(10):
            session.emit(events.ToolOutputDelta(call_id=call, text=f"{source.random()} passed\n" * 20))
        await pilot.pause(0.01)
        session.finish_call(call, "shell", result="line of output\n" * 400, summary="exit 0")
    session.say("".join(markdown(200, seed=turn + 1000)))
    session.end_turn()
    await pilot.press(*"a few words", "pageup", "pageup", "pagedown", "ctrl+u")
    await pilot.press(*SCREENS[turn % len(SCREENS)])
    if turn % 5 == 0:
        await pilot.press("ctrl+f", *"passed", "enter", "escape", "escape")
        app.use_theme(source.choice(("dusk", "paper", "night")))
    if turn % 7 == 0:
        await pilot.resize_terminal(*Size(*SIZES[turn // 7 % len(SIZES)]))
    await pilot.pause(0.02)
