from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from lmtui.app.host import Runtime
from lmtui.core.errors import UsageError
from lmtui.core.ports import Policy
from lmtui.features.memory import reflection
from lmtui.features.memory.notes import MemoryScope, Note, NoteKind
from lmtui.features.memory.proposal_log import FILE
from lmtui.features.memory.values import MemoryProposal, ProposalKind, ProposalsChanged, WorkspaceMemory
from lmtui.features.skills.values import Skills
from lmtui.models.demo_scripts import Scenario, ScriptedTurn
from lmtui.models.scripted_server import ScriptedServer
from lmtui.paths import kept_dir
from tests.app.conftest import Open, run
from tests.waiting import until

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

OK = ScriptedTurn("Done.")
TALK = Scenario((OK, OK, OK, OK), "talk", match="parser")
RULE = "Run tests with pytest -q tests, not make test"
CORRECTION = {"trigger": "", "rule": RULE, "quote": "use pytest -q tests directly, make test builds the docs"}
SAID = ("Test the parser.", "use pytest -q tests directly, make test builds the docs")


def reading(given: object, *more: ScriptedTurn) -> Scenario:
    return Scenario((ScriptedTurn(json.dumps(given)), *more), "reading", match="[turn 1")


async def taught(runtime: Runtime, *messages: str) -> str:
    """Run a session and close it; return its id."""
    session = await runtime.new_session()
    for message in messages or SAID:
        await run(session, message)
    await session.close()
    return session.id


async def reflected(runtime: Runtime) -> Sequence[MemoryProposal]:
    """Read what there is to read, with a session to ask in, and return what waits."""
    if not runtime.sessions:
        _ = await runtime.new_session()
    await runtime.extensions[WorkspaceMemory].reflect()
    return await runtime.extensions[WorkspaceMemory].proposals()


async def streaming(server: ScriptedServer) -> None:
    await until(lambda: server.open_streams)


def asked(server: ScriptedServer) -> int:
    """Return how often the summariser was asked."""
    return sum("You read the transcript" in json.dumps(request.body["messages"]) for request in server.requests)


async def test_a_correction_is_proposed_kept_and_recalled(open_one: Open) -> None:
    async with ScriptedServer(reading({"corrections": [CORRECTION]}), TALK) as server:
        first = open_one(server.url)
        session_id = await taught(first)
        (found,) = await reflected(first)
        assert (found.kind, found.text, found.session) == (ProposalKind.MISTAKE, RULE, session_id)
        assert found.file.endswith(".lmagent/memory.md")
        assert not await first.extensions[WorkspaceMemory].notes()
        assert await first.extensions[WorkspaceMemory].keep(found.id) == "this folder"
        (note,) = await first.extensions[WorkspaceMemory].notes()
        assert note == Note(RULE, MemoryScope.PROJECT, session_id, found.date, NoteKind.MISTAKE)
        assert not await first.extensions[WorkspaceMemory].proposals()
        await first.close()
        second = await open_one(server.url).new_session()
        await run(second, "Test the parser again.")
        assert RULE in json.dumps(server.requests[-1].body["messages"])


async def test_reading_twice_asks_and_proposes_once(open_one: Open) -> None:
    async with ScriptedServer(reading({"corrections": [CORRECTION]}), TALK) as server:
        runtime = open_one(server.url)
        await taught(runtime)
        assert len(await reflected(runtime)) == len(await reflected(runtime)) == 1
        assert asked(server) == 1
        await runtime.close()
        again = open_one(server.url)
        _ = await again.new_session()
        assert again.extensions[WorkspaceMemory].waiting == 1
        assert len(await reflected(again)) == 1
        assert asked(server) == 1


