from __future__ import annotations

import re
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmtui.core.errors import UsageError
from lmtui.core.permissions.path_patterns import (
    WILDCARDS,
    alternatives,
    can_be_below,
    escape,
    matches,
    normalize,
    regex,
    secret_regex,
)
from lmtui.core.permissions.rules import (
    Effect,
    Rule,
    escape_glob,
    literal_of,
    masking_patterns,
    matches_glob,
    parse_rule,
    revealing_patterns,
)
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
    ("*.{{js,ts},{jsx,tsx},{json,yaml},{md,txt},{c,h}}", "a.md", True),
])  # fmt: skip
def test_a_pattern_is_read(pattern: str, path: str, expected: bool) -> None:
    assert matches(normalize(pattern), path) is expected


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
    assert literal_of(pattern, WILDCARDS) == path
    assert (matches(pattern, path), matches(pattern, path + "x")) == (True, False)
    assert len(alternatives(pattern)) == 1


@for_each(("pattern", "folder", "expected"), [
    ("secrets/**", ".", True), ("secrets/**", "", True), ("secrets/**", "secrets", True),
    ("secrets/**", "secrets/deep/er", True), ("secrets/**", "src", False), ("a/b/*.key", "a", True),
    ("a/b/*.key", "a/c", False), ("a/b/*.key", "a/b/c", False), ("**/*.key", "src/deep", True), ("*.key", "src", False),
    ("s*/x", "src", True), ("*", "src", True),
])  # fmt: skip
def test_a_pattern_that_can_match_below_a_folder_is_known(pattern: str, folder: str, expected: bool) -> None:
    assert can_be_below(pattern, folder) is expected


@given(st.text("ab*?", max_size=6), st.text("ab", max_size=8))
def test_a_glob_matches_as_a_plain_reading_of_it(pattern: str, text: str) -> None:
    plain = "".join({"*": ".*", "?": "."}.get(char, char) for char in pattern)
    assert matches_glob(pattern, text) is (re.fullmatch(plain, text) is not None)


@given(st.text(max_size=12))
def test_an_escaped_text_matches_itself_alone(text: str) -> None:
    assert literal_of(escape_glob(text)) == text
    assert matches_glob(escape_glob(text), text)
    assert not matches_glob(escape_glob(text), text + "x")
    assert matches_glob(f"{escape_glob(text)}*", text + "x")


def test_a_glob_has_no_literal_text_and_no_number_of_stars_takes_long() -> None:
    assert [literal_of(pattern) for pattern in ("a*", "a?", "[a]", r"\*", r"\\*", "a")] == [None, None, None, "*", None, "a"]
    began = time.process_time()
    assert not matches_glob("*e" * 40 + "z", "e" * 50_000)
    assert not matches_glob("*" * 1000 + "z", "e" * 50_000)
    assert time.process_time() - began < 1


def rules(*texts: str) -> tuple[Rule, ...]:
    split = (text.partition(" ") for text in texts)
    return tuple(parse_rule(rule, Effect(effect), "settings") for effect, _, rule in split)


def hides(source: str, path: str) -> bool:
    return re.compile(source.encode("ascii")).match(path.encode()) is not None


@for_each(("patterns", "rule", "expected"), [
    *((masking_patterns, *row) for row in (
    ("deny Read(./secrets/**)", ("secrets/**",)), ("deny Grep(/secrets/)", ("/secrets",)), ("deny *(a)", ("a",)),
    ("deny Read", ()), ("ask Read(a)", ()), ("allow Read(a)", ()), ("deny Write(a)", ()), ("deny Shell(cat a)", ()),
    )),
    *((revealing_patterns, *row) for row in (
    ("allow Read(.env)", (".env",)), ("allow Read(**/*.pem)", ("**/*.pem",)),
    ("allow Read(conf/{.env,.env.*})", ("conf/{.env,.env.*}",)), ("allow Read(src/**)", ()), ("allow Read(*.toml)", ()),
    ("allow Read", ()), ("allow Write(.env)", ()),
    )),
])  # fmt: skip
def test_masks_come_from_deny_rules_for_reading_and_only_rules_that_name_secrets_reveal_them(
    patterns: Callable[[tuple[Rule, ...]], tuple[str, ...]], rule: str, expected: tuple[str, ...]
) -> None:
    assert patterns(rules(rule)) == expected


def test_a_mask_covers_what_is_in_a_folder() -> None:
    assert matches("sec*", "secrets/k", covers_below=True)
    assert not matches("sec*", "secrets/k")
    source = regex(masking_patterns(rules("deny Read(sec*)", "deny Read(a/**)", "deny Read(ä?/[!x])")))
    for path in ("secrets/", "secrets/k/l", "sec", "a/b", "a/b/c", "äö/y"):
        assert hides(source, path), path
    for path in ("x/secrets", "a/", "ab", "äö/x", "äöö/y"):
        assert not hides(source, path), path
    assert not hides(regex(()), "a")


@for_each(
    "path", [".env", "a/.ENV", "a/.env.local", "id_rsa", "a/b/k.pem", ".ssh/", "a/.aws/x", ".kube/config", "credentials.json"]
)
def test_the_secret_mask_covers_secret_files(path: str) -> None:
    assert hides(secret_regex(), path)


@for_each(
    "path",
    [".env.example", "a/.env.sample", "id_rsa.pub", "credentials.py", "src/credentials/", "src/credentials/a.txt", "main.py"]
    + [f"x/{each}/k.pem" for each in ("node_modules", ".venv", "venv", "site-packages", ".tox", "__pycache__", "vendor")]
    + [f"{each}/a/.env" for each in ("target", ".cargo", "go/pkg")],
)
def test_the_secret_mask_leaves_public_files_and_dependencies(path: str) -> None:
    assert not hides(secret_regex(), path)


def test_no_pattern_takes_more_than_linear_time() -> None:
    hostile = ("deny Read(**/" + "*a/**/" * 20 + "z*b*c*d)", "deny Read(" + "*e" * 40 + "z)", "deny Read(" + "**/" * 30 + "x)")
    source = re.compile(regex(masking_patterns(rules(*hostile))).encode())
    began = time.process_time()
    for path in (b"a/" * 20_000, b"e" * 40_000, b"zbcd/" * 8_000):
        source.match(path)
        re.compile(secret_regex().encode()).match(path)
    assert time.process_time() - began < 1
