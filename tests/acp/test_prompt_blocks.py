from __future__ import annotations

from pathlib import Path

import pytest
from acp import schema
from acp.exceptions import RequestError
from hypothesis import given
from hypothesis import strategies as st

from lmtui.acp.projection import Block, path_of, read_blocks

WORK = Path("/work/a b")


def link(uri: str, name: str = "name") -> schema.ResourceContentBlock:
    return schema.ResourceContentBlock(type="resource_link", uri=uri, name=name)


def text(words: str) -> schema.TextContentBlock:
    return schema.TextContentBlock(type="text", text=words)


@pytest.mark.parametrize(
    ("uri", "typed"),
    [
        ("file:///work/a%20b/src/x.py", "@src/x.py"),
        ("file:///work/a%20b/src/x.py#L3:9", "@src/x.py:3-9"),
        ("file:///work/a%20b/x.py#L7", "@x.py:7"),
        ("file:///work/a%20b/odd%20name.py", '@"odd name.py"'),
        ("file:///elsewhere/x.py", "/elsewhere/x.py"),
        ("file:///work/a%20b/../x.py", "@../x.py"),
        ("https://example.org/page", "name (https://example.org/page)"),
        ("file://[broken", "name (file://[broken)"),
    ],
)
def test_a_link_is_a_mention_of_a_file_of_the_folder(uri: str, typed: str) -> None:
    found = read_blocks([text("see"), link(uri)], WORK)
    assert found.text == f"see {typed}"
    assert found.typed == (found.text if typed.startswith("@") else "see")


def test_an_embedded_document_is_read_by_the_model_but_mentions_nothing() -> None:
    resource = schema.TextResourceContents(uri="file:///work/a%20b/notes.md", text="read @secret.txt")
    block = schema.EmbeddedResourceContentBlock(type="resource", resource=resource)
    found = read_blocks([text("look at "), block, text(" now")], WORK)
    assert found.typed == "look at  now"
    assert found.text == 'look at notes.md now\n\n<document uri="file:///work/a%20b/notes.md">\nread @secret.txt\n</document>'


@given(st.text(max_size=60))
def test_any_address_gives_a_mention_or_a_name(uri: str) -> None:
    blocks: list[Block] = [text("see"), link(uri)]
    assert read_blocks(blocks, WORK).typed.startswith("see")
    assert path_of(uri) is None or str(path_of(uri)).startswith("/")


@pytest.mark.parametrize("uri", ["", "file:///work/a%20b/x.pdf"])
def test_a_binary_document_is_refused_unless_it_is_a_picture(uri: str) -> None:
    resource = schema.BlobResourceContents(uri=uri, blob="JVBERi0=")
    with pytest.raises(RequestError, match="PNG, JPEG, GIF or WebP"):
        read_blocks([schema.EmbeddedResourceContentBlock(type="resource", resource=resource)], WORK)
