from __future__ import annotations

import difflib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmtui.core.errors import SandboxError
from lmtui.core.sanitize import sanitize
from lmtui.engine.file_changes import parse_hunks, take_back

LINES = st.lists(st.sampled_from(["a", "b", "c", "d", "", "@@", "--- x", "+++ y"]), max_size=30)


def diff_of(old: str, new: str) -> str:
    return "\n".join(difflib.unified_diff(old.split("\n"), new.split("\n"), "a/x", "b/x", lineterm=""))


@given(LINES, LINES)
def test_taking_every_hunk_back_from_the_last_on_gives_the_old_text(old_lines: list[str], new_lines: list[str]) -> None:
    old, new = "\n".join(old_lines), "\n".join(new_lines)
    diff = diff_of(old, new)
    text = new
    for index in range(len(parse_hunks(diff)) - 1, -1, -1):
        text = take_back(diff, index, text, old)
    assert text == old


def test_a_hunk_is_found_where_it_has_moved_to() -> None:
    diff = diff_of("1\n2\n3\n4\n5", "1\n2\nX\n4\n5")
    assert take_back(diff, 0, "0\n0\n1\n2\nX\n4\n5", "1\n2\n3\n4\n5") == "0\n0\n1\n2\n3\n4\n5"


def test_lines_that_were_changed_since_are_refused() -> None:
    diff = diff_of("1\n2\n3", "1\nX\n3")
    with pytest.raises(SandboxError, match="changed since"):
        take_back(diff, 0, "1\nY\n3", "1\n2\n3")


def test_lines_that_are_there_twice_and_moved_are_refused() -> None:
    diff = diff_of("1\n2\n3", "1\nX\n3")
    with pytest.raises(SandboxError, match="more than once"):
        take_back(diff, 0, "0\n1\nX\n3\n1\nX\n3", "1\n2\n3")


def test_windows_line_ends_stay() -> None:
    assert take_back(diff_of("1\n2\n3", "1\nX\n3"), 0, "1\r\nX\r\n3", "1\r\n2\r\n3") == "1\r\n2\r\n3"


def test_a_hunk_that_is_not_there_is_named() -> None:
    with pytest.raises(SandboxError, match="no hunk 2"):
        take_back(diff_of("1", "2"), 1, "2", "1")


@pytest.mark.parametrize("line", ["a\u200bb", "a\x1b[31mb", "left\rright", "\u202eabc"])
def test_lines_that_a_diff_cannot_show_as_they_are_are_not_taken_from_it(line: str) -> None:
    old, new = f"1\n{line}\n3", "1\nX\n3"
    with pytest.raises(SandboxError, match="take the whole file back"):
        take_back(sanitize(diff_of(old, new)), 0, new, old)


def test_a_hunk_that_was_cut_off_is_refused() -> None:
    old, new = "\n".join("abcdef"), "\n".join("aXYZf")
    cut = "\n".join(diff_of(old, new).split("\n")[:5])
    with pytest.raises(SandboxError, match="take the whole file back"):
        take_back(cut + "\n…", 0, new, old + "\nmore")


def test_a_change_of_the_last_line_break_is_refused() -> None:
    diff = "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n"
    with pytest.raises(SandboxError, match="take the whole file back"):
        take_back(diff, 0, "a\n", "a")
