from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from lmtui.core.errors import SandboxError, SandboxUnavailable
from lmtui.core.permissions.rules import SETTINGS, Effect, mask_expressions, parse_rule
from lmtui.core.ports import Sandbox
from lmtui.core.programs import Launch
from lmtui.sandbox.supervisor_client import InstanceKind
from lmtui.sandbox.workspace_sandbox import WorkspaceSandbox
from tests.sandbox.conftest import ISOLATED, OpenSandbox, fill, git, launcher_of
from tests.waiting import PATIENCE_S, until

MARK = "mark-7Qz9"
READ_IT = [
    "cat .env", "cat .e*", "cat ../workspace/.env", "cat /proc/self/cwd/.env", "cat /proc/$$/root/workspace/.env",
    "cd /; cat workspace/.env", "sh -c 'cat .e?v'", "grep -r mark .", "python3 -c \"print(open('.e'+'nv').read())\"",
    "tar cf - . | strings",
    "cp -r . /tmp/c; cat /tmp/c/.env", "cat < .env", "base64 .env | base64 -d", "git grep --no-index mark",
    "find . -type f -exec cat {} +",
    "wc --files0-from=.env", "ln .env l; cat l", "ln -s .env l; cat l", "mv .env x; cat x",
    "mv sub sub2; cat sub2/server.pem; mv sub2 sub", "cat sub/server.pem", "dd if=.env",
    "xxd .env | xxd -r", "chmod 644 .env; cat .env",
    "cat secrets/k", "cat secrets/deep/*", "ls -la secrets; cat secrets/../secrets/k",
    "cat .ssh/id_rsa", "rg -uu mark .",
    "mount --bind /workspace /tmp; cat /tmp/.env",
    "unshare -rm cat .env", "exec 3<.env; cat <&3", "cat /workspace/link-to-secret",
    "while read -r a; do echo $a; done < .env",
    "tail -n +1 .env secrets/k sub/*", "diff .env /dev/null",
]  # fmt: skip


@pytest.fixture
def filled(workspace: Path) -> Path:
    for name in (".env", "secrets/k", "secrets/deep/k", "sub/server.pem", ".ssh/id_rsa", "config/production"):
        (workspace / name).parent.mkdir(exist_ok=True, parents=True)
        (workspace / name).write_text(f"{MARK}\n")
    (workspace / "link-to-secret").symlink_to("secrets/k")
    (workspace / "credentials").symlink_to("config/production")
    return workspace


async def _mask(sandbox: Sandbox, *rules: str) -> None:
    sandbox.mask(1, mask_expressions(tuple(parse_rule(text, Effect.DENY, SETTINGS) for text in rules)))


@pytest.mark.parametrize("backend", ISOLATED)
async def test_no_command_reads_a_masked_file_and_it_is_told_why(backend: str, filled: Path, open_sandbox: OpenSandbox) -> None:
    sandbox = await open_sandbox(backend)
    await _mask(sandbox, "Read(secrets/**)")
    for box in (sandbox, sandbox.read_only()):
        for command in READ_IT:
            assert MARK not in (await box.run_command(command, timeout_s=10)).output, command
        result = await box.run_command("python3 -c \"open('.env')\"; cat secrets/k")
        assert "[masked, as it may hold secrets: .env. " in result.text
        assert "[masked, as a rule denies it: secrets]" in result.text
    assert "[masked" not in (await sandbox.run_command("cat .env || true")).text
    assert "[masked" not in (await sandbox.run_command("cat /etc/shadow")).text
    assert "holds secrets" not in (await sandbox.revealing([".env"]).run_command("cat .env; false")).text
    for name in (".env", "secrets/k", "sub/server.pem", "config/production"):
        assert (filled / name).read_text() == f"{MARK}\n"


@pytest.mark.parametrize("backend", ISOLATED)
async def test_no_tool_and_no_program_that_stays_reads_a_masked_file_but_the_user_sees_everything(
    backend: str, filled: Path, open_sandbox: OpenSandbox
) -> None:
    sandbox = await open_sandbox(backend)
    await _mask(sandbox, "Read(secrets/**)")
    for name in (".env", "secrets/k", "link-to-secret", "credentials", "config/production"):
        with pytest.raises(SandboxError):
            await sandbox.read_file(name)
    assert [match.path for match in await sandbox.grep("mark", max_matches=50)] == []
    said = bytearray()
    for can_write in (True, False):
        launch = Launch(("bash", "-c", "cat .env secrets/k sub/*; grep -r mark . ; echo end"), can_write=can_write)
        served = await launcher_of(sandbox).open(launch, said.extend)
        while piece := await served.read():
            said += piece
        await served.close()
    assert said.count(b"end\n") == 2
    assert MARK.encode() not in said
    assert (await sandbox.unmasked().read_file("secrets/k")).data.decode() == f"{MARK}\n"
    with pytest.raises(SandboxError):
        await sandbox.unmasked().write_file("secrets/k", b"x")
    with pytest.raises(SandboxError):
        await sandbox.unmasked().run_command("true")
    shown = sandbox.revealing([".env", "secrets/k"])  # to one call alone, and not against a rule
    result = await shown.run_command("cat .env; cat sub/server.pem secrets/k")
    assert result.output.count(MARK) == 1
    assert (await shown.read_file(".env")).data.decode() == f"{MARK}\n"
    await shown.write_file(".env", b"new\n")
    assert (filled / ".env").read_text() == "new\n"
    assert "Permission denied" in (await sandbox.run_command("cat .env")).output


