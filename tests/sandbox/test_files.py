from __future__ import annotations

import hashlib
import os
import socket
from pathlib import Path

import pytest

from lmtui.core.errors import SandboxError
from lmtui.core.ports import Sandbox
from tests.sandbox.conftest import ALL, fill

pytestmark = pytest.mark.parametrize("sandbox", ALL, indirect=True)


async def test_a_file_comes_with_size_mode_and_hash_unless_it_is_longer_than_asked_for(
    sandbox: Sandbox, workspace: Path
) -> None:
    (workspace / "README.md").chmod(0o640)
    content = await sandbox.read_file("README.md")
    assert (content.data, content.size_bytes, content.mode) == (b"hello\n", 6, 0o640)
    assert content.sha256 == hashlib.sha256(b"hello\n").hexdigest()
    content = await sandbox.read_file("README.md", max_bytes=2)
    assert (content.data, content.size_bytes, content.sha256) == (b"he", 6, "")
    for path in ("/workspace/README.md", f"{workspace}/README.md", "./README.md", "src/../README.md"):
        assert (await sandbox.read_file(path)).data == b"hello\n"
    workspace.rename(workspace.with_name("moved"))  # it stays the same one
    assert (await sandbox.read_file("README.md")).data == b"hello\n"
    workspace.with_name("moved").rename(workspace)


@pytest.mark.full
async def test_large_files_travel_whole_and_more_than_the_limit_is_not_written(sandbox: Sandbox, workspace: Path) -> None:
    data = os.urandom(9_000_000)
    await sandbox.write_file("big.bin", data)
    content = await sandbox.read_file("big.bin", max_bytes=16_000_000)
    assert content.data == data
    with pytest.raises(SandboxError, match="at once"):
        await sandbox.write_file("huge.bin", bytes(10_485_761))
    assert not (workspace / "huge.bin").exists()


async def test_writing_makes_parents_keeps_modes_and_links_inside_and_writes_through_no_hard_link(
    sandbox: Sandbox, workspace: Path, tmp_path: Path
) -> None:
    fill(workspace, {"run.sh": "old"})
    (workspace / "run.sh").chmod(0o755)
    outside = tmp_path / "outside.txt"
    outside.write_text("theirs")
    os.link(outside, workspace / "link.txt")
    (workspace / "alias").symlink_to("src/main.py")
    (workspace / "dangling").symlink_to("nowhere")
    for name in ("run.sh", "a/b/c.txt", "link.txt", "alias"):
        await sandbox.write_file(name, b"new")
        assert (workspace / name).read_text() == "new"
    assert (workspace / "run.sh").stat().st_mode & 0o777 == 0o755
    assert outside.read_text() == "theirs"
    assert (workspace / "alias").is_symlink()
    assert (workspace / "src/main.py").read_text() == "new"
    with pytest.raises(SandboxError, match="symbolic link to something that does not exist"):
        await sandbox.write_file("dangling", b"x")
    assert not list(workspace.rglob(".lmtui-*"))
    assert await sandbox.make_directory("x/y/z") is True
    assert await sandbox.make_directory("x/y/z") is False
    assert (workspace / "x/y/z").is_dir()
    with pytest.raises(SandboxError, match=r"README.md"):
        await sandbox.make_directory("README.md/x")


async def test_a_write_that_expects_other_content_changes_nothing(sandbox: Sandbox, workspace: Path) -> None:
    with pytest.raises(SandboxError, match="changed since it was read"):
        await sandbox.write_file("README.md", b"mine", expect_sha256="0" * 64)
    with pytest.raises(SandboxError, match="exists already"):
        await sandbox.write_file("README.md", b"mine", expect_sha256="")
    with pytest.raises(SandboxError, match="does not exist any more"):
        await sandbox.write_file("gone.txt", b"mine", expect_sha256="0" * 64)
    assert (workspace / "README.md").read_text() == "hello\n"
    assert not (workspace / "gone.txt").exists()
    content = await sandbox.read_file("README.md")
    await sandbox.write_file("README.md", b"mine", expect_sha256=content.sha256)
    await sandbox.write_file("fresh.txt", b"mine", expect_sha256="")
    assert (workspace / "README.md").read_text() == (workspace / "fresh.txt").read_text() == "mine"


OUTSIDE = (
    "../secret.txt", "/etc/passwd", "src/../../secret.txt", "leak", "leaks/secret.txt", "absolute",
    "~/../../etc/passwd/../..",
)  # fmt: skip


