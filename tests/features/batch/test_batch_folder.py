from __future__ import annotations

import asyncio
import json
import stat
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmtui.core.budgets import SessionBudget
from lmtui.core.errors import Fault, UsageError
from lmtui.core.events import CheckSummary, TurnEnded, TurnReason
from lmtui.core.offers import Offers
from lmtui.features.attempt_values import Attempt
from lmtui.features.batch import batch_runner
from lmtui.features.batch.batch_folder import BatchFolder, find_batch, new_batch
from lmtui.features.batch.batch_runner import BatchRunner
from lmtui.features.batch.service import BatchService
from lmtui.features.batch.task_file import MOST_TASKS, BatchTask, decoded, read_tasks
from lmtui.features.batch.values import BatchOptions, TaskResult
from lmtui.paths import batches_dir
from lmtui.sandbox.host_paths import make_for_owner
from tests.sets import for_each
from tests.waiting import PATIENCE_S

TASKS = [BatchTask("1", "Fix a.py", ("a.py",), ("pytest -q",)), BatchTask("2", "Fix\nb.py")]


@pytest.fixture
def folder(tmp_path: Path) -> BatchFolder:
    found = BatchFolder(tmp_path / "out")
    found.begin(TASKS, {"tries": 2})
    return found


def test_a_result_is_one_line_with_its_patch_and_the_last_one_counts(folder: BatchFolder, tmp_path: Path) -> None:
    patch = tmp_path / "x.patch"
    patch.write_text("diff --git a/a.py b/a.py\n")
    result = TaskResult("1", "red", "Fix a.py", ("a.py",), 1, 0, checks={"tests": "failed"})
    assert folder.add(result) == result
    kept = folder.add(replace(result, status="green", tries=2), patch.read_bytes())
    assert kept.diff == "diffs/1.patch"
    assert (folder.path / kept.diff).read_text() == patch.read_text()
    found = folder.results()
    assert (found["1"].status, found["1"].tries, found["1"].diff) == ("green", 2, "diffs/1.patch")
    assert len((folder.path / "results.jsonl").read_text().splitlines()) == 2


def test_only_one_process_works_on_a_batch(folder: BatchFolder) -> None:
    folder.lock()
    with pytest.raises(UsageError, match="another lmtui process is working on"):
        BatchFolder(folder.path).lock()
    folder.unlock()
    other = BatchFolder(folder.path)
    other.lock()
    other.unlock()


def test_a_line_that_was_torn_or_of_a_later_version_costs_no_other_and_results_are_read_on(folder: BatchFolder) -> None:
    folder.add(TaskResult("1", "green"))
    with (folder.path / "results.jsonl").open("a") as file:
        file.write(json.dumps({"id": "2", "status": "green", "new_field": 1}) + '\n[]\n{"id": "1", "sta')
    folder.add(TaskResult("3", "red"))
    found = BatchFolder(folder.path).results()
    assert {name: each.status for name, each in found.items()} == {"1": "green", "2": "green", "3": "red"}


def test_results_are_read_on_from_where_they_were_read_and_none_is_lost(folder: BatchFolder) -> None:
    folder.add(TaskResult("1", "red"))
    before = folder.results()["1"]
    with (folder.path / "results.jsonl").open("a") as file:
        file.write(json.dumps({"id": "2", "status": "green"}))
    assert set(folder.results()) == {"1"}
    folder.add(TaskResult("1", "green"))
    assert {name: each.status for name, each in folder.results().items()} == {"1": "green", "2": "green"}
    assert folder.results()["1"] is not before
    assert folder.results()["1"] is folder.results()["1"]
    names = [str(number) for number in range(50)]
    with ThreadPoolExecutor(16) as threads:
        list(threads.map(lambda name: BatchFolder(folder.path).add(TaskResult(name, "green", "t" * 200)), names))
    assert sorted(folder.results()) == sorted(names)


