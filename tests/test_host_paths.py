"""No code of lmtui that runs on the host touches a path of the workspace: held by a look at the code, and by a trace."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lmtui.sandbox.host_paths import remove_locked
from lmtui.sandbox.select import _empty_folder

ROOT = Path(__file__).parents[1]

# Host code that may join a workspace with a name, and why.
ALLOWED_JOINS = {
    "lmtui/paths.py": "names lmtui's own folder, which is a mount point inside and read-only",
    "lmtui/plain_files.py": "opens component by component, by descriptors, without following links",
    "lmtui/sandbox/mount_layout.py": "names the sources of mounts, which are compared from inside before anything runs",
    "lmtui/sandbox/repository.py": "names a remote, which is looked at only outside, and the folder that git's conditions name",
    "lmtui/sandbox/bubblewrap.py": "names the target of a mount inside",
    "lmtui/sandbox/docker.py": "names the target of a mount inside",
    "lmtui/sandbox/selftest.py": "looks for its own probe before the sandbox is used",
    "lmtui/app/settings_trust.py": "shows lmtui's own settings file",
    "lmtui/features/mcp/mcp_config.py": "names files that plain_files reads",
    "lmtui/app/workspace_files.py": "names a file that was looked at inside, for the user's editor",
    "lmtui/features/memory/memory_files.py": "names a file in lmtui's own folder, which is refused where it is a link",
    "lmtui/features/batch/service.py": "names a batch that the user typed",
    "lmtui/features/batch/cluster_worker.py": "names a folder of files in lmtui's own state folder",
    "lmtui/core/permissions/git_commands.py": "reads the folders in the text of a command",
    "lmtui/acp/projection.py": "names a place for the editor, which opens it itself",
    "lmtui/tui/controllers/prompt_controller.py": "resolves a path that the user pasted",
}
# What a traced run may do by path, as (file, function).
ALLOWED_CALLS = {
    ("lmtui/sandbox/selftest.py", "_owner_problem"),
    ("lmtui/sandbox/host_paths.py", "check_workspace"),  # before anything runs inside: .git and .lmagent must not be links
    ("lmtui/sandbox/host_paths.py", "<genexpr>"),
    ("lmtui/app/host.py", "fresh_folder"),
    ("lmtui/app/host.py", "<genexpr>"),
}

TRACER = r"""
import json, os, sys, threading, traceback
workspace, out, root = sys.argv[1:4]
seen = set()
guard = threading.local()
NAMES = ("os.listdir", "os.scandir", "os.chmod", "os.chown", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.link",
         "os.symlink", "os.truncate", "os.utime", "os.setxattr", "os.getxattr", "shutil.rmtree", "shutil.move", "open")

def note(what, path):
    if getattr(guard, "on", False):
        return
    guard.on = True
    try:
        try:
            text = os.fsdecode(path)
        except TypeError:
            return
        inner = text.removeprefix(workspace + "/")
        if inner == text or inner.split("/")[0] == ".lmagent":
            return
        frames = [f for f in traceback.extract_stack()[:-2] if f.filename.startswith(root + "/lmtui/")]
        where = (os.path.relpath(frames[-1].filename, root), frames[-1].name) if frames else ("", "")
        seen.add((what, inner, *where))
    finally:
        guard.on = False

def hook(event, arguments):
    if event in NAMES:
        for each in arguments[:2]:
            if isinstance(each, (str, bytes, os.PathLike)):
                note(event, each)

def wrapped(name):
    real = getattr(os, name)
    def call(path, *rest, **named):
        if named.get("dir_fd") is None and isinstance(path, (str, bytes, os.PathLike)):
            note("os." + name, path)
        return real(path, *rest, **named)
    return call

for name in ("stat", "lstat", "readlink", "access"):
    setattr(os, name, wrapped(name))
