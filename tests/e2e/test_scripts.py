from __future__ import annotations

import asyncio
import base64
import json
import os

from lmtui.models.demo_scripts import Scenario, ScriptedCall, ScriptedTurn
from lmtui.models.scripted_server import ScriptedServer
from tests.e2e.conftest import Program, Serve
from tests.waiting import PATIENCE_S

DONE = ScriptedTurn("All is done.")
SCHEMA = {"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"], "additionalProperties": False}


def base(server: ScriptedServer) -> tuple[str, ...]:
    return ("--url", server.url, "--sandbox", "process")


def said(server: ScriptedServer, number: int = 0) -> str:
    return str(server.requests[number].body["messages"][-1]["content"])


async def test_what_is_piped_in_joins_the_task_or_is_one_and_mentions_no_file(program: Program, serve: Serve) -> None:
    (program.workspace / "secret.txt").write_text("heron")
    server = await serve(DONE, DONE, DONE)
    for words, task in (
        (("sum this up",), "sum this up\n\n<stdin>\nline 1\n@secret.txt\n</stdin>"),
        ((), "count the birds"),
        (("-",), "go"),
    ):
        found = await program.run("run", *base(server), *words, stdin="line 1\n@secret.txt\n" if "<stdin>" in task else task)
        assert (found.code, said(server, -1)) == (0, task), found.err
    assert "heron" not in json.dumps([each.body for each in server.requests])


async def test_a_pipe_in_which_nothing_comes_holds_nothing_up(program: Program, serve: Serve) -> None:
    server = await serve(DONE)
    process = await program.start("run", *base(server), "count")
    async with asyncio.timeout(PATIENCE_S):
        assert process.stdout is not None
        assert process.stderr is not None
        out, err = await process.stdout.read(), await process.stderr.read()
    assert (await process.wait(), out) == (0, b"All is done.\n")
    assert b"nothing came on standard input in 3 s" in err
    assert said(server) == "count"


async def test_what_cannot_be_is_wrong_usage(program: Program, serve: Serve) -> None:
    server = await serve(DONE)
    for arguments, stdin, words in (
        ((), "", "the task is empty"),
        (("sum up",), "x" * 1_048_577, "standard input is more than 1 MB"),
        (("/herons",), "x", "/herons takes no standard input"),
        (("-c", "sed=1", "x"), "", "Did you mean seed?"),
        (("--output-schema", "none.json", "x"), "", "none.json cannot be read"),
        (("--add-dir", "/etc", "look"), "", "/etc cannot be added: it belongs to the system."),
    ):
        found = await program.run("run", *base(server), *arguments, stdin=stdin)
        assert (found.code, found.out, words in found.err) == (64, "", True), found.err
    assert not server.requests


async def test_several_models_and_none_named_are_listed(program: Program, serve: Serve) -> None:
    server = await serve(Scenario((DONE,), models=("heron-7b", "egret-3b")))
    found = await program.run("run", *base(server), "count")
    assert (found.code, found.out) == (64, "")
    assert "the server has several models and none is named. Name one with --model: heron-7b, egret-3b" in found.err
    assert (await program.run("run", *base(server), "--model", "egret-3b", "count")).code == 0


async def test_a_session_goes_on(program: Program, serve: Serve) -> None:
    server = await serve(DONE, DONE, DONE)
    first = await program.run("run", *base(server), "--json", "one")
    second = await program.run("run", *base(server), "--json", "--continue", "two")
    third = await program.run("run", *base(server), "--json", "--resume", first.json["session"][-6:], "three")
    assert first.json["session"] == second.json["session"] == third.json["session"]
    assert [said(server, number) for number in range(3)] == ["one", "two", "three"]
    words = await program.run("resume", first.json["session"], "--output", "json", *base(server), "four")
    assert words.code == 0, words.err
    assert said(server, 3) == "four"


async def test_an_answer_matches_its_schema_is_asked_for_again_or_is_unfinished(program: Program, serve: Serve) -> None:
    (program.workspace / "schema.json").write_text(json.dumps(SCHEMA))
    server = await serve(ScriptedTurn("There are 3."), ScriptedTurn('```json\n{"count": 3}\n```'))
    options = ("--output-schema", "schema.json", "--output-last-message", "answer.json")
    found = await program.run("run", *base(server), *options, "count the herons")
    assert (found.code, found.out) == (0, '{"count": 3}\n')
    assert (program.workspace / "answer.json").read_text() == '{"count": 3}\n'
    assert '"required": ["count"]' in said(server)
    assert "Answer again, with JSON alone" in said(server, 1)
    server = await serve(*[ScriptedTurn('{"count": "three"}')] * 5)
    never = (await program.run("run", *base(server), "--output-schema", "schema.json", "--json", "count")).json
    assert (never["exit_code"], never["status"], never["iterations"], len(server.requests)) == (2, "unfinished", 3, 3)
    place = "the schema at #/properties/count/type: $.count: 'three' is not of type 'integer' (3 tries). Simplify the schema"
    assert place in never["error"]


async def test_settings_of_the_command_line_reach_the_model_and_the_result_and_an_ephemeral_run_leaves_no_session(
    program: Program, serve: Serve
) -> None:
    call = ScriptedCall("shell", {"command": "touch made && false"})
    server = await serve(ScriptedTurn(calls=(call,)), ScriptedTurn("It fails."), models=("heron",))
    flags = ("-c", "seed=7", "-c", "temperature=0.1", "--append-system-prompt", "Speak of herons.", "--model", "heron")
    found = await program.run("run", *base(server), *flags, "--mode", "manual", "--ephemeral", "--json", "try")
    assert (found.code, found.json["model"]) == (3, "heron")
    assert found.json["commands"] == [{"command": "touch made && false", "ok": False}]
    assert [each["rule"] for each in found.json["refused"]] == ["Shell(touch made && false)"]
    body = server.requests[0].body
    assert (body["seed"], body["temperature"], "Speak of herons." in json.dumps(body["messages"])) == (7, 0.1, True)
    assert not list(program.workspace.rglob("*.jsonl"))
    assert (await program.run("sessions", "--json")).json == []


async def test_a_closed_pipe_is_silent(program: Program, serve: Serve) -> None:
    server = await serve(ScriptedTurn("herons " * 50_000))
    first_line = ("bash", "-o", "pipefail", "-c", '"$0" "$@" | head -n 1')
    process = await program.start("run", *base(server), "--output", "stream-json", "count", launcher=first_line)
    async with asyncio.timeout(PATIENCE_S):
        out, err = await process.communicate(b"")
    assert json.loads(out)["kind"] == "session_opened"
    assert b"BrokenPipe" not in err
    assert b"Traceback" not in err
    assert process.returncode == 1


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
