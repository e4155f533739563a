from __future__ import annotations

import asyncio
import io
import json
import shutil
import signal
import sys
import tarfile
from collections.abc import AsyncIterator
from concurrent.futures import CancelledError as FutureCancelled
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from lmtui.core.errors import LmtuiError, UsageError
from lmtui.features.batch import cluster
from lmtui.features.batch.cluster import Cluster, pack, validate_result
from lmtui.features.batch.cluster_worker import WorkerAnswer, WorkerTask, run_task
from lmtui.features.batch.task_file import BatchTask
from lmtui.features.batch.values import BatchOptions, TaskResult
from lmtui.models.demo_scripts import Scenario, ScriptedTurn
from lmtui.models.scripted_server import ScriptedServer
from lmtui.settings import Config
from tests.sets import for_each
from tests.waiting import PATIENCE_S, until

TASK = BatchTask("a-1", "Fix a.py")
GOOD = TaskResult("a-1", "green", "Fix a.py", ("a.py",), 1, 0, "diffs/a-1.patch", tokens=7)


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> bytes:
    monkeypatch.setenv("LMTUI_HOME", str(tmp_path / "home"))
    work = tmp_path / "work"
    (work / "bin").mkdir(parents=True)
    (work / "a.py").write_text("x = 1\n")
    (work / "bin" / "run.sh").write_text("#!/bin/sh\n")
    (work / "bin" / "run.sh").chmod(0o755)
    (work / "ü.txt").write_text("ü")
    (work / ".env").write_text("KEY=secret\n")
    (work / "link").symlink_to("a.py")
    return pack(work, ["ü.txt", "bin/run.sh", "a.py", ".env", "link", ".lmagent/x"])


