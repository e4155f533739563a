from __future__ import annotations

from pathlib import Path

import pytest

from lmtui.core.errors import SandboxError
from lmtui.core.permissions.rules import SETTINGS, Effect, mask_expressions, parse_rule
from lmtui.core.ports import Sandbox
from lmtui.sandbox.repository import find_repository
from lmtui.sandbox.workspace_sandbox import WorkspaceSandbox
from tests.sandbox.conftest import BUBBLEWRAP, ISOLATED, LANDLOCK, WITH_SHELL, Gate, OpenSandbox, fill, git
from tests.sets import depth, for_each

pytestmark = pytest.mark.git


@pytest.mark.parametrize("sandbox", ISOLATED, indirect=True)
async def test_git_is_read_only_for_commands_as_soon_as_it_exists(sandbox: Sandbox, workspace: Path) -> None:
    await sandbox.run_command("true")
    await sandbox.run_git(["init"], writes=True)
    assert (await sandbox.run_command("git add *.md")).exit_code != 0
    for command in ("git add *.md || true", "echo x > f; git stash", "git add *.md", "git commit -qF - <<EOF\n$HOME\nEOF"):
        assert "Quote the word of a here-document: <<'EOF'" in (await sandbox.run_command(command)).text, command
    for command in ("echo index.lock; false", "mkdir src && git add ."):
        assert "Use the git tools" not in (await sandbox.run_command(command)).text, command
    assert (await sandbox.run_command("touch .git/hooks/pre-commit; mv .git aside; echo x > .git/commondir")).exit_code != 0
    assert not (workspace / ".git/commondir").exists()
    assert (await sandbox.run_command("rm f; git status --short")).text == "?? README.md\n?? src/"
    assert (await sandbox.run_command("git add src\ngit -C . rm -q --cached -r src; git add README.md")).exit_code == 0
    assert (await sandbox.run_command("git rm nothing; git add src")).exit_code != 0
    assert (await sandbox.run_command("git status --short")).text == "A  README.md\n?? src/"


@pytest.mark.parametrize("sandbox", ISOLATED, indirect=True)
async def test_reading_leaves_git_as_it_was(sandbox: Sandbox, workspace: Path) -> None:
    await sandbox.run_git(["init"], writes=True)
    await sandbox.run_git(["add", "README.md"], writes=True)
    before = (workspace / ".git/index").read_bytes()
    (workspace / "README.md").touch()
    assert (await sandbox.run_git(["status", "--porcelain"])).output == "A  README.md\n?? src/\n"
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
[gpg]
	program = "touch OUT"
