from __future__ import annotations

import io
from typing import Any

import pytest

from lmtui.commands.command import Begin, Output
from lmtui.commands.table import command_table
from lmtui.core.errors import McpError, UsageError
from lmtui.core.messages import Image
from lmtui.core.prompt_text import PromptFile
from lmtui.headless.run import HeadlessTask, read_task, run_headless
from tests.sets import for_each
from tests.tui.fake_skills import some_skills
from tests.tui.fakes import FakeHost, FakeSession

PICTURE = Image("x.png", "image/png", b"x")


def brought() -> FakeHost:
    host = FakeHost()
    host.extensions.skills.known = some_skills()
    host.extensions.prompts.files = [
        PromptFile("review", "Look at $1.", ".lmagent/commands/review.md"),
        PromptFile("empty", "", ".lmagent/commands/empty.md", problem="it says nothing"),
    ]
    return host


async def begun_skill(text: str) -> list[tuple[str, str]]:
    host = brought()
    begin = await read_task(host, text, ())
    assert isinstance(begin, Begin)
    begin.start(FakeSession("one"))
    return host.extensions.skills.begun


async def begun(text: str, *images: Image) -> FakeSession:
    session = FakeSession("one")
    begin = await read_task(brought(), text, images)
    assert isinstance(begin, Begin)
    begin.start(session)
    return session


@pytest.mark.parametrize("text", ["do it", "/etc/hosts is wrong", " /review login", "/a.txt"])
async def test_words_go_to_the_model_as_they_are(text: str) -> None:
    assert (await begun(text)).submitted == [text]


async def test_the_command_of_a_file_says_its_text_and_a_skill_is_borrowed_with_the_words_behind_its_name() -> None:
    assert (await begun("/review login\n")).submitted == ["Look at login."]
    assert await begun_skill("/skill changelog for 0.2") == [("changelog", "for 0.2")]


@pytest.mark.parametrize(("text", "said"), [
    ("/mcp", "/mcp needs a screen. Use `lmtui mcp`."),
    ("/skill", "/skill needs a screen. Use `/skill NAME`; `lmtui skills` lists them."),
    ("/init", "/init needs a screen. Use `lmtui` (or `lmtui --plain`)."),
    ("/skill nothing", "no skill 'nothing'. There are others."),
    ("/reveiw x", "no command /reveiw. Did you mean /review?"),
    ("/nosuchthing", "no command /nosuchthing. To send it as text, put a space before it"),
    ("/goal the bug", "/goal needs a screen. Use `--goal COMMAND`."),
    ("/goal echo 'unbalanced", "the goal is not a complete command: No closing quotation"),
    ("/empty", "/empty cannot be used: .lmagent/commands/empty.md: it says nothing"),
])  # fmt: skip
async def test_what_cannot_be_done_says_the_way_out(text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        await begun(text)
    assert said in caught.value.full_text()


@for_each("name", sorted({*command_table().names} - {"check", "checks", "gates", "goal", "promote"}))
async def test_no_command_of_our_own_goes_to_the_model(name: str) -> None:
    with pytest.raises(UsageError, match=f"/{name} needs a screen"):
        await begun(f"/{name}")


async def test_a_picture_beside_a_command_and_a_servers_prompt_that_lacks_something_are_wrong_commands() -> None:
    with pytest.raises(UsageError, match="no picture goes along with /review"):
        await begun("/review login", PICTURE)
    host = brought()
    host.extensions.prompts.broken = McpError("/mcp__a__b needs topic", "Type: /mcp__a__b <topic>")
    with pytest.raises(UsageError, match="/mcp__a__b needs topic"):
        await read_task(host, "/mcp__a__b", ())


async def test_what_a_command_prints_is_refused_where_events_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    async def read(*_: object) -> Output:
        return Output(("nothing to check",))

    monkeypatch.setattr("lmtui.headless.run.read_task", read)
    host: Any = brought()
    host.plans_first = False
    with pytest.raises(UsageError, match="/check prints text and no events"):
        _ = await run_headless(host, HeadlessTask("/check", output="json"), io.StringIO(), io.StringIO())
