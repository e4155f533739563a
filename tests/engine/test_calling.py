from __future__ import annotations

from dataclasses import replace

import pytest

from lmtui.core.errors import ContextOverflow, Fault, ProviderError
from lmtui.core.events import MessageAdded, ToolCallFinished, TurnEnded, TurnReason
from lmtui.core.messages import (
    Completion,
    FinishReason,
    Message,
    ModelRequest,
    Role,
    StreamChunk,
    ToolCall,
    ToolCallFormat,
    ToolChoice,
    ToolSpec,
    Usage,
)
from lmtui.core.model_events import CallFormChanged, Compacted, Reminder
from lmtui.core.servers import ModelKey, ModelProfile, ServedModel
from lmtui.engine.tool_call_policy import KnownModel, ToolCallPolicy
from tests.engine.seen import ran, seen
from tests.engine.test_usage import KeptProfiles
from tests.fakes import FakeProvider, FakeSandbox, Rig, answer
from tests.sets import for_each

KEY = ModelKey("http://fake/v1", "model")
REQUEST = ModelRequest((Message(Role.USER, "do it"),), (), "model")
PROBLEM = "That was no call. Answer with one block like this: …"
SERVED = ServedModel("model", 32_000)


def completion(*forms: str, problem: str = "", prompt_tokens: int = 0) -> Completion:
    calls = tuple(ToolCall(f"c{number}", "read", '{"path": "a"}', form) for number, form in enumerate(forms))
    reason = FinishReason.TOOL_CALLS if calls else FinishReason.STOP
    usage = Usage(prompt_tokens, 5) if prompt_tokens else None
    return Completion(Message(Role.ASSISTANT, "so", tool_calls=calls), reason, usage, problem=problem)


def recovered(path: str = "a.txt") -> list[StreamChunk]:
    message = Message(Role.ASSISTANT, "", tool_calls=(ToolCall("call", "read", f'{{"path": "{path}"}}', "fence"),))
    return [Completion(message, FinishReason.STOP, None)]


def malformed() -> list[StreamChunk]:
    return [Completion(Message(Role.ASSISTANT, '{"name": read'), FinishReason.STOP, None, problem=PROBLEM)]


class Asked(FakeProvider):
    """A model whose server tells of it."""

    told: ServedModel | None = None

    async def served(self, model: str) -> ServedModel | None:
        return self.told


def rig_for(model: FakeProvider, profiles: KeptProfiles | None = None, *, call_form: ToolCallFormat | None = None) -> Rig:
    sandbox = FakeSandbox({name: name.encode() for name in ("a.txt", "b.txt", "c.txt")})
    rig = Rig(model, sandbox, profiles=profiles or KeptProfiles(), call_form=call_form)
    rig.session.prepare(is_eager=False)
    return rig


def forms(rig: Rig) -> list[ToolCallFormat]:
    return [request.call_form for request in rig.provider.requests]


def changes(rig: Rig) -> list[tuple[str, str]]:
    return [(event.form, event.why) for event in seen(rig, CallFormChanged)]


@for_each(("tokens", "counted", "is_noticed"), [
    (400, 450, True), (400, 2000, False), (400, 60, False), (5000, 5100, False), (400, 0, False),
])  # fmt: skip
def test_tools_that_the_server_left_out_are_noticed_by_its_count(tokens: int, counted: int, is_noticed: bool) -> None:
    request = replace(REQUEST, messages=(Message(Role.USER, "x" * 4 * tokens),), tools=(ToolSpec("t", "y" * 6400, {}),))
    assert (ToolCallPolicy().see(request, completion(prompt_tokens=counted)) is not None) is is_noticed


def test_text_that_cannot_be_read_is_held_to_a_schema_and_a_tool_that_does_not_exist_is_none() -> None:
    calling = ToolCallPolicy()
    calling.take(ToolCallFormat.TEXT)
    found = [calling.see(REQUEST, completion(problem=PROBLEM)) for _ in range(3)]
    assert [each.form if each else None for each in found] == [None, None, ToolCallFormat.SCHEMA]
    calling = ToolCallPolicy()
    calling.take(ToolCallFormat.TEXT)
    unknown = replace(completion(problem=PROBLEM), is_unknown_tool=True)
    assert ([calling.see(REQUEST, unknown) for _ in range(6)], calling.take_hold()) == ([None] * 6, ToolChoice.AUTO)


