"""A million inputs through the one function between foreign text and the terminal; 25,000 of them in every run."""

from __future__ import annotations

import os
import random
import re

from lmtui.core.sanitize import escape_invisible, sanitize, sanitize_line
from tests.sets import depth

_COUNT = 1_000_000 if os.environ.get("LMTUI_FULL_BATTERY") == "1" else depth(25_000, 100_000)
_PIECES = [
    *map(chr, range(0xA0)), "\x1b[", "\x1b]", "\x1bP", "\x1b_", "\x1b^", "\x1bX", "\x1b\\", "\x1b]52;c;", "\x1b]0;", "\x1b[31m",
    "\x1b[2J", "\x1b[6n", "\x1b(0", "\x1b#8", "\x1bc", "\x9b31m", "\x9d0;t", "\r\n", "\u202e", "\u2066", "\u200b",
    "\u2028", "\ufeff", "\u061c", "\U000e0041", "\ud800", "\udfff", "ä", "漢", "😀", "[bold]", "[@click=app.quit]", "text",
    "0", ";", "?25l", "~" * 50,
]  # fmt: skip
_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e0fff\ud800-\udfff]"
)


def test_no_control_character_is_left_of_any_input() -> None:
    dice = random.Random(20_261_122)
    for _ in range(_COUNT // 1000):
        for _ in range(1000):
            dirty = "".join(dice.choices(_PIECES, k=dice.randrange(1, 12)))
            cleaned = sanitize(dirty)
            if _CONTROL.search(cleaned) or _CONTROL.search(escape_invisible(dirty)) or "\n" in sanitize_line(dirty):
                raise AssertionError(repr(dirty))


def test_bytes_that_are_no_text_are_cleaned_after_decoding() -> None:
    dice = random.Random(7)
    for _ in range(_COUNT // 20):
        dirty = dice.randbytes(dice.randrange(1, 40)).decode("utf-8", "replace")
        assert _CONTROL.search(sanitize(dirty)) is None
