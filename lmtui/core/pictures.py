"""Pictures that are sent to a model, and what one is: told by its first bytes, never by its name."""

from __future__ import annotations

from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class Image:
    """A picture for the model: `media_type` as `core.pictures.sniff` names it, `data` the file's bytes."""

    name: str
    media_type: str
    data: bytes


@dataclass(frozen=True, slots=True)
class ImageRef:
    """A picture of a message by what it is: the SHA-256 (hex) of its bytes, which are kept beside the log."""

    sha256: str
    media_type: str
    name: str = ""
    size_bytes: int = 0
