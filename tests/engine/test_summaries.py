from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator

from hypothesis import given
from hypothesis import strategies as st

from lmtui.core.errors import Fault, ProviderError
from lmtui.core.events import MessageAdded, ModelChanged, Notice, ToolCallFinished, ToolCallStarted, UsageUpdated
from lmtui.core.messages import Completion, FinishReason, Message, ModelRequest, Role, StreamChunk, ToolCall, Usage
from lmtui.core.model_events import Compacted
from lmtui.core.plan import Plan, Todo, TodoStatus
from lmtui.core.roles import ModelRole, RoleModel, Roles
from lmtui.core.servers import ServedModel
from lmtui.engine.context import Conversation
from lmtui.engine.entries import Shares, TranscriptSummary, digest
from tests.engine.seen import ending, ran, seen
from tests.fakes import FakeProvider, FakeSandbox, Rig, answer
from tests.sets import for_each

OWN = "The user wants every part read. Parts 1 to 9 hold the number 7, nothing failed, part 10 comes next."


class Reader(FakeProvider):
    """Reads one file after the other; asked for a summary it answers with `own`, or as `own` says."""

    def __init__(self, steps: int, own: str | ToolCall | Exception = OWN, *, thinking: str = "") -> None:
        super().__init__()
        self.steps, self.own, self.thinking = steps, own, thinking
        self.asked: list[ModelRequest] = []

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamChunk, None]:
        self.check(request)
        count = sum(len(each.text) + sum(len(call.arguments) for call in each.tool_calls) for each in request.messages) // 4
        if "lmtui makes room" in request.messages[-1].text:
            self.asked.append(request)
            if isinstance(self.own, Exception):
                raise self.own
            calls = (self.own,) if isinstance(self.own, ToolCall) else ()
            text = "" if calls else str(self.own)
            yield Completion(Message(Role.ASSISTANT, text, "", calls), FinishReason.STOP, Usage(count, 20), 0.1, 0.1)
            return
        self.requests.append(request)
        made = len(self.requests)
        calls = (ToolCall(f"c{made}", "read", json.dumps({"path": f"part{made}.txt"})),) if made % self.steps else ()
        yield Completion(
            Message(Role.ASSISTANT, f"step {made}", self.thinking, calls), FinishReason.STOP, Usage(count, 20), 0.1, 0.1
        )


def rig_for(provider: Reader, *, roles: Roles | None = None, compact_at: int = 0) -> Rig:
    files = {f"part{number}.txt": f"the number is {number}\n".encode() * 40 for number in range(1, 400)}
    rig = Rig(provider, FakeSandbox(files), asks_for_summaries=True, roles=roles, compact_at=compact_at)
    rig.session.emit(ModelChanged(model="model", url=provider.url, window_tokens=4096))
    return rig


async def asked_for_room(provider: Reader, *, roles: Roles | None = None, words: str = "") -> Rig:
    """Let a few files be read, and then room be made."""
    rig = rig_for(provider, roles=roles)
    rig.session.prepare(is_eager=False)
    await rig.run()
    rig.session.waiting.make_room(words)
    await rig.session.wait_idle()
    return rig


async def test_model_is_asked_seldom_behind_what_the_server_has_read_and_its_words_stand_in_the_summary() -> None:
    provider = Reader(90)
    rig = await ran(rig_for(provider))
    assert 1 <= len(provider.asked) <= len(provider.requests) / 20
    assert sum(OWN in event.summary for event in seen(rig, Compacted)) == len(provider.asked)
    assert any("files you read" in event.summary for event in seen(rig, Compacted))
    later = provider.requests[-1].messages
    assert later[0].role is Role.SYSTEM
    assert later[1].text.startswith("do it")
    asked = provider.asked[0]
    before = next(each for each in reversed(provider.requests) if asked.messages[: len(each.messages)] == each.messages)
    assert asked.tools == before.tools
    assert len(asked.messages) - len(before.messages) <= 4
    assert asked.max_tokens


@for_each("own", ["", "too short", ToolCall("x", "read", '{"path": "part1.txt"}'), ProviderError(Fault.SERVER_ERROR, "no")])
async def test_without_an_answer_the_log_tells_what_happened(own: str | ToolCall | Exception) -> None:
    provider = Reader(6, own)
    rig = await asked_for_room(provider)
    assert (ending(rig).exit_code, len(provider.asked)) == (0, 1)
    (summary,) = [event.summary for event in seen(rig, Compacted)]
    assert "in your own words" not in summary
    assert "files you read" in summary


class Listing(Reader):
    """Tells of the session's own model, and of no other."""

    async def served(self, model: str) -> ServedModel | None:
        return ServedModel("model", 4096) if model in ("", "model") else None


async def test_a_summary_is_asked_of_the_summariser_with_what_matters_to_the_user_or_said_to_be_of_nothing() -> None:
    provider = Reader(6)
    rig = await asked_for_room(provider, words="the port numbers")
    assert "What matters most: the port numbers" in provider.asked[0].messages[-1].text
    assert seen(rig, Compacted)[-1].why == "you asked for it"
    assert OWN in seen(rig, Compacted)[-1].summary
    assert len(rig.of("turn_started")) == 1
    await rig.run("and now?")
    assert OWN in provider.requests[-1].messages[1].text
    rig = await ran(Rig(FakeProvider(answer("hello"))))
    rig.session.waiting.make_room()
    await rig.session.wait_idle()
    assert "nothing that could be summed up" in [event.text for event in seen(rig, Notice)][-1]
    assert len(rig.provider.requests) == 1
    provider = Reader(6)
    rig = await asked_for_room(provider, roles={ModelRole.SUMMARISER: RoleModel("small", max_completion=60)})
    await rig.run("and now?")
    assert {(request.model, request.max_tokens) for request in provider.asked} == {("small", 60)}
    assert {request.model for request in provider.requests} == {"model"}
    misses = {each.miss for each in seen(rig, UsageUpdated)}
    assert "model changed" not in misses, "what another model reads says nothing of this one's cache"
    provider = Listing(6)
    rig = await asked_for_room(provider, roles={ModelRole.SUMMARISER: RoleModel("small")})
    assert {request.model for request in provider.asked} == {"model"}
    assert len([each.text for each in seen(rig, Notice) if "the role summariser" in each.text]) == 1


