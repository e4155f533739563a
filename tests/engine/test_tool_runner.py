from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmtui.core.events import Event, ToolCallFinished, ToolCallStarted, TurnEnded, TurnReason
from lmtui.core.messages import Role, StreamChunk, ToolCall, ToolCallFormat
from lmtui.core.permissions.rules import Effect, Mode, parse_rule
from lmtui.core.ports import Sandbox, ToolResult
from lmtui.core.sanitize import REDACTED, Redactor
from lmtui.core.workspace import ExecResult, FileContent
from lmtui.engine.context_budget import truncate_result
from lmtui.engine.turn_runner import MOST_AT_ONCE
from tests.engine.seen import call, ran, results, seen, shell
from tests.fakes import FakeProvider, FakeSandbox, Rig, answer
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


async def test_reads_of_one_message_run_side_by_side_a_few_at_once_and_end_in_their_order() -> None:
    sandbox = folder()
    sandbox.pauses = {"a.txt": 50, "b.txt": 30, "c.txt": 1}
    rig = await ran(rig_for(sandbox, read("a"), read("b"), read("c")))
    assert (sandbox.done, steps(rig)) == (["c.txt", "b.txt", "a.txt"], ["+0", "+1", "+2", "-0", "-1", "-2"])
    assert [result.split()[-1] for result in results(rig)] == ["a", "b", "c"]
    told = [message.text.split()[-1] for message in rig.provider.requests[1].messages if message.role is Role.TOOL]
    assert told == ["a", "b", "c"]
    sandbox = folder()
    rig = await ran(rig_for(sandbox, *map(read, "abcdefghij")))
    assert (sandbox.most, [step for step in steps(rig) if step[0] == "-"]) == (4, [f"-{number}" for number in range(10)])
    sandbox = folder()
    rule = parse_rule("Read(b.txt)", Effect.ASK, "settings")
    rig = await ran(rig_for(sandbox, read("a"), read("b"), read("c"), rules=(rule,), is_attended=False))
    assert sandbox.most == 1
    assert "Not run" in results(rig)[1]


