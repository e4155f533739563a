from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lmtui.core.errors import SandboxError, SandboxUnavailable, UsageError
from lmtui.core.permissions.rules import Effect, MaskExpressions, mask_expressions, parse_rule
from lmtui.core.programs import Launch
from lmtui.sandbox.project_tools import ProjectTools, Shown, with_added
from lmtui.sandbox.select import select_sandbox
from lmtui.sandbox.toolchains import AddedFolder, check_added
from lmtui.sandbox.workspace_sandbox import WorkspaceSandbox
from tests.sandbox.conftest import ISOLATED, LANDLOCK, LIMITS, OpenSandbox, fill, launcher_of, unavailable
from tests.sets import depth, for_each
from tests.waiting import PATIENCE_S

SECRET = b"what-is-outside-8c2"
PRIVATE = ("id", ".git/config", ".git/hooks/post-commit", ".env", ".vscode/tasks.json")


@pytest.fixture
def library(tmp_path: Path) -> Path:
    folder = tmp_path / "library"
    files = {"src/api.py": "answer = 42\n", ".env": "TOKEN=1\n", ".git/hooks/": "", ".git/config": "[core]\n"}
    fill(folder, {**files, "inner/.vscode/tasks.json": "{}\n"})
    return folder


@pytest.fixture
def private(tmp_path: Path) -> Path:
    """Return a folder as private as ~/.ssh, which nothing may reach through a link."""
    folder = tmp_path / "private"
    fill(folder, dict.fromkeys(PRIVATE, SECRET))
    return folder


@pytest.fixture
async def sandbox(request: pytest.FixtureRequest, open_sandbox: OpenSandbox, library: Path) -> WorkspaceSandbox:
    return await open_sandbox(request.param, limits=LIMITS, added=[f"{library}:rw"])


