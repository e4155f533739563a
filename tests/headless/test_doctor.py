from __future__ import annotations

import argparse
import contextlib
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from lmtui.app.sandboxes import BackendReport
from lmtui.config import Config, Loaded, load_config
from lmtui.core.servers import KEY_HINT, ServedModel, ServerFound
from lmtui.headless.listings import doctor_report, memory_rows, sandbox_rows
from lmtui.models.demo_scripts import Scenario
from lmtui.models.scripted_server import ScriptedServer
from lmtui.paths import workspace_state_dir


async def rows(
    workspace: Path, capsys: pytest.CaptureFixture[str], loaded: Loaded | None = None
) -> tuple[int, dict[str, dict[str, Any]]]:
    found = loaded or Loaded(Config(), {})
    code = await doctor_report(workspace, found, argparse.Namespace(offline=True, json=True))
    return code, {row["name"]: row for row in json.loads(capsys.readouterr().out)}


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr("lmtui.headless.listings.counter_name", lambda: "tiktoken")  # it would stay, with 55 MB
    (tmp_path / "work" / ".lmagent").mkdir(parents=True)
    return tmp_path / "work"


def expected(found: dict[str, dict[str, Any]]) -> int:
    states = {row["state"] for row in found.values()}
    return 2 if "failure" in states else 1 if "warning" in states else 0


