from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from lmtui.engine.subagent_runs import AgentSlots
from tests.sets import for_each


@dataclass
class Crew:
    places: AgentSlots
    at_work: int = 0
    most: int = 0
    order: list[str] = field(default_factory=list)

    async def act(self, name: str) -> None:
        self.at_work += 1
        self.most = max(self.most, self.at_work)
        self.order.append(name)
        for _ in range(3):
            await asyncio.sleep(0)
        self.at_work -= 1

    async def one(self, name: str, below: int = 0) -> None:
        async with self.places.one():
            await self.act(name)
            if below:
                async with self.places.lent(), asyncio.TaskGroup() as group:
                    for number in range(2):
                        group.create_task(self.one(f"{name}.{number}", below - 1))
                await self.act(f"{name} again")


@pytest.mark.parametrize("count", [1, 2, 3])
async def test_however_deep_no_more_work_than_there_are_places(count: int) -> None:
    crew = Crew(AgentSlots(lambda: count))
    async with asyncio.TaskGroup() as group:
        for name in "ab":
            group.create_task(crew.one(name, 2))
    assert (crew.most, len(crew.order), sorted(crew.order)[:2]) == (count, 2 * (7 + 3), ["a", "a again"])


async def test_places_are_given_in_the_order_they_were_asked_for() -> None:
    crew = Crew(AgentSlots(lambda: 1))
    async with asyncio.TaskGroup() as group:
        for name in "dcba":
            group.create_task(crew.one(name))
    assert crew.order == list("dcba")


@for_each("rounds", range(12))
async def test_wherever_it_is_stopped_no_place_is_lost_or_won(rounds: int) -> None:
    places = AgentSlots(lambda: 1)
    crew = Crew(places)
    tasks = [asyncio.create_task(crew.one(name, 1)) for name in "abc"]
    for _ in range(rounds):
        await asyncio.sleep(0)
    tasks[0].cancel()
    tasks[1].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.gather(*(crew.one(name) for name in "xyz"))
    assert crew.order[-3:] == ["x", "y", "z"]
    last = Crew(places)
    await asyncio.gather(*(last.one(name) for name in "xyz"))
    assert last.most == 1


async def test_more_places_are_used_as_soon_as_one_is_given_back() -> None:
    count = 1
    crew = Crew(AgentSlots(lambda: count))
    tasks = [asyncio.create_task(crew.one(name)) for name in "abc"]
    await asyncio.sleep(0)
    count = 2
    await asyncio.gather(*tasks)
    assert crew.most == 2