@for_each(("known", "recovered_count", "slips", "is_held"), [
    (ModelProfile(), 0, 1, False), (ModelProfile(), 3, 2, False), (ModelProfile(), 4, 2, True),
    (ModelProfile(ToolCallFormat.TEXT), 4, 2, False), (ModelProfile(ToolCallFormat.TEXT), 8, 4, True),
])  # fmt: skip
def test_a_slip_or_two_do_not_hold_a_model_to_a_schema_for_good(
    known: ModelProfile, recovered_count: int, slips: int, is_held: bool
) -> None:
    calling = ToolCallPolicy()
    calling.begin(known, None)
    calling.take(ToolCallFormat.TEXT)
    for each in [completion("fence")] * recovered_count + [completion(problem=PROBLEM)] * slips:
        assert calling.see(REQUEST, each) is None
    change = calling.see(replace(REQUEST, hold=calling.take_hold()), completion("schema"))
    assert (change is not None) is is_held


async def test_the_next_session_begins_with_the_form_that_worked_and_a_resumed_one_as_the_user_set_it() -> None:
    profiles = KeptProfiles()
    await rig_for(Asked(recovered("a.txt"), recovered("b.txt"), recovered("c.txt"), answer("done")), profiles).run()
    assert profiles.get(KEY).call_form is ToolCallFormat.TEXT
    again = await ran(rig_for(Asked(answer("done"), answer("done")), profiles))
    assert forms(again)[0] is ToolCallFormat.TEXT
    rig = rig_for(Asked(answer("done")))
    rig.session.use_call_form(ToolCallFormat.SCHEMA)
    again = Rig(Asked(answer("done")), past=rig.log.events)
    assert again.session.call_form() == rig.session.call_form()
    assert again.session.call_form().is_by_hand


async def test_a_server_that_refuses_tools_is_told_of_them_in_text_and_what_is_too_large_then_is_made_smaller() -> None:
    refusal = ProviderError(Fault.NO_TOOLS, "gemma does not support tools")
    rig = await ran(rig_for(Asked([refusal], recovered(), answer("done"))))
    assert forms(rig)[:2] == [ToolCallFormat.NATIVE, ToolCallFormat.TEXT]
    assert changes(rig) == [("text", "the server takes no tools for this model")]
    assert [event.reason for event in seen(rig, TurnEnded)] == [TurnReason.DONE]
    refusal, overflow = ProviderError(Fault.NO_TOOLS, "no tools"), ContextOverflow("too large", window_tokens=4000)
    files = FakeSandbox({f"{name}.txt": b"some words in a line\n" * 300 for name in "abc"})
    reads = [answer("", ("read", f'{{"path": "{name}.txt"}}')) for name in "abc"]
    rig = await ran(Rig(Asked(*reads, [refusal], [overflow], answer("done")), files))
    assert [event.reason for event in seen(rig, TurnEnded)] == [TurnReason.DONE]
    assert seen(rig, Compacted)


@pytest.mark.parametrize("fault", [Fault.REJECTED, Fault.SERVER_ERROR, Fault.STREAM_ERROR])
async def test_a_server_that_refuses_the_held_retry_is_asked_without(fault: Fault) -> None:
    refusal = ProviderError(fault, "unknown field response_format")
    rig = await ran(rig_for(Asked(malformed(), [refusal], recovered(), answer("done"))))
    assert [request.hold for request in rig.provider.requests[:3]] == [ToolChoice.AUTO, ToolChoice.REQUIRED, ToolChoice.AUTO]
    assert [event.reason for event in seen(rig, TurnEnded)] == [TurnReason.DONE]


async def test_a_malformed_call_is_asked_for_again_held_and_after_the_same_result_three_times_an_answer() -> None:
    rig = await ran(rig_for(Asked(malformed(), recovered(), answer("done"))))
    assert [request.hold for request in rig.provider.requests[:3]] == [ToolChoice.AUTO, ToolChoice.REQUIRED, ToolChoice.AUTO]
    assert (seen(rig, Reminder)[0].text, rig.provider.requests[1].messages[-1].text) == (PROBLEM, PROBLEM)
    rig = rig_for(Asked(answer("The file is fine."), answer("done")), call_form=ToolCallFormat.TEXT)
    await rig.run("Fix the file a.txt.")
    assert [request.hold for request in rig.provider.requests][:2] == [ToolChoice.AUTO, ToolChoice.LOOK]
    read = ("read", '{"path": "a.txt"}')
    rig = await ran(rig_for(Asked(answer("", read), answer("", read), answer("", read), answer("It says a.txt."))))
    assert [request.hold for request in rig.provider.requests] == [
        ToolChoice.AUTO, ToolChoice.AUTO, ToolChoice.AUTO, ToolChoice.NONE,
    ]  # fmt: skip
    assert [event.text for event in seen(rig, MessageAdded)][-1] == "It says a.txt."


