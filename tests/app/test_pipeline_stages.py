"""What each stage of a pipeline refuses, and how it goes on: reviewer, integrator, a full disk, a server that is away."""

from __future__ import annotations

import asyncio
import json
import subprocess
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lmtui.core.errors import SandboxError
from lmtui.features.pipeline.plan_queue import PipelineFile
from lmtui.features.pipeline.runner import CommitTrace, RunOptions
from lmtui.features.pipeline.values import Merge, PipelinePlan, PipelineState, PipelineTask, TaskAttempt, TaskSpec
from lmtui.models.demo_scripts import Scenario, ScriptedCall, ScriptedTurn
from lmtui.models.scripted_server import ScriptedServer
from tests.app.conftest import Open
from tests.app.test_pipeline import plan_of, service_of, states, worked

SETTINGS: dict[str, Any] = {"sandbox": "bubblewrap", "verify": "off", "plan_commits": "off"}
REVIEWER = ("reviewer: scripted",)
DONE = ScriptedTurn("It is done.")


def does(match: str, command: str, seed: int | None = None) -> Scenario:
    """Return a conversation about a task in which a command is run; with a seed, that of the attempt with this number."""
    turns = (ScriptedTurn("I do it.", calls=(ScriptedCall("shell", {"command": command}),)), *[DONE] * 6)
    return Scenario(turns, match=match, seed=seed, name=f"{match} {seed}")


def review(match: str, verdict: str, message: str, severity: str = "major") -> Scenario:
    """Return what the reviewer says of a diff with these words."""
    found = {"severity": severity, "file": "a.txt", "line": 1, "message": message, "confidence": 0.9}
    answer = {"verdict": verdict, "findings": [found], "summary": "looked at"}
    return Scenario((ScriptedTurn(json.dumps(answer)),), match=match)


def contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Return each file of a folder with its bytes and mode, without what lmtui keeps there."""
    own = (".lmagent", "plans")
    files = (path for path in folder.rglob("*") if path.is_file() and path.relative_to(folder).parts[0] not in own)
    return {str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mode) for path in files}


def stages(plan: PipelinePlan, number: int) -> list[str]:
    return [each.stage for each in plan.task(number).attempts]


def prompts(server: ScriptedServer) -> list[str]:
    """Return the user messages of all requests."""
    bodies = (each.body for each in server.requests)
    return [str(each["content"]) for body in bodies for each in body["messages"] if each["role"] == "user"]


@pytest.mark.full
@pytest.mark.parametrize(
    ("gate", "verdict", "severity"),
    [("strict", "REJECTED", "major"), ("standard", "APPROVED", "critical")],
)
async def test_a_change_that_the_reviewer_rejects_is_not_merged_and_tried_again(
    gate: str, verdict: str, severity: str, open_one: Open, workspace: Path
) -> None:
    rejected = review("+bad", verdict, "the text is bad", severity)
    scripts = (rejected, review("+good", "APPROVED", "fine"), does("Write a.txt", "echo good > a.txt", 2))
    async with ScriptedServer(*scripts, does("Write a.txt", "echo bad > a.txt")) as server:
        (workspace / "PLAN.md").write_text(plan_of("a.txt"))
        service = service_of(open_one(server.url, **SETTINGS, roles=REVIEWER, gate=gate))
        seen: set[bytes] = set()
        file = workspace / "a.txt"
        service.follow_changes(lambda: seen.add(file.read_bytes() if file.exists() else b""))
        plan = await service.work("PLAN.md", service.options())
        told = prompts(server)
    assert (plan.is_done, stages(plan, 1), file.read_bytes()) == (True, ["reviewer", ""], b"good\n"), plan
    assert seen == {b"", b"good\n"}
    again = [each for each in told if "An earlier attempt at this task failed (reviewer)" in each]
    assert again
    assert all("the text is bad" in each for each in again)


SUM = "python3 -c \"import glob; assert sum(int(open(each).read()) for each in glob.glob('*.n')) <= 10\""
AT_MOST_TEN = f"""# Numbers

- [ ] Write a number to a.n
  check: test -s a.n
- [ ] Write a number to b.n
  check: test -s b.n
  check: {SUM}
