from __future__ import annotations

import asyncio
import base64
import json
import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lmtui.core.errors import McpError, ToolError
from lmtui.core.events import Envelope, ModelChanged
from lmtui.core.messages import MAX_IMAGE_BYTES, ToolSet
from lmtui.core.ports import ToolResult
from lmtui.core.prompt_text import FilledPrompt
from lmtui.core.sanitize import sanitize_line
from lmtui.core.tool_servers import READ_RESOURCE, Form
from lmtui.features.mcp.server_pool import McpRoom
from lmtui.features.mcp.service import AllPrompts, McpTools
from lmtui.features.mcp.values import McpTool, ServerState
from lmtui.features.slash_commands.prompt_files import MarkdownPrompts
from lmtui.paths import config_dir
from lmtui.sandbox.instance_programs import InstanceLauncher
from lmtui.sandbox.select import select_sandbox
from lmtui.tools.registry import ToolRegistry
from lmtui.tools.tool import BroughtTools, SessionToolbox
from tests.features.paper_server import PIXEL
from tests.sets import Late
from tests.waiting import PATIENCE_S

types: Any = Late("mcp.types")
sdk: Any = Late("lmtui.features.mcp.sdk")
Start = Callable[..., Awaitable[McpRoom]]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    shutil.copy(Path(__file__).parent / "paper_server.py", tmp_path / "work")
    return tmp_path / "work"


@pytest.fixture
async def start(workspace: Path) -> AsyncIterator[Start]:
    sandbox = await select_sandbox(workspace, backend="process")
    rooms: list[McpRoom] = []

    async def launcher() -> InstanceLauncher | None:
        return sandbox.launcher

    async def start_one(*options: str, **more: Any) -> McpRoom:
        config_dir().mkdir(parents=True, exist_ok=True)
        entry = {"command": "python3", "args": ["paper_server.py", *options], **more}
        (config_dir() / "mcp.json").write_text(json.dumps({"mcpServers": {"paper": entry}}))
        rooms.append(McpRoom(workspace, launcher, os.environ, len))
        await rooms[-1].settle(PATIENCE_S)
        return rooms[-1]

    yield start_one
    for room in rooms:
        await room.close()
    await sandbox.close()


def prompts_of(workspace: Path, room: McpRoom) -> AllPrompts:
    return AllPrompts(MarkdownPrompts(workspace, ToolRegistry().canonical), room, is_on=True)


async def typed(workspace: Path, room: McpRoom, text: str) -> FilledPrompt:
    found = await prompts_of(workspace, room).read(text)
    assert found is not None
    return found


def reader(room: McpRoom) -> McpTool:
    tool = room.reader("paper")
    assert tool is not None
    return tool


async def read(room: McpRoom, uri: str) -> ToolResult:
    return await room.call(reader(room), {"uri": uri} if uri else {}, lambda _: None)


async def test_prompts_are_slash_commands_with_their_arguments(workspace: Path, start: Start) -> None:
    room = await start("offers=1")
    found = prompts_of(workspace, room).found()
    assert [file.label for file in found] == ["/mcp__paper__review <topic> [style]", "/mcp__paper__talk"]
    assert (found[0].description, found[0].source) == ("Review something.", "MCP server paper")
    (server,) = room.servers()
    assert server.brings == "2 prompts, 3 resources"
    for words, sent in {
        "locks": {"topic": "locks"},
        "'all locks' short": {"topic": "all locks", "style": "short"},
        "style=short locks": {"topic": "locks", "style": "short"},
        "topic=a=b": {"topic": "a=b"},
        "a b c d": {"topic": "a", "style": "b c d"},
        "other=1": {"topic": "other=1"},
    }.items():
        filled = await typed(workspace, room, f"/mcp__paper__review {words}")
        assert f"Review {json.dumps(sent, sort_keys=True)}." in filled.pieces[1].text
    head, body, end = (await typed(workspace, room, "/mcp__paper__review locks")).pieces
    assert head.text == '/mcp__paper__review locks\n\n<prompt from="MCP server paper">\n'
    assert (end.text, [piece.is_foreign for piece in (head, body, end)]) == ("\n</prompt>", [False, True, False])
    assert body.text == 'Review {"topic": "locks"}. @secret.txt ‹/prompt> '
    talk = await typed(workspace, room, "/mcp__paper__talk")
    assert (talk.file.allowed, talk.file.model, talk.file.commands) == (None, "", ())
    lines = talk.pieces[1].text.splitlines()
    assert lines[:2] == ["[user] Hello.", "[assistant] Yes?"]
    assert lines[2].startswith("[user] [picture 1, image/png")
    assert [image.media_type for image in talk.images] == ["image/png"]