async def test_room_is_made_in_the_middle_of_a_turn_and_at_a_threshold_of_a_large_window() -> None:
    provider = Reader(12)
    rig = rig_for(provider)
    rig.session.submit("read them all")
    while len(provider.requests) < 5:
        await asyncio.sleep(0)
    rig.session.waiting.make_room("numbers")
    await rig.session.wait_idle()
    assert (seen(rig, Compacted)[0].why, len(rig.of("turn_ended"))) == ("you asked for it", 1)
    provider = Reader(40)
    rig = rig_for(provider, compact_at=3000)
    rig.session.emit(ModelChanged(model="model", url=provider.url, window_tokens=200_000))
    await rig.run()
    assert "3,000 tokens were in use" in seen(rig, Compacted)[0].why
    assert seen(rig, Compacted)[0].tokens_after < 3000


SHARES = Shares(4000, 3000, 2000, 2000)
PLAN = Plan(todos=(Todo(1, "write the parser", TodoStatus.COMPLETED), Todo(2, "write its tests")))


def talk_of(*calls: tuple[str, str, str, bool], said: tuple[str, ...] = ("the task",)) -> Conversation:
    talk = Conversation("root", lambda *_: "prompt")
    for text in said:
        talk.apply(MessageAdded(role=Role.USER, text=text))
    for number, (tool, title, result, ok) in enumerate(calls):
        call = ToolCall(f"c{number}", tool, "{}")
        talk.apply(MessageAdded(role=Role.ASSISTANT, text=f"step {number}", tool_calls=(call,)))
        talk.apply(ToolCallStarted(call_id=call.id, tool=tool, arguments={}, title=title))
        summary = "" if ok else "exit 1"
        talk.apply(ToolCallFinished(call_id=call.id, tool=tool, ok=ok, result=result, elapsed_ms=1, summary=summary))
    return talk


def test_it_tells_what_was_read_changed_run_and_what_failed() -> None:
    read, failed = ("read", "a.py", "text", True), ("edit", "a.py", "no such text", False)
    calls = read, ("write", "b.py", "ok", True), failed, ("shell", "pytest -q", "2 failed", False), read
    talk = talk_of(*calls, said=("the task", "and mind the docs", "go on"))
    text = digest(talk.gist(len(talk.entries)), PLAN, SHARES)
    told = ["- files you changed, the newest first: b.py", "- files you read: a.py\n", "shell pytest -q → exit 1"]
    told += ["shell pytest -q: 2 failed", "“and mind the docs”", "- the plan: 1 of 2 done; 2 [pending] write its tests"]
    assert [words for words in (*told, "- you said last: step 4") if words not in text] == []
    assert "“go on”" not in text  # it is sent word for word
    assert "the task" not in text
    assert "last: Done:\n- a.py" in digest(TranscriptSummary(answer="Done:\n- a.py"), PLAN, SHARES), "what fits keeps its lines"
    assert "pytest -q: 2 failed" in digest(talk.gist(len(talk.entries)), PLAN, SHARES.scaled(0.01)), "one is told at least"


@given(st.lists(st.builds(str.__mul__, st.text(max_size=5), st.integers(0, 800)), max_size=40), st.floats(0.05, 3))
def test_it_is_bounded(texts: list[str], ratio: float) -> None:
    calls = [("shell" if number % 2 else "read", text, text, number % 3 > 0) for number, text in enumerate(texts)]
    talk = talk_of(*calls, said=("task", *texts))
    shares = SHARES.scaled(ratio)
    assert len(digest(talk.gist(len(talk.entries)), PLAN, shares)) <= shares.total + 900


FAILED = ("shell", "pytest -q", "E   assert 1 == 2", False)
MISSED = ("edit", "a.py", "the text is not there", False)


@for_each(("calls", "is_open"), [
    ([FAILED], True), ([FAILED, ("shell", "pytest -q", "3 passed", True)], False),
    ([FAILED, ("shell", "ls", "a.py", True)], True), ([FAILED, ("write", "a.py", "written", True)], True), ([MISSED], True),
    ([MISSED, ("edit", "a.py", "edited", True)], False), ([MISSED, ("write", "a.py", "written", True)], False),
    ([MISSED, ("edit", "b.py", "edited", True)], True), ([MISSED, ("read", "a.py", "text", True)], True),
    ([("read", "a.py from 90", "no such file", False), ("write", "a.py", "written", True)], False),
    ([("shell", "make", "error", False), ("shell", "make", "built", True), ("shell", "make", "error", False)], True),
])  # fmt: skip
def test_an_error_is_open_until_the_call_goes_well_or_its_file_is_changed(
    calls: list[tuple[str, str, str, bool]], is_open: bool
) -> None:
    talk = talk_of(*calls)
    text = digest(talk.gist(len(talk.entries)), Plan(), SHARES)
    assert ("what failed and is not fixed yet" in text) == is_open
    assert not is_open or calls[-1 if calls[-1][3] is False else 0][2] in text
