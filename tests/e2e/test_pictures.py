from __future__ import annotations

import base64
import os

from lmtui.models.demo_scripts import ScriptedTurn
from tests.e2e.conftest import Program, Serve

PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")


async def test_a_picture_of_the_command_line_reaches_the_model(program: Program, serve: Serve) -> None:
    server = await serve(ScriptedTurn("A dot."))
    (program.workspace / "dot.png").write_bytes(PNG)
    found = await program.run("run", "--url", server.url, "--image", "dot.png", "what is this?")
    assert (found.code, found.out.strip()) == (0, "A dot.")
    (request,) = [each.body for each in server.requests if "messages" in each.body]
    parts = request["messages"][-1]["content"]
    assert parts[0] == {"type": "text", "text": "what is this?"}
    assert parts[1]["image_url"]["url"] == "data:image/png;base64," + base64.b64encode(PNG).decode()


async def test_what_is_no_picture_is_named_and_nothing_runs(program: Program, serve: Serve) -> None:
    server = await serve(ScriptedTurn("never"))
    (program.workspace / "note.txt").write_text("text")
    os.mkfifo(program.workspace / "pipe.png")
    for name, words in (("gone.png", "cannot be read"), ("note.txt", "is not a PNG"), ("pipe.png", "not a regular file")):
        found = await program.run("run", "--url", server.url, "--image", name, "what is this?")
        assert (found.code, words in found.err) == (64, True), found.err
    assert server.requests == []
