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


async def test_the_list_says_what_each_costs_and_fails_for_a_broken_one(program: Program) -> None:
    make_skill(program.home / "config" / "skills")
    make_skill(program.workspace / ".claude" / "skills", "pond")
    found = await program.run("skills")
    assert found.code == 0, found.err
    assert "✓ tidy" in found.out
    assert "! pond" in found.out
    assert "waits for trust" in found.out
    assert "✓ find-bug" in found.out
    (program.home / "config" / "skills" / "bad").mkdir()
    (program.home / "config" / "skills" / "bad" / "SKILL.md").write_text("no front matter")
    told = await program.run("skills", "list", "--json")
    assert told.code == 1
    skills = {skill["name"]: skill for skill in told.json["skills"]}
    assert (skills["bad"]["state"], skills["tidy"]["state"], skills["pond"]["state"]) == ("broken", "ready", "waiting")
    assert "line 1" in skills["bad"]["problem"]
    assert skills["tidy"]["tokens"] > 0 < told.json["tokens"] <= 300