"""


@pytest.mark.full
async def test_a_change_that_fails_with_what_was_merged_meanwhile_is_undone_to_the_byte(
    open_one: Open, workspace: Path
) -> None:
    (workspace / "old.bin").write_bytes(b"\xff\x00 old\r\n")
    (workspace / "gone.txt").write_text("to be removed")
    (workspace / "run.sh").write_text("true\n")
    also = "echo new > old.bin; rm gone.txt; chmod 755 run.sh; mkdir -p deep/er; echo x > deep/er/x.txt"
    scripts = (
        does("number to a.n", "echo 6 > a.n"),
        does("number to b.n", "echo 4 > b.n", 2),
        does("number to b.n", f"echo 5 > b.n; {also}"),
    )
    before = contents(workspace)
    async with ScriptedServer(*scripts) as server:
        (workspace / "PLAN.md").write_text(AT_MOST_TEN)
        before |= contents(workspace)
        service = service_of(open_one(server.url, **SETTINGS))
        undone: list[dict[str, tuple[bytes, int]]] = []

        def look() -> None:
            if service.known and stages(service.known[0], 2) == ["integrator"] and not undone:
                undone.append(contents(workspace))

        service.follow_changes(look)
        plan = await service.work("PLAN.md", replace(service.options(), batch=2))
    assert (plan.is_done, stages(plan, 1), stages(plan, 2)) == (True, [""], ["integrator", ""]), plan
    assert "after other tasks were merged" in plan.task(2).attempts[0].findings[0]
    assert undone[0].pop("a.n")[0] == b"6\n"
    assert undone[0] == before
    assert ((workspace / "b.n").read_text(), (workspace / "old.bin").read_bytes()) == ("4\n", b"\xff\x00 old\r\n")


def repeats(match: str, command: str) -> Scenario:
    """Return a conversation in which a command is run again and again, which never gets anywhere."""
    turns = (ScriptedTurn(f"Step {n}.", calls=(ScriptedCall("shell", {"command": f"{command} # {n}"}),)) for n in range(40))
    return Scenario(tuple(turns), match=match)


@pytest.mark.parametrize("budget", ["3 steps", "1 tokens", "3 steps 900000 tokens"])
@pytest.mark.full
async def test_an_attempt_ends_when_its_budget_is_used_up(open_one: Open, workspace: Path, budget: str) -> None:
    text = f"- [ ] Write a.txt\n  check: test -s a.txt\n  budget: {budget}\n"
    async with ScriptedServer(repeats("Write a.txt", "date +%N >> other.txt")) as server:
        _, plan = await worked(open_one, server.url, workspace, text, **SETTINGS)
        first = sum("An earlier attempt" not in each for each in prompts(server) if each.startswith("Write a.txt."))
        told = prompts(server)
    named = budget.replace("1 tokens", "1 token").replace(" 900000", ", 900,000")
    assert [each.findings for each in plan.task(1).attempts] == [(f"budget exhausted: {named}",)] * 3
    assert (stages(plan, 1), plan.task(1).why) == (["coder"] * 3, "3 attempts failed: coder")
    assert any(f"failed (coder):\n- budget exhausted: {named}" in each for each in told)
    assert first == (1 if budget == "1 tokens" else 3)
    assert not (workspace / "other.txt").exists()


@pytest.mark.full
async def test_work_that_passes_its_checks_is_kept_though_the_budget_ended_it(open_one: Open, workspace: Path) -> None:
    text = "- [ ] Write a.txt\n  check: test -s a.txt\n  budget: 1 step\n"
    async with ScriptedServer(repeats("Write a.txt", "echo a > a.txt")) as server:
        _, plan = await worked(open_one, server.url, workspace, text, **SETTINGS)
    assert (plan.is_done, stages(plan, 1), (workspace / "a.txt").read_text()) == (True, [""], "a\n"), plan


@pytest.mark.full
async def test_a_task_that_ends_leaves_a_checkpoint(open_one: Open, workspace: Path) -> None:
    for words in (["init", "-q"], ["config", "user.name", "A"], ["config", "user.email", "a@example.org"]):
        subprocess.run(["git", *words], cwd=workspace, check=True)
    text = plan_of("a.txt", "b.txt") + "- [ ] Write c.txt\n  after: 2\n- [ ] Write d.txt\n  after: 1\n"
    answer = ScriptedTurn("I wrote it.\n# As you wanted")
    call = ScriptedCall("shell", {"command": "echo a > a.txt"})
    script = Scenario((ScriptedTurn("I do it.", calls=(call,)), *[answer] * 6), match="Write a.txt")
    folder = workspace / "plans/PLAN/tasks"
    async with ScriptedServer(script, does("Write b.txt", "echo b > x.txt"), does("Write d.txt", "echo d > d.txt")) as server:
        (workspace / "PLAN.md").write_text(text)
        service = service_of(open_one(server.url, **{**SETTINGS, "plan_commits": "on"}))
        plan = await service.work("PLAN.md", service.options())
    assert states(plan) == ["done", "failed", "failed", "done"]
    first, second = plan.task(1).attempts[0], plan.task(2).attempts[0]
    done = (folder / "1.md").read_text()
    assert done == (
        f"# Task 1: Write a.txt\n\ndone, {first.tokens:,} tokens, {first.elapsed_s:.0f} s\n"
        f"\n## Done\n\n- attempt 1: passed, +1 −0 (session {first.session}, scripted)\n- > I wrote it. # As you wanted\n"
        f"\n## Changed\n\n- `a.txt`\n- commit {plan.task(1).commit}\n"
        "\n## Checks\n\n- `test -s a.txt`: passed\n- goal: passed\n"
        "\n## Next\n\n- nothing\n\n## Blockers\n\n- nothing\n"
    )
    failed = (folder / "2.md").read_text()
    assert "failed: no progress: verifier" in failed
    assert f"- attempt 1: failed at verifier, +1 −0 (session {second.session}, scripted)" in failed
    assert "\n## Changed\n\n- nothing\n\n## Checks\n\n- `test -s b.txt`: not run\n" in failed
    assert "\n## Next\n\n- `lmtui pipeline retry PLAN 2`\n" in failed
    assert "\n## Blockers\n\n- b.txt is not there\n- task 3 waits for it\n" in failed
    assert "failed: task 2 failed" in (folder / "3.md").read_text()


async def test_a_task_from_before_there_were_budgets_is_read(workspace: Path) -> None:
    attempt = TaskAttempt(1, "s", files=("a",), summary="x")
    plan = PipelinePlan("0", "p", "p.md", datetime.now(UTC), (PipelineTask(1, TaskSpec("Do it"), attempts=(attempt,)),))
    file = PipelineFile(workspace)
    file.add(plan)
    with file.writing() as database:
        (data,) = database.execute("SELECT data FROM pipeline WHERE task = 1").fetchone()
        given = json.loads(data)
        for holder, names in ((given["spec"], ("max_steps", "max_tokens")), (given["attempts"][0], ("files", "summary"))):
            for name in names:
                del holder[name]
        database.execute("REPLACE INTO pipeline VALUES (?, ?, ?)", ("0", 1, json.dumps(given)))
    assert file.read()[0].tasks == (replace(plan.tasks[0], attempts=(TaskAttempt(1, "s"),)),)
    file.close()


async def test_a_plan_that_a_task_wrote_is_worked_on_only_by_its_name(open_one: Open, workspace: Path) -> None:
    (workspace / "plans").mkdir()
    (workspace / "plans" / "one.md").write_text("- [ ] Write a.txt\n  check: test -s a.txt\n")
    bred = "printf -- '- [ ] Write b.txt\\n  check: test -s b.txt\\n' > plans/two.md; echo a > a.txt"
    async with ScriptedServer(does("Write a.txt", bred), does("Write b.txt", "echo b > b.txt")) as server:
        service = service_of(open_one(server.url, **SETTINGS))
        told: list[str] = []
        service.on_note = told.append
        plans = await service.watch(replace(service.options(), has_commits=False), is_once=True)
        assert ([each.path for each in plans], (workspace / "b.txt").exists()) == (["plans/one.md"], False)
        assert [each for each in told if each.startswith("plans/two.md: a task wrote this plan.")]
        assert (await service.work("plans/two.md", replace(service.options(), has_commits=False))).is_done


BREED = "printf -- '- [ ] Write b.txt\\n  check: test -s b.txt\\n' > plans/two.md"


@pytest.mark.full
@pytest.mark.parametrize("is_killed", [False, True])
async def test_a_plan_among_many_files_of_a_task_or_of_one_that_was_killed_is_a_tasks_plan(
    open_one: Open, workspace: Path, *, is_killed: bool
) -> None:
    (workspace / "plans").mkdir()
    (workspace / "plans" / "one.md").write_text("- [ ] Write a.txt\n  check: test -s a.txt\n")
    many = "for each in $(seq 60); do echo > d$each; done; echo a > a.txt"
    async with ScriptedServer(does("Write a.txt", f"{many}; {BREED}"), does("Write b.txt", "echo b > b.txt")) as server:
        service = service_of(open_one(server.url, **SETTINGS))
        options = replace(service.options(), has_commits=False)
        plan = await service.work("plans/one.md", options)
        if is_killed:  # while it merged
            state = (await (await service.host.sandbox()).checkpoints.snapshot()).id
            merge = Merge(state, state, ("a.txt", "plans/two.md"))
            task = replace(plan.task(1), state=PipelineState.MERGING, attempts=(), merge=merge)
            PipelineFile(workspace).change(plan.id, lambda _: [task, replace(plan, is_done=False)])
        await service.watch(options, is_once=True)
        await service.watch(options, is_once=True)
        assert not (workspace / "b.txt").exists()


@pytest.mark.full
async def test_what_lmtui_writes_about_a_plan_obeys_a_rule_that_keeps_its_folder(open_one: Open, workspace: Path) -> None:
    (workspace / "PLAN.md").write_text("- [ ] Write a.txt\n  check: test -s a.txt\n")
    async with ScriptedServer(does("Write a.txt", "echo a > a.txt")) as server:
        service = service_of(open_one(server.url, **SETTINGS, deny=("Write(plans/**)",)))
        told: list[str] = []
        service.on_note = told.append
        assert (await service.work("PLAN.md", service.options())).is_done
    assert "PLAN: your rule Write(plans/**) forbids it; nothing was written in its folder" in told
    assert ((workspace / "a.txt").exists(), (workspace / "plans").exists()) == (True, False)


@pytest.mark.full
async def test_what_the_user_changes_while_a_merged_task_is_checked_again_stays(open_one: Open, workspace: Path) -> None:
    mine = workspace / "shared.txt"
    mine.write_text("old\n")
    scripts = (
        does("number to a.n", "echo 6 > a.n"),
        does("number to b.n", "echo 4 > b.n", 2),
        does("number to b.n", "echo 5 > b.n; echo task > shared.txt"),
    )
    (workspace / "PLAN.md").write_text(AT_MOST_TEN)
    async with ScriptedServer(*scripts) as server:
        service = service_of(open_one(server.url, **SETTINGS))
        told: list[str] = []
        service.on_note = told.append

        async def edit() -> None:
            while mine.read_text() != "task\n":
                await asyncio.sleep(0.002)
            mine.write_text("mine\n")

        editing = asyncio.create_task(edit())
        await service.work("PLAN.md", replace(service.options(), batch=2))
        await editing
    assert mine.read_text() == "mine\n"
    assert any(each.startswith("task 2: its changes could not be undone: ") for each in told), told


async def test_what_git_warns_about_and_odd_names_hide_no_file_of_the_users(open_one: Open, workspace: Path) -> None:
    def git(*arguments: str) -> None:
        subprocess.run(["git", *arguments], cwd=workspace, check=True)

    git("init", "-q")
    git("config", "core.fsync", "bogus")
    (workspace / ".gitattributes").write_text("!a b\n")
    names = ("a.txt", "odd\x1bname", *(f"{'d' * 200}/{'e' * 200}{number}" for number in range(199)))
    for name in names:
        (workspace / name).parent.mkdir(exist_ok=True)
        (workspace / name).write_text("mine\n")
    sandbox = await open_one("http://127.0.0.1:9/v1", **SETTINGS).sandbox()
    trace = CommitTrace(sandbox, RunOptions())
    assert await trace.branch()
    assert await trace.uncommitted(names[:9]) == frozenset(names[:9])
    with pytest.raises(SandboxError, match="more than lmtui reads"):
        await trace.uncommitted(names[2:])
    assert "fatal: " in (await sandbox.run_git(["rev-parse", "nothing"])).output