async def test_a_healthy_machine_has_no_warning_but_for_its_sandbox_and_a_folder_that_is_not_there_is_a_failure(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = await rows(workspace, capsys)
    assert {name for name, row in found.items() if row["state"] not in ("ok", "none")} <= {"sandbox"}
    assert code == (2 if "sandbox" in found else 0)
    code, found = await rows(workspace / "nosuch", capsys)
    assert (code, "does not exist" in found["workspace"]["text"]) == (2, True)


async def test_each_mark_means_one_thing(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, text in (("good", "---\nname: good\ndescription: Good.\n---\nDo.\n"), ("bad", "no front")):
        (workspace / ".lmagent" / "skills" / name).mkdir(parents=True)
        (workspace / ".lmagent" / "skills" / name / "SKILL.md").write_text(text)
    hooks = {"PreToolUse": [{"hooks": [{"type": "command", "command": "true"}]}]}
    (workspace / ".lmagent" / "hooks.json").write_text(json.dumps({"hooks": hooks}))
    (workspace / ".lmagent" / "commands").mkdir()
    (workspace / ".lmagent" / "commands" / "look.md").write_text("Look: !`ls`")
    (workspace / ".mcp.json").write_text('{"mcpServers": {"one": {"command": "true"}}}')
    _ = await doctor_report(workspace, Loaded(Config(), {}), argparse.Namespace(offline=True, json=False))
    lines = capsys.readouterr().out.splitlines()
    said = {mark: [line for line in lines if line.startswith(mark)] for mark in "✓–!✗"}
    assert not any(word in line for line in said["✓"] for word in ("waits", "broken", "not available", "none"))
    assert sum("needs approval" in line for line in said["!"]) == 4
    assert any("bad/SKILL.md" in line for line in said["✗"])


@pytest.mark.full
async def test_what_a_folder_asked_for_is_a_warning(
    workspace: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    _, found = await rows(workspace, capsys, Loaded(Config(roles=("pilot: a",)), {}))
    assert found["roles"]["text"] == "nothing uses pilot yet; the setting is checked, but has no effect"
    (workspace / ".lmagent" / "config.toml").write_text('mode = "auto"')
    code, found = await rows(workspace, capsys, load_config(workspace, {}, {}))
    assert "mode in .lmagent/config.toml" in found["trust"]["text"]
    assert found["terminal"]["state"] == "warning"
    assert all(row["hint"] for row in found.values() if row["state"] not in ("ok", "none"))
    assert code == expected(found) >= 1


@pytest.mark.parametrize(("working", "state", "words"), [
    ("bubblewrap landlock files", "ok", ""), ("podman files", "ok", ""),
    ("landlock process files", "warning", "only landlock works"),
    ("process files", "failure", "no sandbox works"),
])  # fmt: skip
def test_what_the_backends_are_worth_together(working: str, state: str, words: str) -> None:
    names = ("docker", "podman", "bubblewrap", "landlock", "process", "files")
    found = sandbox_rows([BackendReport(name, name in working.split(), "no", "Mend it.", (), 1) for name in names])
    verdict = [row for row in found if row.name == "sandbox"]
    assert [(row.state, row.text.startswith(words), row.hint) for row in verdict] == [(state, True, "Mend it.")] * bool(words)


@pytest.mark.full
async def test_sub_agents_are_named_with_what_is_wrong_with_them(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, found = await rows(workspace, capsys)
    assert "sub-agents" not in found
    (workspace / ".claude/agents").mkdir(parents=True)
    (workspace / ".claude/agents/heron.md").write_text("---\nname: heron\ndescription: Looks.\n---\nLook.\n")
    (workspace / ".claude/agents/bad.md").write_text("---\nname: bad\n---\nLook.\n")
    assert await doctor_report(workspace, Loaded(Config(), {}), argparse.Namespace(offline=True, json=False)) > 0
    said = [line for line in capsys.readouterr().out.splitlines() if "sub-agents" in line]
    assert said == [
        "! sub-agents   needs approval: heron",
        "! sub-agents   .claude/agents/bad.md: line 2: it has no description",
    ]


@pytest.mark.full
@pytest.mark.parametrize(("settings", "words", "told"), [
    ({"roles": ("title: egret",)}, "title: egret", [("warning", "")]),
    ({"model": "egret"}, "has no model: egret", [("warning", "It has heron.")]),
    ({"model": "heron"}, "has no ", []),
])  # fmt: skip
async def test_a_model_that_the_server_in_use_does_not_list_is_a_warning(
    settings: dict[str, Any], words: str, told: list[tuple[str, str]], workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with ScriptedServer(Scenario((), models=("heron",))) as server:
        loaded = Loaded(Config(url=server.url, **settings), {})
        code = await doctor_report(workspace, loaded, argparse.Namespace(offline=False, json=True))
    found = [row for row in json.loads(capsys.readouterr().out) if words in row["text"]]
    assert [row["state"] for row in found] == [state for state, _ in told]
    assert all(hint in row["hint"] for row, (_, hint) in zip(found, told, strict=True))
    assert code >= len(told)


@pytest.mark.full
async def test_a_server_that_needs_a_key_is_a_warning_that_says_how_to_give_it(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with ScriptedServer(Scenario(()), key="sk-9") as server:
        await doctor_report(workspace, Loaded(Config(url=server.url), {}), argparse.Namespace(offline=False, json=True))
    found = [row for row in json.loads(capsys.readouterr().out) if "API key required" in row["text"]]
    assert [(row["state"], row["hint"]) for row in found] == [("warning", KEY_HINT)]


@pytest.mark.parametrize("kind", ["garbage", "newer"])
@pytest.mark.full
async def test_an_index_that_this_version_does_not_know_is_a_failure_and_stays(
    kind: str, workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    index = workspace_state_dir(workspace) / "index.db"
    _, found = await rows(workspace, capsys)
    assert (found["jobs"]["state"], found["plans"]["state"], index.exists()) == ("none", "none", False)
    index.parent.mkdir(parents=True)
    if kind == "garbage":
        index.write_bytes(b"no database" * 1000)
    else:
        with contextlib.closing(sqlite3.connect(index)) as database:
            database.execute("PRAGMA user_version = 99")
            database.commit()
    before = index.read_bytes()
    code, found = await rows(workspace, capsys)
    broken = {name for name in ("jobs", "plans") if found[name]["state"] == "failure" and found[name]["hint"]}
    assert broken == {"newer": {"jobs"}, "garbage": {"jobs", "plans"}}[kind]
    assert (code, index.read_bytes(), [each.name for each in index.parent.glob("index.*")]) == (2, before, ["index.db"])


@pytest.mark.full
async def test_a_folder_whose_name_steers_terminals_is_shown_without_that(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "a\x1b]0;title\x07\x1b[2Jb\u202e\n✓ all well"
    folder.mkdir()
    _ = await doctor_report(folder, Loaded(Config(), {}), argparse.Namespace(offline=True, json=False))
    said = capsys.readouterr().out
    assert not {"\x1b", "\x07", "\u202e"} & set(said)
    assert "\n✓ all well" not in said


def test_a_model_that_is_larger_than_the_memory_is_a_warning_on_this_machine_alone() -> None:
    loaded, model = Loaded(Config(model="large"), {}), ServedModel("large", size_bytes=10**18)
    for url, states in (("http://127.0.0.1/v1", ["warning"]), ("http://192.168.1.5/v1", [])):
        assert [row.state for row in memory_rows(loaded, ServerFound("", url, (model,)))] == states
