from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path
from typing import Any

from lmtui.models.demo_scripts import FaultKind, Scenario, ScriptedCall, ScriptedFault, ScriptedTurn
from tests.e2e.conftest import Program, Serve


def scenario(number: int, *, rate: float = 0.0, fault: ScriptedFault | None = None) -> Scenario:
    call = ScriptedCall("write", {"path": f"out/{number}.txt", "content": f"{number}\n"})
    words = " ".join(["word"] * 10)
    turns = (ScriptedTurn(words, calls=(call,), rate=rate, fault=fault), ScriptedTurn("All is done."))
    return Scenario(turns, match=f"number {number};")


def tasks(program: Program, count: int, *more: str) -> str:
    file = program.home / "tasks.jsonl"
    file.parent.mkdir(exist_ok=True)
    lines = [json.dumps({"id": f"t{number}", "task": f"do number {number};"}) for number in range(1, count + 1)]
    file.write_text("\n".join([*lines, *more]))
    return str(file)


def base(*urls: str) -> tuple[str, ...]:
    return ("batch", "--sandbox", "bubblewrap", "--tries", "1", "-c", f"servers={json.dumps(urls)}")


def results(program: Program) -> list[dict[str, Any]]:
    (file,) = program.workspace.glob(".lmagent/batches/*/results.jsonl")
    return [json.loads(line) for line in file.read_text().splitlines()]


async def test_each_task_leaves_a_result_and_a_diff_and_the_folder_as_it_was(program: Program, serve: Serve) -> None:
    servers = [await serve(*(scenario(number, rate=100.0) for number in range(1, 5))) for _ in range(2)]
    found = await program.run(*base(*(server.url for server in servers)), tasks(program, 4, "{broken"))
    assert found.code == 0, found.err
    assert "line 5: not valid JSON" in found.err
    assert "4 of 4 done · 0 failed" in found.err
    assert all(server.requests for server in servers)
    assert sorted(each["id"] for each in results(program)) == ["t1", "t2", "t3", "t4"]
    assert {each["status"] for each in results(program)} == {"unverified"}
    (folder,) = program.workspace.glob(".lmagent/batches/*")
    assert "+3\n" in (folder / "diffs" / "t3.patch").read_text()
    assert not (program.workspace / "out").exists()
    status = await program.run("batch", "status")
    assert status.out.splitlines()[-1] == "4 of 4 done · 0 failed · 0 waiting"


async def test_a_killed_batch_is_resumed_and_does_nothing_twice(program: Program, serve: Serve) -> None:
    server = await serve(*(scenario(number, rate=20.0) for number in range(1, 6)))
    process = await program.start(*base(server.url), tasks(program, 5))
    async with asyncio.timeout(60):
        while not list(program.workspace.glob(".lmagent/batches/*/results.jsonl")) or len(results(program)) < 2:
            await asyncio.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    await process.wait()
    before = [each["id"] for each in results(program)]
    found = await program.run("batch", "resume", "--sandbox", "bubblewrap", "-c", f'servers=["{server.url}"]')
    assert found.code == 0, found.err
    ids = [each["id"] for each in results(program)]
    assert ids[: len(before)] == before
    assert sorted(ids) == ["t1", "t2", "t3", "t4", "t5"]


async def test_a_box_that_vanishes_in_the_middle_loses_no_task(program: Program, serve: Serve) -> None:
    gone = ScriptedFault(FaultKind.CUT, after_pieces=2)
    broken = await serve(*(scenario(number, rate=50.0, fault=gone) for number in range(1, 5)))
    good = await serve(*(scenario(number, rate=50.0) for number in range(1, 5)))
    found = await program.run(*base(broken.url, good.url), tasks(program, 4))
    assert found.code == 0, found.err
    assert sorted(each["id"] for each in results(program)) == ["t1", "t2", "t3", "t4"]
    assert broken.requests


async def test_a_task_for_each_file_and_clear_errors(program: Program, serve: Serve) -> None:
    for name in ("a.py", "b.py"):
        (program.workspace / name).write_text("x = 1\n")
    server = await serve(ScriptedTurn("Nothing to do."), ScriptedTurn("Nothing to do."))
    found = await program.run(*base(server.url), "--glob", "*.py", "Look at {file}")
    assert found.code == 1
    assert [(each["status"], each["task"]) for each in sorted(results(program), key=lambda each: str(each["id"]))] == [
        ("unchanged", "Look at a.py"),
        ("unchanged", "Look at b.py"),
    ]
    for arguments, words in (
        (("batch",), "name one file of tasks"),
        (("batch", str(Path("/nowhere"))), "cannot be read"),
        (("batch", "--glob", "*.none", "Look at {file}"), "no file matches"),
        (("batch", "resume", "elsewhere"), "has no batch"),
        (("batch", "--total", "much", "x"), "cannot be read"),
    ):
        bad = await program.run(*arguments)
        assert bad.code == 64, (arguments, bad.err)
        assert words in bad.err


async def test_a_cluster_of_real_workers_does_the_same_as_this_machine(program: Program, serve: Serve) -> None:
    (program.workspace / "a.py").write_text("x = 1\n")
    (program.workspace / ".env").write_text("KEY=secret\n")
    server = await serve(*(scenario(number) for number in range(1, 4)))
    file = tasks(program, 3)
    local = await program.run(*base(server.url), "--out", "here", file)
    found = await program.run(*base(server.url), "--out", "there", "--cluster", "local", "--workers", "2", file)
    assert (local.code, found.code) == (0, 0), found.err
    here, there = (program.workspace / name for name in ("here", "there"))
    for number in range(1, 4):
        patch = f"diffs/t{number}.patch"
        assert (here / patch).read_bytes() == (there / patch).read_bytes()
    by_id = [
        {each["id"]: each for each in map(json.loads, (out / "results.jsonl").read_text().splitlines())}
        for out in (here, there)
    ]
    for name in ("status", "files", "added", "removed", "diff", "checks", "task"):
        assert {key: each[name] for key, each in by_id[0].items()} == {key: each[name] for key, each in by_id[1].items()}
    (copy,) = (program.home / "state" / "cluster").iterdir()
    assert (copy / "a.py").read_text() == "x = 1\n"
    assert not (copy / ".env").exists()


async def test_a_scheduler_that_is_not_there_and_a_worker_without_a_sandbox_are_named(program: Program, serve: Serve) -> None:
    server = await serve(scenario(1))
    gone = await program.run(*base(server.url), "--out", "one", "--cluster", "tcp://127.0.0.1:9", tasks(program, 1))
    assert gone.code == 64
    assert "no Dask scheduler answers at tcp://127.0.0.1:9" in gone.err
    reduced = (*base(server.url), "--sandbox", "landlock")
    found = await program.run(*reduced, "--out", "two", "--cluster", "local", "--workers", "1", tasks(program, 1))
    assert found.code == 64, found.err
    assert "gets no tasks: no sandbox with overlays works there" in found.err
    assert not server.requests
