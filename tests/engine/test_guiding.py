from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from lmtui.core.errors import SandboxError
from lmtui.core.events import MessageAdded, Notice
from lmtui.core.messages import Image, Message, Role
from lmtui.core.model_events import Compacted, NotesAttached
from lmtui.core.permissions.rules import Effect, Mode, parse_rule
from lmtui.core.prompt_parts import PartSource, PromptParts
from lmtui.core.workspace import DirEntry, FileContent
from lmtui.engine.completion import MAX_GUIDANCE_CHARS, guidance_chars
from lmtui.engine.user_input import MAX_ALL_CHARS, MAX_FILE_CHARS, MAX_LINES
from lmtui.models.request_encoding import wire_message
from lmtui.store.session_logs import ImageFolder
from tests.engine.seen import ran, seen
from tests.fakes import FakeProvider, FakeSandbox, Rig, answer
from tests.sets import for_each


class Board:
    """Instructions that a test changes."""

    def __init__(self, text: str = "") -> None:
        self.guidance = PromptParts(instructions=text)
        self.limits: list[int] = []

    async def read(self, limit_chars: int) -> PromptParts:
        self.limits.append(limit_chars)
        return self.guidance


def systems(rig: Rig) -> list[str]:
    return [request.messages[0].text for request in rig.provider.requests]


async def test_they_stand_in_the_system_prompt_and_a_change_is_told_at_the_end() -> None:
    board = Board("use tabs")
    rig = await ran(Rig(FakeProvider(answer("", ("ls", "{}")), answer("one"), answer("two")), guide=board))
    await rig.run("more")
    assert len(set(systems(rig))) == 1
    assert systems(rig)[0].endswith("\n\nuse tabs")
    assert (len(rig.of("guidance_read")), len(board.limits)) == (1, 2)
    board = Board("use tabs")
    rig = await ran(Rig(FakeProvider(answer("one"), answer("two"), answer("three")), guide=board))
    board.guidance = PromptParts(instructions="use spaces")
    await rig.run("more")
    board.guidance = PromptParts()
    await rig.run("and more")
    first, second, third = (request.messages for request in rig.provider.requests)
    assert (second[: len(first)], third[: len(second)], second[-1].role) == (first, second, Role.USER)
    assert second[-1].text.endswith("use spaces")
    assert "Ignore the earlier" in third[-1].text


async def test_what_was_cut_or_not_read_is_said_once_and_they_get_a_share_of_the_window() -> None:
    board = Board("use tabs")
    source = PartSource("instructions", "AGENTS.md", 10, is_cut=True)
    board.guidance = PromptParts(instructions="use", sources=(source,), problems=("CLAUDE.md was not read: it is a link",))
    rig = await ran(Rig(FakeProvider(answer("one"), answer("two")), guide=board))
    board.guidance = PromptParts(instructions="used", sources=(source,), problems=board.guidance.problems)
    await rig.run("more")
    told = [event.text for event in seen(rig, Notice)]
    assert told == ["AGENTS.md was cut: it takes more than 15% of the window", "CLAUDE.md was not read: it is a link"]
    assert guidance_chars(0) == guidance_chars(8_192) == 4_300
    assert guidance_chars(1_000_000) == MAX_GUIDANCE_CHARS


class KeptNotes:
    """Recalls the notes that share a word with a message, each once."""

    def __init__(self, *notes: str) -> None:
        self.notes_kept = notes
        self.asked: list[tuple[str, frozenset[str], bool]] = []

    async def recall(self, words: str, given: Collection[str], has_index: bool, window_tokens: int) -> NotesAttached | None:
        self.asked.append((words, frozenset(given), has_index))
        found = tuple(each for each in self.notes_kept if each not in given and set(each.split()) & set(words.split()))
        if not found:
            return None
        text, sources = "<memory>\n" + "\n".join(found) + "\n</memory>", ("this folder",) * len(found)
        return NotesAttached(text=text, notes=found, sources=sources, is_index=not has_index)


