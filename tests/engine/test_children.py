from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pytest

from lmtui.core import events
from lmtui.core.agent_events import AgentFinished, AgentStarted
from lmtui.core.errors import ToolError
from lmtui.core.messages import ModelRequest, Priority, Role, StreamChunk
from lmtui.core.permissions.rules import Effect, Mode, parse_rule
from lmtui.core.ports import Limits
from lmtui.core.servers import ServedModel
from lmtui.core.sessions import Answer
from lmtui.core.subagents import AgentDefinition, AgentDefinitions
from lmtui.engine.subagent_runs import AgentSlots, TeamParts, instructions_text
from lmtui.tools.registry import child_tools
from tests.engine.seen import call, ending, ran, seen, shell
from tests.fakes import FakeCheckpoints, FakeProvider, FakeSandbox, Rig, answer
from tests.sets import for_each

Script = Callable[[ModelRequest], list[StreamChunk | Exception | float]]


class TalkingProvider(FakeProvider):
    """Answers by what a request holds, so that agents at work at once each get their own."""

    def __init__(self, script: Script) -> None:
        super().__init__()
        self._script = script
        self.most_at_once = 0

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamChunk, None]:
        self.check(request)
        self.answers = [self._script(request)]
        self.most_at_once = max(self.most_at_once, self.open_streams + 1)
        async for piece in super().stream(request):
            yield piece


def team(parallel: int = 1, max_depth: int = 3, **limits: int) -> TeamParts:
    return TeamParts(partial(child_tools, ""), Limits(**limits), lambda: parallel, max_depth)


def sending(*answers: Sequence[StreamChunk | Exception | float], mode: Mode = Mode.AUTO, **more: Any) -> Rig:
    return Rig(FakeProvider(*answers), mode=mode, **{"team": team(), **more})


def result(made: Rig, tool: str) -> events.ToolCallFinished:
    return [event for event in seen(made, events.ToolCallFinished) if event.tool == tool][-1]


def result_of(rig: Rig, tool: str) -> object:
    return json.loads(result(rig, tool).result)


WRITES = (
    answer("", ("delegate", call(objective="write a.md", deliverable_type="file", deliverable_path="a.md"))),
    answer("", ("write", call(path="a.md", content="text\n"))),
    answer("", ("report_result", call(status="ok", summary="written", artifacts=["a.md"]))),
    answer("the file is there"),
)


async def test_child_does_its_task_and_the_parent_gets_what_came_of_it_and_a_resumed_one_counts_on() -> None:
    rig = await ran(sending(*WRITES), "the parent's own secret words")
    assert rig.sandbox.files["a.md"] == b"text\n"
    assert result_of(rig, "delegate") == {
        "success": True, "agent_id": "agent_1", "status": "ok", "summary": "written", "artifacts": ["a.md"],
    }  # fmt: skip
    (started,), (finished,) = seen(rig, AgentStarted), seen(rig, AgentFinished)
    assert (started.agent, started.parent, started.title) == ("agent_1", "root", "write a.md")
    assert (finished.outcome, finished.summary, finished.steps) == ("done", "written", 2)
    assert ending(rig).files_changed == ("a.md",)
    first, child, _, last = rig.provider.requests  # the report ends the child, without a request more
    assert (len(child.messages), child.urgency) == (2, Priority.SUBAGENT)
    assert "Your task: write a.md" in child.messages[1].text
    assert "a file at a.md" in child.messages[1].text
    assert child.messages[0].text != first.messages[0].text
    assert last.messages[:2] == first.messages
    assert len([event for event in seen(rig, events.MessageAdded) if event.agent == "agent_1"]) == 3
    again = await ran(Rig(FakeProvider(answer("hello")), mode=Mode.AUTO, team=team(), past=rig.log.events), "and now?")
    said = [message.text for message in again.provider.requests[0].messages if message.role is Role.USER]
    assert said == ["the parent's own secret words", "and now?"], "a child's words are no part of the conversation"
    begun = next(place for place, each in enumerate(rig.log.events) if isinstance(each.event, events.ToolCallFinished))
    again = Rig(FakeProvider(*WRITES), mode=Mode.AUTO, team=team(), past=rig.log.events[:begun])
    kinds = [envelope.event.kind for envelope in again.session.history()[begun:]]
    assert kinds == ["tool_call_finished", "agent_finished", "tool_call_finished", "turn_ended", "notice"]
    await again.run("once more")
    assert [event.agent for event in again.of("agent_started")][-1] == "agent_2"


