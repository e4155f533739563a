from __future__ import annotations

import json

import pytest

from lmtui.core.events import ToolCallFinished
from lmtui.core.messages import StreamChunk, ToolCallFormat
from lmtui.core.permissions.decide import Mode
from tests.fakes import FakeProvider, Rig, answer


def call(**arguments: object) -> str:
    return json.dumps(arguments)


def results(rig: Rig) -> list[str]:
    return [event.result for event in rig.of("tool_call_finished") if isinstance(event, ToolCallFinished)]


OVERWRITES = answer("", ("write", call(path="log.txt", content="done\n")))


@pytest.mark.parametrize("form", [ToolCallFormat.TEXT, ToolCallFormat.SCHEMA])
async def test_weak_model_does_not_replace_a_file_that_it_never_saw(form: ToolCallFormat) -> None:
    rig = Rig(FakeProvider(OVERWRITES, answer("it is in there")), mode=Mode.AUTO, call_form=form)
    rig.sandbox.files["log.txt"] = b"one\ntwo\n"
    await rig.run()
    assert rig.sandbox.files["log.txt"] == b"one\ntwo\n"
    assert "log.txt is there already (2 lines) and would be lost" in results(rig)[0]


async def test_nobody_is_asked_about_a_file_that_would_be_lost() -> None:
    rig = Rig(FakeProvider(OVERWRITES, answer("it is in there")), mode=Mode.NORMAL, call_form=ToolCallFormat.TEXT)
    rig.sandbox.files["log.txt"] = b"one\n"
    await rig.run()
    assert not rig.of("approval_requested")


@pytest.mark.parametrize(
    ("task", "first"),
    [("do it", answer("", ("read", call(path="log.txt")))), ("look at @log.txt", answer("", ("ls", "{}")))],
)
async def test_file_that_it_saw_is_replaced(task: str, first: list[StreamChunk]) -> None:
    rig = Rig(FakeProvider(first, OVERWRITES, answer("ready")), mode=Mode.AUTO, call_form=ToolCallFormat.TEXT)
    rig.sandbox.files["log.txt"] = b"one\n"
    await rig.run(task)
    assert rig.sandbox.files["log.txt"] == b"done\n"


@pytest.mark.parametrize(
    ("form", "old"), [(ToolCallFormat.NATIVE, b"one\n"), (ToolCallFormat.TEXT, b""), (ToolCallFormat.TEXT, None)]
)
async def test_others_write_at_once(form: ToolCallFormat, old: bytes | None) -> None:
    rig = Rig(FakeProvider(OVERWRITES, answer("ready")), mode=Mode.AUTO, call_form=form)
    if old is not None:
        rig.sandbox.files["log.txt"] = old
    await rig.run()
    assert rig.sandbox.files["log.txt"] == b"done\n"
