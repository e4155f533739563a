"""A plan of many tasks on a scripted server: lmtui's own processor time per task, and that failed attempts change no file.

Every fifth task fails at its first attempt in the second run.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from time import process_time

from benchmarks.report import Figure
from lmtui.app.host import Runtime
from lmtui.config import Config
from lmtui.features.pipeline.service import PipelineService
from lmtui.features.pipeline.values import WorkspacePipeline
from lmtui.models.demo_scripts import Scenario, ScriptedCall, ScriptedTurn
from lmtui.models.scripted_server import ScriptedServer

_TASKS = int(os.environ.get("LMTUI_BENCH_TASKS", "40"))
_SECOND = 2  # the seed of a task's second attempt


def figures() -> list[Figure]:
    """Measure and return every figure of this part."""
    with tempfile.TemporaryDirectory() as home:
        os.environ["LMTUI_HOME"] = home
        _, mended = asyncio.run(_work(fails=True))  # first, as what is imported once belongs to no task
        whole_ms, whole = asyncio.run(_work(fails=False))
    differ = sum(whole[name] != mended.get(name) for name in whole)
    return [
        Figure(f"processor time per task of a plan of {_TASKS}", whole_ms, "ms", 150.0),
        Figure("files that differ after a run with 20 % failing attempts", differ, "files", 0.0),
    ]


async def _work(*, fails: bool) -> tuple[float, dict[str, str]]:
    """Work through a plan and return the milliseconds per task, and the files that it made."""
    tasks = range(1, _TASKS + 1)
    scenarios = [each for number in tasks for each in _scenarios(number, fails=fails and number % 5 == 0)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plan = "".join(f"- [ ] Write m{n}.txt\n  files: m{n}.txt\n  check: grep -qx {n} m{n}.txt\n" for n in tasks)
        (folder / "PLAN.md").write_text(plan, encoding="utf-8")
        with _server(scenarios) as url:
            runtime = Runtime(folder, Config(url=url, verify="off"), is_attended=False)
            service = runtime.extensions[WorkspacePipeline]
            assert isinstance(service, PipelineService)
            try:
                await (await runtime.sandbox()).status()
                began = process_time()
                done = await service.work("PLAN.md", service.options())
                elapsed_s = process_time() - began
            finally:
                await runtime.close()
        assert done.is_done, done.problem
        return 1000 * elapsed_s / _TASKS, await asyncio.to_thread(_files, folder)


@contextmanager
def _server(scenarios: Sequence[Scenario]) -> Iterator[str]:
    """Run a scripted server in a process of its own, whose processor time does not count; yield its address."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(scenarios, there), daemon=True)
    process.start()
    try:
        yield here.recv()
    finally:
        process.terminate()
        process.join()


def _serve(scenarios: Sequence[Scenario], pipe: Connection) -> None:
    async def serve() -> None:
        async with ScriptedServer(*scenarios) as server:
            pipe.send(server.url)
            await asyncio.Event().wait()

    asyncio.run(serve())


def _files(folder: Path) -> dict[str, str]:
    return {each.name: each.read_text(encoding="utf-8") for each in folder.glob("m*.txt")}


def _scenarios(number: int, *, fails: bool) -> list[Scenario]:
    match, right = f"Write m{number}.txt", f"{number}\n"
    return [_writes(number, match, right, _SECOND), _writes(number, match, "0\n")] if fails else [_writes(number, match, right)]


def _writes(number: int, match: str, content: str, seed: int | None = None) -> Scenario:
    call = ScriptedCall("write", {"path": f"m{number}.txt", "content": content})
    turns = (ScriptedTurn("I write it.", calls=(call,)), *[ScriptedTurn("It is done.")] * 6)
    return Scenario(turns, match=match, seed=seed, name=f"{number} {seed}")
