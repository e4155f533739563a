from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from lmtui.core.events import ApprovalRequested, Envelope, Event, MessageAdded, Outcome, ToolCallFinished
from lmtui.core.messages import Role, ToolSet
from lmtui.core.ports import Policy
from lmtui.core.sessions import Answer
from lmtui.core.tool_scopes import SkillUsed
from lmtui.core.window import bytes_by_four
from lmtui.features.skills.service import SkillShelf
from lmtui.features.skills.values import Skills
from lmtui.models.demo_scripts import ScriptedCall, ScriptedTurn
from lmtui.models.request_encoding import wire_tool
from lmtui.tools.registry import ToolRegistry
from tests.app.answering import answering
from tests.app.conftest import DONE, Open, Serve, run, told
from tests.sets import encodings, tokens

COUNT = '''\
import json
from pathlib import Path

LIMIT = 3


async def count_words(path: str, least: int = 1) -> dict[str, int]:
    """Count the words of a text file."""
    print("counting")
    found: dict[str, int] = {}
    for word in Path(path).read_text().split():
        found[word] = found.get(word, 0) + 1
    return json.loads(json.dumps({word: count for word, count in found.items() if count >= least}))


def fails(path: str) -> str:
    """Fail."""
    raise ValueError(path)


def untidy(path, *rest) -> set[int]:
    return LIMIT
'''
PROMOTE = ScriptedTurn(calls=(ScriptedCall("promote_skill", {"file_path": "words.py", "function_name": "count_words"}),))
CALL = ScriptedTurn(calls=(ScriptedCall("skill__count_words", {"path": "a.txt", "least": "2"}),))


def results(events: list[Event]) -> list[tuple[str, bool]]:
    return [(event.result, event.ok) for event in events if isinstance(event, ToolCallFinished)]


@pytest.mark.parametrize("encoding", encodings())
async def test_all_that_ship_and_the_tool_that_reads_them_cost_little(workspace: Path, encoding: str) -> None:
    shelf = SkillShelf(workspace, bytes_by_four)
    skills, (text, _) = await shelf.found(), await shelf.told()
    assert [skill.name for skill in skills] == [
        "document", "find-bug", "refactor-safely", "release-notes", "review-change", "security-audit", "simplify", "stuck",
        "verify", "write-tests",
    ]  # fmt: skip
    assert not [skill for skill in skills if skill.problem or skill.warnings]
    schema = next(spec for spec in ToolRegistry().specs(ToolSet.ALL) if spec.name == "skill")
    bodies = [(await SkillShelf(workspace, bytes_by_four).use(skill.name)).text for skill in skills]
    assert max(len(body.splitlines()) for body in bodies) < 60
    listed, tool, *prices = tokens(encoding, text, json.dumps(wire_tool(schema)), *bodies)
    assert listed + tool <= 220
    assert max(prices) < 700


@pytest.mark.bubblewrap
async def test_a_function_is_promoted_by_a_yes_called_with_another_and_there_after_a_restart(
    workspace: Path, serve: Serve, open_one: Open
) -> None:
    (workspace / "words.py").write_text(COUNT)
    (workspace / "a.txt").write_text("one two two")
    server, again = await serve(PROMOTE, CALL, DONE), await serve(CALL, DONE)
    runtime = open_one(server.url, sandbox="bubblewrap", mode="auto")
    session = await runtime.new_session(Policy(is_attended=True))
    asked = answering(session, Outcome.ONCE)
    (promoted, _), (counted, is_ok) = results(await run(session))
    assert "skill__count_words is a tool now" in promoted
    assert (counted, is_ok) == ('counting\n{"two": 2}', True)
    assert [each.tool for each in asked] == ["promote_skill"]
    assert "+async def count_words(path: str, least: int = 1) -> dict[str, int]:" in asked[0].diff
    assert "+LIMIT = 3" not in asked[0].diff
    assert "skill__count_words" not in told(server)
    await runtime.close()

    later = open_one(again.url, sandbox="bubblewrap", mode="normal")
    session = await later.new_session(Policy(is_attended=True))
    asked = answering(session, Outcome.ONCE)
    assert results(await run(session)) == [('counting\n{"two": 2}', True)]
    assert "skill__count_words" in told(again)
    assert [(each.tool, each.suggested_rule) for each in asked] == [("skill__count_words", "Skill__count_words")]
    assert "def count_words" in asked[0].text