def _state(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("sandbox", ISOLATED, indirect=True)
async def test_commands_and_file_tools_change_a_writable_folder_but_no_read_instance_and_no_server(
    sandbox: WorkspaceSandbox, library: Path
) -> None:
    before = _state(library)
    view = sandbox.read_only()
    assert (await view.run_command(f"cat {library}/src/api.py")).output == "answer = 42\n"
    for target in (f"> {library}/made", f">> {library}/src/api.py"):
        assert (await view.run_command(f"echo x {target}")).exit_code != 0
    for call in (view.write_file(f"{library}/made", b""), view.make_directory(f"{library}/made")):
        with pytest.raises(SandboxError, match="read-only"):
            await call
    script = f"cat {library}/src/api.py; cat {library}/.env; echo x > {library}/made; ls {library}/.git; echo end"
    for shows_added in (True, False):  # only where it is the user's
        served = await launcher_of(sandbox).open(Launch(("bash", "-c", script), shows_added=shows_added), lambda _: None)
        output = b""
        async with asyncio.timeout(PATIENCE_S):
            while piece := await served.read():
                output += piece
        await served.close()
        assert output.endswith(b"end\n")
        assert (b"answer = 42" in output, b"hooks" in output) == (shows_added, shows_added)
        assert b"TOKEN" not in output
    assert _state(library) == before
    made = await sandbox.run_command(f"echo made > {library}/src/made; mv {library}/src/api.py {library}/src/b.py")
    assert made.exit_code == 0
    assert (library / "src/made").read_text() == "made\n"
    content = await sandbox.read_file(f"{library}/src/b.py")
    await sandbox.write_file(f"{library}/src/b.py", b"answer = 43\n", expect_sha256=content.sha256)
    await sandbox.write_file("../library/deep/er/new.txt", b"new", expect_sha256="")
    assert await sandbox.make_directory(f"{library}/folder")
    assert (library / "src/b.py").read_text() == "answer = 43\n"
    assert (library / "deep/er/new.txt").read_text() == "new"
    assert (library / "folder").is_dir()


@pytest.mark.parametrize("sandbox", ISOLATED, indirect=True)
async def test_what_other_programs_run_is_read_only_or_set_aside(sandbox: WorkspaceSandbox, library: Path) -> None:
    names = (".git/hooks/post-commit", ".git/config", "inner/.vscode/tasks.json", ".lmagent/config.toml")
    for name in names:
        assert (await sandbox.run_command(f"echo x >> {library}/{name}")).exit_code != 0
        with pytest.raises(SandboxError, match="protected"):
            await sandbox.write_file(f"{library}/{name}", b"x")
    for path in (f"{library}/.git", f"{library}/.lmagent"):
        assert (await sandbox.run_command(f"mv {path} {library}/moved")).exit_code != 0
    made = "mkdir -p a/b/.git/hooks .idea; echo x > a/.envrc; ln -s /nowhere a/.mcp.json; echo x > AGENTS.md"
    result = await sandbox.run_command(f"cd {library} && {made}")
    moved = {f"{library}/a/b/.git", f"{library}/.idea", f"{library}/a/.envrc", f"{library}/a/.mcp.json"}
    assert (set(result.quarantined), result.notable) == (moved, (f"{library}/AGENTS.md",))
    assert f"was moved to {library}/.lmagent/quarantine/" in result.text
    assert not any(os.path.lexists(path) for path in moved)
    assert len(list((library / ".lmagent/quarantine").iterdir())) == 4


@pytest.mark.parametrize("backend", ISOLATED)
async def test_a_git_folder_made_where_there_was_none_is_set_aside(
    backend: str, open_sandbox: OpenSandbox, tmp_path: Path
) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    other = await open_sandbox(backend, limits=LIMITS, added=[f"{plain}:rw"])
    result = await other.run_command(f"mkdir -p {plain}/.git/hooks; echo x > {plain}/.git/hooks/post-commit")
    assert result.quarantined == (f"{plain}/.git",)
    assert not (plain / ".git").exists()
    (plain / ".git/hooks").mkdir(parents=True)  # the user makes one: the next command finds it protected
    assert (await other.run_command(f"echo x > {plain}/.git/hooks/post-commit")).exit_code != 0


@pytest.mark.parametrize("sandbox", ISOLATED, indirect=True)
async def test_secret_files_of_a_writable_folder_are_masked(sandbox: WorkspaceSandbox, library: Path) -> None:
    for view in (sandbox, sandbox.read_only()):
        result = await view.run_command(f"cat {library}/.env")
        assert ("TOKEN" in result.output, result.exit_code) == (False, 1)
        assert "asks the user to show it" not in result.output
    with pytest.raises(SandboxError, match="permission denied"):
        await sandbox.read_file(f"{library}/.env")
    (library / "new.pem").write_text("KEY")
    assert "KEY" not in (await sandbox.run_command(f"cat {library}/new.pem")).output


@pytest.mark.full
@pytest.mark.parametrize("form", [pytest.param("{library}", marks=pytest.mark.full), "{library}:rw"])
@pytest.mark.parametrize("backend", ISOLATED)
async def test_a_rule_with_a_whole_path_masks_files_of_an_added_folder(
    backend: str, form: str, open_sandbox: OpenSandbox, library: Path
) -> None:
    sandbox = await open_sandbox(backend, limits=LIMITS, added=[form.format(library=library)])
    views = (sandbox, sandbox.read_only())
    assert [(await view.run_command(f"cat {library}/src/api.py")).exit_code for view in views] == [0, 0]
    sandbox.mask(1, mask_expressions((parse_rule(f"Read({library}/src/**)", Effect.DENY, "settings"),)))
    assert [(await view.run_command(f"cat {library}/src/api.py")).exit_code for view in views] == [1, 1]
    with pytest.raises(SandboxError, match="permission denied"):
        await sandbox.read_file(f"{library}/src/api.py")
    assert (await sandbox.run_command(f"cat {library}/.git/config")).exit_code == 0
    shown = parse_rule(f"Read({library}/.env)", Effect.ALLOW, "settings")
    sandbox.mask(1, mask_expressions((parse_rule("Read(.env)", Effect.ALLOW, "settings"),)))
    assert (await sandbox.run_command(f"cat {library}/.env")).exit_code != 0  # that is the workspace's
    sandbox.mask(1, mask_expressions((shown,)))
    assert (await sandbox.read_only().run_command(f"cat {library}/.env")).output == "TOKEN=1\n"


@pytest.mark.parametrize("sandbox", ISOLATED, indirect=True)
async def test_links_in_a_writable_folder_lead_nowhere(sandbox: WorkspaceSandbox, library: Path, private: Path) -> None:
    before = _state(private)
    names = ("link", ".mcp.json", "inner2/.git", "dangling.pem", "inner/link", "AGENTS.md")
    links = "; ".join(f"ln -s {private} {library}/{name}" for name in names)
    result = await sandbox.run_command(f"mkdir {library}/inner2; {links}; rm -rf {library}/src; ln -s {private} {library}/src")
    assert {f"{library}/.mcp.json", f"{library}/inner2/.git"} <= set(result.quarantined)
    for path in ("link/id", "link/new", "src/id", "inner/link/id"):
        with pytest.raises(SandboxError):
            await sandbox.write_file(f"{library}/{path}", b"x")
        with pytest.raises(SandboxError):
            await sandbox.read_file(f"{library}/{path}")
    with pytest.raises(SandboxError):
        await sandbox.make_directory(f"{library}/link/new")
    for view in (sandbox, sandbox.read_only()):
        output = (await view.run_command(f"cat {library}/*/id {library}/*/.env {library}/src/.git/config")).output
        assert SECRET.decode() not in output
    assert not await sandbox.grep("outside", path=str(library))
    assert _state(private) == before


@pytest.mark.parametrize("name", [".git", pytest.param(".lmagent", marks=pytest.mark.full)])
@pytest.mark.parametrize("backend", ISOLATED)
async def test_a_protected_name_that_is_a_link_is_refused_before_anything_is_mounted(
    backend: str, name: str, library: Path, private: Path, workspace: Path
) -> None:
    (library / ".git").rename(library / "was-git")
    (library / name).symlink_to(private)
    sandbox = await select_sandbox(workspace, backend=backend, added=[f"{library}:rw"])
    with pytest.raises(SandboxUnavailable) as caught:
        await sandbox.status()
    await sandbox.close()
    if "symbolic link" not in str(caught.value):
        unavailable(caught.value)
    assert f"{library}/{name} is a symbolic link" in str(caught.value)
    assert _state(private) == dict.fromkeys(PRIVATE, SECRET)


_SWAP = """
import ctypes, os, sys
os.chdir(sys.argv[1])
os.symlink(sys.argv[2], 'l')
exchange = ctypes.CDLL(None).renameat2
while exchange(-100, b'd', -100, b'l', 2) == 0:
    pass
"""


@contextlib.contextmanager
def _exchanged(library: Path, private: Path) -> Iterator[None]:
    """Exchange a folder of the library for a link to the private one, over and over, faster than any command could."""
    process = subprocess.Popen([sys.executable, "-c", _SWAP, str(library), str(private)])
    yield
    process.kill()
    process.wait()


@pytest.mark.full
@pytest.mark.parametrize("sandbox", ISOLATED, indirect=True)
async def test_a_folder_exchanged_for_a_link_during_a_write_leads_nowhere(
    sandbox: WorkspaceSandbox, library: Path, private: Path
) -> None:
    before = _state(private)
    fill(library, {"d/id": "own", "d/.vscode/tasks.json": "{}"})
    outcomes = []
    with _exchanged(library, private):
        for number in range(depth(60, 300)):
            for path, expected in ((f"{library}/d/id", None), (f"{library}/d/new{number}", "")):
                try:
                    await sandbox.write_file(path, b"ours", expect_sha256=expected)
                    outcomes.append(True)
                except SandboxError:
                    outcomes.append(False)
        for _ in range(depth(2, 5)):  # an instance that is opened meanwhile has the folder itself, or is refused
            with contextlib.suppress(SandboxError):
                command = f"cd {library}; for i in $(seq 99); do cat d/id d/.git/config d/.vscode/tasks.json; done"
                assert SECRET.decode() not in (await sandbox.read_only().run_command(command)).output
            sandbox.mask(1, MaskExpressions(denied=f"never-{time.monotonic_ns()}"))
    assert set(outcomes) == {True, False}
    assert _state(private) == before


@pytest.mark.parametrize("backend", [LANDLOCK, "process"])
async def test_a_sandbox_without_mounts_refuses_a_writable_folder(backend: str, library: Path, workspace: Path) -> None:
    sandbox = await select_sandbox(workspace, backend=backend, added=[f"{library}:rw"])
    with pytest.raises(SandboxUnavailable, match="cannot be writable") as caught:
        await sandbox.status()
    assert "without :rw" in caught.value.hint
    await sandbox.close()


def test_a_folder_is_writable_if_one_of_its_names_says_so(workspace: Path, library: Path) -> None:
    assert check_added([str(library), f"{library}/:rw"], workspace) == (AddedFolder(library, is_writable=True),)
    assert check_added([str(library)], workspace) == (AddedFolder(library),)


@for_each(
    "name, why",
    [
        (".hidden/x", "hidden"), ("bin", "programs are run from"), ("holds-bin", "programs are run from"),
        ("a/b", "overlaps"), ("tools", "programs are run from"), ("bare/hooks", "bare git"), ("linked", "overlaps"),
        ("own", "lmtui runs"),
    ],
)  # fmt: skip
def test_a_folder_that_outside_programs_run_from_is_never_writable(
    name: str, why: str, workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in (".hidden/x", "bin", "holds-bin/bin", "a/b", "tools", "linked", "elsewhere", "own/lib"):
        (tmp_path / folder).mkdir(parents=True)
    for part in ("HEAD", "objects", "refs", "hooks"):
        (tmp_path / "bare" / part).mkdir(parents=True)
    (tmp_path / "linked/to").symlink_to(tmp_path / "elsewhere")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{tmp_path}/holds-bin/bin:{os.environ['PATH']}")
    monkeypatch.syspath_prepend(str(tmp_path / "own/lib"))
    others = {"a/b": [str(tmp_path / "a")], "linked": [str(tmp_path / "linked/to")]}.get(name, [])
    with pytest.raises(UsageError, match=why) as caught:
        check_added([f"{tmp_path / name}:rw", *others], workspace, [tmp_path / "tools"])
    assert "read-only" in caught.value.hint
    assert check_added([str(tmp_path / name)], workspace) == (AddedFolder(tmp_path / name),)


def test_no_tool_is_shown_from_a_writable_folder(tmp_path: Path) -> None:
    inside, linked = tmp_path / "lib/tool", tmp_path / "tool"
    shown = (Shown(str(inside), tmp_path / "x", "a"), Shown(str(linked), inside, "b"), Shown("/t", Path("/t"), "c"))
    tools = ProjectTools({each.target: each for each in shown})
    found = with_added(tools, [AddedFolder(tmp_path / "lib", is_writable=True)])
    assert set(found.shown) == {str(tmp_path / "lib"), "/t"}
    assert len(found.withheld) == 2
