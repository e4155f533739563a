from __future__ import annotations

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmtui.core.errors import ToolError
from lmtui.tools.text import decode, describe_change
from tests.sets import for_each


@for_each("data", [
    "plain ä\r\n".encode(), codecs.BOM_UTF8 + "bom ä\n".encode(), codecs.BOM_UTF16_LE + "wide ä\n".encode("utf-16-le"),
    codecs.BOM_UTF16_BE + "wide ä\n".encode("utf-16-be"), "latin ä\n".encode("latin-1"), b"",
])  # fmt: skip
def test_text_goes_back_to_the_same_bytes(data: bytes) -> None:
    file = decode(data)
    assert file is not None
    assert file.encode(file.text) == data


TEXT = st.lists(st.sampled_from(["a", "b", "c", "dd", ""]), max_size=30).map(
    lambda lines: "".join(f"{line}\n" for line in lines)
)


def patched(old: str, diff: str) -> str:
    """Apply a unified diff strictly: every hunk where its header says, every line as it is told."""
    lines, out, at = old.splitlines(), list[str](), 0
    for line in diff.splitlines()[2:]:
        if line.startswith("@@"):
            span = line.split()[1].removeprefix("-").split(",")
            start = int(span[0]) - (span[-1] != "0" or len(span) == 1)
            out += lines[at:start]
            at = start
            continue
        if line[0] in " -":
            assert lines[at] == line[1:], line
            at += 1
        if line[0] in " +":
            out.append(line[1:])
    return "".join(f"{line}\n" for line in [*out, *lines[at:]])


@given(TEXT, TEXT)
def test_the_diff_turns_the_old_text_into_the_new(old: str, new: str) -> None:
    change = describe_change("f", old, new)
    if old == new:
        assert change.diff == ""
        return
    assert patched(old, change.diff) == new
    assert change.added_lines - change.removed_lines == new.count("\n") - old.count("\n")


def test_a_bad_byte_stays_and_its_file_stays_utf8() -> None:
    data = "é and – and ü, good text, ".encode() * 20 + b"\xff bad\n"
    file = decode(data)
    assert file is not None
    assert (file.encoding, file.encode(file.text)) == ("utf-8", data)
    assert file.encode(file.text.replace("bad", "– fine")) == data.replace(b"bad", "– fine".encode())


def test_bytes_that_are_no_text_are_told_and_those_that_fit_no_encoding_refused() -> None:
    assert decode(b"\x89PNG\r\n\x1a\n\x00\x00") is None
    file = decode("ä\n".encode("latin-1"))
    assert file is not None
    with pytest.raises(ToolError, match="latin-1 and cannot hold '€'"):
        file.encode("€")


def test_a_long_diff_is_cut_unless_it_is_to_be_approved() -> None:
    new = "".join(f"line {number}\n" for number in range(9000)) + "the end\n"
    assert "the end" not in describe_change("f", None, new).diff
    assert "+the end" in describe_change("f", None, new, is_whole=True).diff
