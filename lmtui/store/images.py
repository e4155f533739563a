"""The pictures of a session's messages: files named by the hash of their content, in a folder beside its log."""

from __future__ import annotations

import contextlib
import hashlib
import os
from errno import ENOTDIR
from pathlib import Path

from lmtui.core.errors import SessionFileError
from lmtui.core.pictures import MAX_IMAGE_BYTES, Image, ImageRef, sniff


class ImageFolder:
    """Keeps pictures as `<folder>/<sha256>`; implements `core.ports.Images`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._kept: dict[str, Image] = {}

    def put(self, image: Image) -> ImageRef:
        """Keep a picture, written whole or not at all; one that is there is not written again."""
        name = hashlib.sha256(image.data).hexdigest()
        ref = ImageRef(name, image.media_type, image.name, len(image.data))
        path = self._folder / name
        try:
            if self._folder.is_symlink():
                raise NotADirectoryError(ENOTDIR, "its folder is a link")
            self._folder.mkdir(mode=0o700, exist_ok=True)
            if not path.is_file():
                new = self._folder / f".{name}.{os.getpid()}"
                new.write_bytes(image.data)
                new.replace(path)
        except OSError as error:
            raise SessionFileError(
                f"cannot keep the picture {image.name}: {error.strerror}", "Free some space on the disk, then go on."
            ) from error
        self._kept[name] = image
        return ref

    def get(self, ref: ImageRef) -> Image | None:
        """Return a picture; None where its file is gone, is not what the log says, or is no picture."""
        if ref.sha256 in self._kept:
            return self._kept[ref.sha256]
        if len(ref.sha256) != 64 or not ref.sha256.isalnum():
            return None
        try:
            data = _read(self._folder / ref.sha256)
        except OSError:
            return None
        media_type = sniff(data)
        if not media_type or hashlib.sha256(data).hexdigest() != ref.sha256:
            return None
        image = self._kept[ref.sha256] = Image(ref.name, media_type, data)
        return image

    def delete(self) -> None:
        """Delete the folder and what is in it, as far as that can be done; of a link in its place only the link."""
        with contextlib.suppress(OSError):
            if self._folder.is_symlink():
                self._folder.unlink()
                return
            for path in self._folder.iterdir():
                path.unlink()
            self._folder.rmdir()


def _read(path: Path) -> bytes:
    """Return a file's bytes, one more than a picture may have at most; nothing is followed or waited for."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return os.read(descriptor, MAX_IMAGE_BYTES + 1)
    finally:
        os.close(descriptor)