def test_tasks_and_options_are_read_as_they_were_written_whatever_separators_and_names_are_in_them(tmp_path: Path) -> None:
    odd = BatchTask("3", "Fix caf\udce9.py", ("caf\udce9.py",))
    tasks = [BatchTask("1", "one\u2028two\x85three\nfour", checks=("pytest -q",)), odd]
    folder = BatchFolder(tmp_path / "other")
    folder.begin(tasks, {"tries": 2})
    assert folder.read() == (tasks, {"tries": 2})


@for_each(
    "odd", [{"id": ["1"]}, {"status": "\x1b[2J"}, {"files": 5}, {"elapsed_s": "long"}, {"added": 1e400}, {"checks": "all"}]
)
def test_a_result_that_is_none_is_left_out(folder: BatchFolder, odd: dict[str, Any]) -> None:
    with (folder.path / "results.jsonl").open("a") as file:
        file.write(json.dumps({"id": "1", "status": "green"} | odd) + "\n" + "[" * 100_000 + "\n")
    assert {each.status for each in folder.results().values() if each.id == "1"} == set()


def test_texts_of_results_cannot_write_to_the_terminal(folder: BatchFolder) -> None:
    bad = "a\x1b]0;x\x07"
    folder.add(
        TaskResult("1", "red", bad, (bad,), diff=bad, session=bad, model=bad, checks={bad: bad}, error=bad, decision=bad)
    )
    assert r"\x1b" not in repr(asdict(folder.results()["1"]))


@for_each("odd", ['{"id": "../../x", "text": "do it", "files": [], "checks": []}', '{"id": "1"}', "[" * 100_000])
def test_tasks_that_lmtui_would_not_write_are_refused(folder: BatchFolder, odd: str) -> None:
    (folder.path / "tasks.jsonl").write_text(odd + "\n")
    with pytest.raises(UsageError, match="cannot be read"):
        folder.read()


def test_a_batch_that_comes_with_the_folder_is_none(folder: BatchFolder, tmp_path: Path) -> None:
    for name in (str(folder.path), folder.path.name, "../out"):
        with pytest.raises(UsageError, match="has no batch"):
            find_batch(tmp_path, name)


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
        is_red, checks = fault == "red", (CheckSummary("lint", 0, 1.0), CheckSummary("pytest -q", 1, 1.0))
        end = TurnEnded(turn_id="t", reason=reason, exit_code=0 if is_red else 1, fault=fault, checks=checks)
        end = replace(end, error="" if is_red else fault)
        return Attempt(1, end=end, failing=is_red)

    def spent_of(self, attempt: Attempt) -> SessionBudget:
        del attempt
        return SessionBudget(0, 1, 0.0)

    async def close(self) -> None:
        await asyncio.sleep(0)


async def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: Any, tries: int = 2) -> Sequence[str]:
    monkeypatch.setattr(batch_runner, "_FIRST_WAIT_S", 0.0)
    folder = BatchFolder(tmp_path)
    tasks = [BatchTask("1", "do it")]
    folder.begin(tasks, {})
    host.go.set()
    async with asyncio.timeout(PATIENCE_S):
        await BatchRunner(host, folder, BatchOptions(tries=tries)).run(tasks)
    results = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()]
    assert all(each["error"].endswith(": pytest -q") == (each["status"] == "red") for each in results)
    return [each["status"] for each in results]


@for_each(("faults", "tries", "told"), [
    ((Fault.CUT,), 1, [*["unreachable"] * 4, "failed"]),
    ((*[Fault.UNREACHABLE] * 20, "red"), 1, [*["unreachable"] * 20, "red"]),
    (("red", Fault.UNREACHABLE, "red"), 2, ["unreachable", "red"]),
])  # fmt: skip
async def test_a_task_waits_for_a_server_as_long_as_none_answers_and_fails_where_it_breaks_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, faults: tuple[str, ...], tries: int, told: list[str]
) -> None:
    assert await run(tmp_path, monkeypatch, FakeHost(*faults), tries=tries) == told


