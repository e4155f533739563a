from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from lmtui.core.budgets import SessionBudget
from lmtui.core.errors import Fault, ProviderError
from lmtui.core.events import Notice, SessionRenamed, UsageUpdated
from lmtui.core.messages import Priority, StreamChunk, TextChunk
from lmtui.core.roles import ModelRole, RoleModel, Roles
from lmtui.core.servers import ServedModel
from tests.engine.seen import ran, seen
from tests.fakes import FakeProvider, Rig, answer

NAMED: Roles = {ModelRole.TITLE: RoleModel("small", repeat_penalty=1.1)}


def titles(rig: Rig) -> list[str]:
    return [event.title for event in seen(rig, SessionRenamed)]


async def later(rig: Rig, count: int) -> None:
    """Wait until so many requests were answered."""
    while len(rig.provider.requests) < count or rig.provider.open_streams:
        await asyncio.sleep(0)
    for _ in range(10):
        await asyncio.sleep(0)


async def test_model_for_titles_names_a_session_once() -> None:
    roles = {ModelRole.TITLE: replace(NAMED[ModelRole.TITLE], max_completion=77)}
    rig = Rig(FakeProvider(answer("It is mended."), answer('"Mend the lexer"\nand more'), answer("more")), roles=roles)
    await rig.run("please mend the lexer, it drops comments")
    await later(rig, 2)
    assert titles(rig) == ["please mend the lexer, it drops comments", "Mend the lexer"]
    asked = rig.provider.requests[1]
    assert (asked.model, asked.urgency, asked.tools) == ("small", Priority.BACKGROUND, ())
    assert (asked.repeat_penalty, asked.max_tokens) == (1.1, 77)
    await rig.run("go on")
    await later(rig, 3)
    assert len(rig.provider.requests) == 3


async def test_without_such_a_model_the_first_words_are_the_title() -> None:
    rig = await ran(Rig(FakeProvider(answer("done"))), "mend it")
    assert (titles(rig), len(rig.provider.requests)) == (["mend it"], 1)


async def test_the_sessions_own_model_is_asked_where_that_is_allowed_and_cheap() -> None:
    rig = Rig(FakeProvider(answer("done"), answer("\x1b[1mMend the lexer")), asks_for_title=lambda _: True)
    await rig.run("mend it")
    await later(rig, 2)
    assert titles(rig) == ["mend it", "Mend the lexer"]
    assert (rig.provider.requests[1].model, rig.provider.requests[1].tools) == ("model", ())


async def test_no_model_is_asked_where_titles_are_off() -> None:
    rig = await ran(Rig(FakeProvider(answer("done")), roles=NAMED, asks_for_title=lambda _: False), "mend it")
    assert (titles(rig), len(rig.provider.requests)) == (["mend it"], 1)


@pytest.mark.parametrize("said", [
    answer("x" * 200), answer("a title of no more than six words"), answer(""), [ProviderError(Fault.SERVER_ERROR, "no")],
])  # fmt: skip
async def test_what_is_no_title_is_passed_over(said: list[StreamChunk | Exception | float]) -> None:
    rig = await ran(Rig(FakeProvider(answer("done"), said), roles=NAMED), "mend it")
    await later(rig, 2)
    assert titles(rig) == ["mend it"]


async def test_name_that_the_user_gave_stays() -> None:
    rig = Rig(FakeProvider(answer("done")), roles=NAMED)
    rig.session.submit("mend it")
    rig.session.rename("mine")
    await rig.session.wait_idle()
    await later(rig, 1)
    assert (titles(rig)[-1], len(rig.provider.requests)) == ("mine", 1)


async def test_name_that_the_user_gives_meanwhile_is_not_overwritten() -> None:
    rig = await ran(Rig(FakeProvider(answer("done"), [0.05, *answer("Mend the lexer")]), roles=NAMED), "mend it")
    rig.session.rename("mine")
    await later(rig, 2)
    assert titles(rig) == ["mend it", "mine"]


async def test_request_for_a_title_counts_in_the_budget_and_is_not_made_beyond_it() -> None:
    rig = Rig(FakeProvider(answer("It is mended."), answer("Mend the lexer")), roles=NAMED)
    rig.session.budget.give(SessionBudget(steps=5, tokens=1000))
    await rig.run("mend the lexer")
    await later(rig, 2)
    spent = rig.session.budget.in_force()[1]
    assert (spent.steps, spent.tokens) == (2, 22)  # of 10 tokens 4 are cached, 5 written, twice
    assert titles(rig)[-1] == "Mend the lexer"
    used = Rig(FakeProvider(answer("It is mended."), answer("Mend the lexer")), roles=NAMED)
    used.session.budget.give(SessionBudget(steps=1))
    await used.run("mend the lexer")
    await later(used, 1)
    assert len(used.provider.requests) == 1


async def test_a_model_that_thinks_has_room_for_it_before_a_title() -> None:
    rig = await ran(Rig(FakeProvider(answer("done"), answer("Mend the lexer")), roles=NAMED), "mend it")
    await later(rig, 2)
    assert (rig.provider.requests[1].max_tokens or 0) >= 1_000
    assert titles(rig) == ["mend it", "Mend the lexer"]


async def test_a_model_that_goes_on_behind_a_title_is_stopped() -> None:
    endless = [TextChunk("and so on ") for _ in range(1_000)]
    rig = await ran(Rig(FakeProvider(answer("done"), endless), roles=NAMED), "mend it")
    await later(rig, 2)
    assert (rig.provider.open_streams, titles(rig)) == (0, ["mend it"])


class Listing(FakeProvider):
    """Tells of the session's own model, and of no other."""

    async def served(self, model: str) -> ServedModel | None:
        return ServedModel("model", 24_000) if model in ("", "model") else None


async def test_a_model_for_titles_that_is_not_there_is_said_and_the_sessions_own_is_asked() -> None:
    rig = Rig(Listing(answer("done"), answer("Mend the lexer")), roles=NAMED)
    rig.session.prepare(is_eager=False)
    await rig.run("mend it")
    await later(rig, 2)
    assert rig.provider.requests[1].model == "model"
    told = [each.text for each in seen(rig, Notice)]
    assert told == ["http://fake/v1 does not offer small, the model for the role title; model is asked in its place."]


async def test_what_a_request_costs_names_its_model_and_how_long_it_took() -> None:
    rig = await ran(Rig(FakeProvider(answer("It is mended."), answer("Mend the lexer")), roles=NAMED), "mend the lexer")
    await later(rig, 2)
    told = [(each.agent, each.model, each.elapsed_s) for each in seen(rig, UsageUpdated)]
    names = [each.model for each in rig.provider.requests]
    assert (told, len({*names})) == ([("root", names[0], 0.6), ("title", names[1], 0.6)], 2)


@pytest.mark.parametrize("priority", [None, Priority.BACKGROUND])
async def test_a_role_is_asked_with_the_priority_that_is_given(priority: Priority | None) -> None:
    rig = Rig(FakeProvider(answer("a summary")), roles={ModelRole.SUMMARISER: RoleModel("small")})
    requests = rig.session.role_requests
    assert await requests.ask(ModelRole.SUMMARISER, "reflection", ("Sum up.", "text"), priority=priority) == "a summary"
    assert rig.provider.requests[0].urgency is (priority or Priority.USER)
    (told,) = rig.of("usage_updated")
    assert told.agent == "reflection"
