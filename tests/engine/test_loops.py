from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmtui.core import events
from lmtui.core.agent_events import WaitSet
from lmtui.core.messages import Role
from lmtui.core.model_events import Compacted, LoopSuspected, Reminder
from lmtui.core.ports import Limits
from lmtui.engine.loop_detection import Loop, LoopDetector
from lmtui.engine.turn_outcome import EXIT_CODES
from tests.engine.seen import ran, seen
from tests.fakes import FakeProvider, FakeSandbox, Rig, answer
from tests.sets import for_each

HONEST = [
    json.loads(line) for line in (Path(__file__).parents[1] / "corpus" / "honest_sequences.jsonl").read_text().splitlines()
]


class Agent:
    """Plays an agent's steps to a watch; what it made is kept, to be played to another one."""

    def __init__(self, depth: int = 0) -> None:
        self.watch = LoopDetector(depth)
        self.events: list[events.Event] = []
        self._ids = itertools.count()
        self.say("do it")

    def emit(self, event: events.Event) -> None:
        self.events.append(event)
        self.watch.apply(event)

    def say(self, text: str) -> None:
        self.emit(events.TurnStarted(turn_id="t"))
        self.emit(events.MessageAdded(role=Role.USER, text=text))

    def call(self, tool: str, result: str, *, ok: bool = True, changed: bool = False, **arguments: Any) -> str:
        call_id = f"c{next(self._ids)}"
        self.emit(
            events.ToolCallStarted(
                call_id=call_id, tool=tool, arguments=arguments, title=" ".join(map(str, arguments.values()))
            )
        )
        if changed:
            self.emit(events.FilesChanged(call_id=call_id, files=("x",)))
        told = self.watch.answer(tool, arguments, result, ok=ok)
        summary = "exit 1" if tool == "shell" and not ok else ""
        self.emit(events.ToolCallFinished(call_id=call_id, tool=tool, ok=ok, result=told, elapsed_ms=1, summary=summary))
        return told

    def wait(self) -> None:
        """Play an answer that ends the turn to wait, and the wake."""
        self.emit(events.MessageAdded(role=Role.ASSISTANT, text="WAIT: in 10 min: the build"))
        self.emit(WaitSet(until=datetime(2026, 1, 1, tzinfo=UTC), why="the build", turn_id="t"))
        self.emit(events.TurnEnded(turn_id="t", reason=events.TurnReason.WAITING))
        self.emit(events.TurnStarted(turn_id="t"))
        self.emit(Reminder(text="You waited for: the build.", turn_id="t"))

    def make_room(self) -> None:
        self.emit(Compacted(why="", tokens_before=9, tokens_after=1))

    def step(self, *calls: dict[str, Any], text: str = "") -> Loop | None:
        self.emit(events.MessageAdded(role=Role.ASSISTANT, text=text))
        for each in calls:
            arguments = each.get("arguments", {})
            self.call(each["tool"], each["result"], ok=each.get("ok", True), changed=each.get("changed", False), **arguments)
        return self.watch.judge()

    def steps_until_over(self, *rounds: dict[str, Any], most: int = 60) -> tuple[int, Loop]:
        """Return at which step the agent is stopped that makes these calls, one a step, over and over."""
        for number, each in enumerate(itertools.islice(itertools.cycle(rounds), most), 1):
            loop = self.step(each)
            if loop is not None and loop.is_over:
                return number, loop
        raise AssertionError(f"not stopped within {most} steps")


def read(path: str, result: str = "some text") -> dict[str, Any]:
    return {"tool": "read", "arguments": {"path": path}, "result": result}


@for_each("sequence", HONEST)
def test_honest_work_is_no_loop(sequence: dict[str, Any]) -> None:
    agent = Agent()
    for calls in sequence["steps"]:
        if calls[0].get("event") == "wait":
            agent.wait()
        elif calls[0].get("event") == "compacted":
            agent.make_room()
        else:
            loop = agent.step(*calls)
            assert loop is None or not loop.is_over


@pytest.mark.parametrize(("tool", "path", "result"), [("ls", "a", "x"), ("read", "b", "x"), ("read", "a", "y")])
def test_another_tool_argument_or_result_is_news(tool: str, path: str, result: str) -> None:
    agent = Agent()
    agent.call("read", "x", path="a", limit=3)
    assert agent.call(tool, result, limit=3, path=path) == result
    assert agent.call("read", "x", limit=3, path="a") != "x"


