from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lmtui.core.errors import SandboxError
from lmtui.core.events import MessageAdded, Notice
from lmtui.core.messages import Image, Message, Role
from lmtui.core.permissions.rules import Effect, Mode, parse_rule
from lmtui.core.workspace import DirEntry, FileContent
from lmtui.engine.user_input import MAX_ALL_CHARS, MAX_FILE_CHARS, MAX_LINES
from lmtui.models.request_encoding import wire_message
from lmtui.store.session_logs import ImageFolder
from tests.engine.seen import ran, seen
from tests.fakes import FakeProvider, FakeSandbox, Rig, answer
from tests.sets import for_each

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


async def test_the_model_gets_the_file_and_the_transcript_the_short_text() -> None:
    rig = await ran(rig_with({"a.py": b"x = 1\n"}), "explain @a.py please")
    assert said(rig).text == "explain @a.py please"
    assert (sent(rig).text, notices(rig)) == ('explain @a.py please\n\n<file path="a.py">\nx = 1\n</file>', "")


async def test_a_resumed_session_sends_what_was_attached_then() -> None:
    rig = await ran(rig_with({"a.py": b"old\n"}), "@a.py")
    again = await ran(Rig(FakeProvider(answer("ok")), FakeSandbox({"a.py": b"new\n"}), past=rig.log.events), "go on")
    assert "old" in sent(again).text


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


async def test_long_lines_and_many_files_are_bounded() -> None:
    rig = rig_with({f"f{number}": b"y" * 15_000 for number in range(8)} | {"long": b"z" * 40_000})
    await rig.run(" ".join([*(f"@f{number}" for number in range(8)), "@long"]))
    assert len(said(rig).attached) < MAX_ALL_CHARS + 2_000
    assert "z" * (MAX_FILE_CHARS + 1) not in said(rig).attached
    assert "none of its 1 lines" in notices(rig)


async def test_a_link_to_what_must_not_be_read_is_not_attached() -> None:
    rig = rig_with({"innocent": b"password"}, rules=DENY)
    rig.sandbox.links["innocent"] = "secret/a"
    await rig.run("@innocent")
    assert "password" not in sent(rig).text


async def test_names_and_decorators_are_no_paths_and_nothing_is_said() -> None:
    class NoFolders(FakeSandbox):
        async def list_directory(self, path: str = "", depth: int = 1, max_entries: int = 1000) -> Sequence[DirEntry]:
            raise SandboxError(f"{path}: no such folder")

    rig = await ran(Rig(FakeProvider(answer("ok")), NoFolders()), "ask @ada about @property and @missing/file.py")
    assert (said(rig).attached, notices(rig)) == ("", "@missing/file.py was not sent: missing/file.py does not exist")


async def test_only_what_was_typed_is_looked_at_not_what_was_pasted() -> None:
    rig = rig_with({"a.py": b"inside a", "b.py": b"inside b"})
    rig.session.submit("see @a.py and\n@b.py", typed="see @a.py and\n[pasted 30 lines #1]")
    await rig.session.wait_idle()
    assert "inside a" in sent(rig).text
    assert "inside b" not in sent(rig).text


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


async def test_a_message_of_pictures_alone_is_sent(tmp_path: Path) -> None:
    rig = rig_with({}, images=ImageFolder(tmp_path / "s.images"))
    rig.session.submit("", images=[Image("a.png", "image/png", PNG)])
    await rig.session.wait_idle()
    assert len(sent(rig).images) == 1


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
