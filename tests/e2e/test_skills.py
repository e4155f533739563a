from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lmtui.models.demo_scripts import ScriptedCall, ScriptedTurn
from lmtui.models.scripted_server import ScriptedServer
from tests.e2e.conftest import Program, Serve

DONE = ScriptedTurn("All is done.")
USE = ScriptedTurn(calls=(ScriptedCall("skill", {"name": "tidy"}),))
BODY = "Count the herons first."
COUNT = '''\
import json
from pathlib import Path

LIMIT = 3


def count_words(path: str, least: int = 1) -> dict[str, int]:
    """Count the words of a text file."""
    found: dict[str, int] = {}
    for word in Path(path).read_text().split():
        found[word] = found.get(word, 0) + 1
    return json.loads(json.dumps({word: count for word, count in found.items() if count >= least}))


def untidy(path, *rest):
    return LIMIT
'''


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


async def test_a_skill_is_told_of_and_its_words_reach_the_model(program: Program, serve: Serve) -> None:
    make_skill(program.home / "config" / "skills")
    server = await serve(USE, DONE)
    found = await program.run(*base(server), "tidy it")
    assert found.code == 0, found.err
    assert "- tidy: Tidy the pond up." in prompt_of(server)
    assert "- write-tests:" in prompt_of(server)
    assert BODY not in prompt_of(server)
    last = server.requests[-1].body["messages"][-1]
    assert (last["role"], BODY in last["content"]) == ("tool", True)
    assert server.requests[-1].body["messages"][0] == server.requests[0].body["messages"][0]


async def test_in_a_small_set_of_tools_none_is_told_of_and_all_are_read(program: Program, serve: Serve) -> None:
    make_skill(program.home / "config" / "skills")
    server = await serve(USE, DONE)
    (program.home / "config" / "config.toml").write_text('tools = "lean"\n')
    found = await program.run(*base(server), "tidy it")
    assert found.code == 0, found.err
    assert "tidy:" not in prompt_of(server)
    assert "skill" not in [tool["function"]["name"] for tool in server.requests[0].body["tools"]]
    assert [(tool, ok) for tool, _, ok in results(found.events)] == [("skill", True)]


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


async def test_what_a_skill_does_not_name_is_refused_until_it_is_ended(program: Program, serve: Serve) -> None:
    make_skill(program.home / "config" / "skills", front="allowed-tools: Read, Bash(git log:*)\n")
    (program.workspace / "a.txt").write_text("one\n")
    calls = ScriptedTurn(
        calls=(
            ScriptedCall("write", {"path": "b.txt", "content": "two\n"}),
            ScriptedCall("shell", {"command": "touch c.txt"}),
            ScriptedCall("read", {"path": "a.txt"}),
            ScriptedCall("get_time", {}),
        )
    )
    server = await serve(USE, calls, DONE)
    found = await program.run(*base(server, "--mode", "auto", "--allow", "Shell", "--allow", "Write"), "tidy it")
    told = {tool: (text, ok) for tool, text, ok in results(found.events)}
    assert [told[name][1] for name in ("write", "shell", "read", "get_time")] == [False, False, True, True]
    assert "skill tidy is in use until you end it" in told["write"][0]
    assert "Shell(git log *)" in told["shell"][0]
    assert not [name for name in ("b.txt", "c.txt") if (program.workspace / name).exists()]


async def test_a_later_turn_is_free_again_once_the_skill_is_ended(program: Program, serve: Serve) -> None:
    make_skill(program.home / "config" / "skills", front="allowed-tools: Read\n")
    write = ScriptedTurn(calls=(ScriptedCall("write", {"path": "b.txt", "content": "two\n"}),))
    server = await serve(USE, DONE, write, DONE, ScriptedTurn(calls=(ScriptedCall("skill_clear", {}),)), write, DONE)
    options = ("--url", server.url, "--sandbox", "process", "--output", "stream-json", "--mode", "auto")
    first = await program.run("run", *options, "tidy it")
    assert first.code == 0, first.err
    session = next(each["session"] for each in first.events if "session" in each)
    limited = await program.run("resume", *options, session, "write it")
    assert not (program.workspace / "b.txt").exists(), limited.err
    later = await program.run("resume", *options, session, "end the skill, then write it")
    assert (program.workspace / "b.txt").exists(), later.err + later.out[-500:]


async def test_a_function_becomes_a_tool_only_by_a_yes(program: Program, serve: Serve) -> None:
    (program.workspace / "words.py").write_text(COUNT)
    ask = ScriptedTurn(calls=(ScriptedCall("promote_skill", {"file_path": "words.py", "function_name": "count_words"}),))
    server = await serve(ask, DONE)
    found = await program.run(*base(server, "--mode", "auto", "--allow", "promote_skill"), "promote it")
    assert [(tool, ok) for tool, _, ok in results(found.events)] == [("promote_skill", False)]
    asked = next(event for event in found.events if event["kind"] == "approval_requested")
    assert '+    """Count the words of a text file."""' in asked["diff"]
    assert not list((program.home / "state").glob("promoted/*/*.json"))
    assert json.dumps(COUNT) not in found.out


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


async def test_one_is_shown_as_the_model_reads_it(program: Program) -> None:
    shown = await program.run("skills", "show", "find-bug")
    assert (shown.code, shown.out.startswith('<skill name="find-bug">')) == (0, True)
    assert "# Find a bug" in (await program.run("skills", "show", "find-bug", "--json")).json["text"]
    for arguments in (("show",), ("show", "nothing")):
        wrong = await program.run("skills", *arguments)
        assert (wrong.code, "skill" in wrong.err) == (64, True)


async def test_the_doctor_names_skills_and_broken_ones(program: Program) -> None:
    (program.home / "config" / "skills" / "bad").mkdir(parents=True)
    (program.home / "config" / "skills" / "bad" / "SKILL.md").write_text("---\nname: [\n---\n")
    rows = (await program.run("doctor", "--offline", "--json")).json
    skills = [(row["state"], row["text"]) for row in rows if row["name"] == "skills"]
    assert skills[0][0] == "ok"
    assert "10 ready" in skills[0][1]
    assert [state for state, _ in skills[1:]] == ["failure"]
    assert "line 2" in skills[1][1]
