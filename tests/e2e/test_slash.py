from __future__ import annotations

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


async def test_a_command_that_needs_a_screen_or_is_none_asks_no_model_and_other_words_do(
    program: Program, serve: Serve
) -> None:
    make_command(program)
    server = await serve(DONE, DONE, DONE)
    for task, words in (
        ("/heron pond", "no command /heron. Did you mean /herons?"),
        ("/mcp", "/mcp needs a screen. Use `lmtui mcp`."),
    ):
        found = await program.run("run", *base(server), task)
        assert (found.code, found.out, words in found.err) == (64, "", True), found.err
    assert not server.requests
    for words, said in (
        (("/herons pond",), "Count the herons of pond."),
        (("/etc/hosts is wrong",), "/etc/hosts is wrong"),
        (("--", "/mcp"), "/mcp"),
    ):
        found = await program.run("run", *base(server), *words)
        assert (found.code, server.requests[-1].body["messages"][-1]["content"]) == (0, said), found.err
