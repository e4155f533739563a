from __future__ import annotations

from collections.abc import Collection

from lmtui.core.events import MessageAdded
from lmtui.core.memory_values import MemoryRecalled, NoMemory, Note, Recalled
from lmtui.core.messages import Message, Role
from lmtui.core.model_events import Compacted
from tests.engine.seen import ran, seen
from tests.fakes import FakeProvider, Rig, answer


class Notes(NoMemory):
    """Recalls the notes that share a word with a message, each once."""

    def __init__(self, *notes: str) -> None:
        self.notes_kept = notes
        self.asked: list[tuple[str, frozenset[str], bool]] = []

    async def recall(self, words: str, given: Collection[str], *, has_index: bool, window_tokens: int) -> Recalled:
        self.asked.append((words, frozenset(given), has_index))
        found = tuple(each for each in self.notes_kept if each not in given and set(each.split()) & set(words.split()))
        return (
            Recalled("<memory>\n" + "\n".join(found) + "\n</memory>", tuple(map(Note, found)), not has_index)
            if found
            else Recalled()
        )


def recalled(rig: Rig) -> list[MemoryRecalled]:
    return seen(rig, MemoryRecalled)


def texts(messages: tuple[Message, ...]) -> list[str]:
    return [message.text for message in messages if message.role is Role.USER]


async def test_notes_come_behind_the_message_and_change_nothing_before_it() -> None:
    rig = Rig(FakeProvider(answer("ok"), answer("ok")), memory=Notes("tests with make", "deploy with care"))
    await rig.run("run the tests")
    await rig.run("deploy it")
    first, second = (request.messages for request in rig.provider.requests)
    assert (texts(first), second[: len(first)]) == (["run the tests", "<memory>\ntests with make\n</memory>"], first)
    assert texts(second)[2:] == ["deploy it", "<memory>\ndeploy with care\n</memory>"]
    said = [event for event in seen(rig, MessageAdded) if event.role is Role.USER]
    assert [event.attached for event in said] == ["", ""]


async def test_a_note_joins_a_conversation_once_and_again_after_it_was_summed_up() -> None:
    memory = Notes("tests with make")
    rig = await ran(Rig(FakeProvider(*[answer("ok")] * 3), memory=memory), "tests")
    await rig.run("tests again")
    assert (len(recalled(rig)), memory.asked[1]) == (1, ("tests again", frozenset({"tests with make"}), True))
    everything = len(rig.provider.requests[1].messages)
    rig.session.emit(Compacted(why="test", tokens_before=2, tokens_after=1, kept_from=everything, summary="s"))
    await rig.run("tests once more")
    assert (memory.asked[2], len(recalled(rig))) == (("tests once more", frozenset(), False), 2)


async def test_a_resumed_session_sends_the_notes_of_then_and_knows_them() -> None:
    rig = await ran(Rig(FakeProvider(answer("ok")), memory=Notes("tests with make")), "tests")
    memory = Notes("tests with other words")
    again = await ran(Rig(FakeProvider(answer("ok")), past=rig.log.events, memory=memory), "go on")
    assert "<memory>\ntests with make\n</memory>" in texts(again.provider.requests[0].messages)
    assert memory.asked[0][1:] == (frozenset({"tests with make"}), True)


async def test_the_user_can_leave_notes_out_and_bring_them_back() -> None:
    rig = await ran(Rig(FakeProvider(*[answer("ok")] * 3), memory=Notes("tests with make")), "tests")
    (part,) = [part for part in rig.session.window_use.parts() if part.name == "notes from memory"]
    assert part.items[0].title == "tests with make (this folder)"
    rig.session.window_use.leave_out(part.items[0].id)
    await rig.run("go on")
    sent = texts(rig.provider.requests[1].messages)
    assert not any("<memory>" in text for text in sent)
    assert any(text.startswith("[notes from memory, ") and "tests with make" not in text for text in sent)
    rig.session.window_use.bring_back(part.items[0].id)
    await rig.run("go on")
    assert any("<memory>" in text for text in texts(rig.provider.requests[2].messages))


async def test_nothing_is_said_where_nothing_is_recalled() -> None:
    rig = await ran(Rig(FakeProvider(answer("ok")), memory=Notes("tests with make")), "hello")
    assert (recalled(rig), texts(rig.provider.requests[0].messages)) == ([], ["hello"])