async def test_a_no_keeps_nothing(workspace: Path, serve: Serve, open_one: Open, home: Path) -> None:
    (workspace / "words.py").write_text(COUNT)
    server = await serve(PROMOTE, CALL, DONE)
    runtime = open_one(server.url, mode="auto", allow=("Promote_skill", "Write"))
    session = await runtime.new_session(Policy(is_attended=True))
    assert answering(session, Outcome.NO) == []
    first, second = results(await run(session))
    assert "the user refused it" in first[0]
    assert (second[1], "no tool" in second[0]) == (False, True)
    assert not list(home.glob("state/promoted/*/*"))


async def test_what_changed_after_it_was_shown_is_not_kept(workspace: Path, serve: Serve, open_one: Open, home: Path) -> None:
    (workspace / "words.py").write_text(COUNT)
    server = await serve(PROMOTE, DONE)
    runtime = open_one(server.url, mode="auto")
    session = await runtime.new_session(Policy(is_attended=True))

    def change_and_allow(envelope: Envelope) -> None:
        if isinstance(envelope.event, ApprovalRequested):
            (workspace / "words.py").write_text(COUNT.replace("found.get(word, 0) + 1", "666"))
            asyncio.get_running_loop().call_soon(session.answer, envelope.event.approval_id, Answer(Outcome.ONCE))

    _ = session.subscribe(change_and_allow)
    ((result, is_ok),) = results(await run(session))
    assert (is_ok, "was changed after the user saw it" in result) == (False, True)
    assert not list(home.glob("state/promoted/*/*.json"))


async def test_the_user_promotes_by_hand_and_is_asked_all_the_same(workspace: Path, serve: Serve, open_one: Open) -> None:
    (workspace / "words.py").write_text(COUNT)
    server = await serve(DONE)
    runtime = open_one(server.url, mode="auto")
    session = await runtime.new_session(Policy(is_attended=True))
    asked = answering(session, Outcome.ONCE)
    runtime.extensions[Skills].ask_to_promote(session.id, "words.py", "fails", "breaks")
    await session.wait_idle()
    assert [each.tool for each in asked] == ["promote_skill"]
    assert [tool.name for tool in runtime.extensions[Skills].promoted()] == ["skill__breaks"]
    assert server.requests == []
    assert runtime.extensions[Skills].remove("skill__breaks")
    assert not runtime.extensions[Skills].promoted()


async def test_a_skill_that_the_user_names_holds_until_they_end_it(
    workspace: Path, serve: Serve, open_one: Open, home: Path
) -> None:
    folder = home / "config" / "skills" / "look"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: look\ndescription: Look.\nallowed-tools: Read\n---\nLook twice.\n")
    write = ScriptedTurn(calls=(ScriptedCall("write", {"path": "b.txt", "content": "two\n"}),))
    server = await serve(write, DONE, write, DONE, write, DONE)
    runtime = open_one(server.url, mode="auto")
    session = await runtime.new_session()
    events: list[Event] = []
    _ = session.subscribe(lambda envelope: events.append(envelope.event))
    skills = runtime.extensions[Skills]
    _ = await skills.use("look")
    skills.begin(session.id, "look", "at the pond")
    await session.wait_idle()
    said = next(event for event in events if isinstance(event, MessageAdded) and event.role is Role.USER)
    assert said.text.startswith("at the pond\n\n")
    assert "Look twice." in said.text
    assert [event.skill for event in events if isinstance(event, SkillUsed)] == ["look"]
    assert [is_ok for _, is_ok in results(events)] == [False]
    assert [is_ok for _, is_ok in results(await run(session, "now write it"))] == [False]
    skills.end(session.id)
    assert [is_ok for _, is_ok in results(await run(session, "now write it"))] == [True]
