"""Attempts at one task: the time of four on a server with four slots, against one after another.

The server is scripted and writes at the speed of a small model; as none of the attempts has checks, all four run.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path
from time import monotonic

from benchmarks.report import Figure
from lmtui.app.host import Runtime
from lmtui.config import Config
from lmtui.core.sessions import Session
from lmtui.models.demo_scripts import Scenario, ScriptedCall, ScriptedTurn
from lmtui.models.scripted_server import ScriptedServer

_COUNT = 4
_PIECES_PER_S = 20.0
_WORDS = "word " * 60
_TURNS = (
    ScriptedTurn(_WORDS, calls=(ScriptedCall("write", {"path": "a.txt", "content": "1\n"}),), rate=_PIECES_PER_S),
    ScriptedTurn(_WORDS, rate=_PIECES_PER_S),
)


def figures() -> list[Figure]:
    """Measure and return every figure of this part."""
    with tempfile.TemporaryDirectory() as home:
        os.environ["LMTUI_HOME"] = home
        alone_s, together_s = (asyncio.run(_measure(slots)) for slots in (1, _COUNT))
    return [Figure("four attempts on four slots, share of the time one by one", 100 * together_s / alone_s, "%", 50.0)]


async def _measure(slots: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        async with ScriptedServer(Scenario(_TURNS)) as server:
            config = Config(url=server.url, slots=slots, verify="off")
            runtime = Runtime(Path(folder), config, is_attended=False)
            try:
                await (await runtime.sandbox()).status()
                began = monotonic()
                await runtime.attempts.run("write a.txt", _COUNT, (), _start)
                elapsed_s, ended = monotonic() - began, runtime.attempts.ended
            finally:
                await runtime.close()
            assert [len(each.effect.paths) for each in ended if each.effect] == [1, 1, 1, 1]
            return elapsed_s


def _start(session: Session) -> None:
    session.submit("Write a.txt.")
