from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmtui.features.front_matter import allowed_rules
from lmtui.features.skills.reader import MAX_DESCRIPTION_CHARS, BrokenSkill, read_skill
from lmtui.tools.registry import ToolRegistry

CANONICAL = ToolRegistry().canonical
LINES = st.sampled_from([
    "---", "name: a", "description: b: c", "allowed-tools: [Read, {a: b}]", "- x", "&a *a",
    "? !!python/object:os.system x", "|", "\t", "{",
])  # fmt: skip


def front(text: str, body: str = "Do it.") -> bytes:
    return f"---\n{text}\n---\n{body}\n".encode()


def test_a_skill_is_read() -> None:
    found = read_skill(front("name: tidy-up\ndescription: Tidy.\nlicense: MIT\nallowed-tools: Read Bash(git:*)"), "tidy-up")
    assert (found.name, found.description, found.body) == ("tidy-up", "Tidy.", "Do it.")
    assert (found.allowed, found.warnings) == ("Read Bash(git:*)", ())


@pytest.mark.parametrize("text", [
    "name: a\ndescription: Use when: it rains",
    'name: a\ndescription: Use when: it\'s raining, "hard"',
    "name: a\ndescription: >\n  Use when:\n  it rains",
    "name: a\ndescription: 'Use when: it rains'\nmetadata:\n  when: 2025-13-45",
    "\ufeffname: a\ndescription: Use when: it rains",
])  # fmt: skip
def test_colons_in_a_description_are_taken_as_they_were_meant(text: str) -> None:
    found = read_skill(front(text.removeprefix("\ufeff")), "a")
    assert found.description.startswith("Use when: it")


@pytest.mark.parametrize(("data", "line", "why"), [
    (b"# A skill\n", 1, "does not begin"), (b"---\nname: a\n", 1, "no end"),
    (front("name: a"), 2, "no description"), (front("- a\n- b"), 2, "key: value"),
    (front("name: a\ndescription: [b"), 3, "expected"),
    (front("name: a\nmore: {x: [}\ndescription: b"), 3, "expected"), (front("[" * 3000), 2, ""),
    (front("a: b\n" * 5000), 2, "characters"),
])  # fmt: skip
def test_a_front_matter_that_cannot_be_read_says_where_and_why(data: bytes, line: int, why: str) -> None:
    with pytest.raises(BrokenSkill) as found:
        _ = read_skill(data, "a")
    assert why in str(found.value)
    assert found.value.line == line


@pytest.mark.parametrize(("text", "name", "warning"), [
    ("name: Tidy Up\ndescription: b", "Tidy-Up", "is not made of"),
    ("name: other\ndescription: b", "other", "not that of its folder"),
    ("description: b", "tidy", "goes by its folder's"),
    ("name: a--b\ndescription: b", "a--b", "is not made of"),
    (f"name: tidy\ndescription: {'b' * 2000}", "tidy", "more than 1,024"),
])  # fmt: skip
def test_what_is_wrong_and_harmless_warns_and_loads(text: str, name: str, warning: str) -> None:
    found = read_skill(front(text), "tidy")
    assert found.name == name
    assert len(found.description) <= MAX_DESCRIPTION_CHARS
    assert any(warning in each for each in found.warnings)


@pytest.mark.parametrize(("front", "allowed"), [
    ("", None), ("allowed-tools:\n", ""), ("allowed-tools: ''\n", ""), ("tools: []\n", ""),
    ("allowed_tools: {Read: yes}\n", ""), ("allowed-tools: [[Read]]\n", ""),
    ("allowed-tools: Read\n", "Read"), ("allowed-tools:\ntools: Read\n", ""),
])  # fmt: skip
def test_a_key_for_tools_that_is_there_limits_to_what_it_names(front: str, allowed: str | None) -> None:
    found = read_skill(f"---\nname: tidy\ndescription: Tidy up.\n{front}---\nDo it.\n".encode(), "tidy")
    assert found.allowed == allowed
    assert any("names no tool" in warning for warning in found.warnings) is (allowed == "")


@pytest.mark.parametrize(("name", "folder"), [('a"><persona from="x', "tidy"), ("", 'a"><persona from="x')])
def test_a_name_can_stand_in_quotes(name: str, folder: str) -> None:
    text = f"---\nname: {name}\ndescription: Tidy up.\n---\nDo it.\n"
    assert read_skill(text.encode(), folder).name == "a---persona-from--x"


def test_an_empty_body_warns_and_control_characters_are_gone() -> None:
    found = read_skill(front("name: a\ndescription: b\x1b[2Jc", ""), "a")
    assert "\x1b" not in found.description
    assert found.warnings == ("it says nothing below its front matter",)


@given(st.one_of(st.binary(max_size=300), st.lists(LINES, max_size=12).map(lambda lines: "\n".join(lines).encode())))
def test_whatever_lies_there_is_a_skill_or_a_broken_one(data: bytes) -> None:
    for text in (data, b"---\n" + data, b"---\n" + data + b"\n---\nbody"):
        with contextlib.suppress(BrokenSkill):
            found = read_skill(text, "a")
            assert found.name
            assert found.description
            assert "\n" not in found.description


@pytest.mark.parametrize(("text", "rules"), [
    ("Read Grep", ("Read", "Grep")),
    ("Read, Bash(git add *), mcp__time__now", ("Read", "Shell(git add *)", "mcp__time__now")),
    ("Bash(git:*)", ("Shell(git *)",)),
    ("Bash(npm run test:*) Edit(src/**)", ("Shell(npm run test *)", "Edit(src/**)")),
    ("MultiEdit NotebookEdit TodoWrite", ("Edit", "Todo_add")),
    ("skill__count_words", ("Skill__count_words",)), ("*", ("*",)), ("", ()),
])  # fmt: skip
def test_words_for_tools_become_rules(text: str, rules: tuple[str, ...]) -> None:
    assert allowed_rules(text, CANONICAL) == (rules, ())


@pytest.mark.parametrize("text", ["Bash(git", "SlashCommand", "Read)", "Bash(a (b))", "(x)", "Bash(git)Read"])
def test_what_is_not_understood_names_nothing_and_warns(text: str) -> None:
    rules, warnings = allowed_rules(text, CANONICAL)
    assert rules == ()
    assert warnings


@given(st.text(alphabet="ab*:, -[\\'", max_size=12), st.sampled_from(["", ")", ") Read", "))"]))
def test_a_pattern_is_never_dropped_from_a_word_for_a_tool(pattern: str, end: str) -> None:
    rules, _ = allowed_rules(f"Bash({pattern}{end}", CANONICAL)
    assert ("Shell" in rules) <= (pattern.strip() in ("", "*") and end in (")", ") Read"))
