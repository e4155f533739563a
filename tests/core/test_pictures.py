from __future__ import annotations

from lmtui.core.messages import sniff
from tests.sets import for_each


@for_each(("data", "media_type"), [
    (b"\x89PNG\r\n\x1a\nrest", "image/png"), (b"\xff\xd8\xff\xe0", "image/jpeg"), (b"GIF89a", "image/gif"),
    (b"RIFF\x00\x00\x00\x00WEBPVP8 ", "image/webp"), (b"RIFF\x00\x00\x00\x00WAVE", ""), (b"<svg>", ""), (b"", ""),
])  # fmt: skip
def test_a_picture_is_told_by_its_first_bytes(data: bytes, media_type: str) -> None:
    assert sniff(data) == media_type
