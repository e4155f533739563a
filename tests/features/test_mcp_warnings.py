from __future__ import annotations

import pytest

from lmtui.features.mcp.mcp_config import KEYS, entry_warnings, file_warning


@pytest.mark.parametrize(
    ("key", "near"),
    [("netwrk", "network"), ("Command", "command"), ("toolchain", "toolchains"), ("timeout", "timeout_s"), ("envs", "env")],
)
def test_a_key_that_is_not_known_is_named_with_the_nearest_one(key: str, near: str) -> None:
    assert entry_warnings("a", {"command": "x", key: 1}) == (f'the key "{key}" is not known: did you mean "{near}"?',)


def test_a_key_like_no_other_is_said_to_be_passed_over() -> None:
    assert entry_warnings("a", {"zzz\x1b[2J": 1}) == ('the key "zzz" is not known; it is passed over',)


def test_what_is_known_and_what_other_programs_say_to_people_is_no_warning() -> None:
    assert entry_warnings("a-b_C9", {**dict.fromkeys(KEYS, 1), "description": "x", "autoApprove": []}) == ()


def test_many_unknown_keys_are_counted() -> None:
    found = entry_warnings("a", {f"qqq{number}": 1 for number in range(9)})
    assert (len(found), found[-1]) == (6, "and 4 more keys that are not known")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "my server",
            "its name has other signs than letters, digits, _ and -: its tools, and rules for them, are called mcp__",
        ),
        ("a.b", "other signs"),
        ("zürich", "other signs"),
        ("a__b", "other signs"),
        ("a-very-long-name-of-a-server-indeed", "is too long for names of tools"),
    ],
)
def test_an_odd_name_says_what_its_tools_are_called(name: str, words: str) -> None:
    (found,) = entry_warnings(name, {})
    assert words in found


@pytest.mark.parametrize(("found", "words"), [
    ({"mcpServer": {}}, 'did you mean "mcpServers"?'),
    ({"servers": {}}, 'did you mean "mcpServers"?'), ({"inputs": []}, ""),
    ({"mcpServers": {}, "mcpServer": {}}, ""), ({}, ""),
])  # fmt: skip
def test_a_file_whose_one_key_is_misspelt_says_so(found: dict[str, object], words: str) -> None:
    assert words in file_warning(found)
    assert bool(words) == bool(file_warning(found))