async def test_of_two_batches_that_begin_at_once_the_second_is_left_free(tmp_path: Path) -> None:
    host: Any = FakeHost("")
    host.workspace = tmp_path
    extensions = Offers()
    service = BatchService(host, extensions)
    folders = [BatchFolder(batches_dir(tmp_path) / name) for name in ("one", "two")]
    for folder in folders:
        folder.begin([BatchTask("1", "do it")], {})
    found = await asyncio.gather(*(service.resume(str(each.path), "") for each in folders), return_exceptions=True)
    assert sorted(isinstance(each, UsageError) for each in found) == [False, True]
    assert sorted(each.is_locked() for each in folders) == [False, True]
    await service.stop()
    assert not any(each.is_locked() for each in folders)


def test_a_line_is_an_object_a_text_or_a_json_text_and_ends_at_a_newline_alone() -> None:
    one = '{"id": "a-1", "task": "Fix a.py", "files": ["a.py"], "checks": "pytest -q"}'
    tasks, problems = read_tasks(f'{one}\n{{"task": "Fix b.py", "repo": "c"}}\n"Fix c.py"\n')
    assert tasks == [
        BatchTask("a-1", "Fix a.py", ("a.py",), ("pytest -q",)), BatchTask("2", "Fix b.py"),
        BatchTask("3", "Fix c.py"),
    ]  # fmt: skip
    assert problems == []
    tasks, problems = read_tasks('{"task": "one\u2028two"}\r\nthree\x0bfour')
    assert ([task.text for task in tasks], problems) == (["one\u2028two", "three\x0bfour"], [])


@for_each(("line", "words"), [
    ("{broken", "line 2: not valid JSON"), ("[1, 2]", "line 2: A line is text"),
    ('{"task": 3}', "line 2: no task text"), ('{"task": " "}', "line 2: no task text"),
    ('{"task": "x", "id": "../x"}', "line 2: the id '../x' may only contain"),
    ('{"task": "x", "checks": [1]}', "line 2: checks must be a list of strings"),
    ('{"task": "x", "chekcs": []}', "line 2: unknown key 'chekcs'; did you mean 'checks'?"),
    ("[" * 100_000, "line 2: not valid JSON"),
])  # fmt: skip
def test_a_broken_line_is_named_and_the_others_are_taken(line: str, words: str) -> None:
    tasks, problems = read_tasks(f"one\n{line}\nthree")
    assert ([task.text for task in tasks], len(problems)) == (["one", "three"], 1)
    assert problems[0].startswith(words)


@given(
    st.lists(st.one_of(st.text(max_size=40), st.builds(json.dumps, st.dictionaries(st.text(max_size=5), st.text(max_size=5)))))
)
def test_any_text_is_read_and_every_line_is_a_task_or_a_problem(lines: list[str]) -> None:
    text = "\n".join(lines)
    try:
        tasks, problems = read_tasks(text)
    except UsageError:
        return
    assert len(tasks) + len(problems) == sum(
        bool(line.strip()) for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    )


def test_a_file_that_is_no_text_or_too_large_is_refused_and_ten_thousand_tasks_are_the_most(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("lmtui.features.batch.task_file.MOST_BYTES", 1_048_576)
    large = b"a" * 1_048_577, "x is larger than 1 MiB"
    for data, words in ((b"\xff\xfe\x00", "x is not UTF-8 text"), (b"a\0b", "x is not a text file"), large):
        with pytest.raises(UsageError, match=words):
            decoded(data, "x")
    lines = "\n".join(f"do {number}" for number in range(MOST_TASKS))
    assert len(read_tasks(lines)[0]) == MOST_TASKS
    with pytest.raises(UsageError, match="more than 10,000 tasks"):
        read_tasks(f"{lines}\none more\nand more")


def test_what_batches_keep_is_only_for_their_user(tmp_path: Path) -> None:
    assert stat.S_IMODE(new_batch(tmp_path, (), {}).path.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(make_for_owner(tmp_path / "state/overlays/ID", tmp_path).stat().st_mode) == 0o700
