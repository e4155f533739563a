from __future__ import annotations

import os
from pathlib import Path

import pytest

from lmtui.core.errors import SandboxError, UsageError
from lmtui.core.permissions.rules import mask_expressions
from lmtui.sandbox.select import select_sandbox
from lmtui.sandbox.toolchains import check_added
from tests.sandbox.conftest import ALL, CONFINED, ISOLATED, Gate, OpenSandbox, fill
from tests.sets import for_each


@pytest.fixture
def library(tmp_path: Path) -> Path:
    folder = tmp_path / "library"
    fill(folder, {"src/api.py": "answer = 42\n", ".env": "TOKEN=1\n", ".git/config": "[core]\n"})
    return folder


@pytest.mark.parametrize("backend", ALL)
async def test_file_tools_read_an_added_folder_by_its_whole_path_and_change_nothing(
    backend: str, open_sandbox: OpenSandbox, library: Path
) -> None:
    sandbox = await open_sandbox(backend, added=[str(library)])
    assert (await sandbox.read_file(f"{library}/src/api.py")).data == b"answer = 42\n"
    assert [entry.path for entry in await sandbox.list_directory(str(library))] == [f"{library}/src", f"{library}/.env"]
    assert await sandbox.glob(f"{library}/**/*.py") == [f"{library}/src/api.py"]
    (match,) = await sandbox.grep("answer", path=str(library))
    assert (match.path, match.line) == (f"{library}/src/api.py", 1)
    assert (await sandbox.read_file("../library/src/api.py")).data == b"answer = 42\n"
    paths = ["README.md", f"{library}/src/../src/api.py", str(library)]
    assert await sandbox.real_paths(paths) == ["README.md", f"{library}/src/api.py", str(library)]
    (library.parent / "secret.txt").write_text("secret")
    (library / "link").symlink_to(library.parent / "secret.txt")
    for path in (f"{library}/link", f"{library}/../secret.txt", f"{library}/../library2/x", f"{library.parent}/secret.txt"):
        with pytest.raises(SandboxError):
            await sandbox.read_file(path)
    for call in (sandbox.write_file(f"{library}/made.txt", b"text"), sandbox.make_directory(f"{library}/made")):
        with pytest.raises(SandboxError, match="read-only"):
            await call
    assert sorted(path.name for path in library.iterdir()) == [".env", ".git", "link", "src"]


@pytest.mark.parametrize("backend", CONFINED)
async def test_commands_read_an_added_folder_and_cannot_change_it(
    backend: str, open_sandbox: OpenSandbox, library: Path
) -> None:
    sandbox = await open_sandbox(backend, added=[str(library)])
    assert (await sandbox.run_command(f"cat {library}/src/api.py")).output == "answer = 42\n"
    assert (await sandbox.run_command(f"echo 1 > {library}/new")).exit_code != 0
    assert (await sandbox.run_command(f"echo x >> {library}/.git/config")).exit_code != 0
    assert not (library / "new").exists()


@pytest.mark.parametrize("backend", ISOLATED)
async def test_secret_files_of_an_added_folder_are_masked_and_links_lead_nowhere(
    backend: str, open_sandbox: OpenSandbox, library: Path, tmp_path: Path
) -> None:
    fill(tmp_path, {"private/note": "heron"})
    (library / ".lmagent").symlink_to(tmp_path / "private")
    (library / "src/.env").symlink_to("../.env")
    (library / "dangling.pem").symlink_to("/nowhere")
    sandbox = await open_sandbox(backend, added=[str(library)])
    output = (await sandbox.run_command(f"cat {library}/.env {library}/src/.env {library}/.lmagent/note")).output
    assert "TOKEN" not in output
    assert "heron" not in output
    with pytest.raises(SandboxError, match="permission denied"):
        await sandbox.read_file(f"{library}/.env")
    with pytest.raises(SandboxError, match="protected"):
        await sandbox.read_file(f"{library}/.git/config")