@pytest.mark.parametrize(("period", "stop"), [(2, 8), (3, 12), (4, 16), (5, 20)])
def test_a_circle_of_so_many_calls_is_told_and_then_stopped(period: int, stop: int) -> None:
    agent = Agent()
    number, loop = agent.steps_until_over(*(read(f"f{each}") for each in range(period)))
    assert number <= stop
    assert "f0" in loop.what
    short = Agent()
    notes = [note for each in range(period * 3) if (note := short.step(read(f"f{each % period}")))]
    assert notes
    assert not any(note.is_over for note in notes)


def test_a_flip_and_flop_and_steps_that_bring_nothing_new_are_stopped_later() -> None:
    agent = Agent()
    back, forth = ({"tool": "edit", "arguments": {"path": "a", "to": to}, "result": "edited", "changed": True} for to in "xy")
    number, loop = agent.steps_until_over(back, forth)
    assert number == 12
    assert "in turn" in loop.what
    listing = "a.py b.py c.py d.py e.py and many more files of this folder"
    agent = Agent()
    number, loop = agent.steps_until_over(*({**read(f"./{'./' * each}", listing), "tool": "ls"} for each in range(40)))
    assert number == 16
    assert "without new" in loop.what


def test_the_same_words_again_without_anything_new_are_told_and_stopped() -> None:
    agent = Agent()
    found = [agent.step(read(f"f{each}", "the same text in all " * 3), text="Let me look.") for each in range(5)]
    assert [loop and ("same text" in loop.what, loop.is_over) for loop in found[2:]] == [(True, False), None, (True, True)]
    fresh = Agent()
    assert not any(fresh.step(read(f"f{each}", f"text {each}"), text="Let me look.") for each in range(20))


def test_after_a_change_of_files_or_room_made_everything_is_news() -> None:
    agent = Agent()
    agent.call("read", "x", path="a")
    agent.call("write", "written", changed=True, path="b")
    assert agent.call("read", "x", path="a") == "x"
    agent.emit(Compacted(why="", tokens_before=9, tokens_after=1))
    assert agent.call("read", "x", path="a") == "x"
    assert agent.call("read", "x", path="a") != "x"


@pytest.mark.parametrize("every", [1, 3])
def test_one_call_over_and_over_is_stopped_though_room_is_made_in_between(every: int) -> None:
    agent = Agent()
    found: list[Loop | None] = []
    for number in range(1, 9):
        found.append(agent.step(read("a")))
        if number % every == 0:
            agent.make_room()
    assert [loop for loop in found[:-1] if loop and loop.is_over] == []
    assert found[-1] is not None
    assert found[-1].is_over
    assert "8 times: read a" in found[-1].what


LONG = ("first line\n" * 200, "other line\n" * 200)
CALLS = st.builds(
    lambda path, result, ok, changed: {**read(path, result), "ok": ok, "changed": changed},
    st.sampled_from("ab"),
    st.sampled_from(["x", "y", "written", "written, unchanged", *LONG]),
    st.sampled_from([True, True, False]),
    st.sampled_from([False, False, False, True]),
)
DOINGS = st.lists(st.one_of(CALLS, CALLS, st.lists(CALLS, max_size=4), st.sampled_from(["room", "wait", "words"])), max_size=40)


def counted(watch: LoopDetector) -> tuple[object, ...]:
    counts = watch._counts
    last, trail = ([(each.key, each.has_changed) for each in row] for row in (counts.last, counts.trail))
    return watch.count, last, trail, counts.edits, counts.idle, counts.errors, counts.texts, watch.has_failed


@given(DOINGS)
def test_a_watch_that_reads_the_log_counts_what_the_other_one_counted(doings: list[Any]) -> None:
    agent = Agent()
    plays: dict[str, Callable[[], None]] = {"room": agent.make_room, "wait": agent.wait, "words": lambda: agent.say("go on")}
    for each in doings:
        if isinstance(each, str):
            plays[each]()
        else:
            agent.step(*(each if isinstance(each, list) else [each]))
    again = LoopDetector()
    for event in agent.events:
        again.apply(event)
    again.judge()
    agent.watch.judge()
    assert counted(again) == counted(agent.watch)


def test_steps_in_which_all_fails_are_stopped_deeper_agents_sooner_and_one_success_begins_anew() -> None:
    agent, mixed, often = Agent(), Agent(), Agent()
    missing = [{**read(f"f{each}", f"f{each}: no such file"), "ok": False} for each in range(30)]
    found = [agent.step(each) for each in missing[:5]]
    assert [bool(each) for each in found] == [False, False, True, False, True]
    assert found[4] is not None
    assert found[4].is_over
    for number, each in enumerate(missing):
        assert mixed.step(each, read(f"g{number}", f"text {number}")) is None
        loop = often.step(read(f"f{number}", f"text {number}") if number % 4 == 3 else each)
        assert loop is None or not loop.is_over
    missing = [{**read(f"f{each}", f"f{each}: no such file"), "ok": False} for each in range(9)]
    listings = [{**read(f"./{'./' * each}", "the same list of files in all of them " * 2), "tool": "ls"} for each in range(20)]
    for depth, same, failed, idle in ((0, 5, 5, 16), (1, 3, 3, 9), (2, 3, 3, 8), (9, 3, 3, 6)):
        rounds = ([read("a")], missing, listings)
        assert [Agent(depth).steps_until_over(*each)[0] for each in rounds] == [same, failed, idle], depth