@for_each(("between", "most"), [
    (("write", call(path="x.txt", content="x")), 2), (shell("make"), 2),
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


SECRET = "sk-Abcdefghijklmnop1234567890"


def rig_of(mode: Mode = Mode.AUTO, sandbox: FakeSandbox | None = None) -> Rig:
    sandbox = sandbox or FakeSandbox({"a.txt": f"one {SECRET}\n".encode()})
    return Rig(FakeProvider(), sandbox, mode=mode, is_attended=False, redactor=Redactor((SECRET,)))


async def call_from_outside(rig: Rig, number: int, tool: str, **arguments: object) -> ToolResult:
    return await rig.session.outside_calls.run(ToolCall(f"mcp_{number}", tool, json.dumps(arguments)), "mcp")


async def test_a_call_from_outside_is_written_down_without_a_secret_and_the_conversation_is_told_nothing() -> None:
    rig = rig_of()
    result = await call_from_outside(rig, 1, "read", path="a.txt")
    assert (result.ok, REDACTED in result.text, SECRET in result.text) == (True, True, False)
    (started,), (ended,) = rig.of("tool_call_started"), rig.of("tool_call_finished")
    assert isinstance(started, ToolCallStarted)
    assert isinstance(ended, ToolCallFinished)
    assert (started.by, started.call_id, ended.ok, SECRET in ended.result) == ("mcp", "mcp_1", True, False)
    assert [event.kind for event in rig.events if event.kind.startswith("turn_")] == ["turn_started", "turn_ended"]
    rig = Rig(FakeProvider(answer("done")), FakeSandbox({"a.txt": b"one\n"}), is_attended=False)
    await call_from_outside(rig, 1, "read", path="a.txt")
    await rig.run("go on")
    assert "a.txt" not in str(rig.provider.requests[0].messages[1:])


async def test_what_needs_approval_does_not_run_and_what_changes_files_is_known() -> None:
    rig = rig_of(Mode.NORMAL)
    refused = await call_from_outside(rig, 1, "write", path="b.txt", content="x")
    assert (refused.ok, refused.text) == (False, "Not run: running unattended.")
    assert "b.txt" not in rig.sandbox.files
    open_one = rig_of()
    assert (await call_from_outside(open_one, 1, "write", path="b.txt", content="x")).ok
    assert open_one.sandbox.files["b.txt"] == b"x"


async def test_calls_from_outside_are_one_turn_a_few_at_once_and_one_that_is_cancelled_ends_as_stopped() -> None:
    rig = rig_of(sandbox=FakeSandbox(commands={f"sleep {number}": 0.05 for number in range(12)}))
    running = most = 0

    def count(event: object) -> None:
        nonlocal running, most
        running += isinstance(event, ToolCallStarted) - isinstance(event, ToolCallFinished)
        most = max(most, running)

    _ = rig.session.subscribe(lambda envelope: count(envelope.event))
    await asyncio.gather(*(call_from_outside(rig, number, "shell", command=f"sleep {number}") for number in range(12)))
    assert most == MOST_AT_ONCE
    await call_from_outside(rig, 20, "read", path="nothing")
    turns = [event.turn_id for event in seen(rig, TurnEnded)]
    assert (turns, len(rig.of("tool_call_finished"))) == (["turn_1", "turn_2"], 13)
    rig = rig_of(sandbox=FakeSandbox(commands={"sleep 60": 60.0, "true": ExecResult(0, "fine", 4, 1)}))
    task = asyncio.create_task(call_from_outside(rig, 1, "shell", command="sleep 60"))
    await rig.until(lambda event: event.kind == "tool_call_started")
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await call_from_outside(rig, 2, "shell", command="true")).ok
    first, second = (event for event in seen(rig, TurnEnded))
    assert ((first.reason, second.reason), seen(rig, ToolCallFinished)[0].summary) == (("interrupted", "done"), "stopped")


OVERWRITES = answer("", ("write", call(path="log.txt", content="done\n")))


async def overwriting(*answers: list[StreamChunk], task: str = "do it", **more: Any) -> Rig:
    """Have a model write over a file, or over what `path` and `old` say."""
    path, old = more.pop("path", "log.txt"), more.pop("old", b"one\ntwo\n")
    rig = Rig(FakeProvider(*answers), **{"mode": Mode.AUTO, "call_form": ToolCallFormat.TEXT, **more})
    if old is not None:
        rig.sandbox.files[path] = old
    return await ran(rig, task)


@for_each("form", [ToolCallFormat.TEXT, ToolCallFormat.SCHEMA])
async def test_weak_model_does_not_replace_a_file_that_it_never_saw(form: ToolCallFormat) -> None:
    rig = await overwriting(OVERWRITES, answer("it is in there"), call_form=form, mode=Mode.NORMAL)
    assert not rig.of("approval_requested")
    assert rig.sandbox.files["log.txt"] == b"one\ntwo\n"
    assert "log.txt is there already (2 lines) and would be lost" in results(rig)[0]


async def test_file_that_it_saw_or_that_holds_nothing_is_replaced_and_others_write_at_once() -> None:
    read = answer("", ("read", call(path="log.txt")))
    for task, first in (("do it", read), ("look at @log.txt", answer("", ("ls", "{}")))):
        rig = await overwriting(first, OVERWRITES, answer("ready"), task=task, old=b"one\n")
        assert rig.sandbox.files["log.txt"] == b"done\n"
    for more in ({"call_form": ToolCallFormat.NATIVE, "old": b"one\n"}, {"old": b""}, {"old": None}):
        rig = await overwriting(OVERWRITES, answer("ready"), **more)
        assert rig.sandbox.files["log.txt"] == b"done\n", more


async def test_a_small_file_comes_with_the_refusal_and_one_with_secrets_does_not() -> None:
    keeps = answer("", ("write", call(path="log.txt", content="one\ntwo\ndone\n")))
    rig = await overwriting(OVERWRITES, OVERWRITES, keeps, answer("ready"))
    first, again, last = results(rig)
    assert first.endswith("The whole file:\none\ntwo\n")
    assert "would be lost" in again
    assert last.startswith("ok")
    assert rig.sandbox.files["log.txt"] == b"one\ntwo\ndone\n"
    writes = answer("", ("write", call(path=".env", content="A=1\n")))
    rig = await overwriting(writes, answer("ready"), path=".env", old=b"KEY=secret\n")
    assert "secret" not in "".join(results(rig))


@for_each(("form", "is_stub"), [(ToolCallFormat.TEXT, True), (ToolCallFormat.NATIVE, False)])
async def test_a_weak_model_does_not_leave_a_stub_of_a_file_that_it_read(form: ToolCallFormat, *, is_stub: bool) -> None:
    old = "".join(f"value_{number} = {number}\n" for number in range(30)).encode()
    read, stub = answer("", ("read", call(path="a.py"))), answer("", ("write", call(path="a.py", content="value = 1\n")))
    rig = await overwriting(read, stub, answer("ready"), answer("ready"), call_form=form, path="a.py", old=old)
    assert (rig.sandbox.files["a.py"] == old) is is_stub
    assert ("a.py has 30 lines, and only 1 would be left" in results(rig)[1]) is is_stub


def test_a_long_result_is_cut_where_the_model_can_go_on() -> None:
    assert truncate_result("shell", "short", 5) == "short"
    assert "use grep" in truncate_result("read", "x" * 5000, 1000)
    noise = "noise\n" * 2500
    result = truncate_result("shell", f"first\n{noise}… 1,000,000 bytes left out …\n{noise}the error\n", 1200)
    assert result.startswith("first")
    assert result.endswith("the error\n")
    assert "tail" in result
    assert "[… 1,028," in result


@given(st.sampled_from(["read", "grep", "shell", "git_diff", "other"]), st.text(max_size=4000), st.integers(1000, 2000))
def test_a_cut_result_is_about_as_long_as_it_may_be(tool: str, text: str, limit: int) -> None:
    assert len(truncate_result(tool, text, limit)) <= limit + 200


async def test_the_model_can_go_on_from_where_a_file_was_cut() -> None:
    files = {"a.txt": b"".join(b"line %d\n" % number for number in range(1, 5000))}
    reads = answer("", ("read", '{"path": "a.txt", "limit": 5000}'))
    rig = await ran(Rig(FakeProvider(reads, answer("ok")), FakeSandbox(files)))
    sent = rig.provider.requests[-1].messages[-1].text
    assert len(sent) < 7_500
    assert "go on with offset=" in sent