async def test_a_resumed_session_is_read_from_where_it_was_read(open_one: Open) -> None:
    async with ScriptedServer(
        reading({"corrections": [CORRECTION]}), Scenario((ScriptedTurn('{"facts": []}'),), match="[turn 3"), TALK
    ) as server:
        runtime = open_one(server.url)
        session_id = await taught(runtime)
        assert len(await reflected(runtime)) == 1
        again = await runtime.open_session(session_id)
        await run(again, "Now the lexer of the parser.")
        await again.close()
        assert len(await reflected(runtime)) == 1
        text = server.requests[-1].body["messages"][-1]["content"]
        assert text.startswith("[turn 3, user] Now the lexer")
        assert "pytest" not in text


@pytest.mark.parametrize(("again", "count"), [("more nonsense", 0), (json.dumps({"corrections": [CORRECTION]}), 1)])
async def test_an_answer_that_cannot_be_read_is_asked_for_once_more(open_one: Open, again: str, count: int) -> None:
    nonsense = Scenario((ScriptedTurn("I found nothing."),), match="[turn 1")
    async with ScriptedServer(Scenario((ScriptedTurn(again),), match="the JSON object only."), nonsense, TALK) as server:
        runtime = open_one(server.url)
        await taught(
            runtime, "Test the parser.", "and so on with the parser: use pytest -q tests directly, make test builds the docs"
        )
        assert len(await reflected(runtime)) == count
        assert asked(server) == 2
        assert len(await reflected(runtime)) == count
        assert asked(server) == 2


async def test_without_a_server_nothing_is_proposed_and_the_session_is_read_later(open_one: Open) -> None:
    async with ScriptedServer(TALK) as server:
        runtime = open_one(server.url)
        await taught(runtime)
        _ = await runtime.new_session()
    with pytest.raises(UsageError, match="no model answered"):
        await runtime.extensions[WorkspaceMemory].reflect()
    assert not await runtime.extensions[WorkspaceMemory].proposals()
    await runtime.close()
    async with ScriptedServer(reading({"corrections": [CORRECTION]}), TALK) as server:
        found = await reflected(open_one(server.url))
        assert (asked(server), [each.text for each in found]) == (1, [RULE])


@pytest.mark.parametrize("words", [("Test the parser.",), ()])
async def test_a_short_session_or_one_that_nobody_attends_is_not_read(open_one: Open, words: tuple[str, ...]) -> None:
    async with ScriptedServer(reading({"corrections": [CORRECTION]}), TALK) as server:
        runtime = open_one(server.url)
        if words:
            await taught(runtime, *words)
        else:
            session = await runtime.new_session(Policy(is_attended=False))
            for message in SAID:
                await run(session, message)
            await session.close()
        assert not await reflected(runtime)
        assert not asked(server)


async def test_a_log_that_came_with_the_folder_is_not_read(open_one: Open, workspace: Path) -> None:
    async with ScriptedServer(reading({"corrections": [CORRECTION]}), TALK) as server:
        runtime = open_one(server.url)
        session_id = await taught(runtime)
        file = workspace / ".lmagent" / "sessions" / f"{session_id}.jsonl"
        file.with_name("20200101_000000_abcdef.jsonl").write_text(
            file.read_text().replace(session_id, "20200101_000000_abcdef")
        )
        file.unlink()
        assert not await reflected(runtime)
        assert not asked(server)


async def test_nothing_is_read_while_it_is_off(open_one: Open) -> None:
    runtime = open_one((await ScriptedServer(TALK).__aenter__()).url, memory="manual")
    with pytest.raises(UsageError, match="is off"):
        await runtime.extensions[WorkspaceMemory].reflect()


SLOW = Scenario((ScriptedTurn("word " * 200, rate=20.0),), "slow", match="slowly")


