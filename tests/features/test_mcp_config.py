from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmtui.core.errors import ConfigError
from lmtui.features.mcp.mcp_config import (
    KEYS,
    ServerEntry,
    ServerFiles,
    entry_warnings,
    expand,
    read_servers,
    secrets_of,
)
from lmtui.features.mcp.server import advice
from lmtui.features.mcp.server_trust import ServerLog
from lmtui.features.mcp.values import WAIT_S
from tests.sets import for_each


@pytest.fixture(autouse=True)
def home(tmp_path: Path) -> Path:
    (tmp_path / "home" / "config").mkdir(parents=True)
    return tmp_path / "home" / "config"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "work" / ".lmagent").mkdir(parents=True)
    return tmp_path / "work"


def read(path: Path, workspace: Path, content: object) -> ServerFiles:
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return read_servers(workspace)


def only(path: Path, folder: Path, /, **entry: Any) -> ServerEntry:
    files = read(path, folder, {"mcpServers": {"one": entry}})
    assert not files.problems, files.problems
    (found,) = files.entries
    return found


def test_an_entry_says_what_is_started_or_reached_and_what_it_may(home: Path, workspace: Path) -> None:
    entry = only(home / "mcp.json", workspace, command="npx", args=["-y", "pkg", 3], env={"K": "v", "N": 1}, cwd="sub")
    assert (entry.kind, entry.command, entry.env, entry.cwd) == (
        "stdio", ("npx", "-y", "pkg", "3"), (("K", "v"), ("N", "1")), "sub",
    )  # fmt: skip
    assert (entry.is_own, entry.needs_yes) == (True, False)
    assert only(home / "mcp.json", workspace, command=["uvx", "x"], args=["y"]).command == ("uvx", "x", "y")
    listed = {"mcp_servers": [{"name": "a", "command": ["x", "y"], "env": {"K": "v"}, "cwd": "/w"}]}
    (entry,) = read(home / "mcp.json", workspace, listed).entries
    assert (entry.name, entry.command, entry.env, entry.cwd) == ("a", ("x", "y"), (("K", "v"),), "/w")
    for told, kind in (({"type": "streamable-http"}, "http"), ({"type": "sse"}, "sse"), ({}, "http")):
        entry = only(home / "mcp.json", workspace, url="https://x.example/mcp", headers={"Authorization": "${T}"}, **told)
        assert (entry.kind, entry.url, entry.headers) == (kind, "https://x.example/mcp", (("Authorization", "${T}"),))
    entry = only(
        home / "mcp.json", workspace,
        command="x", sandbox="host", network=["a.example"], toolchains=["~/t"], workspace="read", memory_mb=256, timeout_s=5,
    )  # fmt: skip
    assert (entry.on_host, entry.hosts, entry.toolchains, entry.can_write) == (True, ("a.example",), ("~/t",), False)
    assert (entry.memory_mb, entry.timeout_s, entry.needs_yes) == (256, 5, True)
    assert entry.start_timeout_s < WAIT_S
    for command, network, hosts in (
        ("x", "on", ("*",)), ("x", False, ()), ("/usr/bin/npx", None, ("*",)), ("uvx", "off", ()),
        ("uvx", ["a.example"], ("a.example",)),
    ):  # fmt: skip
        more = {} if network is None else {"network": network}
        assert only(home / "mcp.json", workspace, command=command, **more).hosts == hosts, (command, network)


def test_the_folder_overrules_the_user_and_its_own_file_comes_first(home: Path, workspace: Path) -> None:
    read(
        home / "mcp.json",
        workspace,
        {"mcpServers": {"a": {"command": "user"}, "b": {"command": "user"}, "c": {"command": "user"}}},
    )
    read(workspace / ".mcp.json", workspace, {"mcpServers": {"a": {"command": "shared"}, "b": {"command": "shared"}}})
    files = read(workspace / ".lmagent" / "mcp.json", workspace, {"mcpServers": {"a": {"command": "own"}}})
    assert [(entry.name, entry.command, entry.needs_yes) for entry in files.entries] == [
        ("a", ("own",), True), ("b", ("shared",), True), ("c", ("user",), False),
    ]  # fmt: skip


