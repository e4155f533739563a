"""Paths and pictures that come by paste, drop or clipboard.  Blocks (disk, programs): call it from a thread."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import stat
import subprocess
from pathlib import Path
from urllib.parse import unquote, urlsplit

from lmtui.core.mentions import mention_text
from lmtui.core.pictures import MAX_IMAGE_BYTES, Image, sniff

MAX_PATHS = 20
CLIPBOARD_TIMEOUT_S = 5.0
_LOOKS_LIKE_PATH = re.compile(r"""\s*['"]?(?:file://|~?/|\.{1,2}/|[A-Za-z]:\\)|\s*['"]?[^\s/]\S*\.\w{1,5}['"]?\s*\Z""")
_CLIPBOARD_COMMANDS = (
    ("wl-paste", "--no-newline", "--type", "image/png"),
    ("xclip", "-selection", "clipboard", "-target", "image/png", "-out"),
    ("pngpaste", "-"),
)


def paths_in(text: str) -> list[str]:
    """Return the paths that a pasted text names and nothing else: quoted, `file://` or with escaped blanks; else nothing."""
    if not _LOOKS_LIKE_PATH.match(text) or "\0" in text:
        return []
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    try:
        words = [word for line in lines for word in ([line] if line.startswith("file://") else shlex.split(line))]
        return [_plain(word) for word in words[:MAX_PATHS]]
    except ValueError:
        return []


def _plain(word: str) -> str:
    return unquote(urlsplit(word).path) if word.startswith("file://") else str(_home(word))


def _home(word: str) -> Path:
    try:
        return Path(word).expanduser()
    except RuntimeError:  # no such user
        return Path(word)


def mentions_of(text: str, workspace: Path) -> tuple[str, list[Path]]:
    """Return the mentions that stand for a pasted text, and the pictures among what it names.

    All it names must be there: a picture anywhere, anything else below the workspace.  Otherwise nothing is returned.
    """
    root = workspace.resolve()
    mentions: list[str] = []
    pictures: list[Path] = []
    for word in paths_in(text):
        path = root / word
        try:
            real = path.resolve(strict=True)
        except (OSError, RuntimeError, ValueError):
            return "", []
        if is_picture(real):
            pictures.append(real)
        elif real != root and real.is_relative_to(root):
            mentions.append(mention_text(f"{real.relative_to(root)}{'/' if real.is_dir() else ''}"))
        else:
            return "", []
    return " ".join(mentions), pictures


def is_picture(path: Path) -> bool:
    """Tell whether a file begins like a picture."""
    return bool(sniff(_read(path, 16)))


def read_picture(path: Path) -> Image | str:
    """Return a picture, or why it cannot be sent."""
    data = _read(path, MAX_IMAGE_BYTES + 1)
    if len(data) > MAX_IMAGE_BYTES:
        return f"{path.name} is larger than {MAX_IMAGE_BYTES // 1_000_000} MB; make it smaller first"
    media_type = sniff(data)
    return Image(path.name, media_type, data) if media_type else f"{path.name} is no PNG, JPEG, GIF or WebP picture"


def clipboard_picture() -> Image | str:
    """Return the picture in the clipboard, or why there is none."""
    known = [each for each in _CLIPBOARD_COMMANDS if shutil.which(each[0])]
    if not known:
        return "no program here reads pictures from the clipboard; install wl-clipboard, xclip or pngpaste"
    for each in known:
        try:
            ran = subprocess.run(each, capture_output=True, timeout=CLIPBOARD_TIMEOUT_S, check=False)
        except (OSError, subprocess.TimeoutExpired):
            continue
        if len(ran.stdout) > MAX_IMAGE_BYTES:
            return f"the picture in the clipboard is larger than {MAX_IMAGE_BYTES // 1_000_000} MB"
        if media_type := sniff(ran.stdout):
            return Image("clipboard", media_type, ran.stdout)
    return "there is no picture in the clipboard"


def _read(path: Path, size: int) -> bytes:
    """Return the first bytes of a regular file, nothing where it is none or cannot be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        return b""
    with os.fdopen(fd, "rb") as file:
        return file.read(size)