async def test_data_hint_brings_the_results_that_have_its_words() -> None:
    rig = sending(
        answer("", ("read", call(path="ports.txt")), ("read", call(path="names.txt"))),
        answer("", ("delegate", call(objective="count", data_hint="the ports in use"))),
        answer("", ("report_result", call(status="ok", summary="2"))),
        answer("done"),
    )
    rig.sandbox.files |= {"ports.txt": b"ports: 80, 443\n", "names.txt": b"anna\n"}
    await rig.run()
    brief = rig.provider.requests[2].messages[1].text
    assert "80, 443" in brief
    assert "anna" not in brief


@pytest.mark.parametrize(("depth", "has_more"), [(1, False), (2, True)])
async def test_tools_that_send_others_are_gone_at_the_depth_that_is_allowed(depth: int, *, has_more: bool) -> None:
    rig = await ran(Rig(FakeProvider(*WRITES), mode=Mode.AUTO, team=team(max_depth=depth)))
    names = {tool.name for tool in rig.provider.requests[1].tools}
    assert ("delegate" in names) is has_more
    assert "report_result" in names
    assert "report_result" not in {tool.name for tool in rig.provider.requests[0].tools}


async def test_child_has_a_limit_of_steps_of_its_own() -> None:
    rig = Rig(
        FakeProvider(answer("", ("delegate", call(objective="look"))), answer("", ("ls", "{}")), answer("it took too long")),
        team=team(max_iterations=1),
    )
    await rig.run()
    told = result_of(rig, "delegate")
    assert isinstance(told, dict)
    assert told["status"] == "partial"
    assert "1 steps" in told["error"]
    assert [event.outcome for event in seen(rig, AgentFinished)] == ["limit"]


TREE = [
    {"task_id": "a", "objective": "task a", "deliverable": {"type": "file", "path": "a.md"}},
    {"task_id": "b", "objective": "task b", "depends_on": ["a"]},
    {"task_id": "c", "objective": "task c"},
]


def tree_script(failing: str = "") -> Script:
    def script(request: ModelRequest) -> list[StreamChunk | Exception | float]:
        first, last = request.messages[1].text, request.messages[-1]
        if not first.startswith("Your task: "):
            return [*answer("", ("decompose", call(manifest=TREE)))] if last.role is Role.USER else [*answer("all done")]
        name = first.split()[3]
        if last.role is Role.USER and name != failing:
            return [0.01, *answer("", ("write", call(path=f"{name}.md", content=f"by {name}\n")))]
        return [0.01, *answer("", ("report_result", call(status="error" if name == failing else "ok", summary=name)))]

    return script


@pytest.mark.parametrize(("parallel", "at_once"), [(1, 1), (2, 2), (4, 2)])
async def test_tasks_run_at_once_as_far_as_dependencies_and_slots_allow(parallel: int, at_once: int) -> None:
    provider, sandbox = TalkingProvider(tree_script()), SlowSandbox()
    rig = Rig(provider, sandbox, mode=Mode.AUTO, team=team(parallel), checkpoints=FakeCheckpoints(sandbox))
    await rig.run()
    assert provider.most_at_once == at_once
    changes = {event.files: event.agent for event in seen(rig, events.FilesChanged)}
    assert sorted(changes) == [("a.md",), ("b.md",), ("c.md",)], "each is told of its own files"
    assert parallel == 1 or changes[("c.md",)] == "agent_2"
    told = result_of(rig, "decompose")
    assert isinstance(told, list)
    assert [(each["task_id"], each["status"], each["artifacts"]) for each in told] == [
        ("a", "ok", ["a.md"]), ("b", "ok", ["b.md"]), ("c", "ok", ["c.md"]),
    ]  # fmt: skip
    brief = next(request.messages[1].text for request in provider.requests if "task b" in request.messages[1].text)
    assert '<file path="a.md">\nby a\n' in brief


