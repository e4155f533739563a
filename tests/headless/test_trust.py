from __future__ import annotations

import argparse
import asyncio
import json
import shutil
from pathlib import Path

import pytest

from lmtui.app.settings_trust import load_trusted
from lmtui.core.errors import UsageError
from lmtui.core.trust import kinds_text
from lmtui.features.folder_consent import trusted_folders
from lmtui.headless.trust_report import report

HOOKS = {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "true"}]}]}}
SERVERS = {"mcpServers": {"paper": {"command": "python3", "args": ["paper_server.py"]}}}
AGENT = "---\nname: heron\ndescription: Looks for frogs\n---\nLook.\n"
SKILL = "---\nname: tidy\ndescription: Tidy up\n---\nTidy.\n"


class Folder:
    def __init__(self, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (path / ".lmagent" / "skills" / "tidy").mkdir(parents=True)
        self.path, self._capsys = path, capsys

    def bring_all(self) -> None:
        (self.path / ".lmagent" / "config.toml").write_text('mode = "auto"')
        (self.path / ".lmagent" / "hooks.json").write_text(json.dumps(HOOKS))
        (self.path / ".mcp.json").write_text(json.dumps(SERVERS))
        (self.path / ".lmagent" / "skills" / "tidy" / "SKILL.md").write_text(SKILL)
        (self.path / ".claude" / "agents").mkdir(parents=True)
        (self.path / ".claude" / "agents" / "heron.md").write_text(AGENT)

    def trust(self, *, yes: bool = False, lists: bool = False, revoke: str | None = None, is_json: bool = False) -> int:
        arguments = argparse.Namespace(yes=yes, list=lists, revoke=revoke, json=is_json)
        return asyncio.run(report(self.path, load_trusted(self.path, {}, {}), arguments))

    def said(self) -> str:
        return self._capsys.readouterr().out


@pytest.fixture
def folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Folder:
    return Folder(tmp_path / "work", capsys)


def test_everything_is_shown_trusted_listed_and_taken_back(folder: Folder) -> None:
    assert folder.trust() == 0
    assert "brings nothing that needs trust" in folder.said()
    folder.bring_all()
    assert folder.trust() == 3
    shown = folder.said()
    brought = ("mode = auto", "Stop: true", "paper: python3 paper_server.py", "tidy: Tidy up", "heron: Looks for frogs")
    assert all(words in shown for words in brought)
    assert folder.trust(yes=True) == 0
    assert "From now on: 1 MCP server, 1 skill, 1 sub-agent. From the next session on: 1 setting, 1 hook." in folder.said()
    assert folder.trust() == 0
    assert "All of this is trusted; `lmtui trust --revoke` revokes it." in folder.said()
    assert kinds_text(trusted_folders()[str(folder.path)]) == "1 setting, 1 MCP server, 1 hook, 1 skill, 1 sub-agent"
    assert folder.trust(revoke="") == 0
    assert "Nothing that" in folder.said()
    assert (trusted_folders(), folder.trust()) == ({}, 3)


def test_the_list_names_items_here_and_other_folders_which_are_taken_back_though_their_files_are_gone(
    folder: Folder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder.bring_all()
    folder.trust(yes=True)
    other = Folder(tmp_path / "other", capsys)
    (other.path / ".mcp.json").write_text(json.dumps(SERVERS))
    other.trust(yes=True)
    folder.said()
    assert folder.trust(lists=True) == 0
    text = folder.said()
    assert text.index("1 setting, 1 MCP server, 1 hook, 1 skill") < text.index(f"    {other.path}  1 MCP server")
    folder.trust(lists=True, is_json=True)
    found = json.loads(folder.said())
    assert [item["kind"] for item in found["trusted"]] == ["setting", "MCP server", "hook", "skill", "sub-agent"]
    assert found["others"] == [{"folder": str(other.path), "kinds": ["MCP server"]}]
    shutil.rmtree(other.path)
    folder.trust(revoke=str(other.path))
    assert list(trusted_folders()) == [str(folder.path)]
    with pytest.raises(UsageError, match="other is not a folder"):
        folder.trust(revoke=str(other.path))
    with pytest.raises(UsageError, match="other is not a folder"):
        other.trust()


@pytest.mark.parametrize(("name", "text"), [(".mcp.json", "{"), (".lmagent/hooks.json", '{"hooks": ')])
def test_a_file_that_cannot_be_read_is_named_and_nobody_is_told_that_nothing_is_there(
    folder: Folder, name: str, text: str
) -> None:
    (folder.path / name).write_text(text)
    assert folder.trust() == 1
    said, words = folder.said(), (f"{name} cannot be read", "line 1 column", "nothing else that needs trust")
    assert [each for each in words if each in said] == list(words)


def test_a_yes_ends_well_though_something_of_the_file_is_not_known(folder: Folder) -> None:
    hooks = {"hooks": {**HOOKS["hooks"], "Sleep": [], "Nap": []}}
    (folder.path / ".lmagent" / "hooks.json").write_text(json.dumps(hooks))
    assert folder.trust(yes=True) == 0
    assert (said := folder.said()).count("✗") == said.count("lmtui does not have 'Sleep', 'Nap'") == 1
    assert folder.trust() == 0


def test_a_broken_hook_before_tools_waits_for_a_yes_like_the_others(folder: Folder) -> None:
    hooks = {"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "prompt", "prompt": "x"}]}]}}
    (folder.path / ".lmagent" / "hooks.json").write_text(json.dumps(hooks))
    assert folder.trust() == 3
    assert "PreToolUse Bash: cannot be read, so each call is asked about" in folder.said()
    assert folder.trust(yes=True) == 0


def test_a_change_is_asked_about_beside_what_is_trusted_and_says_what_was_there_before(folder: Folder) -> None:
    folder.bring_all()
    folder.trust(yes=True)
    (folder.path / ".lmagent" / "config.toml").write_text('mode = "normal"\nnetwork = "on"\n')
    (folder.path / ".mcp.json").write_text(json.dumps(SERVERS).replace("paper_server", "other"))
    (folder.path / ".lmagent" / "skills" / "tidy" / "SKILL.md").write_text(SKILL + "More.\n")
    folder.said()
    assert folder.trust() == 3
    said = folder.said()
    assert "Trusted by now: 1 hook, 1 sub-agent.  It is about: 2 settings, 1 MCP server, 1 skill." in said
    assert "lmtui ignores the rest." in said
    changed = (
        "mode = normal (was mode = auto)",
        "network = on (new)",
        "other.py (was paper: python3 paper_server.py)",
        "Tidy up (contents changed)",
    )
    assert all(words in said for words in changed)


def test_where_a_server_runs_is_chosen_before_the_yes(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder.path / ".mcp.json").write_text(json.dumps(SERVERS))
    typed = ["v", "s", "3", "y"]
    asked: list[str] = []

    def read(question: str = "") -> str:
        asked.append(question)
        return typed.pop(0)

    monkeypatch.setattr("builtins.input", read)
    for stream in ("stdin", "stdout"):
        monkeypatch.setattr(f"sys.{stream}.isatty", lambda: True)
    assert folder.trust() == 0
    said = folder.said()
    assert asked[0] == asked[1] == "Trust all of this as it is now? [y/N, s to choose where a server runs] "
    assert "3. on this machine without a sandbox" in said
    assert "paper: outside the sandbox, python3 paper_server.py, as you chose" in said
    assert "From now on: 1 MCP server." in said