@pytest.mark.parametrize("backend", ISOLATED)
async def test_a_file_that_appears_is_masked_from_the_next_command_on(
    backend: str, workspace: Path, open_sandbox: OpenSandbox
) -> None:
    sandbox = await open_sandbox(backend)
    for box in (sandbox, sandbox.read_only()):
        assert (await box.run_command("ls")).exit_code == 0
    (workspace / "src/.env").write_text(MARK)
    for box in (sandbox, sandbox.read_only()):
        assert MARK not in (await box.run_command("cat src/.env; grep -r mark src")).output
    other = workspace / "src/new.env"
    other.write_text(MARK + "2")
    other.rename(workspace / "src/.env")  # as an editor saves: the mount over the old file goes with it
    for box in (sandbox, sandbox.read_only()):
        assert MARK not in (await box.run_command("cat src/.env; grep -r mark src")).output
    assert await sandbox.grep("mark") == []


@pytest.mark.parametrize("backend", ISOLATED)
async def test_a_rule_that_is_added_holds_for_the_next_command_and_ends_a_program_that_sees_what_it_denies(
    backend: str, filled: Path, open_sandbox: OpenSandbox
) -> None:
    sandbox = await open_sandbox(backend)
    assert MARK in (await sandbox.run_command("cat secrets/k")).output
    served = await launcher_of(sandbox).open(Launch(("bash", "-c", "echo up; cat; cat secrets/k")), lambda _: None)
    assert await served.read() == b"up\n"
    await _mask(sandbox, "Read(secrets)")
    for box in (sandbox, sandbox.read_only()):
        assert MARK not in (await box.run_command("cat secrets/k secrets/deep/k")).output
    assert await served.read() == b""
    await served.close()
    sandbox.mask(1, None)
    sandbox.mask(2, mask_expressions(()))
    assert (await sandbox.run_command("echo still works")).output == "still works\n"


@pytest.mark.full
@pytest.mark.parametrize("sandbox", ISOLATED, indirect=True)
async def test_a_rule_that_allows_to_read_a_secret_shows_it_everywhere_from_then_on(
    sandbox: WorkspaceSandbox, filled: Path
) -> None:
    staying = sandbox.overlay(stays=True)

    async def seen(*allowing: str, owner: int = 1) -> list[int]:
        sandbox.mask(owner, mask_expressions(tuple(parse_rule(rule, Effect.ALLOW, SETTINGS) for rule in allowing)))
        overlay = sandbox.overlay()
        views = [sandbox, sandbox.read_only(), overlay.sandbox, staying.sandbox]
        found = [(await view.run_command("cat .env; cat sub/server.pem")).output.count(MARK) for view in views]
        await overlay.close()
        return found

    assert await seen() == [0] * 4
    assert await seen("Read(.env)") == [1] * 4
    assert await seen("Read(.env)", "Read(*.pem)", owner=2) == [1] * 4  # what each session shows
    assert await seen("Read(*.pem)", owner=3) == [0] * 4
    await staying.close()


@pytest.mark.parametrize("sandbox", ISOLATED, indirect=True)
async def test_dependencies_keep_their_certificates_and_a_search_meets_no_mask_of_ours(
    sandbox: Sandbox, workspace: Path
) -> None:
    for box in (sandbox, sandbox.read_only()):
        for command in ("find . -name '*.py'", "du -s . | cut -f2", "grep -r hello . | cut -c1-8"):
            searched = await box.run_command(f"set -o pipefail; {command}")
            assert (searched.exit_code, "denied" in searched.output) == (0, False), searched.output
    for folder in (".venv/lib/site-packages/certifi", "node_modules/x"):
        (workspace / folder).mkdir(parents=True)
        (workspace / folder / "cacert.pem").write_text("public\n")
    result = await sandbox.run_command("cat .venv/lib/site-packages/certifi/cacert.pem node_modules/x/cacert.pem")
    assert result.output == "public\npublic\n"
    await _mask(sandbox, "Read(node_modules/**/*.pem)")
    assert "public" not in (await sandbox.run_command("cat node_modules/x/cacert.pem")).output


