from __future__ import annotations

import json

import pytest

from lmtui.core.errors import ToolError
from lmtui.tools.registry import ToolRegistry
from tests.tools.test_files import Bench

REGISTRY = ToolRegistry("/home/me/project")


@pytest.mark.parametrize(
    ("cwd", "command", "line"),
    [
        ("sub", "make", "cd sub && make"),
        ("a b", "make", "cd 'a b' && make"),
        ("$(rm x)", "make", "cd '$(rm x)' && make"),
        ("-x", "make", "cd ./-x && make"),
        ("/home/me/project/sub", "make", "cd sub && make"),
        ("/workspace/sub/", "make", "cd sub && make"),
        ("/tmp", "make", "cd /tmp && make"),
        ("sub", "make\nls", "cd sub || exit\nmake\nls"),
        (".", "make", "make"),
        ("/home/me/project", "make", "make"),
        ("", "make", "make"),
    ],
)
async def test_a_command_runs_in_the_folder_that_is_given(cwd: str, command: str, line: str) -> None:
    call = REGISTRY.prepare("shell", json.dumps({"command": command, "cwd": cwd}))
    assert call.subjects == (line,)
    assert call.arguments == {"command": line}
    assert (await call.preview(Bench().context())).text == line
    bench = Bench()
    await call.run(bench.context())
    assert bench.sandbox.ran == [line]


def test_a_command_that_is_prepared_again_changes_the_folder_once() -> None:
    call = REGISTRY.prepare("shell", '{"command": "make", "workdir": "sub"}')
    again = REGISTRY.prepare("shell", json.dumps(dict(call.arguments)))
    assert again.arguments == {"command": "cd sub && make"}


def test_a_folder_that_is_no_text_is_refused_by_name() -> None:
    with pytest.raises(ToolError, match="cwd is wrong"):
        REGISTRY.prepare("shell", '{"command": "ls", "cwd": 5}')
