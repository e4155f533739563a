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
from lmtui.features.mcp.mcp_config import ServerEntry, ServerFiles, checked_entry, expand, read_servers
from lmtui.features.mcp.service import WAIT_S


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


def test_a_program_has_its_words_variables_and_folder(home: Path, workspace: Path) -> None:
    entry = only(home / "mcp.json", workspace, command="npx", args=["-y", "pkg", 3], env={"K": "v", "N": 1}, cwd="sub")
    assert (entry.kind, entry.command, entry.env, entry.cwd) == (
        "stdio", ("npx", "-y", "pkg", "3"), (("K", "v"), ("N", "1")), "sub",
    )  # fmt: skip
    assert entry.is_own
    assert not entry.needs_yes


def test_a_command_may_be_a_list_and_servers_too(home: Path, workspace: Path) -> None:
    assert only(home / "mcp.json", workspace, command=["uvx", "x"], args=["y"]).command == ("uvx", "x", "y")
    listed = {"mcp_servers": [{"name": "a", "command": ["x", "y"], "env": {"K": "v"}, "cwd": "/w"}]}
    (entry,) = read(home / "mcp.json", workspace, listed).entries
    assert (entry.name, entry.command, entry.env, entry.cwd) == ("a", ("x", "y"), (("K", "v"),), "/w")


@pytest.mark.parametrize(("kind", "expected"), [("http", "http"), ("streamable-http", "http"), ("sse", "sse"), (None, "http")])
def test_an_address_has_a_kind_and_headers(home: Path, workspace: Path, kind: str | None, expected: str) -> None:
    told = {"type": kind} if kind else {}
    entry = only(home / "mcp.json", workspace, url="https://x.example/mcp", headers={"Authorization": "Bearer ${T}"}, **told)
    assert (entry.kind, entry.url, entry.headers) == (expected, "https://x.example/mcp", (("Authorization", "Bearer ${T}"),))


def test_keys_of_other_programs_are_no_errors(home: Path, workspace: Path) -> None:
    entry = only(home / "mcp.json", workspace, command="x", autoApprove=["a"], gallery=True, type="stdio", disabled=True)
    assert entry.is_disabled


def test_ours_say_what_it_may_reach(home: Path, workspace: Path) -> None:
    entry = only(
        home / "mcp.json", workspace,
        command="x", sandbox="host", network=["a.example"], toolchains=["~/t"], workspace="read", memory_mb=256, timeout_s=5,
    )  # fmt: skip
    assert (entry.on_host, entry.hosts, entry.toolchains, entry.can_write) == (True, ("a.example",), ("~/t",), False)
    assert (entry.memory_mb, entry.timeout_s) == (256, 5)
    assert entry.needs_yes
    assert only(home / "mcp.json", workspace, command="x", network="on").hosts == ("*",)
    assert only(home / "mcp.json", workspace, command="x", network=False).hosts == ()
    assert only(home / "mcp.json", workspace, command="/usr/bin/npx", args=["-y", "pkg"]).hosts == ("*",)
    assert only(home / "mcp.json", workspace, command="uvx", network="off").hosts == ()
    assert only(home / "mcp.json", workspace, command="uvx", network=["a.example"]).hosts == ("a.example",)


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


@pytest.mark.parametrize(("entry", "words"), [
    ({}, "no command"), ({"command": ""}, "no command"), ({"command": 3}, "command cannot be 3"),
    ({"command": "x", "args": "y"}, "args cannot be 'y'"),
    ({"command": "x", "env": ["A"]}, "env cannot be"),
    ({"type": "carrier pigeon"}, "type 'carrier pigeon'"), ({"type": "http"}, "no address"),
    ({"url": "ftp://x"}, "no address"),
    ({"command": "x", "sandbox": "none"}, "sandbox cannot be 'none'"),
    ({"command": "x", "timeout_s": 0}, "timeout_s cannot be 0"), ("x", "is not an object"),
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


@pytest.mark.parametrize("content", ["{", "[]", '"x"', '{"mcpServers": []}', '{"mcp_servers": {}}', "\x00"])
def test_a_file_that_cannot_be_read_is_named_and_the_others_are_read(home: Path, workspace: Path, content: str) -> None:
    read(home / "mcp.json", workspace, {"mcpServers": {"a": {"command": "x"}}})
    files = read(workspace / ".mcp.json", workspace, content)
    assert [str(workspace / ".mcp.json") in problem for problem in files.problems] == [True]
    assert [entry.name for entry in files.entries] == ["a"]


def test_the_users_own_link_is_followed(home: Path, workspace: Path) -> None:
    (home / "dotfiles.json").write_text('{"mcpServers": {"a": {"command": "x"}}}')
    (home / "mcp.json").symlink_to(home / "dotfiles.json")
    assert [entry.name for entry in read_servers(workspace).entries] == ["a"]


def test_a_link_of_the_folder_is_not_followed(home: Path, workspace: Path) -> None:
    (home / "elsewhere.json").write_text('{"mcpServers": {"a": {"command": "x"}}}')
    (workspace / ".mcp.json").symlink_to(home / "elsewhere.json")
    assert read_servers(workspace).entries == ()


@pytest.mark.parametrize(("text", "expected"), [
    ("${A}", "one"), ("x-${A}-${B:-two}", "x-one-two"), ("${EMPTY:-three}", "three"),
    ("${B:-}", ""), ("$A ${1} {A}", "$A ${1} {A}"), ("${workspaceFolder}/a", "/w/a"),
    ("${WORKSPACE}", "/w"),
])  # fmt: skip
def test_variables_are_put_in(text: str, expected: str) -> None:
    assert expand(text, {"A": "one", "EMPTY": ""}, Path("/w"), "here") == expected


def test_a_variable_that_is_not_set_is_named() -> None:
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


def test_a_network_that_is_no_choice_is_named(home: Path, workspace: Path) -> None:
    files = read(home / "mcp.json", workspace, {"mcpServers": {"a": {"command": "x", "network": "api.example.com"}}})
    (problem,) = files.problems
    assert "network cannot be 'api.example.com'" in problem


def test_a_misspelt_key_is_a_warning_and_leaves_the_entry(home: Path, workspace: Path) -> None:
    entry = only(home / "mcp.json", workspace, command="x", netwrk="on")
    assert entry.warnings == ('the key "netwrk" is not known: did you mean "network"?',)
    assert (entry.hosts, dataclasses.replace(entry, warnings=()).digest) == ((), entry.digest)


def test_a_file_with_its_one_key_misspelt_is_a_problem(home: Path, workspace: Path) -> None:
    files = read(home / "mcp.json", workspace, {"mcpServer": {"a": {"command": "x"}}})
    (problem,) = files.problems
    assert 'the key "mcpServer" is not known: did you mean "mcpServers"?' in problem


@pytest.mark.parametrize("command", ["npx", "uvx", "server"])
def test_the_list_of_servers_waits_for_as_long_as_a_server_may_take_to_start(command: str) -> None:
    assert checked_entry("a", {"command": command}, "test", is_own=True).start_timeout_s < WAIT_S