@for_each(("entry", "words"), [
    ({}, "no command"), ({"command": ""}, "no command"), ({"command": 3}, "command cannot be 3"),
    ({"command": "x", "args": "y"}, "args cannot be 'y'"),
    ({"command": "x", "env": ["A"]}, "env cannot be"),
    ({"command": "x", "sandbox": "none"}, "sandbox cannot be 'none'"),
    ({"command": "x", "timeout_s": 0}, "timeout_s cannot be 0"),
    ({"command": "x", "network": "api.example.com"}, "network cannot be 'api.example.com'"), ("x", "is not an object"),
])  # fmt: skip
def test_an_error_names_file_server_and_way_out_and_leaves_the_others(
    home: Path, workspace: Path, entry: object, words: str
) -> None:
    files = read(home / "mcp.json", workspace, {"mcpServers": {"bad": entry, "good": {"command": "x"}}})
    (problem,) = files.problems
    assert words in problem
    assert "mcp.json: server 'bad'" in problem
    assert re.search(r"\. [A-Z]", problem), "the way out is a sentence of its own"
    assert [found.name for found in files.entries] == ["good"]


@for_each("content", ["{", "[]", '"x"', '{"mcpServers": []}', '{"mcp_servers": {}}', "\x00"])
def test_a_file_that_cannot_be_read_is_named_and_the_others_are_read(home: Path, workspace: Path, content: str) -> None:
    read(home / "mcp.json", workspace, {"mcpServers": {"a": {"command": "x"}}})
    files = read(workspace / ".mcp.json", workspace, content)
    assert [str(workspace / ".mcp.json") in problem for problem in files.problems] == [True]
    assert [entry.name for entry in files.entries] == ["a"]


def test_a_link_of_the_folder_is_not_followed_and_one_of_the_users_own_is(home: Path, workspace: Path) -> None:
    (home / "dotfiles.json").write_text('{"mcpServers": {"a": {"command": "x", "autoApprove": ["a"], "disabled": true}}}')
    (workspace / ".mcp.json").symlink_to(home / "dotfiles.json")
    assert read_servers(workspace).entries == ()
    (home / "mcp.json").symlink_to(home / "dotfiles.json")
    assert [(entry.name, entry.is_disabled) for entry in read_servers(workspace).entries] == [("a", True)]


@for_each(("text", "expected"), [
    ("${A}", "one"), ("x-${A}-${B:-two}", "x-one-two"), ("${EMPTY:-three}", "three"),
    ("${B:-}", ""), ("$A ${1} {A}", "$A ${1} {A}"), ("${workspaceFolder}/a", "/w/a"),
    ("${WORKSPACE}", "/w"),
])  # fmt: skip
def test_variables_are_put_in(text: str, expected: str) -> None:
    assert expand(text, {"A": "one", "EMPTY": ""}, Path("/w"), "here") == expected
    with pytest.raises(ConfigError, match="here: the variable NO is not set"):
        expand("${NO}", {}, Path("/w"), "here")


def test_a_yes_holds_for_all_that_decides_what_runs_and_is_reached() -> None:
    entry = ServerEntry("a", "f", is_own=False, command=("x",))
    changes: list[dict[str, Any]] = [
        {"command": ("x", "y")}, {"env": (("A", "b"),)}, {"cwd": "z"}, {"url": "https://x"}, {"headers": (("A", "b"),)},
        {"on_host": True}, {"hosts": ("a",)}, {"toolchains": ("t",)}, {"can_write": False}, {"kind": "http"},
    ]  # fmt: skip
    digests = {dataclasses.replace(entry, **change).digest for change in changes} | {entry.digest}
    assert len(digests) == len(changes) + 1
    assert dataclasses.replace(entry, name="b", timeout_s=3).digest == entry.digest


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_whatever_stands_there_is_read_or_named(tmp_path_factory: pytest.TempPathFactory, value: Any) -> None:
    workspace = tmp_path_factory.mktemp("any")
    (workspace / ".mcp.json").write_text(json.dumps({"mcpServers": {"x": value}}))
    files = read_servers(workspace)
    assert len(files.entries) + len(files.problems) == 1