@pytest.mark.git
@pytest.mark.parametrize("sandbox", ISOLATED, indirect=True)
async def test_git_is_whole_where_it_holds_no_masked_file_and_shows_none_where_it_does(
    sandbox: WorkspaceSandbox, workspace: Path
) -> None:
    commands = (
        "git show HEAD:.env; git log -p --all; git cat-file --batch-all-objects --batch; cat .git/objects/*/* | zlib-flate"
    )
    git(workspace, "init", "-q")
    fill(workspace, {".gitignore": ".env\n", ".env": MARK})
    git(workspace, "add", ".")
    git(workspace, "commit", "-qm", "the first")
    assert not (await sandbox.status()).masks_git
    assert "the first" in (await sandbox.read_only().run_command("git log; git status --short")).output
    for step in (("add", "-f", ".env"), ("rm", "-q", "--cached", ".env")):  # then it is in history only
        git(workspace, *step)
        git(workspace, "commit", "-qm", "next")
        (workspace / "README.md").write_text(step[0])
        assert (await sandbox.status()).masks_git
        assert MARK not in (await sandbox.read_only().run_command(commands)).output
        assert "README.md" in (await sandbox.run_git(["status", "--short"])).output
        await _mask(sandbox, "Read(.env)")
        assert MARK not in (await sandbox.run_command(commands)).output
        sandbox.mask(1, None)


@pytest.mark.bubblewrap
async def test_a_mask_that_does_not_hold_is_found_out(
    workspace: Path, open_sandbox: OpenSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = await open_sandbox("bubblewrap")
    monkeypatch.setattr("lmtui.sandbox.bubblewrap.mounts", lambda workspace, kind, layout: iter(()))
    (workspace / ".env").write_text(MARK)
    with pytest.raises(SandboxUnavailable, match=r"\.env cannot be masked"):
        await sandbox.run_command("cat .env")


@pytest.mark.parametrize("sandbox", ISOLATED, indirect=True)
async def test_a_command_that_runs_goes_on_while_another_gets_a_new_instance(
    sandbox: WorkspaceSandbox, workspace: Path
) -> None:
    first = await sandbox._pool.client(InstanceKind.MAIN)
    async with sandbox._pool.command_client([]) as held:
        assert held is first
        (workspace / ".env").write_text(MARK)
        second = await sandbox._pool.client(InstanceKind.MAIN)
        assert second is not first
        assert (await held.call("ping", {}, limit_s=5))[0] == {}
    await until(lambda: not first.is_alive)


@pytest.mark.bubblewrap
async def test_where_not_all_secrets_can_be_hidden_no_command_runs_as_a_reader(filled: Path, open_sandbox: OpenSandbox) -> None:
    for i in range(301):
        (filled / f"+{i:03}.pem").touch()
    sandbox = await open_sandbox("bubblewrap")
    await _mask(sandbox, "Read(**/+*)")  # what a rule denies is hidden from all commands, or none runs
    with pytest.raises(SandboxUnavailable, match="more files than can be masked") as raised:
        await sandbox.run_command("true")
    assert "Deny whole folders" in raised.value.hint
    sandbox.mask(1, None)
    assert not (await sandbox.status()).has_read_only
    with pytest.raises(SandboxUnavailable, match="300"):
        await sandbox.read_only().run_command("cat .e*")
    for i in range(100):
        (filled / f"+{i:03}.pem").unlink()
    assert MARK not in (await sandbox.read_only().run_command("cat .e*")).output


@pytest.mark.bubblewrap
async def test_a_program_that_stays_ends_when_a_denied_file_is_replaced(filled: Path, open_sandbox: OpenSandbox) -> None:
    sandbox = await open_sandbox("bubblewrap")
    await _mask(sandbox, "Read(config/production)")
    served = await launcher_of(sandbox).open(Launch(("sleep", "60")), lambda _: None)
    try:
        await sandbox.run_command("true")
        (filled / "new").write_text(MARK)
        (filled / "new").rename(filled / "config/production")  # as an editor saves
        await sandbox.run_command("true")
        assert await asyncio.wait_for(served.read(), PATIENCE_S) == b""
    finally:
        await served.close()


@pytest.mark.full
@pytest.mark.bubblewrap
async def test_links_to_folders_loops_and_closed_folders_open_no_mask(filled: Path, open_sandbox: OpenSandbox) -> None:
    (filled / "linked").symlink_to("config")
    (filled / "loop.pem").symlink_to("loop.pem")
    (filled / "sub").chmod(0o311)
    sandbox = await open_sandbox("bubblewrap")
    await _mask(sandbox, "Read(linked/**)")
    for box in (sandbox, sandbox.read_only()):
        for command in (
            "cat linked/* config/*",
            "cat sub/server.pe?",
            "cat sub/$(echo server).pem",
            "chmod 755 sub; cat sub/*",
        ):
            assert MARK not in (await box.run_command(command)).output, command


@pytest.mark.parametrize("backend", ISOLATED)
async def test_a_masked_file_stays_masked_under_another_name(backend: str, filled: Path, open_sandbox: OpenSandbox) -> None:
    sandbox = await open_sandbox(backend)
    await _mask(sandbox, "Read(config/production)")
    (filled / "config/.env").write_text(MARK)
    assert (await sandbox.run_command("mv config c2; ls c2")).output == "production\n"
    for box in (sandbox, sandbox.read_only()):
        assert MARK not in (await box.run_command("cat c2/production c2/.env; grep -r mark c2")).output