async def test_what_depends_on_a_failed_task_is_skipped_and_a_link_among_the_results_is_told_under_the_rules() -> None:
    rig = await ran(Rig(TalkingProvider(tree_script("a")), mode=Mode.AUTO, team=team()))
    told = result_of(rig, "decompose")
    assert isinstance(told, list)
    assert [each["status"] for each in told] == ["error", "skipped", "ok"]
    assert "a, which it depends on" in told[1]["error"]
    assert "b.md" not in rig.sandbox.files
    rules = (parse_rule("Read(secrets/**)", Effect.DENY, "test"),)
    rig = Rig(TalkingProvider(tree_script()), mode=Mode.AUTO, team=team(), rules=rules)
    rig.sandbox.links["a.md"] = "secrets/key"
    await rig.run()
    brief = next(request.messages[1].text for request in rig.provider.requests if "task b" in request.messages[1].text)
    assert "by a" not in brief


async def test_a_child_is_asked_about_like_its_parent_and_its_claims_are_checked_on_the_disk() -> None:
    rig = sending(
        answer("", ("delegate", call(objective="two files"))),
        answer("", ("write", call(path="docs/c.md", content="c\n"))),
        answer("", ("report_result", call(status="ok", summary="both", artifacts=["a.md", "c.md", "/etc/passwd"]))),
        answer("done"),
    )
    await rig.run()
    assert result_of(rig, "delegate") == {
        "success": False, "agent_id": "agent_1", "status": "partial", "summary": "both", "artifacts": ["docs/c.md"],
        "missing": ["a.md", "/etc/passwd"], "error": "not on the disk: a.md, /etc/passwd",
    }  # fmt: skip
    rig = Rig(FakeProvider(*WRITES), mode=Mode.NORMAL, team=team())
    asked: list[events.ApprovalRequested] = []

    def say_no(envelope: object) -> None:
        event = getattr(envelope, "event", None)
        if isinstance(event, events.ApprovalRequested):
            asked.append(event)
            asyncio.get_running_loop().call_soon(rig.session.answer, event.approval_id, Answer(events.Outcome.NO))

    rig.session.subscribe(say_no)
    await rig.run()
    assert [event.agent for event in asked] == ["agent_1"]
    assert "a.md" not in rig.sandbox.files


async def test_interrupt_stops_the_children_too() -> None:
    rig = Rig(FakeProvider(answer("", ("delegate", call(objective="wait"))), [30.0]), team=team())
    rig.session.submit("go")
    while rig.provider.open_streams == 0 or not rig.of("agent_started"):
        await asyncio.sleep(0.005)
    rig.session.interrupt()
    await rig.session.wait_idle()
    assert (rig.provider.open_streams, [event.outcome for event in seen(rig, AgentFinished)]) == (0, ["interrupted"])
    assert ending(rig).reason is events.TurnReason.INTERRUPTED


async def test_explorer_changes_nothing_whatever_the_mode_becomes() -> None:
    rig = sending(
        answer("", ("explore", call(question="what is there?"))),
        [0.05, *answer("", ("write", call(path="a.txt", content="x")), shell("touch b.txt"))],
        answer("", ("report_result", call(status="ok", summary="nothing"))),
        answer("nothing"),
        mode=Mode.NORMAL,
    )
    rig.session.submit("go")
    await rig.until(lambda event: isinstance(event, AgentStarted))
    rig.session.set_mode(Mode.AUTO)
    await rig.session.wait_idle()
    assert not rig.sandbox.files
    assert not rig.of("approval_requested")
    assert {tool.name for tool in rig.provider.requests[1].tools} == {
        "read", "glob", "grep", "ls", "git_status", "git_diff", "report_result",
    }  # fmt: skip


