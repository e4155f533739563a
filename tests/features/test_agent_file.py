from __future__ import annotations

import pytest

from lmtui.core.subagents import AgentDefinition
from lmtui.features.skills.reader import BrokenSkill, read_agent
from lmtui.tools.registry import ToolRegistry

REVIEWER = """\
---
name: code-reviewer
description: Expert code review specialist. Use immediately after writing or modifying code.
tools: Read, Grep, Glob, Bash
model: sonnet
---

You are a senior code reviewer.

1. Run git diff.
"""


def read(text: str, stem: str = "file") -> AgentDefinition:
    return read_agent(text.encode(), stem, f"{stem}.md", ToolRegistry().canonical)


def front(*lines: str, body: str = "Do it.") -> str:
    return "\n".join(("---", "name: heron", "description: Looks.", *lines, "---", body))


def test_a_file_as_it_is_found_elsewhere_is_read() -> None:
    found = read(REVIEWER)
    assert (found.name, found.place, found.model) == ("code-reviewer", "file.md", "sonnet")
    assert found.description.startswith("Expert code review specialist. Use")
    assert found.allowed == ("Read", "Grep", "Glob", "Shell")
    assert found.instructions == "You are a senior code reviewer.\n\n1. Run git diff."
    assert found.warnings == ()


@pytest.mark.parametrize(("line", "allowed"), [
    ("tools: Read, Edit", ("Read", "Edit")), ("tools: [Read, Edit]", ("Read", "Edit")),
    ("tools:\n  - Read\n  - MultiEdit", ("Read", "Edit")),
    ("tools: Bash(git diff:*), Read", ("Shell(git diff *)", "Read")),
    ("tools: mcp__github__get_issue", ("mcp__github__get_issue",)), ('tools: "*"', ("*",)),
    ("color: blue", None),
])  # fmt: skip
def test_tools_are_a_list_or_words_between_commas(line: str, allowed: tuple[str, ...] | None) -> None:
    assert read(front(line)).allowed == allowed


def test_a_tool_that_is_none_here_names_nothing_and_warns() -> None:
    found = read(front("tools: Read, Telescope"))
    assert found.allowed == ("Read",)
    assert found.warnings == ("its tools name Telescope, which is not a tool here",)
    nothing = read(front("tools: Telescope"))
    assert nothing.allowed == ()
    assert "its tools name no tool here, so it may call none" in nothing.warnings


def test_denied_tools_are_read_and_what_is_not_read_is_named() -> None:
    found = read(front("disallowedTools: Write, Edit", "permissionMode: plan", "maxTurns: 5"))
    assert (found.allowed, found.denied) == (None, ("Write", "Edit"))
    assert found.warnings == ("its permissionMode is not read", "its maxTurns is not read")


@pytest.mark.parametrize(("given", "model"), [("inherit", ""), ("Inherit", ""), ("qwen3-coder:30b", "qwen3-coder:30b")])
def test_model_is_a_name_or_the_parents(given: str, model: str) -> None:
    assert read(front(f"model: {given}")).model == model


def test_description_with_colons_and_written_line_breaks_becomes_a_line() -> None:
    text = '---\nname: t\ndescription: Use it. Examples: user: "hi"\\n\\nAlways: yes\ntools: Read\n---\nBody'
    assert read(text).description == 'Use it. Examples: user: "hi" Always: yes'


def test_without_a_name_it_goes_by_its_files_and_control_characters_are_taken_out() -> None:
    found = read("---\ndescription: Looks.\n---\nDo.", "heron")
    assert (found.name, found.warnings) == ("heron", ("it has no name, so it goes by its file's",))
    odd = read('---\nname: "Big\x1b[31m Heron\u202e"\ndescription: "a\x07b"\n---\nDo\x1b]0;x\x07 it.')
    assert not set(odd.name + odd.description + odd.instructions) & set("\x1b\x07\u202e")
    assert " " not in odd.name


@pytest.mark.parametrize(("text", "line", "why"), [
    ("# Our agents", 1, "does not begin with"), ("---\nname: a\n", 1, "has no end"),
    ("---\nname: a\ndescription: [open\n---\nDo.", 3, "expected"),
    ("---\nname: a\n---\nDo.", 2, "no description"),
    ("---\nname: a\ndescription: b\n---\n", 2, "no instructions"),
])  # fmt: skip
def test_what_cannot_be_read_says_where_and_why(text: str, line: int, why: str) -> None:
    with pytest.raises(BrokenSkill, match=why) as raised:
        read(text)
    assert raised.value.line == line
