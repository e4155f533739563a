from __future__ import annotations

import pytest

from lmtui.models.demo_scripts import ScriptedTurn
from lmtui.models.scripted_server import ScriptedServer
from tests.e2e.conftest import Program, Serve

DONE = ScriptedTurn("All is done.")


def base(server: ScriptedServer) -> tuple[str, ...]:
    return ("--url", server.url, "--sandbox", "process")


def make_command(program: Program) -> None:
    file = program.workspace / ".lmagent" / "commands" / "herons.md"
    file.parent.mkdir(parents=True)
    file.write_text("---\nallowed-tools: Read\n---\nCount the herons of $1.\n")


def said(server: ScriptedServer) -> str:
    return str(server.requests[0].body["messages"][-1]["content"])


async def test_the_command_of_a_file_runs_without_a_screen(program: Program, serve: Serve) -> None:
    make_command(program)
    server = await serve(DONE)
    found = await program.run("run", *base(server), "/herons pond")
    assert found.code == 0, found.err
    assert said(server) == "Count the herons of pond."


async def test_a_skill_is_borrowed_without_a_screen(program: Program, serve: Serve) -> None:
    file = program.home / "config" / "skills" / "tidy" / "SKILL.md"
    file.parent.mkdir(parents=True)
    file.write_text("---\nname: tidy\ndescription: Tidy the pond up.\n---\nCount the herons first.\n")
    server = await serve(DONE)
    found = await program.run("run", *base(server), "/skill tidy the north end")
    assert found.code == 0, found.err
    assert said(server).startswith('the north end\n\n<skill name="tidy">\nCount the herons first.')


@pytest.mark.parametrize(
    ("task", "words"),
    [("/heron pond", "no command /heron. Did you mean /herons?"), ("/mcp", "/mcp needs a screen. Use `lmtui mcp`.")],
)
async def test_what_cannot_be_done_asks_no_model_and_is_wrong_usage(
    program: Program, serve: Serve, task: str, words: str
) -> None:
    make_command(program)
    server = await serve(DONE)
    found = await program.run("run", *base(server), task)
    assert (found.code, found.out) == (64, "")
    assert words in found.err
    assert not server.requests


@pytest.mark.parametrize("task", [("/etc/hosts is wrong",), (" /mcp",), ("--", "/mcp")])
async def test_words_go_to_the_model(program: Program, serve: Serve, task: tuple[str, ...]) -> None:
    server = await serve(DONE)
    found = await program.run("run", *base(server), *task)
    assert found.code == 0, found.err
    assert said(server) == task[-1]
