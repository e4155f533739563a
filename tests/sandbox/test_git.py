from __future__ import annotations

from pathlib import Path

import pytest

from lmtui.core.errors import SandboxError
from lmtui.core.ports import Sandbox
from tests.sandbox.conftest import ISOLATED, WITH_SHELL, fill, git

pytestmark = pytest.mark.git


@pytest.mark.parametrize("sandbox", WITH_SHELL, indirect=True)
async def test_a_repository_is_made_committed_and_read(sandbox: Sandbox, workspace: Path) -> None:
    for arguments in (["init"], ["add", "README.md"], ["commit", "-m", "first"]):
        result = await sandbox.run_git(arguments, writes=True)
        assert result.exit_code == 0, result.output
    log = await sandbox.run_git(["log", "--format=%an <%ae> %s"])
    assert log.output == "lmtui <lmtui@localhost> first\n"
    assert (workspace / ".git/HEAD").read_text() == "ref: refs/heads/main\n"


@pytest.mark.parametrize("sandbox", WITH_SHELL, indirect=True)
async def test_the_repository_s_own_identity_wins(sandbox: Sandbox, workspace: Path) -> None:
    await sandbox.run_git(["init"], writes=True)
    with (workspace / ".git/config").open("a") as config:
        config.write("[user]\n\tname = Ada\n\temail = ada@localhost\n")
    await sandbox.run_git(["add", "."], writes=True)
    await sandbox.run_git(["commit", "-m", "hers"], writes=True)
    assert (await sandbox.run_git(["log", "--format=%an"])).output == "Ada\n"


@pytest.mark.parametrize("sandbox", ISOLATED, indirect=True)
async def test_git_is_read_only_for_commands_as_soon_as_it_exists(sandbox: Sandbox, workspace: Path) -> None:
    await sandbox.run_command("true")
    await sandbox.run_git(["init"], writes=True)
    result = await sandbox.run_command("git add README.md")
    assert result.exit_code != 0
    assert "use the git tools" in result.text
    assert (await sandbox.run_command("touch .git/hooks/pre-commit; mv .git aside; echo x > .git/commondir")).exit_code != 0
    assert not (workspace / ".git/commondir").exists()
    assert (await sandbox.run_command("git status --short")).text == "?? README.md\n?? src/"


@pytest.mark.parametrize("sandbox", ISOLATED, indirect=True)
async def test_a_repository_that_a_command_makes_is_set_aside_and_said(sandbox: Sandbox, workspace: Path) -> None:
    result = await sandbox.run_command("git init -q . && echo evil > .git/hooks/pre-commit")
    assert "was moved to .lmagent/quarantine/" in result.text
    assert not (workspace / ".git").exists()


@pytest.mark.parametrize("sandbox", ISOLATED, indirect=True)
async def test_reading_leaves_git_as_it_was(sandbox: Sandbox, workspace: Path) -> None:
    await sandbox.run_git(["init"], writes=True)
    await sandbox.run_git(["add", "README.md"], writes=True)
    before = (workspace / ".git/index").read_bytes()
    (workspace / "README.md").touch()
    status = await sandbox.run_git(["status", "--porcelain"])
    assert status.output == "A  README.md\n?? src/\n"
    assert (workspace / ".git/index").read_bytes() == before


EVIL_CONFIG = """
[core]
	fsmonitor = "touch OUT"
	hooksPath = .hooks
	pager = "touch OUT; cat"
	editor = "touch OUT"
[diff]
	external = "touch OUT"
[diff "evil"]
	textconv = "touch OUT; cat"
	command = "touch OUT"
[commit]
	gpgSign = true
[gpg]
	program = "touch OUT"
"""


@pytest.mark.parametrize("sandbox", WITH_SHELL, indirect=True)
async def test_a_hostile_configuration_runs_nothing(sandbox: Sandbox, workspace: Path) -> None:
    await sandbox.run_git(["init"], writes=True)
    mark = workspace / "ran"
    target = "/workspace/ran" if (await sandbox.status()).backend != "process" else str(mark)
    with (workspace / ".git/config").open("a") as config:
        config.write(EVIL_CONFIG.replace("OUT", target))
    for folder in (workspace / ".hooks", workspace / ".git/hooks"):
        folder.mkdir(exist_ok=True)
        for hook in ("pre-commit", "post-commit", "commit-msg", "post-checkout", "reference-transaction"):
            (folder / hook).write_text(f"#!/bin/sh\ntouch {target}\n")
            (folder / hook).chmod(0o755)
    (workspace / ".gitattributes").write_text("*.md diff=evil\n")
    for arguments in (["add", "."], ["commit", "-m", "one"]):
        result = await sandbox.run_git(arguments, writes=True)
        assert result.exit_code == 0, result.output
    (workspace / "README.md").write_text("changed\n")
    for arguments in (["status"], ["diff"], ["log", "-p"], ["show"], ["branch"]):
        assert (await sandbox.run_git(arguments)).exit_code == 0
    await sandbox.run_git(["checkout", "-b", "other"], writes=True)
    assert not mark.exists()


@pytest.mark.parametrize("sandbox", ["bubblewrap"], indirect=True)
async def test_a_submodule_s_own_drivers_run_nothing(sandbox: Sandbox, workspace: Path) -> None:
    inner = workspace / "libs/inner"
    inner.mkdir(parents=True)
    fill(inner, {"code.txt": "1\n", ".gitattributes": "*.txt diff=evil filter=evil\n"})
    for folder in (inner, workspace):
        git(folder, "init", "--quiet")
        git(folder, "add", ".")
        git(folder, "commit", "--quiet", "-m", "one")
    (inner / "code.txt").write_text("2\n")
    git(inner, "commit", "--quiet", "-am", "two")
    git(inner, "config", "diff.evil.command", "touch /workspace/ran; echo DIFF-RAN; true")
    git(inner, "config", "filter.evil.clean", "touch /workspace/ran; cat")
    git(workspace, "config", "diff.submodule", "diff")
    (inner / "code.txt").write_text("3\n")
    shown = await sandbox.run_git(["diff"])
    assert "+Subproject commit" in shown.output
    for _ in range(2):  # git looks for changes in it once its commit is the one that is recorded
        added = await sandbox.run_git(["add", "."], writes=True)
        assert added.exit_code == 0, added.output
    assert not (workspace / "ran").exists()


FORBIDDEN = [
    ["push"], ["config", "core.hooksPath", "x"], ["-c", "alias.x=!sh", "x"], ["diff", "--output=x"], ["diff", "--outpu=x"],
    ["log", "--ext-diff"], ["grep", "-Ovi", "x"], ["diff", "--no-index", "/etc/passwd", "/dev/null"], ["clone", "x"], [],
    ["init", "--template=x"], ["commit", "-m", "a\0b"], ["submodule", "update"], ["show", "--textconv"],
    ["diff", "--submodule=diff"],
]  # fmt: skip


@pytest.mark.parametrize("arguments", FORBIDDEN, ids=" ".join)
@pytest.mark.parametrize("sandbox", ["process"], indirect=True)
async def test_what_could_run_or_write_something_else_is_refused(sandbox: Sandbox, arguments: list[str]) -> None:
    for writes in (False, True):
        with pytest.raises(SandboxError, match="git"):
            await sandbox.run_git(arguments, writes=writes)


@pytest.mark.parametrize("sandbox", ["process"], indirect=True)
async def test_the_reading_lane_does_not_write(sandbox: Sandbox) -> None:
    with pytest.raises(SandboxError, match="not allowed"):
        await sandbox.run_git(["add", "."])