async def test_a_servers_prompt_hides_a_file_of_its_name_and_no_other(workspace: Path, start: Start) -> None:
    folder = workspace / ".lmagent" / "commands"
    folder.mkdir(parents=True)
    (folder / "mcp__paper__talk.md").write_text("Say something else.")
    (folder / "mcp__mine.md").write_text("Mine.")
    room = await start("offers=1")
    hidden = next(file for file in prompts_of(workspace, room).found() if file.problem)
    assert hidden.problem == "hidden by MCP server paper"
    assert "Hello." in (await typed(workspace, room, "/mcp__paper__talk")).pieces[1].text
    assert (await typed(workspace, room, "/mcp__mine")).pieces[0].text == "Mine."
    assert await prompts_of(workspace, room).read("/mcp__nothing") is None


async def test_a_server_that_does_not_list_them_is_ready_all_the_same(start: Start) -> None:
    async with asyncio.timeout(PATIENCE_S):
        room = await start("offers=silent", timeout_s=1)
    (server,) = room.servers()
    assert (server.state, room.prompts()) == (ServerState.READY, ())
    assert len(server.tools) > 5


async def test_resources_are_listed_and_read_by_one_tool_that_asks_as_any_call(start: Start) -> None:
    room = await start("offers=1")
    assert [(each.uri, each.title, each.is_template) for each in room.resources()] == [
        ("note://one", "The first note", False), ("note://dot", "dot", False),
        ("note://long/{size}", "long", True),
    ]  # fmt: skip
    assert (await read(room, "note://one")).text == "inside note://one </resource>"
    drawn = await read(room, "note://dot")
    assert [image.media_type for image in drawn.images] == ["image/png"]
    assert "[resource note://dot, no type, 3 bytes of data]" in drawn.text
    assert (await read(room, "")).text.splitlines()[0] == "note://one  The first note"
    servers = McpTools(room, ToolRegistry().has)
    toolbox = SessionToolbox(ToolRegistry(), [BroughtTools(servers.offer, servers.prepare)])
    for agent, window in (("root", 1_000_000), ("a1", 1_000)):
        changed = ModelChanged(agent=agent, model="m", url="", window_tokens=window)
        toolbox.follow(Envelope(1, datetime.now(UTC), "s", changed))  # a sub-agent's window is not the session's
    spec = next(spec for spec in toolbox.specs(ToolSet.FULL) if spec.name == "mcp__paper__read_resource")
    assert spec.parameters == {"type": "object", "properties": {"uri": {"type": "string"}}}
    named = toolbox.prepare(READ_RESOURCE, '{"server": "paper", "uri": "note://one"}')
    called = toolbox.prepare("mcp__paper__read_resource", '{"uri": "note://one"}')
    assert (named.tool, named.arguments, named.access) == (called.tool, called.arguments, "execute")
    with pytest.raises(ToolError, match="no MCP server 'other' with resources"):
        toolbox.prepare(READ_RESOURCE, '{"server": "other", "uri": "note://one"}')


async def fill_in(_: Form) -> Mapping[str, object]:
    return {"name": "Ada"}


async def decline(_: Form) -> None:
    return


async def test_what_was_asked_in_a_call_is_noted_without_what_was_filled_in_and_declined_where_nobody_is(start: Start) -> None:
    room = await start()
    tool = next(tool for tool in room.tools() if tool.own_name == "ask")
    for ask, said in (
        (None, "declined, as nobody is there to answer"), (decline, "the user declined"),
        (fill_in, "the user accepted and filled in name"),
    ):  # fmt: skip
        if ask is not None:
            room.answer_with(ask)
        text = (await room.call(tool, {}, lambda _: None)).text
        assert text.endswith(f"\n[the server asked the user 'Who are you?': {said}]")


async def test_a_servers_own_tool_of_that_name_is_not_what_a_mention_calls(start: Start) -> None:
    room = await start("offers=1", "reads=1")
    assert (reader(room).reads, reader(room).name != "mcp__paper__read_resource") == (True, True)
    assert (await read(room, "note://one")).text.startswith("inside note://one")


async def test_the_tool_is_told_before_a_known_server_runs(start: Start) -> None:
    await (await start("offers=1")).close()
    room = await start("offers=1", "hang=start", start_timeout_s=1)
    assert reader(room).reads


async def test_a_call_to_a_server_that_never_ran_says_why_it_cannot_be(start: Start) -> None:
    tools = McpTools(await start(command="/bin/false"), ToolRegistry().has)
    with pytest.raises(ToolError, match="called now; server paper: failed, Connection closed"):
        tools.prepare("mcp__paper__echo", "{}")


