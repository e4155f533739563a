"""What comes into the prompt from outside: dropped files, pictures, the text of an editor; and pastes unfolded again."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from lmtui.core.messages import MAX_IMAGE_BYTES, Image, sniff
from lmtui.core.prompt_text import mention_text
from lmtui.tui.controllers.send_controller import Sending
from lmtui.tui.editor import open_editor
from lmtui.tui.workbench_api import Handler, WorkbenchApi

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
    """Return the mentions that mean a pasted text, and the pictures among what it names.

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
    return Image(path.name, media_type, data) if media_type else f"{path.name} is not a PNG, JPEG, GIF or WebP picture"


def clipboard_picture() -> Image | str:
    """Return the picture in the clipboard, or why there is none."""
    known = [each for each in _CLIPBOARD_COMMANDS if shutil.which(each[0])]
    if not known:
        return "cannot read images from the clipboard: install wl-clipboard, xclip or pngpaste"
    for each in known:
        try:
            ran = subprocess.run(each, capture_output=True, timeout=CLIPBOARD_TIMEOUT_S, check=False)
        except (OSError, subprocess.TimeoutExpired):
            continue
        if len(ran.stdout) > MAX_IMAGE_BYTES:
            return f"the image in the clipboard is larger than {MAX_IMAGE_BYTES // 1_000_000} MB"
        if media_type := sniff(ran.stdout):
            return Image("clipboard", media_type, ran.stdout)
    return "no image in the clipboard"


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


class PasteController:
    """Answers the commands about what is in the prompt."""

    def __init__(self, workbench: WorkbenchApi, sending: Sending) -> None:
        self._workbench = workbench
        self._sending = sending

    def handlers(self) -> dict[str, Handler]:
        """Return what answers each command."""
        return {"prompt.editor": self._edit, "prompt.image": self._image, "prompt.unfold": self._unfold}

    async def pasted(self, text: str) -> None:
        """Put mentions and tokens in place of a pasted text that names files."""
        host, prompt = self._workbench.sessions.host, self._workbench.prompt
        if host is None or not paths_in(text):
            return
        mentions, paths = await asyncio.to_thread(mentions_of, text, host.workspace)
        images = [await asyncio.to_thread(read_picture, path) for path in paths]
        problems = [image for image in images if isinstance(image, str)]
        if problems:
            self._workbench.say("; ".join(problems), "error")
            return
        tokens = [prompt.folds.add_image(image) for image in images if isinstance(image, Image)]
        words = " ".join((*([mentions] if mentions else []), *tokens))
        if words and prompt.replace_last(text, f"{words} ") and tokens:
            self._warn_if_blind()

    async def attach(self, names: Sequence[str], text: str) -> None:
        """Begin the prompt with pictures and a text; what is no picture is said."""
        prompt = self._workbench.prompt
        found = [await asyncio.to_thread(read_picture, Path(name)) for name in names]
        problems = [each for each in found if isinstance(each, str)]
        if problems:
            self._workbench.say("; ".join(problems), "error")
        tokens = [prompt.folds.add_image(each) for each in found if isinstance(each, Image)]
        prompt.replace_text(" ".join((*tokens, text or prompt.text)))
        if tokens:
            self._warn_if_blind()

    async def _image(self, _: str) -> None:
        found = await asyncio.to_thread(clipboard_picture)
        if isinstance(found, str):
            self._workbench.say(found, "warning")
            return
        self._workbench.prompt.insert(f"{self._workbench.prompt.folds.add_image(found)} ")
        self._warn_if_blind()

    def _warn_if_blind(self) -> None:
        """Say so where the model in use is known to see no pictures; where nobody knows, they are sent."""
        active = self._workbench.active
        if active is not None and active.facts.model.is_blind:
            self._workbench.say(
                f"{active.facts.model.name} cannot read images; choose another model before you send", "warning"
            )

    def _unfold(self, _: str) -> None:
        if not self._workbench.prompt.unfold():
            self._workbench.say("no folded paste under the cursor")

    async def _edit(self, _: str) -> None:
        """Let the user's editor write the prompt's text; what it does not save changes nothing."""
        prompt = self._workbench.prompt
        await prompt.settle()
        path = await asyncio.to_thread(_make_file, prompt.text)
        try:
            if await open_editor(self._workbench.app, path, say=lambda text: self._workbench.say(text, "error")):
                prompt.replace_text(await asyncio.to_thread(_text_of, path))
        except OSError as error:
            self._workbench.say(f"the text could not be read back: {error.strerror}", "error")
        finally:
            await asyncio.to_thread(path.unlink, missing_ok=True)
            prompt.focus()


def _make_file(text: str) -> Path:
    """Make a file that only its owner can read."""
    fd, name = tempfile.mkstemp(prefix="lmtui-", suffix=".md")
    with os.fdopen(fd, "w", encoding="utf-8", errors="replace") as file:
        file.write(text)
    return Path(name)


def _text_of(path: Path) -> str:
    return path.read_text("utf-8", errors="replace").rstrip("\n")
