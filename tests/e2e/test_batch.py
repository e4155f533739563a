from __future__ import annotations

import json
import signal
import socket
from typing import Any

import pytest

from lmtui.models.demo_scripts import Scenario, ScriptedCall, ScriptedFault, ScriptedTurn
from tests.e2e.conftest import Program, Serve
from tests.waiting import until


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
    (file,) = program.state.glob("batches/*/results.jsonl")
    return [json.loads(line) for line in file.read_text().splitlines()]


async def test_each_task_leaves_a_result_and_a_diff_and_the_folder_as_it_was(program: Program, serve: Serve) -> None:
    servers = [await serve(*(scenario(number, rate=100.0) for number in range(1, 5))) for _ in range(2)]
    found = await program.run(*base(*(server.url for server in servers)), tasks(program, 4, "{broken"))
    assert found.code == 0, found.err
    assert "line 5: not valid JSON" in found.err
    assert "4 of 4 done · 0 failed" in found.err
    assert "`lmtui batch apply --all` applies them" in found.err
    assert all(server.requests for server in servers)
    assert sorted(each["id"] for each in results(program)) == ["t1", "t2", "t3", "t4"]
    assert {each["status"] for each in results(program)} == {"unverified"}
    (folder,) = program.state.glob("batches/*")
    assert not (program.workspace / ".lmagent" / "batches").exists()
    assert "+3\n" in (folder / "diffs" / "t3.patch").read_text()
    assert not (program.workspace / "out").exists()
    status = await program.run("batch", "status")
    assert status.out.splitlines()[-1] == f"4 of 4 done · 0 failed · 4 to review · results: {folder}"


async def test_a_killed_batch_is_resumed_where_the_flag_says_and_does_nothing_twice(program: Program, serve: Serve) -> None:
    server = await serve(*(scenario(number, rate=20.0) for number in range(1, 6)))
    process = await program.start(*base(server.url), tasks(program, 5))
    await until(lambda: list(program.state.glob("batches/*/results.jsonl")) and len(results(program)) >= 2)
    process.send_signal(signal.SIGKILL)
    await process.wait()
    before = [each["id"] for each in results(program)]
    (options,) = program.state.glob("batches/*/batch.json")
    options.write_text(json.dumps(json.loads(options.read_text()) | {"cluster": "tcp://127.0.0.1:9"}))
    found = await program.run("batch", "resume", "--sandbox", "bubblewrap", "-c", f'servers=["{server.url}"]')
    assert found.code == 0, found.err
    ids = [each["id"] for each in results(program)]
    assert ids[: len(before)] == before
    assert sorted(ids) == ["t1", "t2", "t3", "t4", "t5"]


async def test_a_cluster_of_real_workers_does_the_same_as_this_machine(program: Program, serve: Serve) -> None:
    (program.workspace / "a.py").write_text("x = 1\n")
    (program.workspace / ".env").write_text("KEY=secret\n")
    server = await serve(*(scenario(number) for number in range(1, 4)))
    file = tasks(program, 3)
    local = await program.run(*base(server.url), file)
    found = await program.run(*base(server.url), "--cluster", "local", "--workers", "2", file)
    assert (local.code, found.code) == (0, 0), found.err
    here, there = sorted((program.state / "batches").iterdir())
    for number in range(1, 4):
        patch = f"diffs/t{number}.patch"
        assert (here / patch).read_bytes() == (there / patch).read_bytes()
    by_id = [
        {each["id"]: each for each in map(json.loads, (out / "results.jsonl").read_text().splitlines())}
        for out in (here, there)
    ]
    for name in ("status", "files", "added", "removed", "diff", "checks", "task"):
        assert {key: each[name] for key, each in by_id[0].items()} == {key: each[name] for key, each in by_id[1].items()}
    assert [*(program.home / "state" / "workspaces").iterdir()] == [program.state], "a worker leaves no state of its copy"


async def test_changes_are_applied_whole_or_not_at_all_and_what_is_in_the_way_is_named(program: Program, serve: Serve) -> None:
    (program.workspace / "shared.txt").write_text("old\n")
    writes = [ScriptedCall("write", {"path": "shared.txt", "content": f"{number}\n"}) for number in (1, 2)]
    turns = [(ScriptedTurn("I write.", calls=(call,)), ScriptedTurn("All is done.")) for call in writes]
    same = [Scenario(each, match=f"number {number};") for number, each in enumerate(turns, 1)]
    server = await serve(*same, scenario(3), scenario(4))
    found = await program.run(*base(server.url), "--json", tasks(program, 4))
    assert found.code == 0, found.err
    assert [each["id"] for each in found.events] == ["t1", "t2", "t3", "t4"]
    apply = ("batch", "apply", "--sandbox", "bubblewrap")
    every = await program.run(*apply, "--all")
    assert every.code == 0, every.err
    assert "2 of 2 applied" in every.err
    assert (program.workspace / "out" / "4.txt").read_text() == "4\n"
    assert (program.workspace / "shared.txt").read_text() == "old\n"
    both = await program.run(*apply, "t2", "t1")
    assert both.code == 1
    assert "it no longer applies: patch failed: shared.txt:1" in both.out
    assert "Already accepted, with changes to the same files: t2." in both.out
    assert (program.workspace / "shared.txt").read_text() == "2\n"
    assert (await program.run(*apply)).code == 64


async def test_a_batch_that_a_folder_brings_is_neither_resumed_nor_shown_nor_applied(program: Program) -> None:
    with socket.create_server(("127.0.0.1", 0)) as scheduler:
        address = f"tcp://127.0.0.1:{scheduler.getsockname()[1]}"
        brought = program.workspace / ".lmagent" / "batches" / "20990101_000000"
        (brought / "diffs").mkdir(parents=True)
        (brought / "batch.json").write_text(json.dumps({"cluster": address}))
        (brought / "tasks.jsonl").write_text('{"id": "1", "task": "x"}\n')
        (brought / "results.jsonl").write_text('{"id": "1", "status": "green", "diff": "diffs/1.patch", "files": ["a.txt"]}\n')
        (brought / "diffs" / "1.patch").write_text("--- /dev/null\n+++ b/a.txt\n@@ -0,0 +1 @@\n+theirs\n")
        names = ((), (brought.name,), (str(brought),), ("..",))
        for action in ("resume", "status", "apply"):
            for words in names:
                found = await program.run("batch", action, *words, *(["--all"] if action == "apply" else []))
                assert found.code == 64, (action, words, found)
        assert not (program.workspace / "a.txt").exists()
        scheduler.settimeout(0.1)
        with pytest.raises(TimeoutError):
            scheduler.accept()
