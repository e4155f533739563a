"""What a call to a server's tool brings, as the model gets it: texts in order, pictures beside them, the rest in words."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence

from mcp import types

from lmtui.core.clean import clean, clean_line
from lmtui.core.pictures import MAX_IMAGE_BYTES, MAX_IMAGES, Image, sniff
from lmtui.core.ports import ToolResult

_NOTHING = "(the tool returned nothing)"
_EMPTY = "(it is empty)"
_MOST_CHARS = 1_000_000
_MOST_BLOCKS = 200
_Contents = types.TextResourceContents | types.BlobResourceContents


def as_result(tool: str, found: types.CallToolResult) -> ToolResult:
    """Return a result; what the server calls an error is one."""
    texts: list[str] = []
    images: list[Image] = []
    for block in found.content:
        text, image = _block(tool, block, len(images))
        texts.append(text)
        images += [image] if image is not None else []
    text = "\n".join(texts)
    structured = _structured(found, text)
    text = clean("\n".join(filter(None, (text, structured)))) or _NOTHING
    summary = clean_line(next((line for line in text.splitlines() if line.strip()), ""))[:80]
    return ToolResult(text, summary, ok=not found.is_error, images=tuple(images))


def as_prompt(name: str, found: types.GetPromptResult) -> ToolResult:
    """Return what a prompt says; where the model speaks in it too, who says what stands before it."""
    speakers = [message.role for message in found.messages]
    names = ["" if "assistant" not in speakers else f"[{speaker}] " for speaker in speakers]
    return _joined(name, [(who, each.content) for who, each in zip(names, found.messages, strict=True)])


def as_resource(name: str, found: types.ReadResourceResult) -> ToolResult:
    """Return what a resource holds."""
    return _joined(name, [("", each) for each in found.contents])


def _joined(name: str, parts: Sequence[tuple[str, types.ContentBlock | _Contents]]) -> ToolResult:
    texts: list[str] = []
    images: list[Image] = []
    for who, part in parts[:_MOST_BLOCKS]:
        if isinstance(part, types.TextResourceContents | types.BlobResourceContents):
            text, image = _resource(name, part, len(images))
        else:
            text, image = _block(name, part, len(images))
        texts.append(f"{who}{text}")
        images += [image] if image is not None else []
    if len(parts) > _MOST_BLOCKS:
        texts.append(f"[left out: {len(parts) - _MOST_BLOCKS:,} more parts]")
    text = "\n".join(texts)
    left = len(text) - _MOST_CHARS
    text = clean(text[:_MOST_CHARS]) + (f"\n[left out: {left:,} more characters]" if left > 0 else "")
    return ToolResult(text or _EMPTY, clean_line(text[:80]), images=tuple(images))


def _structured(found: types.CallToolResult, text: str) -> str:
    """Return the structured content, unless a text says the same (servers repeat it there for older clients)."""
    if found.structured_content is None:
        return ""
    try:
        if text.strip() and json.loads(text) == found.structured_content:
            return ""
    except (ValueError, RecursionError):
        pass
    content = found.structured_content
    if isinstance(content, dict) and list(content) == ["result"] and str(content["result"]).strip() == text.strip():
        return ""
    return json.dumps(content, ensure_ascii=False)


def _block(tool: str, block: types.ContentBlock, shown: int) -> tuple[str, Image | None]:
    """Return a block in words, and its picture where it is one that can be shown."""
    if isinstance(block, types.TextContent):
        return block.text, None
    if isinstance(block, types.ImageContent):
        return _picture(tool, block.data, block.mime_type, shown)
    if isinstance(block, types.AudioContent):
        return f"[a sound, {block.mime_type}, {_size(block.data):,} bytes: it cannot be played here]", None
    if isinstance(block, types.ResourceLink):
        about = f": {block.description}" if block.description else ""
        return f"[resource {block.uri} ({block.name}){about}]", None
    return _resource(tool, block.resource, shown, is_named=True)


def _resource(tool: str, resource: _Contents, shown: int, *, is_named: bool = False) -> tuple[str, Image | None]:
    if isinstance(resource, types.TextResourceContents):
        return f"[resource {resource.uri}]\n{resource.text}" if is_named else resource.text, None
    if (resource.mime_type or "").startswith("image/"):
        return _picture(tool, resource.blob, resource.mime_type or "", shown)
    return f"[resource {resource.uri}, {resource.mime_type or 'no type'}, {_size(resource.blob):,} bytes of data]", None


def _picture(tool: str, packed: str, mime_type: str, shown: int) -> tuple[str, Image | None]:
    try:
        data = base64.b64decode(packed, validate=True)
    except (binascii.Error, ValueError):
        return "[a picture that cannot be read: its data is no base64]", None
    media_type = sniff(data)
    if not media_type:
        return f"[a picture of a kind that cannot be shown ({mime_type}, {len(data):,} bytes)]", None
    if len(data) > MAX_IMAGE_BYTES or shown >= MAX_IMAGES:
        return f"[a picture that is left out: {len(data):,} bytes, or more than {MAX_IMAGES} of them]", None
    return f"[picture {shown + 1}, {media_type}, {len(data):,} bytes]", Image(f"{tool} {shown + 1}", media_type, data)


def _size(packed: str) -> int:
    return len(packed) * 3 // 4