@for_each(
    ("reason", "words"),
    [(events.TurnReason.INTERRUPTED, "now the docs"), (events.TurnReason.LIMIT, "go on"), (None, "I changed it")],
)
def test_another_task_and_a_word_meanwhile_or_after_a_stop_begin_anew(reason: events.TurnReason | None, words: str) -> None:
    agent = Agent()
    for _ in range(4):
        agent.step(read("a"))
    if reason is None:
        agent.emit(events.MessageAdded(role=Role.USER, text=words))
    else:
        agent.emit(events.TurnEnded(turn_id="t", reason=reason))
        agent.say(words)
    assert agent.step(read("a")) is None
    assert agent.watch.count == 1


async def test_forty_identical_calls_stop_by_the_fifth_and_ask_the_user() -> None:
    rig = await ran(Rig(FakeProvider(*[answer("", ("ls", "{}")) for _ in range(40)]), FakeSandbox({"a": b"x"})))
    (end,) = seen(rig, events.TurnEnded)
    assert (end.iterations, (end.reason, end.exit_code)) == (5, (events.TurnReason.LIMIT, EXIT_CODES[events.TurnReason.LIMIT]))
    assert "go on" in end.error
    assert [event.is_over for event in seen(rig, LoopSuspected)] == [False, True]
    await rig.run("go on")
    assert rig.of("turn_ended")[-1] != end


async def test_a_look_before_each_of_many_waits_is_no_loop() -> None:
    turns = [step for _ in range(9) for step in (answer("", ("ls", "{}")), answer("WAIT: 2026-01-01T18:00:00Z: the build"))]
    rig = Rig(FakeProvider(*turns, answer("The build is there.")), FakeSandbox({"a": b"x"}), limits=Limits(max_iterations=6))
    await rig.run()
    while rig.session.sleep.wake():
        await rig.session.wait_idle()
    ends = [event.reason for event in seen(rig, events.TurnEnded)]
    assert (ends, rig.of("loop_suspected")) == ([events.TurnReason.WAITING] * 9 + [events.TurnReason.DONE], [])
    await rig.session.close()


async def test_a_circle_is_told_once_and_many_edits_of_one_file_too_before_the_turn_ends() -> None:
    calls = [answer("", ("read", json.dumps({"path": name}))) for name in "ab" * 10]
    rig = await ran(Rig(FakeProvider(*calls), FakeSandbox({"a": b"one\n", "b": b"two\n"})))
    assert len([event for event in seen(rig, Reminder) if "repeating yourself" in event.text]) == 1
    (end,) = seen(rig, events.TurnEnded)
    assert (end.reason, end.iterations) == (events.TurnReason.LIMIT, 8)
    edits = [("edit", json.dumps({"path": "a", "search": f"x{n}", "replace": "y"})) for n in range(30)]
    rig = await ran(Rig(FakeProvider(answer("", *edits), answer("The text is not there.")), FakeSandbox({"a": b"z\n"})))
    (ended,) = seen(rig, events.TurnEnded)
    assert ended.reason is events.TurnReason.UNFINISHED
    assert len(rig.provider.requests) >= 2


def fails(command: str, result: str) -> dict[str, Any]:
    return {"tool": "shell", "arguments": {"command": command}, "result": result, "ok": False}


def test_only_a_command_that_fails_in_the_same_way_is_a_loop() -> None:
    agent = Agent()
    assert [agent.step(fails("pytest -q", f"{20 - each} failed, 3 passed in {each}.1 s")) for each in range(15)] == [None] * 15
    assert [agent.step(fails(f"make part{each}", f"part{each}.c:{each}: error")) for each in range(15)] == [None] * 15
    number, loop = Agent().steps_until_over(fails("pytest -q", "2 failed: test_a and test_b, both for want of a value"))
    assert number == 5
    assert "same call" in loop.what
    said = "bash: line 1: the program that was asked for: command not found"
    number, loop = Agent().steps_until_over(*(fails(f"./tool{each}", said) for each in range(40)))
    assert number == 6
    assert "every call failed" in loop.what