sys.addaudithook(hook)
from lmtui.cli import run
code = run(["demo", "--headless", "--keep", workspace])
open(out, "w").write(json.dumps({"code": code, "seen": sorted(seen)}))
"""


def traced(tracer: str, workspace: Path) -> dict[str, Any]:
    """Return the exit code of a demo in a workspace, and the paths that it touched there."""
    out = workspace.parent / "out.json"
    environment = {**os.environ, "LMTUI_HOME": str(workspace.parent / "home")}
    command = [sys.executable, "-c", tracer, str(workspace), str(out), str(ROOT)]
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert out.exists(), ran.stdout + ran.stderr
    told: dict[str, Any] = json.loads(out.read_text())
    return told


def _names_workspace(node: ast.expr) -> bool:
    """Tell whether an expression is a workspace: `workspace`, `self._workspace`, `self.workspace()` and the like."""
    if isinstance(node, ast.Call):
        return _names_workspace(node.func)
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return name.strip("_") in ("workspace", "root")


def test_no_host_module_makes_a_path_of_the_workspace_but_those_with_a_reason() -> None:
    found: dict[str, int] = {}
    for path in sorted((ROOT / "lmtui").rglob("*.py")):
        name = str(path.relative_to(ROOT))
        if name.startswith(("lmtui/sandbox/guest/", "lmtui/sandbox/images.py", "lmtui/models/")):
            continue  # inside the sandbox; its image; models on disk
        text = path.read_text()
        for node in ast.walk(ast.parse(text)) if re.search(r"(?:workspace|root)\b", text) else ():
            is_join = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and _names_workspace(node.left)
            is_call = (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name | ast.Attribute)
                and (getattr(node.func, "id", "") == "Path" or getattr(node.func, "attr", "") in ("joinpath", "join"))
                and any(_names_workspace(each) for each in node.args)
                and len(node.args) > 1
            )
            if is_join or is_call:
                found[name] = getattr(node, "lineno", 0)
    reviewed = {
        "lmtui/features/slash_commands/prompt_files.py", "lmtui/features/skills/skill_folders.py",
        "lmtui/features/hooks/hook_config.py",
    }  # fmt: skip
    assert set(found) - reviewed <= set(ALLOWED_JOINS), found


@pytest.mark.full
@pytest.mark.bubblewrap
def test_a_session_with_every_kind_of_tool_touches_no_path_of_the_workspace(tmp_path: Path) -> None:
    workspace = tmp_path / "ws"
    (workspace / ".claude/commands").mkdir(parents=True)
    (workspace / ".claude/commands/go.md").write_text("Go.\n")
    (workspace / ".claude/agents").mkdir()
    (workspace / ".claude/agents/heron.md").write_text("---\nname: heron\ndescription: Looks.\n---\nLook.\n")
    (workspace / ".env").write_text("LLM_TIMEOUT=30\n")
    (workspace / "AGENTS.md").write_text("Be brief.\n")
    told = traced(TRACER, workspace)
    assert told["code"] == 0
    by_path = [tuple(each) for each in told["seen"] if (each[2], each[3]) not in ALLOWED_CALLS]
    assert by_path == []


@pytest.mark.bubblewrap
@pytest.mark.full
def test_the_trace_sees_a_path_that_is_opened(tmp_path: Path) -> None:
    careless = (
        "import lmtui.sandbox.workspace_states as m\nreal = m.SandboxListing.__init__\n"
        "def init(self, instances):\n    real(self, instances)\n    (instances.workspace / 'x').exists()\n"
        "m.SandboxListing.__init__ = init\n"
    )
    tracer = TRACER.replace("from lmtui.cli import run\n", f"{careless}from lmtui.cli import run\n")
    assert any(inner == "x" for _, inner, *_ in traced(tracer, tmp_path / "ws")["seen"])


STARTS = {"create_subprocess_exec", "create_subprocess_shell", "subprocess_exec", "Popen", "run"}


def test_every_program_is_started_with_an_environment_of_its_own() -> None:
    without: list[str] = []
    starts = re.compile(rf"\.(?:{'|'.join(STARTS)})\(")
    for path in sorted((ROOT / "lmtui").rglob("*.py")):
        if path.is_relative_to(ROOT / "lmtui/sandbox/guest") or not starts.search(
            path.read_text()
        ):  # it has none of the host's
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr not in STARTS:
                continue
            is_start = node.func.attr != "run" or (isinstance(node.func.value, ast.Name) and node.func.value.id == "subprocess")
            if is_start and "env" not in {each.arg for each in node.keywords}:
                without.append(f"{path.relative_to(ROOT)}: {ast.unparse(node.args[0])}")
    own = "lmtui/features/batch/cluster_worker.py: run"  # lmtui itself
    assert without == [own, own]


@pytest.mark.full
def test_what_a_killed_self_test_left_is_removed_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LMTUI_HOME", str(tmp_path))
    code = "import os\nfrom lmtui.sandbox.select import _empty_folder as make\nmake()\nos._exit(9)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 9
    (left,) = (path for path in (tmp_path / "state" / "self-test").iterdir() if path.is_dir())
    mine, others = _empty_folder(), _empty_folder()
    assert (left.exists(), mine.is_dir(), others.is_dir()) == (False, True, True)
    for each in (mine, others):
        remove_locked(each)
    assert not [*(tmp_path / "state" / "self-test").iterdir()]
    monkeypatch.setenv("LMTUI_HOME", str(ROOT / "README.md"))  # in which no folder can be made
    remove_locked(instead := _empty_folder())
    assert not instead.exists()
