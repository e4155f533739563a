from __future__ import annotations

from pathlib import Path

import pytest

from lmtui.core.errors import UsageError
from lmtui.sandbox.toolchains import check_toolchains
from tests.sandbox.conftest import BUBBLEWRAP, DOCKER, LANDLOCK, OpenSandbox
from tests.sets import for_each


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home" / "ada"
    for name in (".pyenv/versions/3.12/bin", ".ssh", ".aws", ".cargo/bin", ".config/gh", "project", "with:colon", ".docker"):
        (folder / name).mkdir(parents=True)
    (folder / ".cargo" / "credentials.toml").touch()
    monkeypatch.setenv("HOME", str(folder))
    return folder


@for_each(
    ("name", "why"),
    [
        ("/", "home folder, or contains"), ("", "home folder"), ("..", "home folder, or contains"),
        ("nowhere", "does not exist"), (".ssh", "credentials"), (".aws", "credentials"), (".config/gh", "credentials"),
        (".docker", "credentials"), (".cargo", "credentials"), ("project/..", "home folder"), ("with:colon", "be on PATH"),
        ("/etc", "the system"), ("/proc/self", "the system"), ("project", "workspace"),
    ],
)  # fmt: skip
def test_a_folder_that_must_not_be_shown_is_refused(home: Path, name: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        check_toolchains([home / name], home / "project")


def test_a_link_is_judged_by_where_it_leads(home: Path) -> None:
    (home / "tools").symlink_to(home / ".ssh")
    with pytest.raises(UsageError, match="credentials"):
        check_toolchains([home / "tools"], home / "project")


@pytest.mark.parametrize("backend", [DOCKER, BUBBLEWRAP, LANDLOCK])
async def test_commands_run_tools_that_they_cannot_change(backend: str, home: Path, open_sandbox: OpenSandbox) -> None:
    folder = home / ".pyenv/versions/3.12"
    tool = folder / "bin" / "hail"
    tool.write_text("#!/bin/sh\necho hail $1\n")
    for path in (tool, *tool.parents[:7]):
        if path.is_relative_to(home.parents[1]):
            path.chmod(0o755)
    sandbox = await open_sandbox(backend, toolchains=(folder,))
    result = await sandbox.run_command(f"hail ada; (echo x >> {tool}) 2>/dev/null; ls {home}/.ssh 2>&1 | head -c 300")
    assert result.output.startswith("hail ada\n")
    assert tool.read_text() == "#!/bin/sh\necho hail $1\n"
    assert "No such file" in result.output or "ermission denied" in result.output
