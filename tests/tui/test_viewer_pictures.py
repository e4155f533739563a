from __future__ import annotations

import io
import struct
import zlib

import pytest
from PIL import Image

from lmtui.tui.lines.styled_text import plain
from lmtui.tui.screens.viewer import PictureError, Viewer, picture_lines
from tests.sets import for_each
from tests.tui.driving import SMALL, running


def picture(width: int, height: int, kind: str = "PNG") -> bytes:
    made = Image.new("RGB", (width, height), (200, 30, 30))
    made.paste((30, 30, 200), (0, height // 2, width, height))
    found = io.BytesIO()
    made.save(found, kind)
    return found.getvalue()


def claimed(width: int, height: int) -> bytes:
    """Return a PNG that claims to be of a size and has no pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0" * 100)) + chunk(b"IEND", b"")


@for_each("kind", ["PNG", "JPEG"])
async def test_a_picture_becomes_cells_of_two_pixels(kind: str) -> None:
    lines = await picture_lines(picture(40, 20, kind), 80, 24)
    assert [len(plain(line)) for line in lines] == [40] * 10
    assert set("".join(map(plain, lines))) == {"▀"}
    top, bottom = lines[0][0][1], lines[-1][0][1]
    assert int(top[4:6], 16) > 150 > int(top[8:10], 16)
    assert int(bottom[8:10], 16) > 150 > int(bottom[4:6], 16)
    lines = await picture_lines(picture(4000, 2000), 100, 50)
    assert (len(plain(lines[0])), len(lines)) == (100, 25)


BROKEN = {
    "no chunks": b"\x89PNG\r\n\x1a\n",
    "no picture": b"\x89PNG\r\n\x1a\n" + b"x" * 500,
    "cut": picture(300, 300, "JPEG")[:300],
    "huge": claimed(100_000, 100_000),
    "long": claimed(60_000, 700),
    "empty": b"",
}


@for_each("data", BROKEN.values())
async def test_a_broken_or_huge_picture_is_refused_with_a_reason(data: bytes) -> None:
    with pytest.raises(PictureError, match=r"\w"):
        await picture_lines(data, 80, 24)


async def test_the_viewer_draws_a_picture_and_says_why_it_does_not() -> None:
    async with running(size=SMALL) as driver:
        driver.host.files.contents["plot.png"] = picture(40, 20)
        driver.host.files.contents["broken.png"] = b"\x89PNG\r\n\x1a\nxx"
        await driver.app.push_screen(Viewer(driver.host, "plot.png"))
        await driver.until(lambda: "▀" in driver.text())
        assert "png" in driver.text("#viewer-title")
        await driver.press("escape")
        await driver.app.push_screen(Viewer(driver.host, "broken.png"))
        await driver.until(lambda: "not drawn" in driver.text("#viewer-title"))
        assert "PNG" in driver.text()