def test_a_misspelt_key_is_a_warning_and_the_one_key_of_a_file_a_problem(home: Path, workspace: Path) -> None:
    entry = only(home / "mcp.json", workspace, command="x", netwrk="on")
    assert entry.warnings == ('the key "netwrk" is not known; it is ignored',)
    assert (entry.hosts, dataclasses.replace(entry, warnings=()).digest) == ((), entry.digest)
    assert entry_warnings("a", {"zzz\x1b[2J": 1}) == ('the key "zzz" is not known; it is ignored',)
    assert entry_warnings("a-b_C9", {**dict.fromkeys(KEYS, 1), "description": "x", "autoApprove": []}) == ()
    (problem,) = read(home / "mcp.json", workspace, {"mcpServer": {"a": {"command": "x"}}}).problems
    assert "has no servers" in problem


KEY = "hk-4f9a81c2d7e6b5a09384"
ENVIRON = {"ISSUES_TOKEN": KEY, "GIT_AUTHOR_NAME": "Ada Lovelace of London", "DB": f"postgres://ada:{KEY}@db.example/x"}


def an_own_entry(**more: Any) -> ServerEntry:
    return ServerEntry("a", "f", is_own=True, **more)


@for_each("entry", [
    an_own_entry(env=(("API_KEY", KEY),)), an_own_entry(env=(("SOMETHING", KEY),)),
    an_own_entry(env=(("SOMETHING", "${ISSUES_TOKEN}"),)), an_own_entry(env=(("URL", "${DB}"),)),
    an_own_entry(headers=(("Authorization", f"Bearer {KEY}"),)),
    an_own_entry(command=("x", "--api-key", KEY)), an_own_entry(command=("x", f"--token={KEY}")),
    an_own_entry(oauth=(("client_secret", KEY),)),
    an_own_entry(kind="http", url=f"https://x.example/mcp?api_key={KEY}"),
])  # fmt: skip
def test_a_key_is_found_wherever_it_stands(entry: ServerEntry) -> None:
    assert KEY in secrets_of(entry, ENVIRON)


@for_each("entry", [
    an_own_entry(env=(("HOME_FOLDER", "/home/ada/.venvs/a-long-name-of-2026"),)),
    an_own_entry(env=(("SSH_AUTH_SOCK", "/run/user/1000/keyring/ssh"),)),
    an_own_entry(env=(("NAME", "${GIT_AUTHOR_NAME}"), ("ZONE", "America/Argentina/Buenos_Aires"))),
    an_own_entry(command=("mcp-server-time", "--local-timezone", "America/Argentina/Buenos_Aires")),
    an_own_entry(kind="http", url="https://issues.example/mcp"),
    an_own_entry(env=(("TOKEN", "${NOT_SET}"),)), an_own_entry(kind="http", url="http://[broken"),
])  # fmt: skip
def test_names_places_and_words_are_no_secrets(entry: ServerEntry) -> None:
    assert [value for value in secrets_of(entry, ENVIRON) if len(value) >= 16] == []


@for_each(("command", "hosts", "said", "advised"), [
    ("uvx", (), "x was not found in the cache\nhint: the network was disabled", "--network on"),
    ("npx", ("x.org",), "npm error 404 Not Found", ""), ("npx", (), "npm error code EAI_AGAIN", "--network on"),
    ("pipx", ("*",), "the program pipx is not there", "--where host"), ("npx", ("*",), "a.js is not there", ""),
    ("npx -y foo", (), "lmtui: the program npx -y foo is not there", 'into "args"'),
])  # fmt: skip
def test_advice_fits_a_failure(command: str, hosts: tuple[str, ...], said: str, advised: str) -> None:
    found = advice(an_own_entry(command=(command,), hosts=hosts), said)
    assert (advised in found, bool(found)) == (True, bool(advised))


def test_the_last_line_of_a_log_is_one_that_says_why(tmp_path: Path) -> None:
    log = ServerLog(tmp_path / "x.log")
    log.add(b"npm error no such host\nnpm error A complete log of this run is in /x\nnpm notice New\n")
    assert log.last == "npm error no such host"
