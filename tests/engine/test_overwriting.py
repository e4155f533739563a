from __future__ import annotations

import pytest

from lmtui.core.events import ToolCallFinished, TurnEnded, TurnReason
from lmtui.core.messages import StreamChunk, ToolCallFormat
from lmtui.core.permissions.rules import Mode
from tests.engine.seen import call, seen
from tests.fakes import FakeProvider, Rig, answer


def results(rig: Rig) -> list[str]:
    return [event.result for event in seen(rig, ToolCallFinished)]


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
    ("task", "first"), [("do it", answer("", ("read", call(path="log.txt")))), ("look at @log.txt", answer("", ("ls", "{}")))]
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


async def test_a_small_file_comes_with_the_refusal_and_a_write_that_keeps_it_is_taken() -> None:
    keeps = answer("", ("write", call(path="log.txt", content="one\ntwo\ndone\n")))
    rig = Rig(FakeProvider(OVERWRITES, OVERWRITES, keeps, answer("ready")), mode=Mode.AUTO, call_form=ToolCallFormat.TEXT)
    rig.sandbox.files["log.txt"] = b"one\ntwo\n"
    await rig.run()
    first, again, last = results(rig)
    assert first.endswith("The whole file:\none\ntwo\n")
    assert "would be lost" in again
    assert last.startswith("ok")
    assert rig.sandbox.files["log.txt"] == b"one\ntwo\ndone\n"


async def test_a_file_with_secrets_does_not_come_with_the_refusal() -> None:
    writes = answer("", ("write", call(path=".env", content="A=1\n")))
    rig = Rig(FakeProvider(writes, answer("ready")), mode=Mode.AUTO, call_form=ToolCallFormat.TEXT)
    rig.sandbox.files[".env"] = b"KEY=secret\n"
    await rig.run()
    assert "secret" not in "".join(results(rig))


async def test_the_same_refused_write_ends_the_turn_at_the_third() -> None:
    rig = Rig(FakeProvider(*[OVERWRITES] * 5), mode=Mode.AUTO, call_form=ToolCallFormat.TEXT)
    rig.sandbox.files["log.txt"] = b"one\ntwo\n"
    await rig.run()
    end = seen(rig, TurnEnded)[0]
    assert (len(results(rig)), end.reason) == (3, TurnReason.LIMIT)
    assert "the same call with the same result, 3 times: write log.txt" in end.error


@pytest.mark.parametrize(("form", "is_stub"), [(ToolCallFormat.TEXT, True), (ToolCallFormat.NATIVE, False)])
async def test_a_weak_model_does_not_leave_a_stub_of_a_file_that_it_read(form: ToolCallFormat, *, is_stub: bool) -> None:
    old = "".join(f"value_{number} = {number}\n" for number in range(30)).encode()
    read, stub = answer("", ("read", call(path="a.py"))), answer("", ("write", call(path="a.py", content="value = 1\n")))
    rig = Rig(FakeProvider(read, stub, answer("ready"), answer("ready")), mode=Mode.AUTO, call_form=form)
    rig.sandbox.files["a.py"] = old
    await rig.run()
    assert (rig.sandbox.files["a.py"] == old) is is_stub
    assert ("a.py has 30 lines, and only 1 would be left" in results(rig)[1]) is is_stub