def test_files_are_sent_without_secrets_and_links_and_a_damaged_archive_is_refused(archive: bytes) -> None:
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        sent_files = {each.name: each.mode for each in files}
    assert sent_files == {"a.py": 0o644, "bin/run.sh": 0o755, "ü.txt": 0o644}
    assert "its disk" in run_task(sent(), archive[: len(archive) // 2]).refused


def sent(*flags: str, limit_s: float = 60.0) -> WorkerTask:
    return WorkerTask(limit_s, flags, TASK)


@pytest.mark.full
async def test_a_program_that_dies_says_why_and_a_disk_that_fills_up_is_the_workers_fault_not_the_tasks(
    archive: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lmtui.features.batch.cluster_worker.sys.executable", str(shutil.which("false")))
    assert json.loads(run_task(sent(), archive).result)["status"] == "failed"
    real = shutil.disk_usage("/")
    free = iter([real.free, real.free, 0])
    monkeypatch.setattr(shutil, "disk_usage", lambda path: real._replace(free=next(free)))
    answer = run_task(sent(), archive)
    assert "its disk is full" in answer.refused
    assert not answer.result


@pytest.mark.bubblewrap
@pytest.mark.full
async def test_a_task_that_never_ends_is_stopped_at_its_limit_with_all_its_processes(archive: bytes) -> None:
    async with ScriptedServer(Scenario((ScriptedTurn("word " * 500, rate=0.2),))) as server:
        flags = ("--sandbox", "bubblewrap", "-c", f'servers=["{server.url}"]', "--tries", "1")
        answer = await asyncio.to_thread(run_task, sent(*flags, limit_s=6.0), archive)
    result = json.loads(answer.result)
    assert (result["status"], result["error"]) == ("failed", "timed out after 6 s")


def test_the_head_decides_on_id_title_and_diff_and_an_answer_that_is_none_is_a_failed_task(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lie = replace(
        GOOD, id="../../x", task="Other", diff="/etc/passwd", decision="accepted", files=("a\x1b[2J.py",), error="\x1b]0;x"
    )
    result, patch = validate_result(TASK, WorkerAnswer(json.dumps(asdict(lie)), b"patch"))
    assert (result.id, result.task, result.diff, result.decision) == ("a-1", "Fix a.py", "", "")
    assert "\x1b" not in result.files[0] + result.error
    assert (result.status, result.tokens, patch) == ("green", 7, b"patch")
    monkeypatch.setattr("lmtui.features.batch.cluster.MAX_PATCH_BYTES", 10)
    result, patch = validate_result(TASK, WorkerAnswer(json.dumps(asdict(GOOD)), b"x" * 11))
    assert (result.status, patch) == ("failed", b"")
    assert "larger than" in result.error
    assert validate_result(TASK, WorkerAnswer("{" * 5_000))[0].status == "failed"


@for_each("change", [{"status": "waiting"}, {"tokens": "many"}, {"files": None}, {"checks": ["a"]}, {"added": 1e400}])
def test_an_invalid_answer_is_a_failed_task(change: dict[str, Any]) -> None:
    result, patch = validate_result(TASK, WorkerAnswer(json.dumps(asdict(GOOD) | change), b"patch"))
    assert (result.id, result.status, patch) == ("a-1", "failed", b"")
    assert "invalid result" in result.error


class FakeClient:
    """A scheduler and its workers as far as the head sees them.  `does` says what each worker makes of a task."""

    def __init__(self, does: dict[str, Any]) -> None:
        self.does, self.status, self.scheduler = does, "running", self
        self.refusing: dict[str, str] = {}
        self.asked: list[tuple[str, str]] = []
        self.cancelled: list[str] = []

    async def ncores(self) -> dict[str, int]:
        return dict.fromkeys(self.does, 1)

    async def identity(self, n_workers: int) -> dict[str, Any]:
        return {"workers": {name: {"nthreads": 1, "resources": {"slot": 1.0}} for name in self.does}}

    async def run(self, function: Any, *arguments: object, workers: list[str], on_error: str) -> dict[str, Any]:
        (name,) = workers
        self.asked.append((name, function.__name__))
        return {name: self.refusing.get(name, "")}

    async def scatter(self, archive: bytes, *, workers: list[str], **_: object) -> str:
        (name,) = workers
        self.asked.append((name, "scatter"))
        return f"files on {name}"

    def submit(
        self, function: Any, sent: WorkerTask, files: str, *, key: str, pure: bool, workers: list[str], resources: Any
    ) -> FakeFuture:
        assert (resources, files) == ({"slot": 1}, f"files on {workers[0]}")
        return FakeFuture(key, self.does[workers[0]], workers[0], self)

    async def cancel(self, futures: list[FakeFuture]) -> None:
        self.cancelled += [each.key for each in futures]


class FakeFuture:
    def __init__(self, key: str, does: Any, worker: str, client: FakeClient) -> None:
        self.key, self._does, self._worker, self._client = key, does, worker, client

    async def exception(self) -> Exception | None:
        if self._does == "die":
            del self._client.does[self._worker]
            await asyncio.Event().wait()
        if self._does == "lose":
            self._client.status = "connecting"
        return self._does if isinstance(self._does, MemoryError) else None

    def __await__(self) -> Any:
        return self._result().__await__()

    async def _result(self) -> Any:
        if self._does == "lose":
            raise FutureCancelled
        return self._does


DONE = WorkerAnswer(json.dumps(asdict(GOOD)), b"patch")


@asynccontextmanager
async def cluster_of(does: dict[str, Any], **refusing: str) -> AsyncIterator[tuple[Cluster, FakeClient, list[str]]]:
    client, told = FakeClient(does), list[str]()
    client.refusing = refusing
    cluster = Cluster(client, b"archive", Config(), BatchOptions(tries=1), told.append)
    try:
        await cluster.begin()
        yield cluster, client, told
    finally:
        await cluster.close()


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lmtui.features.batch.cluster._LOOK_S", 0.01)


async def test_a_task_whose_worker_dies_is_done_by_one_that_joins_later() -> None:
    async with cluster_of({"a": "die"}) as (cluster, client, told):
        working = asyncio.ensure_future(cluster.run(TASK, 1))
        await asyncio.sleep(0.1)
        client.does["b"] = DONE
        result, patch = await working
        assert (result.status, patch, told) == ("green", b"patch", ["worker a was lost"])
        assert (("b", "check_worker") in client.asked, cluster.slots) == (True, 1)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(cluster.free([TASK.id]), 0.05)  # its slot is for this one


async def test_a_task_that_kills_three_workers_or_that_a_worker_cannot_run_has_failed_and_the_batch_goes_on() -> None:
    async with cluster_of({"a": "die", "b": "die", "c": "die", "d": "die"}) as (cluster, client, _):
        result, _ = await cluster.run(TASK, 1)
        assert (result.id, result.status) == ("a-1", "failed")
        assert "3 workers died" in result.error
        assert (list(client.does), len(client.cancelled)) == (["d"], 3)
    async with cluster_of({"a": MemoryError("none left")}) as (cluster, _, _):
        result, _ = await cluster.run(TASK, 1)
        assert (result.status, result.error) == ("failed", "the worker failed: MemoryError: none left")


async def test_a_worker_that_refuses_gets_no_more_tasks() -> None:
    full = WorkerAnswer(refused="its disk is full")
    async with cluster_of({"a": full, "b": DONE, "c": DONE}, c="it has lmtui 0.1") as (cluster, client, told):
        assert (await cluster.run(TASK, 1))[0].status == "green"
        assert (await cluster.run(TASK, 2))[0].status == "green"
        assert sorted(told) == ["worker a gets no tasks: its disk is full", "worker c gets no tasks: it has lmtui 0.1"]
        assert (cluster.slots, len(client.cancelled)) == (1, 3)


async def test_without_a_scheduler_or_a_worker_the_batch_ends_clearly(monkeypatch: pytest.MonkeyPatch) -> None:
    async with cluster_of({"a": "lose"}) as (cluster, _, _):
        with pytest.raises(LmtuiError, match="lost the cluster: "):
            await cluster.run(TASK, 1)
    monkeypatch.setattr("lmtui.features.batch.cluster._NO_WORKER_S", 0.05)
    async with cluster_of({"a": "die"}) as (cluster, _, _):
        with pytest.raises(LmtuiError, match="no worker of the cluster is left"):
            await cluster.run(TASK, 1)
    with pytest.raises(UsageError, match="no worker of the cluster can run tasks"):
        async with cluster_of({"a": DONE}, a="it has lmtui 0.1"):
            pass


@pytest.mark.bubblewrap
@pytest.mark.full
async def test_lmtui_under_a_worker_stops_when_its_standard_input_closes(archive: bytes, tmp_path: Path) -> None:
    (tmp_path / "tasks.txt").write_text("do it\n")
    async with ScriptedServer(Scenario((ScriptedTurn("word " * 500, rate=0.2),))) as server:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "lmtui.features.batch.cluster_worker", "batch", str(tmp_path / "tasks.txt")),
            *("--sandbox", "bubblewrap", "-c", f'servers=["{server.url}"]'),
            cwd=tmp_path / "work",
            stdin=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        assert process.stdin is not None
        await until(lambda: server.requests)
        process.stdin.close()  # as the death of the worker does
        try:
            async with asyncio.timeout(PATIENCE_S):
                assert await process.wait() == 130
        finally:
            if process.returncode is None:
                process.kill()


def test_workers_are_started_so_that_they_ignore_interrupts() -> None:
    before = signal.getsignal(signal.SIGINT)
    with cluster._ignoring_interrupts():
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    assert signal.getsignal(signal.SIGINT) is before
