"""Pictures that the command line names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lmtui.core.errors import UsageError
from lmtui.core.pictures import MAX_IMAGE_BYTES, MAX_IMAGES, Image, sniff


def read_pictures(names: Sequence[str]) -> tuple[Image, ...]:
    """Read picture files.  Blocks (disk).

    Raises:
        UsageError: one cannot be read, is none or too large, or there are too many; the text names it.
    """
    if len(names) > MAX_IMAGES:
        raise UsageError(f"{len(names)} pictures are too many", f"One message takes up to {MAX_IMAGES}.")
    return tuple(_read(Path(name)) for name in names)


def _read(path: Path) -> Image:
    try:
        if path.exists() and not path.is_file():  # a pipe may never get a writer
            raise UsageError(f"picture {path} is not a regular file", "Name a PNG, JPEG, GIF or WebP file.")
        with path.open("rb") as file:
            data = file.read(MAX_IMAGE_BYTES + 1)
    except OSError as error:
        raise UsageError(f"picture {path} cannot be read: {error.strerror}", "Check its name.") from error
    if len(data) > MAX_IMAGE_BYTES:
        raise UsageError(f"picture {path} is larger than {MAX_IMAGE_BYTES // 1_000_000} MB", "Make it smaller first.")
    media_type = sniff(data)
    if not media_type:
        raise UsageError(f"{path} is no PNG, JPEG, GIF or WebP picture", "Convert it first.")
    return Image(path.name, media_type, data)