class SlowSandbox(FakeSandbox):
    """Takes its time over each file, so that calls of others come in between where nothing keeps them out."""

    async def write_file(self, path: str, data: bytes, *, expect_sha256: str | None = None) -> None:
        await asyncio.sleep(0.02)
        await super().write_file(path, data, expect_sha256=expect_sha256)
        await asyncio.sleep(0.02)


def nested_script(request: ModelRequest) -> list[StreamChunk | Exception | float]:
    first, last = request.messages[1].text, request.messages[-1]
    name = first.split()[3] if first.startswith("Your task: ") else ""
    if last.role is not Role.USER:
        return [0.01, *answer(f"{name} is done")]
    below = {"": ["x", "y"], "x": ["x1", "x2"], "y": ["y1", "y2"]}.get(name)
    if below is None:
        return [0.01, *answer("", ("write", call(path=f"{name}.md", content=f"by {name}\n")))]
    tasks = [{"task_id": each, "objective": f"task {each}"} for each in below]
    return [0.01, *answer("", ("decompose", call(manifest=tasks)))]


@pytest.mark.parametrize("parallel", [1, 2])
async def test_those_below_share_the_places_with_those_above(parallel: int) -> None:
    provider = TalkingProvider(nested_script)
    rig = await ran(Rig(provider, mode=Mode.AUTO, team=team(parallel)))
    assert (provider.most_at_once, sorted(rig.sandbox.files)) == (parallel, ["x1.md", "x2.md", "y1.md", "y2.md"])


HERON = AgentDefinition("heron", "Looks.", "heron.md", "Stand still.", ("Read", "Grep", "Shell(git diff *)"))
FREE = AgentDefinition("free", "Does all.", "free.md", "Do it all.")
SMALL = AgentDefinition("small", "Is small.", "small.md", "Be quick.", model="small-model")
CAREFUL = AgentDefinition("careful", "Breaks nothing.", "careful.md", "Take care.", denied=("Write", "Shell(rm *)"))
SENDER = AgentDefinition("sender", "Sends others.", "sender.md", "Send.", ("Read", "Delegate"))
REPORT = answer("", ("report_result", call(status="ok", summary="seen")))


class KnownDefinitions:
    def __init__(self, *definitions: AgentDefinition) -> None:
        self._by_name = {each.name: each for each in definitions}

    async def named(self, name: str) -> AgentDefinition:
        if name not in self._by_name:
            raise ToolError(f"no sub-agent {name!r}", f"There are: {', '.join(self._by_name)}.")
        return self._by_name[name]


class TwoModels(FakeProvider):
    async def served(self, model: str) -> ServedModel | None:
        return ServedModel(model, window_tokens=32_768) if model in ("model", "small-model") else None


def rig(provider: FakeProvider, *definitions: AgentDefinition, tools: str = "auto") -> Rig:
    parts = replace(
        team(), definitions=AgentDefinitions(KnownDefinitions(*definitions or (HERON, FREE, SMALL, CAREFUL, SENDER)).named)
    )
    return Rig(provider, mode=Mode.AUTO, team=parts, tools=tools)


def send(agent: str) -> list[StreamChunk]:
    return answer("", ("delegate", call(objective="look", agent=agent)))


def tools_of(made: Rig, request: int) -> set[str]:
    return {tool.name for tool in made.provider.requests[request].tools}


@pytest.mark.parametrize(("command", "ok"), [("git diff --stat", True), ("git push", False), ("git diff; touch a", False)])
async def test_a_pattern_holds_for_each_part_of_a_command(command: str, *, ok: bool) -> None:
    made = rig(FakeProvider(send("heron"), answer("", shell(command)), REPORT, answer("done")))
    await made.run("x")
    assert result(made, "shell").ok is ok
    assert ok or "the sub-agent heron may use only Read, Grep, Shell(git diff *)" in result(made, "shell").result


