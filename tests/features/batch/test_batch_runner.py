from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lmtui.core.attempt_values import Attempt
from lmtui.core.budgets import SessionBudget
from lmtui.core.errors import Fault, UsageError
from lmtui.core.events import TurnEnded, TurnReason
from lmtui.features.batch import batch_runner
from lmtui.features.batch.batch_folder import BatchFolder, TaskResult
from lmtui.features.batch.batch_runner import BatchOptions, BatchRunner
from lmtui.features.batch.service import BatchService
from lmtui.features.batch.task_file import BatchTask
from lmtui.paths import batches_dir


class FakeHost:
    """A host whose attempts end as they are told, the last way from then on; `fault` "" is a turn that did nothing."""

    def __init__(self, *faults: str) -> None:
        self.faults, self.tried, self.workspace = [*faults], 0, Path("/nowhere")
        self.servers = self.config = SimpleNamespace(pool=list)
        self.sessions: list[Any] = []
        self.go = asyncio.Event()

    def new_attempts(self, budget: SessionBudget) -> FakeHost:
        del budget
        return self

    async def slot_count(self) -> int:
        await self.go.wait()
        return 1

    async def require_sandbox(self) -> None:
        await asyncio.sleep(0)

    async def try_task(self, *words: object) -> Attempt:
        del words
        self.tried += 1
        fault = self.faults.pop(0) if len(self.faults) > 1 else self.faults[0]
        reason = TurnReason.ERROR if fault else TurnReason.DONE
        end = TurnEnded(turn_id="t", reason=reason, exit_code=0 if fault in ("", "red") else 1, fault=fault, error=fault)
        return Attempt(1, end=end, failing=fault == "red")

    def spent_of(self, attempt: Attempt) -> SessionBudget:
        del attempt
        return SessionBudget(0, 1, 0.0)

    async def close(self) -> None:
        await asyncio.sleep(0)


async def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: Any, tries: int = 2) -> Sequence[str]:
    monkeypatch.setattr(batch_runner, "_FIRST_WAIT_S", 0.0)
    folder, told = BatchFolder(tmp_path), []
    tasks = [BatchTask("1", "do it")]
    folder.begin(tasks, {})
    host.go.set()

    def tell(result: TaskResult, _: object) -> None:
        told.append(result.status)

    async with asyncio.timeout(10):
        await BatchRunner(host, folder, BatchOptions(tries=tries), tell).run(tasks)
    return told


async def test_a_task_that_breaks_each_server_fails_in_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert await run(tmp_path, monkeypatch, FakeHost(Fault.CUT), tries=1) == [*["unreachable"] * 4, "failed"]


async def test_a_task_waits_for_a_server_as_long_as_none_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = [Fault.UNREACHABLE] * 20
    assert await run(tmp_path, monkeypatch, FakeHost(*gone, "red"), tries=1) == [*["unreachable"] * 20, "red"]


async def test_a_server_that_goes_between_two_tries_does_not_end_the_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await run(tmp_path, monkeypatch, FakeHost("red", Fault.UNREACHABLE, "red")) == ["unreachable", "red"]


async def test_of_two_batches_that_begin_at_once_the_second_is_left_free(tmp_path: Path) -> None:
    host: Any = FakeHost("")
    host.workspace = tmp_path
    extensions: Any = SimpleNamespace()
    service = BatchService(host, extensions)
    folders = [BatchFolder(batches_dir(tmp_path) / name) for name in ("one", "two")]
    for folder in folders:
        folder.begin([BatchTask("1", "do it")], {})
    found = await asyncio.gather(*(service.resume(str(each.path), "") for each in folders), return_exceptions=True)
    assert sorted(isinstance(each, UsageError) for each in found) == [False, True]
    assert sorted(each.is_locked() for each in folders) == [False, True]
    await service.stop()
    assert not any(each.is_locked() for each in folders)


def test_any_text_may_be_asked_for_a_batch() -> None:
    assert not BatchFolder(Path("x" * 10_000)).exists()