def texts(messages: tuple[Message, ...]) -> list[str]:
    return [message.text for message in messages if message.role is Role.USER]


async def test_notes_come_behind_the_message_once_in_a_conversation_and_a_resumed_one_knows_them() -> None:
    rig = Rig(FakeProvider(answer("ok"), answer("ok")), memory=KeptNotes("tests with make", "deploy with care"))
    await rig.run("run the tests")
    await rig.run("deploy it")
    first, second = (request.messages for request in rig.provider.requests)
    assert (texts(first), second[: len(first)]) == (["run the tests", "<memory>\ntests with make\n</memory>"], first)
    assert texts(second)[2:] == ["deploy it", "<memory>\ndeploy with care\n</memory>"]
    said = [event for event in seen(rig, MessageAdded) if event.role is Role.USER]
    assert [event.attached for event in said] == ["", ""]
    memory = KeptNotes("tests with make")
    rig = await ran(Rig(FakeProvider(*[answer("ok")] * 3), memory=memory), "tests")
    await rig.run("tests again")
    assert (len(seen(rig, NotesAttached)), memory.asked[1]) == (1, ("tests again", frozenset({"tests with make"}), True))
    everything = len(rig.provider.requests[1].messages)
    rig.session.emit(Compacted(why="test", tokens_before=2, tokens_after=1, kept_from=everything, summary="s"))
    await rig.run("tests once more")
    assert (memory.asked[2], len(seen(rig, NotesAttached))) == (("tests once more", frozenset(), False), 2)
    rig = await ran(Rig(FakeProvider(answer("ok")), memory=KeptNotes("tests with make")), "tests")
    memory = KeptNotes("tests with other words")
    again = await ran(Rig(FakeProvider(answer("ok")), past=rig.log.events, memory=memory), "go on")
    assert "<memory>\ntests with make\n</memory>" in texts(again.provider.requests[0].messages)
    assert memory.asked[0][1:] == (frozenset({"tests with make"}), True)


async def test_the_user_can_leave_notes_out_and_bring_them_back() -> None:
    rig = await ran(Rig(FakeProvider(*[answer("ok")] * 3), memory=KeptNotes("tests with make")), "tests")
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


PNG = b"\x89PNG\r\n\x1a\nrest"
LINES = b"".join(b"line %d\n" % number for number in range(1, 1001))


def rig_with(files: dict[str, bytes], **options: Any) -> Rig:
    return Rig(FakeProvider(answer("ok")), FakeSandbox(dict(files)), **options)


def said(rig: Rig) -> MessageAdded:
    return next(event for event in seen(rig, MessageAdded) if event.role is Role.USER)


def sent(rig: Rig) -> Message:
    return next(message for message in rig.provider.requests[0].messages if message.role is Role.USER)


def notices(rig: Rig) -> str:
    return "\n".join(event.text for event in seen(rig, Notice))


DENY = (parse_rule("Read(secret/**)", Effect.DENY, "settings"),)


@for_each(("files", "words", "options", "is_sent", "is_kept_back", "note"), [
    ({"a.py": LINES}, "@a.py:10-11", {}, '<file path="a.py" lines="10-11 of 1000">\nline 10\nline 11\n</file>', "", ""),
    ({"a.py": LINES}, "@a.py", {}, f"line {MAX_LINES}\n[cut here", "", f"@a.py:{MAX_LINES + 1}-1000 sends the rest"),
    ({"secret/a": b"password"}, "@secret/a", {"rules": DENY}, "", "password", "@secret/a was not sent: your rule"),
    *(({".env": b"KEY=1"}, "@.env", {"mode": mode}, "", "KEY=1", "may hold secrets; the agent can ask to read it")
      for mode in (Mode.NORMAL, Mode.AUTO, Mode.MANUAL)),
    ({"a.py": b"x = 1"}, "@a.py", {"mode": Mode.MANUAL}, "x = 1", "", ""),
    ({"a.py": b"x", "b.py": b"y"}, "what is in @src/ ?", {}, '<folder path="src">\na.py\nb.py\n</folder>', "", ""),
    ({"a.bin": b"\0\1\2"}, "@a.bin", {}, "", "\0", "it is not text"),
])  # fmt: skip
async def test_a_mention_brings_what_may_be_read_and_fits_and_what_is_left_out_is_said(
    files: dict[str, bytes], words: str, options: dict[str, Any], is_sent: str, is_kept_back: str, note: str
) -> None:
    rig = await ran(rig_with(files, **options), words)
    assert is_sent in sent(rig).text
    assert not is_kept_back or is_kept_back not in sent(rig).text
    assert note in notices(rig)


