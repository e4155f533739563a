from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lmtui.models.demo_scripts import ScriptedCall, ScriptedTurn
from lmtui.models.scripted_server import ScriptedServer
from tests.e2e.conftest import Program, Serve

DONE = ScriptedTurn("All is done.")
USE = ScriptedTurn(calls=(ScriptedCall("skill", {"name": "tidy"}),))
BODY = "Count the herons first."


def make_skill(folder: Path, name: str = "tidy", *, front: str = "", body: str = BODY) -> Path:
    path = folder / name / "SKILL.md"
    path.parent.mkdir(parents=True)
    path.write_text(f"---\nname: {name}\ndescription: Tidy the pond up.\n{front}---\n{body}\n")
    return path


def base(server: ScriptedServer, *more: str) -> tuple[str, ...]:
    return ("run", "--url", server.url, "--sandbox", "process", "--output", "stream-json", *more)


def results(events: list[dict[str, Any]]) -> list[tuple[str, str, bool]]:
    return [(each["tool"], each["result"], each["ok"]) for each in events if each["kind"] == "tool_call_finished"]


def prompt_of(server: ScriptedServer, request: int = 0) -> str:
    return str(server.requests[request].body["messages"][0]["content"])


@pytest.mark.quick
async def test_a_folders_skill_waits_until_it_is_trusted(program: Program, serve: Serve) -> None:
    make_skill(program.workspace / ".agents" / "skills")
    server = await serve(USE, DONE, USE, DONE)
    before = await program.run(*base(server), "tidy it")
    assert "tidy:" not in prompt_of(server)
    assert [ok for _, _, ok in results(before.events)] == [False]
    assert "trust" in results(before.events)[0][1]
    asked = await program.run("config", "trust")
    assert (asked.code, "skill" in asked.out, "Tidy the pond up." in asked.out) == (3, True, True)
    assert (await program.run("config", "trust", "--yes")).code == 0
    after = await program.run(*base(server), "tidy it")
    assert "- tidy: Tidy the pond up." in prompt_of(server, -1)
    assert BODY in results(after.events)[0][1]