async def test_nothing_is_read_while_a_session_works_or_something_is_queued(open_one: Open) -> None:
    async with ScriptedServer(SLOW, reading({"corrections": [CORRECTION]}), TALK) as server:
        runtime = open_one(server.url)
        await taught(runtime)
        session = await runtime.new_session()
        session.submit("work slowly")
        session.submit("then this")
        await streaming(server)
        for _ in range(2):
            with pytest.raises(UsageError, match="working"):
                await runtime.extensions[WorkspaceMemory].reflect()
            session.interrupt()
            await session.wait_idle()
        assert not asked(server)
        session.waiting.drop(0)
        await runtime.extensions[WorkspaceMemory].reflect()
        assert asked(server) == 1


async def test_a_turn_that_begins_stops_the_reading_at_once(open_one: Open) -> None:
    slow = Scenario((ScriptedTurn("word " * 400, rate=20.0),), "reading", match="[turn 1")
    async with ScriptedServer(slow, TALK) as server:
        runtime = open_one(server.url)
        await taught(runtime)
        session = await runtime.new_session()
        reflecting = asyncio.ensure_future(runtime.extensions[WorkspaceMemory].reflect())
        await streaming(server)
        await run(session, "Test the parser.")
        with pytest.raises(UsageError, match="stopped"):
            await reflecting
        await until(lambda: not server.open_streams)
    async with ScriptedServer(reading({"corrections": [CORRECTION]}), TALK) as server:
        await runtime.close()
        assert len(await reflected(open_one(server.url))) == 1


async def test_sessions_are_read_at_the_start_and_when_all_rest(
    workspace: Path, open_attended: Open, open_one: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("START_S", "IDLE_S", "IDLE_ONE_SLOT_S"):
        monkeypatch.setattr(reflection, name, 0.05)
    lexer = {"trigger": "", "rule": "Keep the parser pure, not clever", "quote": "keep the parser pure, not clever"}
    first = reading({"corrections": [CORRECTION]})
    second = Scenario((ScriptedTurn(json.dumps({"corrections": [lexer]})),), match="[turn 1, user] Write the parser")
    async with ScriptedServer(second, first, TALK) as server:
        await taught(open_one(server.url))
        runtime = open_attended(server.url)
        session = await runtime.new_session()
        told: list[int] = []
        session.subscribe(lambda each: told.append(each.event.waiting) if isinstance(each.event, ProposalsChanged) else None)
        await until(lambda: told == [1])
        await run(session, "Write the parser.")
        await run(session, "keep the parser pure, not clever")
        await until(lambda: told == [1, 2])
        assert runtime.extensions[WorkspaceMemory].waiting == 2


async def test_a_crash_in_the_middle_reads_again_and_doubles_nothing(open_one: Open, workspace: Path) -> None:
    async with ScriptedServer(reading({"corrections": [CORRECTION]}), TALK) as server:
        runtime = open_one(server.url)
        await taught(runtime)
        await reflected(runtime)
        await runtime.close()
        file = kept_dir("memory", workspace) / FILE
        lines = file.read_text().splitlines()
        proposed = next(line for line in lines if '"do":"proposed"' in line)
        file.write_text(f'{proposed}\n{{"do":"read","mar')
        assert len(await reflected(open_one(server.url))) == 1
        assert asked(server) == 2


async def test_a_skill_is_kept_in_the_folder_and_can_be_used(open_one: Open, workspace: Path) -> None:
    quote = "to release tag it, then push the tag"
    skill = {"name": "release", "description": "Release: tag it, push the tag", "body": "1. Tag\n2. Push", "quote": quote}
    async with ScriptedServer(reading({"skills": [skill]}), TALK) as server:
        runtime = open_one(server.url)
        await taught(runtime, "Test the parser.", f"By the way, {quote}.")
        (found,) = await reflected(runtime)
        assert found.kind is ProposalKind.SKILL
        assert await runtime.extensions[WorkspaceMemory].keep(found.id) == ".lmagent/skills/release/SKILL.md"
        assert (workspace / ".lmagent/skills/release/SKILL.md").read_text() == found.text
        assert "2. Push" in (await runtime.extensions[Skills].use("release")).text
