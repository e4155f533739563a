from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmtui.core.errors import UsageError
from lmtui.core.events import ApprovalResolved, Outcome, ToolCallFinished
from lmtui.core.permissions.rules import Mode
from lmtui.core.sessions import Answer
from lmtui.headless.listings import as_audit_text
from lmtui.tools.edit_file import accept
from tests.engine.seen import question, reply, seen
from tests.fakes import FakeProvider, FakeSandbox, Rig, answer

OLD = "".join(f"line {number}\r\n" for number in range(60)) + "the end"
NEW = OLD.replace("line 5\r", "LINE 5\r").replace("line 30\r\n", "").replace("the end", "the end\r\n")


def rig_of(*calls: tuple[str, dict[str, object]], files: dict[str, bytes] | None = None) -> Rig:
    sandbox = FakeSandbox(files={"a.txt": OLD.encode()} if files is None else files)
    answers = [answer("", *((tool, json.dumps(arguments)) for tool, arguments in calls)), answer("done")]
    return Rig(FakeProvider(*answers), sandbox, mode=Mode.NORMAL)


def written(rig: Rig, path: str = "a.txt") -> str:
    return rig.sandbox.files[path].decode()


def result(rig: Rig) -> ToolCallFinished:
    return seen(rig, ToolCallFinished)[0]


async def test_only_the_accepted_hunks_are_written_and_the_model_is_told_which_were_not() -> None:
    rig = rig_of(("write", {"path": "a.txt", "content": NEW}))
    request = await question(rig, "go")
    assert request.hunks == 3
    await reply(rig, request, Answer(Outcome.ONCE, hunks=(0, 2)))
    assert written(rig) == OLD.replace("line 5\r", "LINE 5\r").replace("the end", "the end\r\n")
    told = result(rig)
    assert told.ok
    assert told.result.startswith("the user accepted 2 of 3 hunks")
    assert "-line 30" in told.result
    assert "LINE 5" not in told.result
    assert told.summary == "+2 −2"
    resolved = seen(rig, ApprovalResolved)[0]
    assert (resolved.outcome, resolved.hunks) == (Outcome.ONCE, (0, 2))
    assert "2 of 3 hunks by user" in as_audit_text(rig.session.history())


async def test_an_edit_of_many_places_is_applied_in_part() -> None:
    files = {"a.txt": "".join(f"{'x' if number % 20 == 0 else number}\n" for number in range(60)).encode()}
    rig = rig_of(("edit", {"path": "a.txt", "search": "x", "replace": "y", "all": True}), files=files)
    request = await question(rig, "go")
    assert request.hunks == 3
    await reply(rig, request, Answer(Outcome.ONCE, hunks=(1,)))
    assert [line for line in written(rig).split("\n") if line in ("x", "y")] == ["x", "y", "x"]


SMALL = [f"line {number}" for number in range(20)]
CLOSE = ["LINE 3" if number == 3 else "LINE 8" if number == 8 else "LINE 13" if number == 13 else line
         for number, line in enumerate(SMALL)]  # fmt: skip


@pytest.mark.parametrize("tool", ["write", "edit"])
async def test_changes_with_few_lines_between_them_are_hunks_of_their_own(tool: str) -> None:
    old, new = "\n".join(SMALL), "\n".join(CLOSE)
    arguments = {"content": new} if tool == "write" else {"search": old, "replace": new}
    rig = rig_of((tool, {"path": "a.txt", **arguments}), files={"a.txt": old.encode()})
    request = await question(rig, "go")
    assert request.hunks == 3
    await reply(rig, request, Answer(Outcome.ONCE, hunks=(0, 2)))
    assert written(rig) == new.replace("LINE 8", "line 8")
    assert "-line 8\n+LINE 8" in result(rig).result


async def test_no_hunk_at_all_is_a_no_and_all_of_them_are_a_plain_yes() -> None:
    for hunks, outcome in (((), Outcome.NO), ((2, 1, 0), Outcome.ONCE)):
        rig = rig_of(("write", {"path": "a.txt", "content": NEW}))
        request = await question(rig, "go")
        await reply(rig, request, Answer(Outcome.ONCE, hunks=hunks))
        resolved = seen(rig, ApprovalResolved)[0]
        assert (resolved.outcome, resolved.hunks) == (outcome, None)
        assert written(rig) == (OLD if outcome is Outcome.NO else NEW)


async def test_hunks_grant_nothing_for_later() -> None:
    rig = rig_of(("write", {"path": "a.txt", "content": NEW}))
    request = await question(rig, "go")
    await reply(rig, request, Answer(Outcome.ALWAYS, hunks=(0,)))
    assert (rig.session.rules, result(rig).decision) == ((), "once")


@pytest.mark.parametrize(("call", "files"), [
    (("shell", {"command": "make"}), {}),
    (("write", {"path": "new.txt", "content": "a\n"}), {}),
    (("write", {"path": "a.txt", "content": NEW}), {"a.txt": b"\0binary"}),
])  # fmt: skip
async def test_what_cannot_be_divided_is_refused_where_hunks_are_named(
    call: tuple[str, dict[str, object]], files: dict[str, bytes]
) -> None:
    rig = rig_of(call, files=files)
    request = await question(rig, "go")
    with pytest.raises(UsageError, match="no such hunks"):
        rig.session.answer(request.approval_id, Answer(Outcome.ONCE, hunks=(1,)))
    await reply(rig, request, Answer(Outcome.ONCE, hunks=()))
    assert (rig.sandbox.ran, rig.sandbox.files) == ([], files)
    assert not result(rig).ok


@pytest.mark.parametrize("tool", ["write", "edit"])
async def test_a_file_that_changed_while_the_question_was_open_stays_as_it_is(tool: str) -> None:
    files = {"a.txt": ("x\n" + "-\n" * 20 + "x\n").encode()}
    arguments = {"search": "x", "replace": "y", "all": True} if tool == "edit" else {"content": "y\n" + "-\n" * 20 + "y\n"}
    rig = rig_of((tool, {"path": "a.txt", **arguments}), files=files)
    request = await question(rig, "go")
    assert request.hunks == 2
    mine = files["a.txt"] + b"mine\n"
    rig.sandbox.files["a.txt"] = mine
    await reply(rig, request, Answer(Outcome.ONCE, hunks=(0,)))
    assert rig.sandbox.files["a.txt"] == mine
    assert "changed since" in result(rig).result


async def test_bytes_of_another_encoding_and_the_byte_order_mark_stay() -> None:
    old = "\ufeff" + "".join(f"ä{number}\n" for number in range(40))
    new = "".join(f"{'B' if number in (3, 30) else 'ä'}{number}\n" for number in range(40))
    rig = rig_of(("write", {"path": "a.txt", "content": new}), files={"a.txt": old.encode("utf-16-le")})
    request = await question(rig, "go")
    await reply(rig, request, Answer(Outcome.ONCE, hunks=(1,)))
    assert rig.sandbox.files["a.txt"] == old.replace("ä30", "B30").encode("utf-16-le")


LINES = st.lists(st.sampled_from(["a", "b\r", "\x1b[2J", "", "\u202e"]), max_size=60).map("\n".join)


@given(LINES, LINES, st.sets(st.integers(0, 5)))
def test_what_the_model_is_told_is_bounded_and_clean(old: str, new: str, chosen: set[int]) -> None:
    words = accept("a.txt", old, new + "\nx" * 500, chosen).words
    assert len(words) < 4000
    assert not {"\x1b", "\r", "\u202e"} & set(words)