async def test_paths_that_lead_out_are_refused(sandbox: Sandbox, workspace: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    (workspace / "leak").symlink_to("../secret.txt")
    (workspace / "leaks").symlink_to("..")
    (workspace / "absolute").symlink_to(tmp_path / "secret.txt")
    for path in OUTSIDE:
        with pytest.raises(SandboxError, match=r"outside the workspace|does not exist"):
            await sandbox.read_file(path)
        for call in (sandbox.write_file(path, b"changed"), sandbox.list_directory(path), sandbox.grep("secret", path=path)):
            with pytest.raises(SandboxError):
                await call
    assert (tmp_path / "secret.txt").read_text() == "secret"
    fill(workspace, {".git/config": "secret"})
    assert await sandbox.grep("secret") == []
    assert "leak" not in await sandbox.glob("*")
    assert await sandbox.glob("*config*") == []


PROTECTED = (
    ".git/config", ".lmagent/config.toml", ".GIT/config", "sub/.git/hooks/x", "src/../.git/config", ".lmagent",
    "by-link/config",
)  # fmt: skip


async def test_git_and_state_are_neither_read_nor_written(sandbox: Sandbox, workspace: Path) -> None:
    fill(workspace, {".git/config": "[core]\n"})
    (workspace / "by-link").symlink_to(".git")
    for path in PROTECTED:
        for call in (
            sandbox.read_file(path),
            sandbox.write_file(path, b"x"),
            sandbox.make_directory(path),
            sandbox.grep("x", path=path),
        ):
            with pytest.raises(SandboxError, match="protected"):
                await call
    assert (workspace / ".git" / "config").read_text() == "[core]\n"
    for path in (".gitignore", ".github/workflows/x.yml", "git/x", ".lmagent.md"):  # these only look like it
        await sandbox.write_file(path, b"fine")
        assert (await sandbox.read_file(path)).data == b"fine"


async def test_what_is_no_readable_file_gives_a_clear_error_and_never_hangs(sandbox: Sandbox, workspace: Path) -> None:
    os.mkfifo(workspace / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        here = Path.cwd()
        os.chdir(workspace)  # a socket's path may not be long
        listener.bind("socket")
        os.chdir(here)
        too_long = ("x" * 300, "/".join(["d"] * 3000))
        for path in ("", "a\0b", *too_long, "src", "pipe", "socket", "missing.txt", "README.md/x"):
            with pytest.raises(SandboxError):
                await sandbox.read_file(path)


async def test_glob_finds_newest_first_and_leaves_ignored_files_out(sandbox: Sandbox, workspace: Path) -> None:
    for age, name in enumerate(["old.py", "src/new.py", "skip/ignored.py", ".hidden.py"]):
        path = workspace / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
        os.utime(path, (1_000_000 + age, 1_000_000 + age))
    fill(workspace, {".git/": "", ".gitignore": "skip/\n"})
    os.utime(workspace / "src/main.py", (900_000, 900_000))
    assert await sandbox.glob("*.py") == [".hidden.py", "src/new.py", "old.py", "src/main.py"]
    assert await sandbox.glob("src/*.py") == ["src/new.py", "src/main.py"]
    assert await sandbox.glob("**/m*.{py,txt}") == ["src/main.py"]
    assert await sandbox.glob("**/*.py", max_results=1) == [".hidden.py"]


async def test_grep_finds_lines_with_context_and_options(sandbox: Sandbox, workspace: Path) -> None:
    (workspace / "poem.txt").write_text("one\nTwo (2)\nthree\n")
    (workspace / "src/other.txt").write_text("two (2)\n")
    (workspace / "binary.dat").write_bytes(b"two\0\xff\xfe")
    found = await sandbox.grep("two", ignore_case=True, glob="*.txt")
    assert [(match.path, match.line, match.text) for match in found] == [
        ("poem.txt", 2, "Two (2)"),
        ("src/other.txt", 1, "two (2)"),
    ]
    assert [match.path for match in await sandbox.grep("(2)", is_literal=True, path="src")] == ["src/other.txt"]
    around = await sandbox.grep("Two", path="poem.txt", context_lines=1)
    assert [(match.line, match.is_context) for match in around] == [(1, True), (2, False), (3, True)]
    assert len(await sandbox.grep("e", max_matches=2, path="poem.txt")) == 2
    (workspace / os.fsdecode(b"o\xe9.txt")).write_bytes(b"\xe9 (4)\n")
    assert [(match.path, match.text) for match in await sandbox.grep(r"\(4")] == [("o\ufffd.txt", "\ufffd (4)")]
    with pytest.raises(SandboxError, match="NUL"):
        await sandbox.grep("\0")
    assert "o\ufffd.txt" in await sandbox.glob("*.txt")
    with pytest.raises(SandboxError, match="search failed"):
        await sandbox.grep("(unclosed")


async def test_where_links_lead_is_told_within_the_workspace_only(sandbox: Sandbox, workspace: Path) -> None:
    (workspace / "link").symlink_to("src/main.py")
    (workspace / "folder").symlink_to("src")
    (workspace / "out").symlink_to("/etc/passwd")
    (workspace / "chain").symlink_to("folder/main.py")
    paths = ["link", "folder/main.py", "folder/new/file", "chain", "src/../README.md", "nothing", ""]
    assert await sandbox.real_paths(paths) == [
        "src/main.py", "src/main.py", "src/new/file", "src/main.py", "README.md", "nothing", "",
    ]  # fmt: skip
    for path in ("out", "/etc/passwd", "../x", ".lmagent/config.toml"):
        with pytest.raises(SandboxError):
            await sandbox.real_paths([path])