"""


@pytest.mark.parametrize("sandbox", WITH_SHELL, indirect=True)
async def test_a_hostile_configuration_runs_nothing(sandbox: WorkspaceSandbox, workspace: Path) -> None:
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
    await sandbox.listing.git_status()
    assert "src/main.py" in (await sandbox.listing.paths(100))[0]
    await sandbox.run_git(["checkout", "-b", "other"], writes=True)
    assert not mark.exists()


@pytest.mark.parametrize("sandbox", ["bubblewrap"], indirect=True)
async def test_a_submodule_s_own_drivers_run_nothing(sandbox: WorkspaceSandbox, workspace: Path) -> None:
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
    git(inner, "config", "core.fsmonitor", "touch /workspace/ran; false")
    git(workspace, "config", "diff.submodule", "diff")
    (inner / "code.txt").write_text("3\n")
    shown = await sandbox.run_git(["diff"])
    assert "+Subproject commit" in shown.output
    await sandbox.listing.git_status()
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


@pytest.mark.parametrize("sandbox", ["process"], indirect=True)
@for_each("arguments", FORBIDDEN)
async def test_what_could_run_or_write_something_else_is_refused(sandbox: Sandbox, arguments: list[str]) -> None:
    for writes in (False, True):
        with pytest.raises(SandboxError, match="git"):
            await sandbox.run_git(arguments, writes=writes)


def repository(folder: Path) -> Path:
    """Make a repository with one commit on `main`, and a branch `other` that has another text in `a`."""
    fill(folder, {"a": "one\n", "pkg/b": "one\n"})
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "one")
    git(folder, "switch", "-qc", "other")
    (folder / "a").write_text("other\n")
    git(folder, "commit", "-qam", "other")
    git(folder, "switch", "-q", "main")
    return folder


def package(base: Path) -> Path:
    fill(repository(base / "repo"), {"a": "changed\n"})
    return base / "repo/pkg"


PLACES = [
    ("tree", ["worktree add -q ../tree -b tree"]),
    ("tree", ["clone -q --bare . ../bare.git", "--git-dir ../bare.git worktree add -q ../tree other"]),
    ("whole/sub", ["init -q ../whole", "-C ../whole submodule --quiet add {base}/repo sub"]),
    ("repo/pkg", []),
]


@pytest.mark.parametrize("backend", [*ISOLATED, LANDLOCK])
@pytest.mark.parametrize(("place", "commands"), depth(PLACES[:1], PLACES))
async def test_a_git_folder_outside_is_used_and_only_git_changes_it(
    tmp_path: Path, open_sandbox: OpenSandbox, place: str, commands: list[str], backend: str
) -> None:
    package(tmp_path)
    for command in commands:
        git(tmp_path / "repo", *command.format(base=tmp_path).split())
    folder = tmp_path / place
    sandbox = await open_sandbox(backend, folder)
    shown = await sandbox.run_command("echo x > new; git log -1 --format=%an; touch $(git rev-parse --git-common-dir)/x")
    assert (shown.exit_code, shown.output.splitlines()[0]) == (1, "a")
    assert (await sandbox.run_git(["status", "--short"])).output == "?? new\n"
    for arguments in (["add", "-A"], ["commit", "-m", "two"]):
        assert (await sandbox.run_git(arguments, writes=True)).exit_code == 0
    git(folder, "diff", "--exit-code", "HEAD", "--", ".")
    assert (await sandbox.run_git(["show", "--format=%s", "--name-only"])).output.splitlines()[-1].endswith("new")
    assert (await sandbox.run_git(["show", "--format=%s", "--name-only"])).output.count("\n") == 3


async def test_a_folder_of_a_repository_keeps_what_is_outside(tmp_path: Path, open_sandbox: OpenSandbox) -> None:
    fill(package(tmp_path), {"../.gitignore": "*.junk\n", "x.junk": ""})
    sandbox = await open_sandbox("bubblewrap", tmp_path / "repo/pkg")
    assert (await sandbox.run_git(["diff"])).output == ""
    for command in (
        "git switch other", "git stash", "git commit -qam x", "git reset --hard", "git checkout -b x other",
        "git merge other --", "git add -f ../a", "git rm ../a", "git stash push -- :/a",
    ):  # fmt: skip
        with pytest.raises(SandboxError, match="outside this folder"):
            await sandbox.run_command(command)
    git(tmp_path / "repo", "add", "a")
    with pytest.raises(SandboxError, match="a is staged, too"):
        await sandbox.run_command("git commit -m x")
    (tmp_path / "repo/pkg/b").write_text("two\n")
    assert await sandbox.listing.git_status() == {"b": "modified", "x.junk": "ignored"}
    assert (await sandbox.run_command("git restore b")).exit_code == 0
    assert (tmp_path / "repo/pkg/b").read_text() == "one\n"


@pytest.mark.full
async def test_other_folders_of_a_repository_may_hold_secrets(tmp_path: Path, open_sandbox: OpenSandbox) -> None:
    folder = package(tmp_path)
    sandbox = await open_sandbox("bubblewrap", folder)
    assert (await sandbox.read_only().run_command("git show HEAD:a")).output == "one\n"
    (tmp_path / "repo/.env").write_text("SECRET\n")
    git(tmp_path / "repo", "add", ".env")
    git(tmp_path / "repo", "commit", "-qm", "secret")
    git(tmp_path / "repo", "rm", "-q", "--cached", ".env")
    git(tmp_path / "repo", "commit", "-qm", "removed")
    for command in ("git show HEAD~1:.env", "git log -p"):
        assert "SECRET" not in (await sandbox.read_only().run_command(command)).output


@pytest.mark.parametrize("secret", depth([".env"], [".env", "lib/.env"]))
async def test_git_shows_no_hidden_file_that_it_tracks(workspace: Path, open_sandbox: OpenSandbox, secret: str) -> None:
    fill(workspace / "../library", {".env": "SECRET\n"})
    repository(workspace / "../library")
    fill(workspace, {".env": "SECRET\n"} if secret == ".env" else {})
    repository(workspace)
    git(workspace, "submodule", "add", "-q", "../library", "lib")
    sandbox = await open_sandbox("bubblewrap")
    sandbox.mask(1, mask_expressions((parse_rule(f"Read({secret})", Effect.DENY, SETTINGS),)))
    for command in (
        "git show HEAD:.env",
        "git log -p",
        "git -C pkg log -p -- ..",
        "git add . && git log -p",
        "git -C lib log -p",
    ):
        for view in (sandbox, sandbox.read_only()):
            result = await view.run_command(command)
            assert (result.exit_code != 0, "SECRET" in result.output) == (True, False), command


@pytest.mark.parametrize("sandbox", [BUBBLEWRAP], indirect=True)
async def test_commands_of_git_change_the_repository(sandbox: WorkspaceSandbox, workspace: Path) -> None:
    repository(workspace)
    fill(workspace, {"a": "mine\n", "new": ""})
    for command, code in (
        ("git stash -u", 0),
        ("git stash pop && git commit -am mine && git log -1 --oneline && git tag v1", 0),
        ("git merge other", 1),
        ("git merge --abort && git rebase other", 1),
        (f"cd {workspace} && git checkout --theirs a && git add a && git rebase --continue", 0),
        ("git commit --amend -m amended && git branch next", 0),
    ):
        result = await sandbox.run_command(command)
        assert result.exit_code == code, (command, result.text)
        assert "/undo restores the files" in result.text
    assert (await sandbox.run_git(["log", "--format=%s"])).output == "amended\nother\none\n"
    assert (workspace / "a").read_text() == "mine\n"
    for command in (
        "git rebase -i HEAD", "git commit -F -", "git push https://example.org/x main", "git tag -s v2",
        "git rebase -X -- -x true HEAD", "git merge -m -- -F - other", "git fetch --depth 1 https://example.org/x",
    ):  # fmt: skip
        with pytest.raises(SandboxError, match="does not run it with"):
            await sandbox.run_command(command)


async def test_commands_of_git_run_in_the_folder_that_they_name(workspace: Path, open_sandbox: OpenSandbox) -> None:
    repository(workspace)
    repository(workspace.parent / "lib")
    git(workspace, "submodule", "add", "-q", "../lib", "lib")
    git(workspace, "commit", "-qm", "lib")
    fill(workspace, {"pkg/b": "mine\n", "new": "", "pkg/words": "From a file\n", "lib/a": "mine\n", ".env": "SECRET\n"})
    (workspace / "pkg/link").symlink_to("../.env")
    sandbox = await open_sandbox("bubblewrap")
    sandbox.mask(1, mask_expressions(()))
    for command in (
        "git mv pkg/b pkg/c && git mv pkg/c pkg/b", "cd pkg || exit\ngit add b\ngit commit -F words",
        "git -C lib add . && git -C lib commit -m inner && git -C lib tag v2",
        "git merge --no-ff --file=pkg/words other",
    ):  # fmt: skip
        result = await sandbox.run_command(command)
        assert result.exit_code == 0, (command, result.text)
    log = await sandbox.run_git(["log", "--format=%s", "--name-only", "--first-parent", "-2"])
    assert log.output == "From a file\n\na\nFrom a file\n\npkg/b\n"
    assert (await sandbox.run_git(["log", "--format=%s %d", "-1"], folder="lib")).output == "inner  (HEAD -> main, tag: v2)\n"
    for command in ("git commit --allow-empty -F .env", "git -C pkg commit --allow-empty -F link", "git -C nowhere add ."):
        with pytest.raises(SandboxError):
            await sandbox.run_command(command)


@pytest.mark.full
@pytest.mark.parametrize("sandbox", [BUBBLEWRAP], indirect=True)
async def test_a_repository_that_is_not_a_submodule_is_not_changed_next_to_the_own(
    sandbox: WorkspaceSandbox, workspace: Path
) -> None:
    repository(workspace)
    repository(workspace / "own")
    fill(workspace, {"own/a": "mine\n", "false/.git": "gitdir: ../own/.git\n", "false/sub/a": ""})
    (workspace / "linked").symlink_to("pkg")
    (workspace / "own/.git/COMMIT_EDITMSG").unlink()
    (workspace / "own/.git/COMMIT_EDITMSG").symlink_to("../../.git/config")
    before = (workspace / ".git/config").read_text()
    for folder in ("false/sub", "linked", "own"):
        with pytest.raises(SandboxError, match=r"another repository|link"):
            await sandbox.run_command(f"git -C {folder} commit --allow-empty -m x")
    assert (workspace / ".git/config").read_text() == before


@pytest.mark.parametrize("sandbox", [BUBBLEWRAP], indirect=True)
async def test_work_under_way_that_runs_commands_is_not_continued(sandbox: WorkspaceSandbox, workspace: Path) -> None:
    fill(repository(workspace), {"a": "mine\n"})
    await sandbox.run_command("git commit -am mine && git rebase other")
    with (workspace / ".git/rebase-merge/git-rebase-todo").open("a") as todo:
        todo.write("exec touch ran\n")
    with pytest.raises(SandboxError, match="runs commands"):
        await sandbox.run_command("git add a && git rebase --continue")
    assert not (workspace / "ran").exists()


@pytest.mark.full
@pytest.mark.parametrize("sandbox", [BUBBLEWRAP], indirect=True)
async def test_a_repository_on_this_machine_is_fetched_from_and_pushed_to(
    sandbox: WorkspaceSandbox, workspace: Path, tmp_path: Path
) -> None:
    git(repository(workspace), "clone", "-q", "--bare", ".", str(tmp_path / "bare.git"))
    git(workspace, "remote", "add", "origin", "../bare.git")
    git(workspace, "remote", "add", "other", "/etc")
    for name, text in (("remote.origin.uploadpack", "touch ran; git-upload-pack"), ("core.gitProxy", "touch ran")):
        git(workspace, "config", name, text)
    hook = tmp_path / "bare.git/hooks/post-receive"
    hook.write_text(f"#!/bin/sh\ntouch {workspace}/ran\n")
    hook.chmod(0o755)
    with pytest.raises(SandboxError, match="needs the repository"):
        await sandbox.run_command("git fetch", gate=Gate())
    gate = Gate(shows=True)
    for command in ("git fetch", "git commit --allow-empty -m two && git push -u origin main", "git pull"):
        result = await sandbox.run_command(command, gate=gate)
        assert result.exit_code == 0, (command, result.text)
    assert gate.folders == [
        (str(tmp_path / "bare.git"), f"git {does} this repository") for does in ("fetch reads", "push writes to", "pull reads")
    ]
    git(workspace, "diff", "--exit-code", "main", "origin/main")
    assert not (workspace / "ran").exists()


@pytest.mark.parametrize("sandbox", [BUBBLEWRAP], indirect=True)
async def test_what_reaches_no_host_or_needs_a_key_is_named(sandbox: WorkspaceSandbox, workspace: Path) -> None:
    git(repository(workspace), "remote", "add", "origin", "git@example.org:x/y")
    assert "no keys for ssh are in the sandbox" in (await sandbox.run_command("git fetch", gate=Gate())).text
    git(workspace, "remote", "set-url", "origin", "ext::sh -c touch% ran")
    assert "not allowed" in (await sandbox.run_command("git fetch", gate=Gate())).text
    git(workspace, "remote", "set-url", "origin", "https://example.org/x")
    gate = Gate()
    assert (await sandbox.run_command("git fetch", gate=gate)).exit_code != 0
    assert gate.asked == ["example.org"]
    assert not (workspace / "ran").exists()


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file of the user's settings."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    return tmp_path / "gitconfig"


@pytest.mark.full
async def test_the_user_s_settings_hold(settings: Path, tmp_path: Path, workspace: Path, open_sandbox: OpenSandbox) -> None:
    fill(
        tmp_path,
        {
            "gitconfig": f"[user]\n\tname = Ada O'L\n[include]\n\tpath = more\n"
            f'[includeIf "gitdir:{tmp_path}/"]\n\tpath = {tmp_path}/here\n'
            f"[core]\n\tautocrlf = input\n\texcludesFile = {tmp_path}/ignored\n\tsshCommand = touch {workspace}/ran\n",
            "more": "[user]\n\temail = more@example.org\n",
            "here": "[user]\n\temail = here@example.org\n",
            "ignored": "*.junk\n",
        },
    )
    fill(repository(workspace), {"x.junk": "", "crlf": b"1\r\n"})
    sandbox = await open_sandbox("bubblewrap")
    assert (await sandbox.run_command("git status --short; git config core.sshCommand")).output == "?? crlf\n"
    await sandbox.run_command("git add crlf && git commit -m two")
    assert (await sandbox.run_git(["log", "-1", "--format=%an <%ae>"])).output == "Ada O'L <here@example.org>\n"
    assert (await sandbox.run_git(["cat-file", "-p", "HEAD:crlf"])).output == "1\n"


def test_both_files_of_the_user_s_settings_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GIT_CONFIG_GLOBAL")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    fill(
        tmp_path, {".gitconfig": "[user]\n\tname = Ada\n", "xdg/git/config": "[user]\n\tname = Eve\n\temail = e@example.org\n"}
    )
    config = Path(find_repository(tmp_path, tmp_path).config).read_text()
    assert [each in config for each in ("Ada", "Eve", "e@example.org")] == [True, False, True]


@pytest.mark.full
async def test_what_cannot_run_here_is_refused_by_name(settings: Path, workspace: Path, open_sandbox: OpenSandbox) -> None:
    fill(repository(workspace), {".gitattributes": "*.bin filter=lfs\n", "m.bin": "data"})
    settings.write_text('[commit]\n\tgpgSign\n[filter "lfs"]\n\tclean = tr a-z A-Z\n\trequired = true\n')
    sandbox = await open_sandbox("bubblewrap")
    assert "name the files" in (await sandbox.run_command("git add '*.bin'")).text
    refused = await sandbox.run_command("git add m.bin")
    assert (refused.exit_code, "the filter lfs of git's settings cannot run" in refused.text) == (128, True)
    for command in ("git commit --allow-empty -m x", "git merge other", "git rebase other", "git cherry-pick other"):
        with pytest.raises(SandboxError, match="gpgsign is set and gpg cannot run"):
            await sandbox.run_command(command)
    git(workspace, "config", "commit.gpgSign", "false")
    assert (await sandbox.run_command("git commit --allow-empty -m x")).exit_code == 0
    git(workspace, "-c", "filter.lfs.clean=cat", "add", "m.bin")
    with pytest.raises(SandboxError, match="bin uses the git filter lfs"):
        await sandbox.run_command("git switch other")


@pytest.mark.full
async def test_hooks_that_do_not_run_are_named(settings: Path, workspace: Path, open_sandbox: OpenSandbox) -> None:
    hook = repository(workspace) / ".git/hooks/pre-commit"
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    for text, named in (("", "pre-commit"), ("[core]\n\thooksPath = /home/me/hooks\n", "those in /home/me/hooks")):
        settings.write_text(text)
        sandbox = await open_sandbox("bubblewrap")
        result = await sandbox.run_git(["commit", "--allow-empty", "-m", "x"], writes=True)
        assert (result.exit_code, f"[hooks that git did not run here: {named}]" in result.notes) == (0, True)
        await sandbox.close()
