from __future__ import annotations

import asyncio
from collections.abc import Sequence

from lmtui.core.messages import Priority
from lmtui.models.openai_client import Slots


class Bench:
    """Requests that hold a slot until they are told to let go, and the order in which they were served."""

    def __init__(self, count: int = 1) -> None:
        self.slots = Slots(count)
        self.served: list[str] = []
        self.ends: dict[str, asyncio.Event] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def ask(self, name: str, owner: int, urgency: Priority = Priority.USER) -> None:
        self.ends[name] = asyncio.Event()
        self.tasks[name] = asyncio.create_task(self._hold(name, owner, urgency))
        await settle()

    async def _hold(self, name: str, owner: int, urgency: Priority) -> None:
        async with self.slots.take(owner, urgency):
            self.served.append(name)
            await self.ends[name].wait()

    async def end(self, *names: str) -> None:
        for name in names:
            self.ends[name].set()
            await settle()

    async def close(self) -> None:
        for task in self.tasks.values():
            task.cancel()
        await asyncio.gather(*self.tasks.values(), return_exceptions=True)


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def order_of(requests: Sequence[tuple[str, int, Priority]]) -> list[str]:
    """Return the order in which requests are served that all came while the first one ran."""
    bench = Bench()
    for request in requests:
        await bench.ask(*request)
    while len(bench.served) < len(requests):
        await bench.end(bench.served[-1])
    await bench.close()
    return bench.served


async def test_the_conversation_that_is_in_the_cache_goes_before_its_equals_but_not_for_ever() -> None:
    hot = [(f"hot{number}", 1, Priority.USER) for number in range(12)]
    served = await order_of([("first", 1, Priority.USER), ("other", 2, Priority.USER), *hot])
    assert served[1:3] == ["hot0", "hot1"]
    assert 6 < served.index("other") < 12


async def test_a_person_goes_before_children_and_titles_and_more_slots_serve_more_at_once() -> None:
    child, nobody, user = Priority.SUBAGENT, Priority.BACKGROUND, Priority.USER
    given = [("run", 1, child), ("title", 2, nobody), ("child", 3, child), ("person", 4, user), ("other", 5, user)]
    bench = Bench()
    for request in given:
        _, owner, urgency = request
        assert bench.slots.before(owner, urgency) == {"title": 1, "child": 1, "person": 1, "other": 2}.get(request[0], 0)
        await bench.ask(*request)
    assert bench.served == ["run"]
    await bench.close()
    assert await order_of(given) == ["run", "person", "other", "child", "title"]
    bench = Bench(2)
    for owner, name in enumerate("abcd"):
        await bench.ask(name, owner)
    assert bench.served == ["a", "b"]
    bench.slots.resize(3)
    await settle()
    assert bench.served == ["a", "b", "c"]
    await bench.close()


async def test_who_gives_up_while_waiting_or_in_the_moment_of_its_turn_takes_no_slot() -> None:
    bench = Bench()
    await bench.ask("a", 1)
    await bench.ask("b", 2)
    await bench.ask("c", 3)
    bench.tasks["b"].cancel()
    await bench.end("a")
    assert bench.served == ["a", "c"]
    await bench.end("c")
    await bench.ask("d", 4)
    assert bench.served == ["a", "c", "d"]
    await bench.close()
    bench = Bench()
    await bench.ask("a", 1)
    await bench.ask("b", 2)
    bench.ends["a"].set()
    await asyncio.sleep(0)
    bench.tasks["b"].cancel()
    await settle()
    await bench.ask("c", 3)
    assert bench.served[-1] == "c"
    await bench.close()
