from __future__ import annotations

import asyncio

from lmtui.core.events import MessageAdded, ModelChanged, Notice, ToolCallFinished, ToolCallStarted
from lmtui.core.messages import Role
from lmtui.core.permissions.rules import Effect, Mode, Rule
from lmtui.core.prompt_text import PromptFile, fill
from lmtui.core.servers import ServedModel
from lmtui.core.workspace import ExecResult
from tests.engine.seen import ran, seen
from tests.fakes import FakeProvider, FakeSandbox, Rig, answer

DONE = answer("All is done.")


class Serving(FakeProvider):
    """A server with models."""

    models = ("model", "big", "huge")

    async def served(self, model: str) -> ServedModel | None:
        return ServedModel(model or "model") if (model or "model") in self.models else None


async def begin(rig: Rig, file: PromptFile, arguments: str = "") -> str:
    rig.session.prompts.begin(fill(file, arguments), f"/{file.name} {arguments}".strip())
    await rig.session.wait_idle()
    return next(event.text for event in seen(rig, MessageAdded) if event.role is Role.USER)


def listing() -> FakeSandbox:
    return FakeSandbox({"a.txt": b"text of a"}, {"ls": ExecResult(0, "@a.txt !`id` $1\n", 16, 1)})


async def test_a_commands_output_takes_its_place_and_is_not_looked_through() -> None:
    rig = Rig(FakeProvider(DONE), listing())
    assert await begin(rig, PromptFile("look", "See !`ls` and $1.", "look.md"), "here") == "See @a.txt !`id` $1 and here."
    assert rig.sandbox.ran == ["ls"]
    added = seen(rig, MessageAdded)[0]
    assert added.attached == ""
    assert added.is_from_file
    await rig.run("typed")
    assert not [event for event in seen(rig, MessageAdded) if event.role is Role.USER][-1].is_from_file


async def test_where_only_a_command_speaks_its_output_is_not_looked_through_either() -> None:
    rig = Rig(FakeProvider(DONE), listing())
    assert await begin(rig, PromptFile("look", "!`ls`", "look.md")) == "@a.txt !`id` $1"
    assert seen(rig, MessageAdded)[0].attached == ""


async def test_a_long_output_says_how_much_is_cut() -> None:
    sandbox = FakeSandbox({}, {"ls": ExecResult(0, "x" * 16_500, 16_500, 1)})
    text = await begin(Rig(FakeProvider(DONE), sandbox), PromptFile("look", "!`ls`", "look.md"))
    whole, _, cut = text.partition("\n")
    assert (len(whole), cut) == (16_000, "[cut here: 500 more characters of what the command said]")


async def test_files_that_the_text_mentions_are_attached() -> None:
    rig = Rig(FakeProvider(DONE), listing())
    assert await begin(rig, PromptFile("look", "See @a.txt", "look.md")) == "See @a.txt"
    assert "text of a" in seen(rig, MessageAdded)[0].attached


async def test_a_denied_command_does_not_run_and_is_not_sent() -> None:
    provider = FakeProvider(DONE)
    rig = Rig(provider, listing(), rules=(Rule(Effect.DENY, "shell", "ls *"), Rule(Effect.DENY, "shell", "ls")))
    text = await begin(rig, PromptFile("look", "See !`ls`.", "look.md"))
    assert (rig.sandbox.ran, text) == ([], "See [a command was here; it was not run: refused].")
    assert "ls" not in provider.requests[0].messages[-1].text


async def test_what_the_mode_would_ask_is_asked_though_the_user_typed_the_name() -> None:
    rig = Rig(FakeProvider(DONE), listing(), mode=Mode.MANUAL, is_attended=False)
    assert "not run" in await begin(rig, PromptFile("look", "See !`ls`.", "look.md"))
    assert rig.sandbox.ran == []