async def test_only_what_was_typed_and_may_be_read_is_attached() -> None:
    rig = rig_with({"innocent": b"password"}, rules=DENY)
    rig.sandbox.links["innocent"] = "secret/a"
    await rig.run("@innocent")
    assert "password" not in sent(rig).text
    rig = rig_with({"a.py": b"inside a", "b.py": b"inside b"})
    rig.session.submit("see @a.py and\n@b.py", typed="see @a.py and\n[pasted 30 lines #1]")
    await rig.session.wait_idle()
    assert "inside a" in sent(rig).text
    assert "inside b" not in sent(rig).text


async def test_many_files_are_bounded_and_names_that_are_no_paths_not_looked_for() -> None:
    rig = rig_with({f"f{number}": b"y" * 15_000 for number in range(8)} | {"long": b"z" * 40_000})
    await rig.run(" ".join([*(f"@f{number}" for number in range(8)), "@long"]))
    assert len(said(rig).attached) < MAX_ALL_CHARS + 2_000
    assert "z" * (MAX_FILE_CHARS + 1) not in said(rig).attached
    assert "none of its 1 lines" in notices(rig)

    class NoFolders(FakeSandbox):
        async def list_directory(self, path: str = "", depth: int = 1, max_entries: int = 1000) -> Sequence[DirEntry]:
            raise SandboxError(f"{path}: no such folder")

    rig = await ran(Rig(FakeProvider(answer("ok")), NoFolders()), "ask @ada about @property and @missing/file.py")
    assert (said(rig).attached, notices(rig)) == ("", "@missing/file.py was not sent: missing/file.py does not exist")


async def test_pictures_reach_the_server_as_data_urls_and_survive_a_resume(tmp_path: Path) -> None:
    images = ImageFolder(tmp_path / "s.images")
    rig = rig_with({"shot.png": PNG}, images=images)
    rig.session.submit("compare with @shot.png", images=[Image("b.gif", "image/gif", b"GIF89a!")])
    await rig.session.wait_idle()
    assert [each.name for each in said(rig).images] == ["b.gif", "shot.png"]
    assert b"PNG" not in repr(rig.log.events).encode()
    parts = wire_message(sent(rig))["content"]
    assert isinstance(parts, list)
    assert parts[0] == {"type": "text", "text": "compare with @shot.png"}
    assert parts[1]["image_url"]["url"] == "data:image/gif;base64,R0lGODlhIQ=="
    (tmp_path / "s.images" / said(rig).images[0].sha256).unlink()
    again = await ran(rig_with({}, images=ImageFolder(tmp_path / "s.images"), past=rig.log.events), "go on")
    assert [image.data for image in sent(again).images] == [PNG]
    assert "[the picture b.gif is gone]" in sent(again).text


async def test_the_words_join_the_conversation_though_reading_is_interrupted() -> None:
    class Slow(FakeSandbox):
        async def read_file(self, path: str, max_bytes: int = 0) -> FileContent:
            await asyncio.sleep(60)
            raise AssertionError

    rig = Rig(FakeProvider(), Slow())
    rig.session.submit("read @a.py")
    await asyncio.sleep(0.02)
    rig.session.interrupt()
    await rig.session.wait_idle()
    assert (said(rig).text, rig.events[-1].kind) == ("read @a.py", "turn_ended")
