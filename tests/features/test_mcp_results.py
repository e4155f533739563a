from __future__ import annotations

import base64

from mcp import types

from lmtui.core.messages import MAX_IMAGE_BYTES
from lmtui.features.mcp.sdk import as_result
from tests.features.paper_server import PIXEL


def result(*content: types.ContentBlock, **more: object) -> types.CallToolResult:
    return types.CallToolResult.model_validate({"content": list(content), **more})


def test_texts_come_in_their_order_and_cleaned() -> None:
    found = as_result("t", result(types.TextContent(text="one"), types.TextContent(text="two\x1b[31m red\u202e")))
    assert (found.text, found.ok, found.summary) == ("one\ntwo red<U+202E>", True, "one")


def test_an_error_is_one() -> None:
    assert not as_result("t", result(types.TextContent(text="no"), is_error=True)).ok


def test_nothing_is_said_to_be_nothing() -> None:
    assert as_result("t", result()).text == "(the tool returned nothing)"


def test_a_picture_is_shown_beside_its_place() -> None:
    found = as_result("t", result(types.TextContent(text="a dot:"), types.ImageContent(data=PIXEL, mime_type="image/png")))
    assert found.text == f"a dot:\n[picture 1, image/png, {len(base64.b64decode(PIXEL))} bytes]"
    assert [(image.name, image.media_type) for image in found.images] == [("t 1", "image/png")]


def test_what_is_no_picture_is_none_whatever_it_is_called() -> None:
    text = base64.b64encode(b"<svg onload=x>").decode()
    found = as_result(
        "t", result(types.ImageContent(data=text, mime_type="image/png"), types.ImageContent(data="!", mime_type="x"))
    )
    assert found.images == ()
    assert "cannot be shown (image/png, 14 bytes)" in found.text
    assert "is not base64" in found.text


def test_too_many_pictures_and_too_large_ones_are_left_out() -> None:
    large = base64.b64encode(base64.b64decode(PIXEL) + bytes(MAX_IMAGE_BYTES)).decode()
    blocks = [types.ImageContent(data=PIXEL, mime_type="image/png")] * 9
    found = as_result("t", result(types.ImageContent(data=large, mime_type="image/png"), *blocks))
    assert (len(found.images), found.text.count("left out")) == (8, 2)


def test_resources_and_sounds_are_told() -> None:
    inside = types.EmbeddedResource(resource=types.TextResourceContents(uri="file:///b", text="inside b"))
    blob = types.EmbeddedResource(
        resource=types.BlobResourceContents(uri="file:///c", mime_type="application/zip", blob="AAAA")
    )
    drawn = types.EmbeddedResource(resource=types.BlobResourceContents(uri="file:///d", mime_type="image/png", blob=PIXEL))
    link = types.ResourceLink(uri="file:///a", name="a", description="a file")
    sound = types.AudioContent(data="AAAA", mime_type="audio/wav")
    found = as_result("t", result(inside, blob, drawn, link, sound))
    assert found.text.splitlines() == [
        "[resource file:///b]", "inside b",
        "[resource file:///c, application/zip, 3 bytes of data]",
        f"[picture 1, image/png, {len(base64.b64decode(PIXEL))} bytes]",
        "[resource file:///a (a): a file]",
        "[a sound, audio/wav, 3 bytes: it cannot be played here]",
    ]  # fmt: skip


def test_structured_content_is_told_once() -> None:
    text = types.TextContent(text='{"total": 3}')
    assert as_result("t", result(text, structured_content={"total": 3})).text == '{"total": 3}'
    assert as_result("t", result(types.TextContent(text="three"), structured_content={"result": "three"})).text == "three"
    assert as_result("t", result(types.TextContent(text="sum"), structured_content={"total": 3})).text == 'sum\n{"total": 3}'
    assert as_result("t", result(structured_content={"total": 3})).text == '{"total": 3}'


def test_a_text_that_no_parser_takes_stays_a_text_beside_structured_content() -> None:
    found = as_result("t", result(types.TextContent(text="[" * 100_000), structured_content={"total": 3}))
    assert found.text.startswith("[[[")
    assert found.text.endswith('{"total": 3}')