async def test_an_interrupt_while_its_commands_run_keeps_the_words() -> None:
    sandbox = FakeSandbox(commands={"sleep": 60.0})
    rig = Rig(FakeProvider(DONE), sandbox)
    rig.session.prompts.begin(fill(PromptFile("look", "See !`sleep`.", "look.md"), ""), "/look")
    _ = await rig.until(lambda event: isinstance(event, ToolCallStarted))
    while not sandbox.ran:
        await asyncio.sleep(0)
    rig.session.interrupt()
    await rig.session.wait_idle()
    assert (sandbox.stopped, rig.session.waiting.drop(0)) == (["sleep"], "/look")


async def test_commands_that_are_not_trusted_do_not_run_and_the_text_is_sent() -> None:
    rig = Rig(FakeProvider(DONE), listing())
    file = PromptFile("look", "See !`ls` now.", ".claude/commands/look.md", is_own=False, may_run=False)
    assert await begin(rig, file) == "See [a command was here; it was not run] now."
    assert rig.sandbox.ran == []
    assert any("not trusted" in event.text for event in seen(rig, Notice))


async def test_allowed_tools_refuse_the_others_in_that_turn_and_only_in_it() -> None:
    touch = answer("", ("shell", '{"command": "touch a"}'))
    rig = Rig(FakeProvider(touch, DONE, touch, DONE), listing())
    _ = await begin(rig, PromptFile("look", "See.", "look.md", allowed=("Read", "Shell(ls *)")))
    assert rig.sandbox.ran == []
    assert "/look" in seen(rig, ToolCallFinished)[0].result
    await rig.run("touch it")
    assert rig.sandbox.ran == ["touch a"]


async def test_allowed_tools_grant_nothing() -> None:
    touch = answer("", ("shell", '{"command": "touch a"}'))
    rig = Rig(FakeProvider(touch, DONE), listing(), mode=Mode.MANUAL, is_attended=False)
    _ = await begin(rig, PromptFile("look", "See.", "look.md", allowed=("Shell",)))
    assert rig.sandbox.ran == []


async def test_another_model_is_asked_for_that_turn() -> None:
    provider = Serving(DONE, answer("And done again."))
    rig = Rig(provider, listing())
    _ = await begin(rig, PromptFile("look", "See.", "look.md", model="big"))
    await rig.run("go on then")
    assert [request.model for request in provider.requests] == ["big", "model"]
    assert [event.model for event in seen(rig, ModelChanged)][:2] == ["big", "model"]


async def test_a_session_that_is_killed_with_a_borrowed_model_has_its_own_again() -> None:
    provider = Serving(answer("", ("shell", '{"command": "touch a"}')), DONE)
    rig = Rig(provider, listing())
    rig.session.emit(ModelChanged(model="model", url=provider.url))
    _ = await begin(rig, PromptFile("look", "See.", "look.md", model="big"))
    past = list(rig.log.events)
    cuts = [
        number for number, each in enumerate(past, 1) if isinstance(each.event, ModelChanged | MessageAdded | ToolCallStarted)
    ]
    assert any(isinstance(each.event, ModelChanged) and each.event.is_for_turn for each in past)
    for cut in cuts:
        again = await ran(Rig(Serving(DONE), listing(), past=tuple(past[:cut])), "go on then")
        assert [request.model for request in again.provider.requests] == ["model"], cut
        changes = [each.event for each in (*past[:cut], *again.log.events) if isinstance(each.event, ModelChanged)]
        assert not changes[-1].is_for_turn


async def test_of_two_borrowed_models_the_sessions_own_comes_back() -> None:
    provider = Serving(answer("", ("shell", '{"command": "touch a"}')), DONE, answer("And done again."))
    rig = Rig(provider, listing())
    rig.session.prompts.begin(fill(PromptFile("look", "See.", "look.md", model="big"), ""), "/look")
    _ = await begin(rig, PromptFile("see", "Look.", "see.md", model="huge"))
    await rig.run("go on then")
    assert provider.requests[-1].model == "model"


async def test_a_model_that_is_not_served_is_said_and_the_own_one_is_asked() -> None:
    provider = Serving(DONE)
    rig = Rig(provider, listing())
    _ = await begin(rig, PromptFile("look", "See.", "look.md", model="sonnet"))
    assert [request.model for request in provider.requests] == ["model"]
    assert any("sonnet" in event.text for event in seen(rig, Notice))
