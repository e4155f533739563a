from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from lmtui.core.events import Event, ToolCallFinished, ToolCallStarted, TurnEnded, TurnReason
from lmtui.core.messages import Role
from lmtui.core.permissions.rules import Effect, Mode, parse_rule
from lmtui.core.ports import Sandbox
from lmtui.core.workspace import ExecResult, FileContent
from tests.engine.seen import call, ran, seen
from tests.fakes import FakeProvider, FakeSandbox, MemoryLog, Rig, answer
from tests.sets import for_each


@dataclass
class Slow(FakeSandbox):
    """A workspace whose reads take as many steps as `pauses` says; it counts how many work at once, and keeps what was done."""

    pauses: dict[str, int] = field(default_factory=dict)
    now: int = 0
    most: int = 0
    done: list[str] = field(default_factory=list)

    def read_only(self) -> Sandbox:
        return self

    async def _work(self, name: str) -> None:
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            for _ in range(self.pauses.get(name, 10)):
                await asyncio.sleep(0)
            self.done.append(name)
        finally:
            self.now -= 1

    async def read_file(self, path: str, max_bytes: int = 1_048_576) -> FileContent:
        await self._work(path)
        return await super().read_file(path, max_bytes)

    async def run_command(self, command: str, **more: Any) -> ExecResult:
        await self._work(command)
        return await super().run_command(command, **more)


def folder() -> Slow:
    return Slow({f"{name}.txt": name.encode() for name in "abcdefghij"})


def read(name: str) -> tuple[str, str]:
    return "read", call(path=f"{name}.txt")


def rig_for(sandbox: Slow, *calls: tuple[str, str], **more: Any) -> Rig:
    return Rig(FakeProvider(answer("", *calls), answer("Done.")), sandbox, **more)


def steps(rig: Rig) -> list[str]:
    """Return starts as `+id` and ends as `-id`, in the order of the log."""
    found = [event for event in rig.events if isinstance(event, ToolCallStarted | ToolCallFinished)]
    return [f"{'+' if isinstance(event, ToolCallStarted) else '-'}{event.call_id[5:]}" for event in found]


def results(rig: Rig) -> list[str]:
    return [event.result for event in seen(rig, ToolCallFinished)]


async def test_reads_of_one_message_run_side_by_side_and_end_in_their_order() -> None:
    sandbox = folder()
    sandbox.pauses = {"a.txt": 50, "b.txt": 30, "c.txt": 1}
    rig = await ran(rig_for(sandbox, read("a"), read("b"), read("c")))
    assert (sandbox.done, steps(rig)) == (["c.txt", "b.txt", "a.txt"], ["+0", "+1", "+2", "-0", "-1", "-2"])
    assert [result.split()[-1] for result in results(rig)] == ["a", "b", "c"]
    told = [message.text.split()[-1] for message in rig.provider.requests[1].messages if message.role is Role.TOOL]
    assert told == ["a", "b", "c"]


async def test_only_a_few_run_at_once() -> None:
    sandbox = folder()
    rig = await ran(rig_for(sandbox, *map(read, "abcdefghij")))
    assert (sandbox.most, [step for step in steps(rig) if step[0] == "-"]) == (4, [f"-{number}" for number in range(10)])


@for_each(("between", "most"), [
    (("write", call(path="x.txt", content="x")), 2), (("shell", call(command="make")), 2),
    (("todo_add", call(description="x")), 2), (("nosuch", "{}"), 2), (("read", "{"), 2), (("ls", "{}"), 4),
    (("get_time", "{}"), 2),
])  # fmt: skip
async def test_a_call_that_does_more_than_read_waits_and_is_waited_for(between: tuple[str, str], most: int) -> None:
    sandbox = folder()
    rig = await ran(rig_for(sandbox, read("a"), read("b"), between, read("c"), read("d")))
    assert sandbox.most == most
    order = steps(rig)
    if most == 2:
        assert order == ["+0", "+1", "-0", "-1", "+2", "-2", "+3", "+4", "-3", "-4"]
    assert sorted(order) == sorted(f"{sign}{number}" for sign in "+-" for number in range(5))


async def test_a_read_that_would_be_asked_about_runs_alone() -> None:
    sandbox = folder()
    rule = parse_rule("Read(b.txt)", Effect.ASK, "settings")
    rig = await ran(rig_for(sandbox, read("a"), read("b"), read("c"), rules=(rule,), is_attended=False))
    assert sandbox.most == 1
    assert "Not run" in results(rig)[1]


async def test_a_read_that_fails_fails_alone() -> None:
    rig = await ran(rig_for(folder(), read("a"), read("missing"), read("c")))
    assert [event.ok for event in seen(rig, ToolCallFinished)] == [True, False, True]


def is_start(number: int) -> Callable[[Event], bool]:
    return lambda event: isinstance(event, ToolCallStarted) and event.call_id == f"call_{number}"


@for_each("number", range(6))
async def test_a_turn_that_is_stopped_among_reads_ends_each_call_that_began_once(number: int) -> None:
    sandbox = folder()
    sandbox.pauses = dict.fromkeys((f"{name}.txt" for name in "bdf"), 100_000)
    rig = rig_for(sandbox, *map(read, "abcdef"))
    rig.session.submit("go")
    await rig.until(is_start(min(number, 3)))
    for _ in range(number * 7):
        await asyncio.sleep(0)
    rig.session.interrupt()
    await rig.session.wait_idle()
    begun = [step[1:] for step in steps(rig) if step[0] == "+"]
    assert [step[1:] for step in steps(rig) if step[0] == "-"] == begun
    assert ([event.reason for event in seen(rig, TurnEnded)], sandbox.now) == ([TurnReason.INTERRUPTED], 0)


async def test_a_log_that_is_full_among_reads_ends_the_turn_with_its_reason() -> None:
    rig = rig_for(folder(), *map(read, "abcd"), log=MemoryLog(room=9))
    rig.session.submit("go")
    await rig.session.wait_idle()
    assert "No space left" in str([getattr(event, "error", "") + getattr(event, "text", "") for event in rig.events])


async def test_live_equals_replay_with_calls_side_by_side() -> None:
    sandbox = folder()
    sandbox.pauses = {"a.txt": 40}
    rig = await ran(rig_for(sandbox, *map(read, "abc")))
    replayed = await ran(Rig(FakeProvider(answer("More.")), past=rig.log.events), "more")
    live = [message.text for message in rig.provider.requests[-1].messages]
    assert [message.text for message in replayed.provider.requests[-1].messages][: len(live)] == live


async def test_commands_run_one_by_one() -> None:
    sandbox = folder()
    await rig_for(sandbox, *(("shell", call(command=command)) for command in ("cat a.txt", "ls -l")), mode=Mode.AUTO).run()
    assert sandbox.most == 1
