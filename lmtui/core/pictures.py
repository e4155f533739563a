"""What a picture is, told by its first bytes: never by its name."""

from __future__ import annotations

MAX_IMAGE_BYTES = 5_000_000
MAX_IMAGES = 8
_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


def sniff(data: bytes) -> str:
    """Return the media type of a PNG, JPEG, GIF or WebP picture, else an empty string."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((name for start, name in _SIGNATURES if data.startswith(start)), "")
