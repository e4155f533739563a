"""What comes into the prompt from outside: dropped files, pictures, the text of an editor; and pastes unfolded again."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from lmtui.core.pictures import Image
from lmtui.tui import pasting
from lmtui.tui.editor import open_editor
from lmtui.tui.parts.sending import Sending
from lmtui.tui.stage import Handler, Stage


class PastingPart:
    """Answers the commands about what is in the prompt."""

    def __init__(self, stage: Stage, sending: Sending) -> None:
        self._stage = stage
        self._sending = sending

    def handlers(self) -> dict[str, Handler]:
        """Return what answers each command."""
        return {"prompt.editor": self._edit, "prompt.image": self._image, "prompt.unfold": self._unfold}

    async def pasted(self, text: str) -> None:
        """Put mentions and tokens in place of a pasted text that names files."""
        host, prompt = self._stage.desk.host, self._stage.prompt
        if host is None or not pasting.paths_in(text):
            return
        mentions, paths = await asyncio.to_thread(pasting.mentions_of, text, host.workspace)
        images = [await asyncio.to_thread(pasting.read_picture, path) for path in paths]
        problems = [image for image in images if isinstance(image, str)]
        if problems:
            self._stage.say("; ".join(problems), "error")
            return
        tokens = [prompt.folds.add_image(image) for image in images if isinstance(image, Image)]
        words = " ".join((*([mentions] if mentions else []), *tokens))
        if words and prompt.replace_last(text, f"{words} ") and tokens:
            self._warn_if_blind()

    async def attach(self, names: Sequence[str], text: str) -> None:
        """Begin the prompt with pictures and a text; what is no picture is said."""
        prompt = self._stage.prompt
        found = [await asyncio.to_thread(pasting.read_picture, Path(name)) for name in names]
        problems = [each for each in found if isinstance(each, str)]
        if problems:
            self._stage.say("; ".join(problems), "error")
        tokens = [prompt.folds.add_image(each) for each in found if isinstance(each, Image)]
        prompt.replace_text(" ".join((*tokens, text or prompt.text)))
        if tokens:
            self._warn_if_blind()

    async def _image(self, _: str) -> None:
        found = await asyncio.to_thread(pasting.clipboard_picture)
        if isinstance(found, str):
            self._stage.say(found, "warning")
            return
        self._stage.prompt.insert(f"{self._stage.prompt.folds.add_image(found)} ")
        self._warn_if_blind()

    def _warn_if_blind(self) -> None:
        """Say so where the model in use is known to see no pictures; where nobody knows, they are sent."""
        active = self._stage.desk.active
        if active is not None and active.facts.is_blind:
            self._stage.say(f"{active.facts.model} sees no pictures; choose another model before you send", "warning")

    def _unfold(self, _: str) -> None:
        if not self._stage.prompt.unfold():
            self._stage.say("no folded paste here")

    async def _edit(self, _: str) -> None:
        """Let the user's editor write the prompt's text; what it does not save changes nothing."""
        prompt = self._stage.prompt
        await prompt.settle()
        path = await asyncio.to_thread(_make_file, prompt.text)
        try:
            if await open_editor(self._stage.app, path, say=lambda text: self._stage.say(text, "error")):
                prompt.replace_text(await asyncio.to_thread(_text_of, path))
        except OSError as error:
            self._stage.say(f"the text could not be read back: {error.strerror}", "error")
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