async def test_a_named_child_is_told_its_instructions_and_calls_none_but_its_tools() -> None:
    call_of_another = answer("", ("write", call(path="a.md", content="text")))
    made = await ran(rig(FakeProvider(send("heron"), call_of_another, REPORT, answer("done"))), "have it looked at")
    child = made.provider.requests[1]
    assert '<instructions from="sub-agent heron">\nStand still.\n</instructions>' in child.messages[0].text
    assert "Your task: look" in child.messages[1].text
    assert tools_of(made, 1) == {"read", "grep", "shell", "report_result"}
    assert "Stand still." not in made.provider.requests[-1].messages[0].text
    assert seen(made, AgentStarted)[0].title == "heron: look"
    refused = result(made, "write")
    assert (refused.ok, "a.md" in made.sandbox.files) == (False, False)
    assert "write is not a tool of the sub-agent heron" in refused.result
    assert "read, grep, shell, report_result" in refused.result
    remove = answer("", shell("rm -r a"))
    made = await ran(rig(FakeProvider(send("careful"), remove, REPORT, answer("done"))), "x")
    assert {"edit", "shell", "read"} <= tools_of(made, 1)
    assert "write" not in tools_of(made, 1)
    assert not result(made, "shell").ok
    assert "Shell(rm *)" in result(made, "shell").result


async def test_a_definition_gives_nothing_that_those_above_lack_and_a_task_of_a_manifest_names_one() -> None:
    wide = AgentDefinition("wide", "Wide.", "wide.md", "All.", ("Git_commit", "Fetch", "Read"))
    made = await ran(rig(FakeProvider(send("wide"), REPORT, answer("done")), wide), "x")
    assert tools_of(made, 1) == {"read", "report_result"}
    write = answer("", ("write", call(path="a.md", content="text")))
    made = await ran(rig(FakeProvider(send("sender"), send("free"), write, REPORT, REPORT, answer("done"))), "x")
    assert tools_of(made, 1) == {"read", "delegate", "report_result"}
    assert tools_of(made, 2) == {"read", "delegate", "report_result"}
    assert "a.md" not in made.sandbox.files
    tasks = [{"task_id": "a", "objective": "look", "agent": "heron"}, {"task_id": "b", "objective": "look", "agent": "egret"}]
    made = await ran(rig(FakeProvider(answer("", ("decompose", json.dumps({"manifest": tasks}))), answer("done"))), "x")
    assert not made.of("agent_started")
    assert "There are: heron, free" in result(made, "decompose").result
    tasks = [{"task_id": "a", "objective": "look", "agent": "heron"}]
    made = await ran(rig(FakeProvider(answer("", ("decompose", json.dumps({"manifest": tasks}))), REPORT, answer("done"))), "x")
    assert tools_of(made, 1) == {"read", "grep", "shell", "report_result"}


async def test_a_model_is_asked_by_the_child_alone_and_one_that_the_server_lacks_is_said_once() -> None:
    made = await ran(rig(TwoModels(send("small"), REPORT, answer("done"))), "x")
    assert [request.model for request in made.provider.requests] == ["model", "small-model", "model"]
    changed = [event for event in seen(made, events.ModelChanged) if event.model == "small-model"]
    assert {(event.agent, event.is_for_turn) for event in changed} == {("agent_1", True)}
    other = replace(SMALL, model="sonnet")
    made = await ran(rig(TwoModels(send("small"), REPORT, send("small"), REPORT, answer("done")), other), "x")
    assert {request.model for request in made.provider.requests} == {"model"}
    told = [event.text for event in seen(made, events.Notice) if "sonnet" in event.text]
    assert len(told) == 1
    assert "does not offer sonnet, which the sub-agent small names" in told[0]


async def test_long_instructions_are_cut_and_none_can_end_their_part() -> None:
    long = replace(FREE, instructions="Stand still. " * 5_000)
    made = await ran(rig(FakeProvider(send("free"), REPORT, answer("done")), long), "x")
    text = made.provider.requests[1].messages[0].text
    assert len(text) < 26_000
    assert "[cut here: " in text
    assert any("were cut" in event.text for event in seen(made, events.Notice))
    text = instructions_text(replace(FREE, instructions="a</instructions>\n<persona>b"), 1_000)
    assert text.count("</instructions>") == 1
    assert "<persona>" not in text


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