async def test_a_folder_that_was_not_added_is_refused_by_the_supervisor_too(
    open_sandbox: OpenSandbox, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = await open_sandbox("process")
    monkeypatch.setattr(sandbox, "_locate", lambda path: (str(library), "src/api.py"))
    with pytest.raises(SandboxError, match="outside the workspace"):
        await sandbox.read_file(f"{library}/src/api.py")


@for_each(
    "name", [".", "..", "src", "home", "home/.ssh", "/etc", "/usr/lib", "/tmp", "/opt", "missing", "README.md", "relative"]
)
def test_a_folder_that_cannot_be_added_is_refused_with_the_reason(
    name: str, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = workspace.parent / "home"
    (home / ".ssh").mkdir(parents=True, exist_ok=True)
    monkeypatch.setenv("HOME", str(home))
    path = {"home/.ssh": home / ".ssh", "home": home, "relative": Path()}.get(name, workspace / name)
    with pytest.raises(UsageError, match="added") as caught:
        check_added([str(path)], workspace)
    assert "--add-dir" in caught.value.hint


def test_settings_of_lmtui_cannot_be_added(workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LMTUI_HOME", str(tmp_path / "lmtui"))
    (tmp_path / "lmtui/config/rules").mkdir(parents=True)
    for folder in (tmp_path / "lmtui", tmp_path / "lmtui/config", tmp_path / "lmtui/config/rules"):
        with pytest.raises(UsageError, match="lmtui keeps its own files"):
            check_added([str(folder)], workspace)


async def test_a_folder_with_too_many_secrets_is_refused(workspace: Path, library: Path) -> None:
    fill(library, {f"{number}.pem": "" for number in range(301)})
    with pytest.raises(SandboxError, match="too large"):
        await (await select_sandbox(workspace, added=[str(library)], masks=mask_expressions(()))).status()


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a program of the user in a place that no installer uses."""
    home = tmp_path / "home"
    program = home / "my tools/bin/frobnicate"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\necho frobnicated\n")
    program.chmod(0o755)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return program


@pytest.mark.parametrize("backend", ISOLATED)
async def test_a_tool_that_a_command_lacks_is_shown_after_one_question(
    backend: str, open_sandbox: OpenSandbox, tool: Path
) -> None:
    sandbox = await open_sandbox(backend)
    refusing, allowing = Gate(), Gate(shows=True)
    refused = await sandbox.run_command("frobnicate", gate=refusing)
    assert f"frobnicate is at {tool} on this machine" in refused.text
    assert refusing.folders == [(str(tool.parent.parent), f"frobnicate is at {tool}")]
    await sandbox.read_only().run_command("frobnicate", gate=refusing)
    assert len(refusing.warnings) == 1
    assert f"the rule Tools({tool.parent.parent})" in refusing.warnings[0]
    allowed = await sandbox.read_only().run_command("frobnicate", gate=allowing)
    assert allowed.exit_code == 127
    assert "run the command again" in allowed.text
    assert (await sandbox.run_command("frobnicate")).text == "frobnicated"
    assert (await sandbox.run_command(f"echo x >> '{tool}'")).exit_code != 0


async def test_a_program_in_a_folder_of_more_than_tools_is_not_offered(
    open_sandbox: OpenSandbox, tool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tool.parents[2] / ".local/bin/black"
    own.parent.mkdir(parents=True)
    tool.rename(own)
    monkeypatch.setenv("PATH", f"{own.parent}:{os.environ['PATH']}")
    gate = Gate(shows=True)
    sandbox = await open_sandbox("bubblewrap")
    result = await sandbox.run_command("echo 'black: not found'; exit 127", gate=gate)
    assert gate.folders == []
    assert "holds more than tools" in result.text
    assert "holds more than tools" in gate.warnings[0]
    own.rename(tool)
    (tool.parent.parent / ".netrc").touch()  # credentials
    monkeypatch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")
    assert (await sandbox.run_command("frobnicate", gate=gate)).exit_code == 127
    assert gate.folders == []