async def test_set_by_hand_it_holds_in_the_next_session_and_let_go_it_is_chosen_by_what_is_known() -> None:
    profiles = KeptProfiles()
    rig = await ran(rig_for(Asked(answer("done"), recovered("a.txt"), recovered("b.txt"), answer("done")), profiles))
    rig.session.use_call_form(ToolCallFormat.NATIVE)
    await rig.run()
    assert set(forms(rig)) == {ToolCallFormat.NATIVE}
    assert (profiles.get(KEY).call_form, profiles.get(KEY).source) == (ToolCallFormat.NATIVE, "hand")
    again = await ran(rig_for(Asked(recovered("a.txt"), recovered("b.txt"), answer("done")), profiles))
    assert (set(forms(again)), again.session.call_form().why) == ({ToolCallFormat.NATIVE}, "you set it")
    profiles = KeptProfiles()
    model = Asked(answer("done"), answer("done"))
    model.told = replace(SERVED, drops_tools=True)
    rig = await ran(rig_for(model, profiles, call_form=ToolCallFormat.SCHEMA))
    rig.session.use_call_form(ToolCallFormat.NATIVE)
    rig.session.use_call_form(None)
    now = rig.session.call_form()
    assert (now.form, now.is_by_hand, now.why) == (ToolCallFormat.TEXT, False, "its chat template has no place for tools")
    assert [profile.source for profile in profiles.kept.values()] == ["learned"]


@pytest.mark.parametrize(("size_bytes", "form"), [(0, None), (1_117_320_768, ToolCallFormat.TEXT), (2_400_000_000, None)])
def test_a_very_small_model_begins_in_text(size_bytes: int, form: ToolCallFormat | None) -> None:
    change = ToolCallPolicy().begin(ModelProfile(), ServedModel("m", size_bytes=size_bytes))
    assert (change.form if change else None) is form
    assert (
        ToolCallPolicy().begin(ModelProfile(ToolCallFormat.NATIVE, source="exam"), ServedModel("m", size_bytes=size_bytes))
        is None
    )


def quoting(name: str, arguments: str) -> list[StreamChunk]:
    message = Message(Role.ASSISTANT, f'For example, one could call {{"name": "{name}", "arguments": {arguments}}} here.')
    return [Completion(message, FinishReason.STOP, None, quoted=ToolCall("q", name, arguments, "json"))]


async def test_the_only_call_of_a_first_answer_is_run_though_its_words_make_it_an_example() -> None:
    rig = rig_for(Asked(quoting("read", '{"path": "a.txt"}'), answer("It says a.txt.")), call_form=ToolCallFormat.TEXT)
    await rig.run("What does the file a.txt say?")
    assert [event.tool for event in seen(rig, ToolCallFinished)] == ["read"]
    assert [request.hold for request in rig.provider.requests] == [ToolChoice.AUTO] * 2


@pytest.mark.parametrize(("task", "call", "form"), [
    ("Put x into the file a.txt.", ("write", '{"path": "a.txt", "content": "x"}'), ToolCallFormat.TEXT),
    ("How do I read a file?", ("read", '{"path": "a.txt"}'), ToolCallFormat.TEXT),
    ("Read the file a.txt.", ("read", '{"path": "a.txt"}'), ToolCallFormat.NATIVE),
], ids=["it writes", "a general question", "a model that calls natively"])  # fmt: skip
async def test_other_quoted_calls_stay_words(task: str, call: tuple[str, str], form: ToolCallFormat) -> None:
    rig = await ran(rig_for(Asked(quoting(*call), answer("done"), answer("done")), call_form=form), task)
    assert not seen(rig, ToolCallFinished)


def test_the_form_that_an_exam_showed_is_kept_whatever_a_session_came_to() -> None:
    key = ModelKey("u", "m")
    profiles = KeptProfiles({key: ModelProfile(call_form=ToolCallFormat.TEXT, source="exam", note="text 3 of 4")})
    for _ in range(3):
        known = KnownModel(profiles)
        known.learn("u", "m", None)
        known.keep(read_tokens_per_s=50.0)
        known.keep(call_form=ToolCallFormat.SCHEMA, note="held")
    kept = profiles.get(key)
    assert (kept.call_form, kept.source, kept.note) == (ToolCallFormat.TEXT, "exam", "text 3 of 4")


async def test_form_that_was_let_go_is_not_taken_up_again_with_another_model_live_and_resumed() -> None:
    live = await ran(Rig(FakeProvider(answer("one"), answer("two")), call_form=ToolCallFormat.TEXT), "one")
    live.session.use_call_form(None)
    live.session.set_model("other")
    await live.run("two")
    again = await ran(Rig(FakeProvider(answer("three")), call_form=ToolCallFormat.TEXT, past=live.log.events), "three")
    assert [request.call_form for request in live.provider.requests] == [ToolCallFormat.TEXT, ToolCallFormat.NATIVE]
    assert again.provider.requests[0].call_form is ToolCallFormat.NATIVE