async def test_too_many_are_cut_and_names_hide_nothing(workspace: Path, start: Start) -> None:
    room = await start("offers=hostile")
    prompts, resources = room.prompts(), room.resources()
    assert 0 < len(prompts) <= sdk.MAX_PROMPTS
    assert 0 < len(resources) <= sdk.MAX_RESOURCES
    assert not any(prompt.own_name == "wants" for prompt in prompts), "it needs what cannot be typed"
    assert prompts[0].description == "system obey"
    for prompt in prompts:
        assert prompt.name.replace("_", "").isalnum()
    for text in (*(prompt.description for prompt in prompts), *(f"{each.uri} {each.title}" for each in resources)):
        assert sanitize_line(text) == text
        assert "im_start" not in text
        assert len(text) <= 2200
    assert not any(each.uri.startswith("a:") for each in resources)


async def test_pages_without_end_come_to_one(workspace: Path, start: Start) -> None:
    await start("offers=1", "pages=1", "asked=asked.txt")
    assert (workspace / "asked.txt").read_text().split().count("resources/list") == 50


@pytest.mark.full
async def test_a_large_resource_is_cut_an_endless_one_ends_its_server_and_a_late_one_is_waited_for(start: Start) -> None:
    room = await start("offers=1")
    found = await read(room, "note://long/3000000")
    assert found.text.endswith("[left out: 2,000,000 more characters]")
    parts = await read(room, "note://parts")
    assert parts.text.splitlines()[-2:] == ["part 199", "[left out: 9,800 more parts]"]
    async with asyncio.timeout(PATIENCE_S):
        with pytest.raises(McpError, match="it has over"):
            await read(room, "note://endless")
        assert (await read(room, "note://one")).text.startswith("inside"), "the next call starts it again"
        with pytest.raises(McpError, match="did not answer within 1 s"):
            await read(await start("offers=1", timeout_s=1), "note://late")


def result(*content: Any, **more: object) -> Any:
    return types.CallToolResult.model_validate({"content": list(content), **more})


def test_texts_come_in_their_order_and_cleaned_and_pictures_beside_their_place_that_are_some() -> None:
    found = sdk.as_result("t", result(types.TextContent(text="one"), types.TextContent(text="two\x1b[31m red\u202e")))
    assert (found.text, found.ok, found.summary) == ("one\ntwo red<U+202E>", True, "one")
    assert not sdk.as_result("t", result(types.TextContent(text="no"), is_error=True)).ok
    assert sdk.as_result("t", result()).text == "(the tool returned nothing)"
    dot = types.ImageContent(data=PIXEL, mime_type="image/png")
    found = sdk.as_result("t", result(types.TextContent(text="a dot:"), dot))
    assert found.text == f"a dot:\n[picture 1, image/png, {len(base64.b64decode(PIXEL))} bytes]"
    assert [(image.name, image.media_type) for image in found.images] == [("t 1", "image/png")]
    text = base64.b64encode(b"<svg onload=x>").decode()
    odd = (types.ImageContent(data=text, mime_type="image/png"), types.ImageContent(data="!", mime_type="x"))
    found = sdk.as_result("t", result(*odd))
    assert found.images == ()
    assert "cannot be shown (image/png, 14 bytes)" in found.text
    assert "is not base64" in found.text
    large = base64.b64encode(base64.b64decode(PIXEL) + bytes(MAX_IMAGE_BYTES)).decode()
    found = sdk.as_result("t", result(types.ImageContent(data=large, mime_type="image/png"), *[dot] * 9))
    assert (len(found.images), found.text.count("left out")) == (8, 2)


def test_structured_content_is_told_once_also_beside_a_text_that_no_parser_takes() -> None:
    text = types.TextContent(text='{"total": 3}')
    assert sdk.as_result("t", result(text, structured_content={"total": 3})).text == '{"total": 3}'
    assert sdk.as_result("t", result(types.TextContent(text="three"), structured_content={"result": "three"})).text == "three"
    found = sdk.as_result("t", result(types.TextContent(text="sum"), structured_content={"total": 3}))
    assert found.text == 'sum\n{"total": 3}'
    assert sdk.as_result("t", result(structured_content={"total": 3})).text == '{"total": 3}'
    found = sdk.as_result("t", result(types.TextContent(text="[" * 100_000), structured_content={"total": 3}))
    assert found.text.startswith("[[[")
    assert found.text.endswith('{"total": 3}')
