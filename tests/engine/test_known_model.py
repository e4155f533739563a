from __future__ import annotations

import asyncio

from lmtui.core.events import ModelChanged
from lmtui.core.messages import ToolCallFormat
from lmtui.core.servers import ModelKey, ModelProfile, ServedModel
from lmtui.engine.tool_call_policy import KnownModel
from tests.engine.seen import ran
from tests.engine.test_usage import KeptProfiles
from tests.fakes import FakeProvider, Rig, answer

URL = "http://fake/v1"
SERVED = ServedModel("model", 8_000, quantisation="Q4_K_M", template="abc")


def test_a_profile_belongs_to_server_model_quantisation_and_template() -> None:
    profiles = KeptProfiles()
    model = KnownModel(profiles)
    _ = model.learn(URL, "", SERVED)
    model.keep(token_ratio=1.2)
    assert profiles.kept == {ModelKey(URL, "model", "Q4_K_M", "abc"): ModelProfile(token_ratio=1.2)}


def test_what_was_kept_of_just_this_model_is_known_again() -> None:
    profiles = KeptProfiles({ModelKey(URL, "model"): ModelProfile(ToolCallFormat.TEXT, token_ratio=1.2)})
    model = KnownModel(profiles)
    change = model.learn(URL, "model", None)
    assert model.profile.token_ratio == 1.2
    assert change is not None
    assert change.form is ToolCallFormat.TEXT
    assert model.learn(URL, "model", SERVED) is None


def test_nothing_is_kept_before_the_model_is_known_or_where_nothing_is_new() -> None:
    profiles = KeptProfiles()
    model = KnownModel(profiles)
    model.keep(token_ratio=1.2)
    assert profiles.kept == {}
    _ = model.learn(URL, "model", None)
    model.keep(token_ratio=0.0)
    assert profiles.kept == {}


def test_what_was_learned_does_not_replace_what_was_set_by_hand() -> None:
    profiles = KeptProfiles({ModelKey(URL, "model"): ModelProfile(ToolCallFormat.NATIVE, source="hand", note="you set it")})
    model = KnownModel(profiles)
    _ = model.learn(URL, "model", None)
    model.keep(call_form=ToolCallFormat.TEXT, note="learned otherwise", token_ratio=1.5)
    kept = profiles.get(ModelKey(URL, "model"))
    assert (kept.call_form, kept.note, kept.token_ratio) == (ToolCallFormat.NATIVE, "you set it", 1.5)
    model.keep(call_form=None, source="learned", note="")
    assert profiles.get(ModelKey(URL, "model")).call_form is None


def test_a_form_that_the_settings_name_is_not_kept_as_learned() -> None:
    profiles = KeptProfiles()
    model = KnownModel(profiles, ToolCallFormat.TEXT)
    _ = model.learn(URL, "model", None)
    model.keep(call_form=ToolCallFormat.TEXT, note="the settings say so", token_ratio=1.1)
    assert profiles.get(ModelKey(URL, "model")) == ModelProfile(token_ratio=1.1)


def test_without_a_place_to_keep_it_what_is_learned_holds_for_the_session() -> None:
    model = KnownModel()
    _ = model.learn(URL, "model", None)
    model.keep(token_ratio=1.3)
    assert model.profile.token_ratio == 1.3


async def test_who_asks_waits_until_the_server_was_asked() -> None:
    model = KnownModel()
    await model.ready()
    model.forget()
    waiting = asyncio.create_task(model.ready())
    await asyncio.sleep(0)
    assert not waiting.done()
    _ = model.learn(URL, "model", SERVED)
    await waiting
    assert model.served is SERVED


def test_forgotten_it_is_nobodys() -> None:
    profiles = KeptProfiles()
    model = KnownModel(profiles)
    _ = model.learn(URL, "model", SERVED)
    model.keep(token_ratio=1.2)
    model.forget()
    assert (model.served, model.profile) == (None, ModelProfile())
    model.keep(token_ratio=1.3)
    assert list(profiles.kept.values()) == [ModelProfile(token_ratio=1.2)]


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


def test_a_schema_and_another_form_than_is_known_are_kept_after_two_sessions() -> None:
    profiles, kept = KeptProfiles(), []
    for form in (
        ToolCallFormat.SCHEMA,
        ToolCallFormat.SCHEMA,
        ToolCallFormat.TEXT,
        ToolCallFormat.NATIVE,
        ToolCallFormat.NATIVE,
    ):
        known = KnownModel(profiles)
        known.learn("u", "m", None)
        for _ in range(3):
            known.keep(call_form=form, note="so it went")
        kept.append(profiles.get(ModelKey("u", "m")).call_form)
    assert kept == [None, ToolCallFormat.SCHEMA, ToolCallFormat.SCHEMA, ToolCallFormat.SCHEMA, ToolCallFormat.NATIVE]


async def test_form_that_was_let_go_is_not_taken_up_again_with_another_model_live_and_resumed() -> None:
    live = await ran(Rig(FakeProvider(answer("one"), answer("two")), call_form=ToolCallFormat.TEXT), "one")
    live.session.calls.use(None)
    live.session.set_model("other")
    await live.run("two")
    again = await ran(Rig(FakeProvider(answer("three")), call_form=ToolCallFormat.TEXT, past=live.log.events), "three")
    assert [request.call_form for request in live.provider.requests] == [ToolCallFormat.TEXT, ToolCallFormat.NATIVE]
    assert again.provider.requests[0].call_form is ToolCallFormat.NATIVE


async def test_the_default_model_is_named_once_the_server_has_said_it() -> None:
    class Naming(FakeProvider):
        async def served(self, model: str) -> ServedModel | None:
            return SERVED

    rig = Rig(Naming(answer("ok")))
    rig.session.set_model("")
    await rig.until(lambda event: isinstance(event, ModelChanged) and event.default_model == "model")
