from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lmtui.plain_files import find_program
from lmtui.sandbox.backend import Options
from lmtui.sandbox.project_tools import NO_TOOLS, ProjectTools, find_project_tools, with_program
from lmtui.sandbox.select import choose, make_backend
from tests.sandbox.conftest import CONFINED, ISOLATED, OpenSandbox, fill
from tests.sets import for_each

_SYSTEM_PYTHON = Path("/usr/bin/python3")
_PROGRAM = "#!/bin/sh\necho {name}\n"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("PATH", "/usr/local/bin:/usr/bin:/bin")
    monkeypatch.setenv("LMTUI_HOME", str(tmp_path / "lmtui"))
    return folder


def program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_PROGRAM.format(name=path.name))
    path.chmod(0o755)
    return path


def python(prefix: Path) -> Path:
    """Make what looks like a Python of pyenv or uv, and is one: the system's program finds the system's library."""
    (prefix / "bin").mkdir(parents=True)
    (prefix / "lib/python3.99").mkdir(parents=True)
    shutil.copy(_SYSTEM_PYTHON.resolve(), prefix / "bin/python3")
    return prefix / "bin/python3"


def config(home: Path | str) -> str:
    return f"home = {home}\ninclude-system-site-packages = false\nversion = 3.99.1\n"


def targets(tools: ProjectTools) -> list[str]:
    return list(tools.shown)


@pytest.mark.parametrize("place", [".pyenv/versions/3.99.1", ".local/share/uv/python/cpython-3.99.1-linux", "miniforge3"])
def test_the_python_of_an_environment_is_shown(workspace: Path, home: Path, place: str) -> None:
    python(home / place)
    found = find_project_tools(workspace, {".venv/pyvenv.cfg": config(home / place / "bin")})
    assert targets(found) == [str(home / place)]
    assert found.variables == {"VIRTUAL_ENV": str(workspace / ".venv")}


@for_each("named", ["{home}/.ssh", "{home}", "/etc", "/", "{home}/.config/x", "relative", "{home}/.pyenv/versions/../.."])
def test_what_an_environment_names_is_not_shown_where_it_is_no_python(workspace: Path, home: Path, named: str) -> None:
    (home / ".ssh").mkdir(exist_ok=True)
    found = find_project_tools(workspace, {".venv/pyvenv.cfg": config(named.format(home=home))})
    assert targets(found) == []


def test_a_tool_folder_that_holds_credentials_is_not_shown(workspace: Path, home: Path) -> None:
    python(home / ".pyenv/versions/3.99.1")
    (home / ".pyenv/versions/3.99.1/.netrc").write_text("machine x password y")
    found = find_project_tools(workspace, {".venv/pyvenv.cfg": config(home / ".pyenv/versions/3.99.1/bin")})
    assert targets(found) == []
    assert "holds credentials (.netrc)" in next(iter(found.withheld.values()))


