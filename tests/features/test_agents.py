from __future__ import annotations

from pathlib import Path

import pytest

from lmtui.core.errors import ToolError
from lmtui.core.subagents import AgentDefinition, FileState
from lmtui.core.window import bytes_by_four
from lmtui.features.folder_consent import FolderTrust
from lmtui.features.skills.reader import read_agent
from lmtui.features.skills.service import AgentFiles
from lmtui.plain_files import LINKED
from lmtui.tools.registry import ToolRegistry
from tests.sets import for_each
from tests.trusting import say


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    monkeypatch.setenv("LMTUI_HOME", str(tmp_path / "lmtui"))
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def files(workspace: Path) -> AgentFiles:
    return AgentFiles(workspace, bytes_by_four)


def make(folder: Path, name: str = "heron", description: str = "Looks for frogs.", body: str = "Stand still.") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.md"
    path.write_text(f"---\nname: {name}\ndescription: {description}\ntools: Read\n---\n{body}\n")
    return path


async def states(agents: AgentFiles) -> dict[str, FileState]:
    return {each.place: each.state for each in await agents.found()}


async def test_each_place_is_looked_into_and_the_folders_goes_first(workspace: Path) -> None:
    for folder in (".lmagent/agents", ".claude/agents"):
        make(workspace / folder)
    make(workspace.parent / "lmtui/config/agents")
    make(workspace.parent / "user/.claude/agents", "egret")
    agents = files(workspace)
    say(agents.files.trust, is_trusted=True)
    own = f"{workspace.parent / 'lmtui/config/agents'}/heron.md"
    assert await states(agents) == {
        ".lmagent/agents/heron.md": FileState.READY, ".claude/agents/heron.md": FileState.HIDDEN,
        own: FileState.HIDDEN, "~/.claude/agents/egret.md": FileState.READY,
    }  # fmt: skip
    assert (await agents.named("heron")).place == ".lmagent/agents/heron.md"


async def test_those_of_a_folder_wait_for_a_yes_and_a_change_asks_again(workspace: Path) -> None:
    path = make(workspace / ".claude/agents")
    agents = files(workspace)
    (item,) = FolderTrust(agents.files.trust).waiting()
    assert (item.kind, item.source, item.text) == (
        "sub-agent", ".claude/agents/heron.md", "heron: Looks for frogs.",
    )  # fmt: skip
    assert await agents.told(300) == ("", 0)
    with pytest.raises(ToolError, match="needs approval"):
        await agents.named("heron")
    say(agents.files.trust, is_trusted=True)
    assert (await agents.named("heron")).instructions == "Stand still."
    path.write_text(path.read_text().replace("Stand still.", "Fly away."))
    assert len(FolderTrust(agents.files.trust).waiting()) == 1
    with pytest.raises(ToolError, match="needs approval"):
        await agents.named("heron")
    say(agents.files.trust, is_trusted=False)
    assert await states(agents) == {".claude/agents/heron.md": FileState.REFUSED}


async def test_links_of_a_folder_are_not_followed(workspace: Path) -> None:
    secret = make(workspace.parent / "secret", "secret")
    folder = workspace / ".claude/agents"
    folder.mkdir(parents=True)
    (folder / "link.md").symlink_to(secret)
    (found,) = await files(workspace).found()
    assert (found.state, found.problem) == (FileState.BROKEN, ".claude/agents/link.md: it is a link")
    (workspace / ".lmagent").mkdir()
    (workspace / ".lmagent/agents").symlink_to(secret.parent)
    assert [each.problem for each in await files(workspace).found()][:1] == [f".lmagent/agents: {LINKED}"]


def read(text: str, stem: str = "file") -> AgentDefinition:
    return read_agent(text.encode(), stem, f"{stem}.md", ToolRegistry().canonical)


def front(*lines: str, body: str = "Do it.") -> str:
    return "\n".join(("---", "name: heron", "description: Looks.", *lines, "---", body))


@for_each(("line", "allowed"), [
    ("tools: Read, Edit", ("Read", "Edit")), ("tools: [Read, Edit]", ("Read", "Edit")),
    ("tools:\n  - Read\n  - MultiEdit", ("Read", "Edit")),
    ("tools: Bash(git diff:*), Read", ("Shell(git diff *)", "Read")),
    ("tools: mcp__github__get_issue", ("mcp__github__get_issue",)), ('tools: "*"', ("*",)),
    ("color: blue", None),
])  # fmt: skip
def test_tools_are_a_list_or_words_between_commas(line: str, allowed: tuple[str, ...] | None) -> None:
    assert read(front(line)).allowed == allowed


def test_of_tools_unknown_ones_warn_and_denied_ones_are_read() -> None:
    found = read(front("tools: Read, Telescope"))
    assert found.allowed == ("Read",)
    assert found.warnings == ("its tools name Telescope, which is not a tool here",)
    nothing = read(front("tools: Telescope"))
    assert nothing.allowed == ()
    assert "its tools name no tool here, so it may call none" in nothing.warnings
    found = read(front("disallowedTools: Write, Edit", "permissionMode: plan", "maxTurns: 5"))
    assert (found.allowed, found.denied) == (None, ("Write", "Edit"))
    assert found.warnings == ("its permissionMode is not read", "its maxTurns is not read")


def test_without_a_name_it_goes_by_its_files_control_characters_are_taken_out_and_its_model_may_be_the_parents() -> None:
    assert [read(front(f"model: {given}")).model for given in ("inherit", "Inherit", "qwen3:30b")] == ["", "", "qwen3:30b"]
    found = read("---\ndescription: Looks.\n---\nDo.", "heron")
    assert (found.name, found.warnings) == ("heron", ("it has no name, so it goes by its file's",))
    odd = read('---\nname: "Big\x1b[31m Heron\u202e"\ndescription: "a\x07b"\n---\nDo\x1b]0;x\x07 it.')
    assert not set(odd.name + odd.description + odd.instructions) & set("\x1b\x07\u202e")
    assert " " not in odd.name
