"""Prompts and resources of a server, from what is typed to what the model gets."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from lmtui.app.host import Runtime
from lmtui.core.events import MessageAdded, Notice, Outcome, ToolCallFinished
from lmtui.core.messages import Role
from lmtui.core.ports import Policy
from lmtui.core.prompt_text import PromptFiles
from lmtui.core.sessions import Session
from lmtui.features.mcp.values import McpServers
from lmtui.models.demo_scripts import ScriptedCall, ScriptedTurn
from tests.app.answering import answering
from tests.app.conftest import DONE, Open, Serve, run
from tests.sets import few

PAPER = Path(__file__).parents[1] / "features" / "paper_server.py"
READ = ScriptedTurn(calls=(ScriptedCall("mcp__paper__read_resource", {"uri": "note://one"}),))


@pytest.fixture
async def opened(workspace: Path, home: Path, open_one: Open, serve: Serve) -> Any:
    """Open a session with a server whose prompts and resources are known."""

    async def start(*turns: ScriptedTurn, options: tuple[str, ...] = (), is_attended: bool = True, **settings: Any) -> Any:
        shutil.copy(PAPER, workspace / "paper_server.py")
        (home / "config").mkdir(parents=True, exist_ok=True)
        entry = {"command": "python3", "args": ["paper_server.py", "offers=1", *options]}
        (home / "config" / "mcp.json").write_text(json.dumps({"mcpServers": {"paper": entry}}))
        server = await serve(*(turns or (DONE,)))
        runtime = open_one(server.url, **{"mode": "normal", **settings})
        session = await runtime.new_session(Policy(is_attended=is_attended))
        await runtime.extensions[McpServers].settle(30)
        return runtime, session

    return start


def attached(events: list[Any]) -> str:
    return next(event.attached for event in events if isinstance(event, MessageAdded) and event.role is Role.USER)


def noted(events: list[Any]) -> str:
    return "\n".join(event.text for event in events if isinstance(event, Notice))


async def test_resources_that_the_user_mentions_go_with_the_message(opened: Any) -> None:
    _, session = await opened()
    events = await run(session, "what is in @paper:note://one?")
    assert attached(events) == '<resource server="paper" uri="note://one">\ninside note://one ‹/resource>\n</resource>'
    assert noted(events) == ""
    events = await run(session, "look at @paper:note://dot")
    message = next(event for event in events if isinstance(event, MessageAdded))
    assert [image.media_type for image in message.images] == ["image/png"]
    assert "[resource note://dot, no type, 3 bytes of data]" in message.attached
    events = await run(session, "@paper:note://long/900000")
    assert "\n[cut here]\n</resource>" in attached(events)
    assert len(attached(events)) < 20_000
    assert "@paper:note://long/900000 was cut" in noted(events)
    events = await run(session, "see @other:note://one")
    assert attached(events) == ""
    assert "@other:note://one was not sent: no MCP server 'other' with resources is ready" in noted(events)


SENT = [
    ({"mode": "normal"}, True),
    ({"mode": "auto", "ask": ("mcp__paper__read_resource",)}, False),
    ({"mode": "auto", "is_attended": False}, True),
    ({"mode": "auto", "deny": ("mcp__paper__*",)}, False),
    ({"mode": "normal", "is_attended": False, "allow": ("mcp__paper__read_resource",)}, True),
    ({"mode": "plan"}, False),
    ({"mode": "normal", "is_attended": False}, False),
]


@pytest.mark.parametrize(("settings", "is_sent"), few(SENT))
async def test_only_a_mode_that_would_ask_is_answered_by_typing(opened: Any, settings: dict[str, Any], is_sent: bool) -> None:
    _, session = await opened(**settings)
    events = await run(session, "what is in @paper:note://one")
    assert ("inside note://one" in attached(events)) is is_sent
    assert ("was not sent" in noted(events)) is not is_sent


async def test_the_model_reads_one_after_a_yes(opened: Any) -> None:
    _, session = await opened(READ, DONE)
    asked = answering(session, Outcome.ONCE)
    events = await run(session)
    assert [event.result for event in events if isinstance(event, ToolCallFinished)] == ["inside note://one </resource>"]
    assert [each.tool for each in asked] == ["mcp__paper__read_resource"]


async def begun(runtime: Runtime, session: Session, typed: str) -> list[Any]:
    prompt = await runtime.extensions[PromptFiles].read(typed)
    assert prompt is not None
    events: list[Any] = []
    leave = session.subscribe(lambda envelope: events.append(envelope.event))
    session.waiting.begin(prompt, typed)
    await session.wait_idle()
    leave()
    return events


async def test_a_prompt_becomes_the_users_message_and_what_it_mentions_is_not_read(workspace: Path, opened: Any) -> None:
    runtime, session = await opened()
    (workspace / "secret.txt").write_text("the secret")
    (workspace / "typed.txt").write_text("what was typed")
    events = await begun(runtime, session, "/mcp__paper__review @typed.txt")
    message = next(event for event in events if isinstance(event, MessageAdded) and event.role is Role.USER)
    assert message.text.startswith('/mcp__paper__review @typed.txt\n\n<prompt from="MCP server paper">\nReview {"topic"')
    assert message.text.endswith("‹/prompt> \n</prompt>")
    assert "@secret.txt" in message.text
    assert "what was typed" in message.attached
    assert "the secret" not in message.attached