def test_a_cache_that_is_a_link_is_not_shown(workspace: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(home / ".cargo/bin/cargo")
    (home / "private").mkdir()
    (home / ".cargo/registry").symlink_to(home / "private")
    monkeypatch.setenv("PATH", f"{home}/.cargo/bin:/usr/bin")
    assert f"{home}/.cargo/registry" not in targets(find_project_tools(workspace, {"Cargo.toml": ""}))


def test_programs_of_the_workspace_are_not_looked_at(workspace: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = program(workspace / ".venv/bin/uv")
    monkeypatch.setenv("PATH", f"{own.parent}:relative:{workspace}/src/../.venv/bin:/usr/bin")
    assert find_program("uv", workspace) is None
    (home / ".local/bin").mkdir(parents=True)
    (home / ".local/bin/uv").symlink_to(own)
    monkeypatch.setenv("PATH", f"{home}/.local/bin")
    assert targets(find_project_tools(workspace, {"uv.lock": ""})) == []


def test_a_program_of_an_environment_brings_the_environment_and_its_python(workspace: Path, home: Path) -> None:
    python(home / ".pyenv/versions/3.99.1")
    server = program(home / ".venvs/mcp/bin/mcp-server-time")
    (home / ".venvs/mcp/pyvenv.cfg").write_text(config(home / ".pyenv/versions/3.99.1/bin"))
    found = with_program(NO_TOOLS, str(server), workspace)
    assert sorted(targets(found)) == [f"{home}/.pyenv/versions/3.99.1", f"{home}/.venvs/mcp"]


@pytest.mark.parametrize("place", [".ssh/bin/x", ".config/bin/x", "bin/x"])
def test_a_program_that_is_named_shows_nothing_private(place: str, workspace: Path, home: Path) -> None:
    named = program(home / place)
    (home / "pyvenv.cfg").write_text("home = /usr/bin\n")
    assert targets(with_program(NO_TOOLS, str(named), workspace)) == []
    (workspace / "bin").mkdir()
    (workspace / "bin/x").symlink_to(named)
    assert with_program(NO_TOOLS, f"{workspace}/bin/x", workspace) == NO_TOOLS


def make_environment(workspace: Path, interpreter: Path) -> None:
    """Make an environment as `python -m venv` does, with a program of a package and an editable install."""
    subprocess.run([interpreter, "-m", "venv", "--without-pip", workspace / ".venv"], check=True)
    packages = next((workspace / ".venv/lib").glob("python*/site-packages"))
    (packages / "editable.pth").write_text(f"{workspace}/src\n")
    (workspace / "src/thing.py").write_text("def main():\n    print('thing works')\n")
    script = program(workspace / ".venv/bin/thing")
    script.write_text(f"#!{workspace}/.venv/bin/python\nimport thing\nthing.main()\n")


@pytest.mark.parametrize("backend", CONFINED)
async def test_an_environment_works_unchanged(backend: str, workspace: Path, home: Path, open_sandbox: OpenSandbox) -> None:
    interpreter = python(home / ".pyenv/versions/3.99.1")
    make_environment(workspace, interpreter)
    owner, before = workspace.stat(), interpreter.read_bytes()
    sandbox = await open_sandbox(backend)
    for command in (".venv/bin/thing", ". .venv/bin/activate && thing", "thing", "python -c 'import thing; thing.main()'"):
        result = await sandbox.run_command(command)
        assert (result.exit_code, result.output.strip()) == (0, "thing works"), command
    result = await sandbox.run_command("echo $VIRTUAL_ENV; command -v python; touch made")
    assert result.output.split() == [f"{workspace}/.venv", f"{workspace}/.venv/bin/python"]
    assert (workspace / "made").stat().st_uid == owner.st_uid
    result = await sandbox.run_command(f"echo x > {interpreter}; rm -rf {interpreter.parent}; mv {home} /tmp/x")
    assert (result.exit_code != 0, interpreter.read_bytes()) == (True, before)


@pytest.mark.parametrize("backend", ISOLATED)
async def test_a_tool_that_comes_later_is_there_at_the_second_try(
    backend: str, workspace: Path, home: Path, open_sandbox: OpenSandbox
) -> None:
    interpreter = python(home / ".pyenv/versions/3.99.1")
    sandbox = await open_sandbox(backend)
    assert (await sandbox.run_command("thing")).exit_code == 127
    make_environment(workspace, interpreter)
    first = await sandbox.run_command("thing")
    assert "the sandbox has other tools of this project now: run the command again" in first.text
    assert (await sandbox.run_command("thing")).text.strip() == "thing works"


@pytest.mark.bubblewrap
async def test_caches_take_what_tools_write_and_the_users_stay_as_they_are(
    workspace: Path, home: Path, monkeypatch: pytest.MonkeyPatch, open_sandbox: OpenSandbox
) -> None:
    program(home / ".cargo/bin/cargo")
    fill(home, {".cargo/registry/index": "fetched\n"})
    (workspace / "Cargo.toml").write_text("[package]\n")
    monkeypatch.setenv("PATH", f"{home}/.cargo/bin:/usr/local/bin:/usr/bin:/bin")
    sandbox = await open_sandbox("bubblewrap")
    result = await sandbox.run_command("cargo; cat $CARGO_HOME/registry/index; echo x > $CARGO_HOME/registry/made")
    assert result.output.startswith("cargo\nfetched\n")
    assert [path.name for path in (home / ".cargo/registry").iterdir()] == ["index"]


@pytest.mark.bubblewrap
async def test_no_command_runs_with_the_python_of_lmtui(workspace: Path, open_sandbox: OpenSandbox) -> None:
    result = await (await open_sandbox("bubblewrap")).run_command("command -v python3; echo $PATH")
    found, path = result.output.split()
    assert found.startswith(("/usr/", "/bin/", "/opt/lmtui/bin/"))
    own = {sys.prefix, sys.base_prefix}
    assert all(
        part.startswith(str(workspace)) or Path(part).parent.as_posix() not in own
        for part in path.split(":")
        if part != "/usr/bin"
    )


@pytest.mark.docker
@pytest.mark.bubblewrap
async def test_auto_takes_the_sandbox_in_which_the_tools_work(workspace: Path, home: Path) -> None:
    make_environment(workspace, python(home / ".pyenv/versions/3.99.1"))
    candidates = [make_backend(name, workspace, Options()) for name in ("docker", "bubblewrap")]
    chosen = await choose(candidates, workspace)
    try:
        assert chosen.backend.name == "bubblewrap"
        assert chosen.status.reason == "docker: lmtui's image lacks what this project uses: the Python of .venv"
    finally:
        for client in (chosen.client, chosen.guard):
            await client.close()
        for backend in candidates:
            await backend.close()


SECRETS = Path(__file__).with_name("secret_places.txt").read_text().split()


@pytest.mark.full
@pytest.mark.parametrize("backend", CONFINED)
async def test_no_secret_of_the_home_folder_is_seen_with_eight_toolchains(
    backend: str, workspace: Path, home: Path, monkeypatch: pytest.MonkeyPatch, open_sandbox: OpenSandbox
) -> None:
    assert len(SECRETS) >= 60
    for name in SECRETS:
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("heron-secret\n")
    for place in (
        ".cargo/bin/cargo", ".nvm/versions/node/v20.1.0/bin/pnpm", ".local/share/uv/tools/x/bin/uv", "sdk/go1.22/bin/go",
        ".sdkman/candidates/java/21/bin/java", ".rbenv/versions/3.3.0/bin/ruby",
    ):  # fmt: skip
        program(home / place)
    for cache in (
        ".cargo/registry",
        ".rustup/toolchains",
        ".m2/repository",
        "go/pkg/mod",
        ".cache/uv",
        ".gradle/caches/modules-2",
    ):
        (home / cache).mkdir(parents=True)
    make_environment(workspace, python(home / ".pyenv/versions/3.99.1"))
    for marker in ("package.json", "Cargo.toml", "go.mod", "pom.xml", "uv.lock", "Gemfile"):
        (workspace / marker).write_text("{}")
    monkeypatch.setenv("PATH", f"{home}/.cargo/bin:{home}/sdk/go1.22/bin:/usr/bin:/bin")
    sandbox = await open_sandbox(backend)
    shown = [fact for fact in (await sandbox.status()).facts if fact.startswith("shown: ")]
    assert len(shown) >= 8, shown
    places = " ".join(shlex.quote(str(home / name)) for name in SECRETS)
    found = await sandbox.run_command(f"cat {places}; grep -rs heron-secret {home} ~ /root /home; ls -A {home}", timeout_s=60)
    assert "heron-secret" not in found.output
