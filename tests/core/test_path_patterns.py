from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmtui.core.errors import UsageError
from lmtui.core.permissions.path_patterns import alternatives, can_be_below, escape, literal, matches, normalize
from tests.sets import for_each

PARTS = st.one_of(st.just("**"), st.text("ab?*é", min_size=1, max_size=4).filter(lambda part: "**" not in part))


@given(st.lists(PARTS, min_size=1, max_size=5), st.lists(st.text("abé", min_size=1, max_size=3), min_size=1, max_size=5))
def test_the_matcher_agrees_with_a_plain_reading_of_the_pattern(parts: list[str], names: list[str]) -> None:
    one = {"*": "[^/]*", "?": "[^/]"}
    plain = "".join(
        "(?:[^/]+/)*" if part == "**" else "".join(one.get(char, re.escape(char)) for char in part) + "/" for part in parts
    )
    plain += "[^/]+/" if parts[-1] == "**" else ""
    plain += "" if "*" in parts[-1] and parts[-1] != "**" else "(?:.*/)?"
    pattern, path = normalize("/".join(parts)), "/".join(names)
    if pattern != "*":
        assert matches(pattern, path) is (re.fullmatch(plain, path + "/") is not None)


@for_each("pattern", ["./secrets/**", "/secrets/**", "secrets", "secrets/", "secret[s]/**", "{secrets,x}/**"])
def test_every_way_to_write_a_folder_means_what_is_in_it(pattern: str) -> None:
    assert matches(normalize(pattern), "secrets/deep/key")
    assert not matches(normalize(pattern), "secrets2/key")


@for_each(("pattern", "path", "expected"), [
    ("[a-c]x", "bx", True), ("[!a-c]x", "bx", False), ("[^a]", "é", True), ("[éa]", "é", True),
    ("a{,.bak}", "a.bak", True), ("{a/{b,c},d}/*.py", "a/c/x.py", True), ("{a/{b,c},d}/*.py", "d/x.py", True),
    ("{a/{b,c},d}/*.py", "a/x.py", False), (r"\[id\]/x", "[id]/x", True), ("src/*", "src/a/b", False),
    (".", "a/b", True), ("*", "a/b", True), ("a/./b//c", "a/b/c", True),
])  # fmt: skip
def test_a_pattern_is_read(pattern: str, path: str, expected: bool) -> None:
    assert matches(normalize(pattern), path) is expected


def test_a_rule_that_covers_below_covers_what_a_matched_folder_holds() -> None:
    assert matches("sec*", "secrets/k", covers_below=True)
    assert not matches("sec*", "secrets/k")


@for_each(
    "pattern",
    ["", "..", "a/../b", "a/..", "[", "a[b", "[]", "[z-a]", "[а-я]", "[a/b]", "[[:alpha:]]", "{a", "a}", "{a}", "a**", "***",
     "a\\b", "a\\", "~/x", "!a", "'a'", '"a"', " a", "a ", "a\0b", "{a,..}", "{" + "a," * 65 + "}", "a" * 5000],
)  # fmt: skip
def test_what_is_not_a_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(UsageError):
        normalize(pattern)


@given(
    st.text(min_size=1, max_size=12).filter(lambda text: set(text) - set("./\0") and not {"", ".", ".."} & set(text.split("/")))
)
def test_an_escaped_path_matches_itself_alone(path: str) -> None:
    if "\0" in path:
        return
    pattern = normalize(escape(path))
    assert literal(pattern) == path
    assert matches(pattern, path)
    assert not matches(pattern, path + "x")
    assert len(alternatives(pattern)) == 1


@for_each(("pattern", "folder", "expected"), [
    ("secrets/**", ".", True), ("secrets/**", "", True), ("secrets/**", "secrets", True),
    ("secrets/**", "secrets/deep/er", True), ("secrets/**", "src", False), ("a/b/*.key", "a", True),
    ("a/b/*.key", "a/c", False), ("a/b/*.key", "a/b/c", False), ("**/*.key", "src/deep", True), ("*.key", "src", False),
    ("s*/x", "src", True), ("*", "src", True),
])  # fmt: skip
def test_a_pattern_that_can_match_below_a_folder_is_known(pattern: str, folder: str, expected: bool) -> None:
    assert can_be_below(pattern, folder) is expected
