"""The content blocks of a prompt as a task: text, mentions of files, embedded documents and pictures.  Pure."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from acp import schema
from acp.exceptions import RequestError

from lmtui.core.errors import UsageError
from lmtui.core.messages import MAX_IMAGES, Image, picture
from lmtui.core.prompt_text import mention_text
from lmtui.core.sanitize import sanitize_line

Block = (
    schema.TextContentBlock
    | schema.ImageContentBlock
    | schema.AudioContentBlock
    | schema.ResourceContentBlock
    | schema.EmbeddedResourceContentBlock
)
_LINES = re.compile(r"L?(\d{1,9})(?:[:-]L?(\d{1,9}))?\Z")


@dataclass(slots=True)
class PromptText:
    """A task: `typed` is what the user wrote, with mentions; `text` has what else they name, and the embedded documents."""

    typed: str = ""
    named: str = ""
    documents: list[str] = field(default_factory=list)
    images: list[Image] = field(default_factory=list)

    @property
    def text(self) -> str:
        """Return all that the model reads."""
        return "\n\n".join(part for part in (self.named, *self.documents) if part)


def read_blocks(blocks: Sequence[Block], workspace: Path) -> PromptText:
    """Return the task that some blocks are.

    Raises:
        RequestError: there is nothing in them, or something that lmtui does not take.
    """
    found = PromptText()
    for block in blocks:
        match block:
            case schema.TextContentBlock(text=text):
                found.typed, found.named = found.typed + text, found.named + text
            case schema.ResourceContentBlock(uri=uri, name=name):
                link = _link(uri, name, workspace)
                found.typed += _beside(found.typed, link) if path_of(uri) and link.startswith("@") else ""
                found.named += _beside(found.named, link)
            case schema.EmbeddedResourceContentBlock(resource=schema.TextResourceContents(uri=uri, text=text)):
                found.named += _beside(found.named, _named(uri, workspace))
                found.documents.append(f'<document uri="{sanitize_line(uri)}">\n{text}\n</document>')
            case schema.EmbeddedResourceContentBlock(resource=schema.BlobResourceContents(uri=uri, blob=blob)):
                _add_image(found, blob, uri)
            case schema.ImageContentBlock(data=data, uri=uri):
                _add_image(found, data, uri or "")
            case schema.AudioContentBlock():
                raise _refused("audio is not supported")
            case _:
                raise _refused("this content block is not supported")
    if not found.text.strip() and not found.images:
        raise _refused("the prompt is empty")
    return found


def _refused(why: str) -> RequestError:
    return RequestError(-32602, f"Invalid prompt: {why}.")


def _beside(before: str, text: str) -> str:
    return text if not before or before[-1].isspace() else f" {text}"


def _link(uri: str, name: str, workspace: Path) -> str:
    """Return a link as a mention, which attaches the file, where it is one of the workspace."""
    path = path_of(uri)
    if path is None:
        return f"{sanitize_line(name)} ({sanitize_line(uri)})"
    lines = _LINES.match(urlsplit(uri).fragment)
    if not path.is_relative_to(workspace):
        return str(path)
    shown = mention_text(path.relative_to(workspace).as_posix())
    if lines is None or shown == "@.":
        return shown
    return f"{shown}:{lines[1]}" + (f"-{lines[2]}" if lines[2] else "")


def _named(uri: str, workspace: Path) -> str:
    """Return how an embedded document is called in the text: without a mention, as its text is there already."""
    path = path_of(uri)
    if path is None:
        return sanitize_line(uri)
    return path.relative_to(workspace).as_posix() if path.is_relative_to(workspace) else str(path)


def path_of(uri: str) -> Path | None:
    """Return the file that an address names, None for any other address."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    path = unquote(parts.path)
    if parts.scheme not in ("file", "") or not path.startswith("/") or "\0" in path:
        return None
    return Path(path)


def _add_image(found: PromptText, data: str, uri: str) -> None:
    if len(found.images) >= MAX_IMAGES:
        raise _refused(f"at most {MAX_IMAGES} pictures")
    path = path_of(uri) if uri else None
    try:
        content = base64.b64decode(data, validate=True)
        found.images.append(picture(path.name if path else f"picture {len(found.images) + 1}", content))
    except ValueError as error:
        raise _refused("a picture is not valid base64") from error
    except UsageError as error:
        raise _refused(sanitize_line(str(error))) from error
