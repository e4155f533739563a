from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from lmtui.core.errors import ToolError
from lmtui.core.messages import MAX_IMAGE_BYTES, Image
from lmtui.core.permissions.decide import decide_all
from lmtui.core.permissions.rules import Access, Effect, Mode, Verdict, parse_rule
from lmtui.core.plan import Plan
from lmtui.core.ports import ToolContext
from lmtui.tools.registry import ToolRegistry
from tests.fakes import FakeSandbox

PICTURES = {
    "a.png": (b"\x89PNG\r\n\x1a\n...", "image/png"),
    "b.jpg": (b"\xff\xd8\xff\xe0...", "image/jpeg"), "c.gif": (b"GIF89a...", "image/gif"),
    "d.webp": (b"RIFF0000WEBP...", "image/webp"),
}  # fmt: skip


def context(**files: bytes) -> ToolContext:
    held = {name: data for name, (data, _) in PICTURES.items()} | {name.replace("_", "."): data for name, data in files.items()}
    return ToolContext(FakeSandbox(held), Plan(), lambda _: None, lambda _: None, lambda: datetime.now(UTC))


async def look(path: str, context: ToolContext, name: str = "look") -> tuple[str, tuple[Image, ...]]:
    result = await ToolRegistry().prepare(name, json.dumps({"path": path})).run(context)
    return result.text, result.images


async def test_a_picture_comes_with_what_it_really_is_under_any_name_of_the_tool() -> None:
    for name, (path, (data, media_type)) in zip(("look", "view_image", "read_image", "vision"), PICTURES.items(), strict=True):
        text, images = await look(path, context(), name)
        assert images == (Image(path, media_type, data),)
        assert path in text
        assert media_type.removeprefix("image/") in text


async def test_what_is_no_picture_too_large_or_for_a_blind_model_is_refused_with_the_reason() -> None:
    with pytest.raises(ToolError, match="JPEG, PNG, GIF and WebP") as caught:
        await look("notes.png", context(notes_png=b"only words"))
    assert "read" in caught.value.hint
    large = PICTURES["a.png"][0].ljust(MAX_IMAGE_BYTES + 1, b"\0")
    with pytest.raises(ToolError, match="5,000,001 bytes; pictures of more than 5,000,000") as caught:
        await look("large.png", context(large_png=large))
    assert "smaller" in caught.value.hint
    assert (await look("large.png", context(large_png=large[:-1])))[1]
    with pytest.raises(ToolError, match="you see no pictures"):
        await look("a.png", replace(context(), sees=False))


def test_what_must_not_be_read_must_not_be_looked_at() -> None:
    rules = (parse_rule("Read(secret/**)", Effect.DENY, "settings"),)
    assert decide_all("look", Access.READ, ("secret/a.png",), Mode.AUTO, rules).verdict is Verdict.DENY
    assert decide_all("look", Access.READ, ("a.png",), Mode.PLAN, rules).verdict is Verdict.ALLOW
