from __future__ import annotations

import json
from pathlib import Path

import pytest

from lmtui.cli import run
from lmtui.paths import config_dir
from tests.sets import for_each


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def own() -> object:
    return json.loads((config_dir() / "mcp.json").read_text())


def test_a_server_is_added_and_removed(workspace: Path) -> None:
    options = ["--env", "TOKEN=${HERON}", "--network", "a.example,b.example"]
    assert run(["mcp", "add", "time", *options, "--", "uvx", "mcp-server-time", "--local-timezone", "UTC"]) == 0
    entry = {
        "command": "uvx", "args": ["mcp-server-time", "--local-timezone", "UTC"], "env": {"TOKEN": "${HERON}"},
        "network": ["a.example", "b.example"],
    }  # fmt: skip
    assert own() == {"mcpServers": {"time": entry}}
    assert (config_dir() / "mcp.json").stat().st_mode & 0o077 == 0
    assert (run(["mcp", "remove", "time"]), own()) == (0, {"mcpServers": {}})


def test_what_else_is_in_the_file_stays_and_a_broken_one_as_it_is(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config_dir().mkdir(parents=True)
    before = {"$schema": "x", "mcpServers": {"a": {"command": "a"}}, "mcp_servers": [{"name": "b", "command": "b"}]}
    (config_dir() / "mcp.json").write_text(json.dumps(before))
    assert run(["mcp", "add", "web", "--url", "https://a.example/mcp", "--header", "Authorization=Bearer ${TOKEN}"]) == 0
    web = {"url": "https://a.example/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}}
    assert own() == {**before, "mcpServers": {"a": {"command": "a"}, "web": web}}
    (config_dir() / "mcp.json").write_text("{")
    assert run(["mcp", "add", "x", "--", "y"]) == 64
    assert "cannot be read" in capsys.readouterr().err
    assert (config_dir() / "mcp.json").read_text() == "{"


@for_each(("arguments", "code", "words"), [
    (["add"], 64, "no server is named"), (["add", "x"], 64, "either a command or an address"),
    (["add", "x", "--url", "https://a.example", "--", "y"], 64, "either a command or an address"),
    (["add", "x", "--url", "ftp://a.example"], 64, "http:// or https://"),
    (["add", "x", "--env", "A", "--", "y"], 64, "'A' is not NAME=VALUE"),
    (["remove", "folders"], 64, ".mcp.json. Take it out there"),
    (["remove", "none"], 64, "no MCP server 'none'"),
    (["set", "folders"], 64, "nothing is chosen"),
    (["set", "none", "--where", "host"], 64, "no MCP server 'none'"), (["add", "folders", "--", "y"], 0, ""),
])  # fmt: skip
def test_what_cannot_be_is_said(
    arguments: list[str], code: int, words: str, workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (workspace / ".mcp.json").write_text(json.dumps({"mcpServers": {"folders": {"command": "z"}}}))
    assert run(["mcp", *arguments]) == code
    assert words in capsys.readouterr().err
