from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmtui.core.prompt_text import PromptFile, find_prompt
from lmtui.features.folder_consent import FolderTrust
from lmtui.features.front_matter import allowed_rules, read_front
from lmtui.features.slash_commands.prompt_files import MarkdownPrompts, commands_trust
from lmtui.plain_files import LINKED
from lmtui.tools.registry import ToolRegistry
from tests.sets import for_each
from tests.trusting import say


class Places:
    def __init__(self, tmp_path: Path) -> None:
        self.workspace, self.own = tmp_path / "work", tmp_path / "home" / "config" / "commands"
        self.workspace.mkdir()
        self.prompts = MarkdownPrompts(self.workspace, str.lower)

    def put(self, path: str, text: str = "Do it.", *, is_own: bool = False) -> None:
        file = (self.own if is_own else self.workspace / ".lmagent" / "commands") / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def usable(self) -> dict[str, PromptFile]:
        return {file.name: file for file in self.prompts.found() if not file.problem}

    def problems(self) -> dict[str, str]:
        return {file.source: file.problem for file in self.prompts.found() if file.problem}


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(tmp_path)


def test_folders_become_part_of_the_name_and_the_nearer_file_wins(places: Places) -> None:
    places.put("mend.md", "folder's")
    places.put("git/log.md")
    places.put("mend.md", "mine", is_own=True)
    places.put("only.md", "mine", is_own=True)
    places.put("user/only.md")
    found = {name: file.body for name, file in places.usable().items()}
    called = {"mend": "folder's", "user:mend": "mine", "git:log": "Do it.", "only": "mine", "project:user:only": "Do it."}
    assert (found, places.problems()) == (called, {})
    for name in ("mend", "only"):
        prompt = find_prompt(places.prompts.found(), f"/user:{name}")
        assert prompt is not None
        assert prompt.file.body == "mine"


def test_a_place_that_is_a_link_or_behind_one_is_not_walked(places: Places, tmp_path: Path) -> None:
    far = tmp_path / "far"
    (far / "commands").mkdir(parents=True)
    (far / "commands" / "mend.md").write_text("Do it.")
    (places.workspace / ".lmagent").symlink_to(far)
    (places.workspace / ".claude").mkdir()
    (places.workspace / ".claude" / "commands").symlink_to(far / "commands")
    linked = {".lmagent/commands": LINKED, ".claude/commands": LINKED}
    assert (places.problems(), places.usable()) == (linked, {})
    places.own.parent.mkdir(parents=True)
    places.own.symlink_to(far / "commands")
    assert list(places.usable()) == ["mend"], "the user's own may be a link"


@for_each("words", [
    '["Read", "Grep", "Bash(git log:*)"]', '"Read", "Grep", "Bash(git log:*)"', "Read, Grep, Bash(git log:*)",
    "[Read, 'Grep', Bash(git log:*),]",
    '\n  - "Read"\n  - Grep\n  - Bash(git log:*)', '[\n  "Read",\n  "Grep",\n  "Bash(git log:*)"\n]',
    "'Read Grep Bash(git log:*)'",
    """'["Read", "Grep", "Bash(git log:*)"]'""",
])  # fmt: skip
def test_allowed_tools_are_a_list_in_any_form(words: str, tmp_path: Path) -> None:
    folder = tmp_path / ".claude/commands"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "review.md").write_text(f"---\nallowed-tools: {words}\n---\nReview.\n", encoding="utf-16")
    (found,) = MarkdownPrompts(tmp_path, ToolRegistry().canonical).found()
    assert found.allowed == ("Read", "Grep", "Shell(git log *)")
    assert (found.warnings, found.problem) == ((), "")
    allowed, _ = allowed_rules('[Bash(echo "a" b), Bash(git commit -m "x" *)]', ToolRegistry().canonical)
    assert allowed == ('Shell(echo "a" b)', 'Shell(git commit -m "x" *)'), "quotes in a pattern stay"


async def test_a_file_is_also_called_by_whose_it_is_and_so_alone_where_our_own_has_its_name(places: Places) -> None:
    for name in ("help.md", "fix.md"):
        places.put(name)
    assert list(places.usable()) == ["fix", "project:help"]
    found = MarkdownPrompts(places.workspace, ToolRegistry().canonical)
    calls = {"/project:help": "project:help", "/project:fix": "fix", "/fix": "fix", "/help": "", "/user:fix": ""}
    for typed, name in calls.items():
        prompt = await found.read(f"{typed} now")
        assert (prompt.file.name if prompt is not None else "") == name


def test_the_front_matter_is_read_and_without_it_the_first_line_describes_it(places: Places) -> None:
    front = 'description: "Review: all"\nargument-hint: [file] [count]\nallowed-tools: Bash(git log:*), Read\nmodel: big'
    places.prompts = MarkdownPrompts(places.workspace, ToolRegistry().canonical)
    places.put("review.md", f"---\n{front}\n---\n\nReview $1.\n")
    places.put("plain.md", "# Make it so\n\nDo $ARGUMENTS")
    file, plain = places.usable()["review"], places.usable()["plain"]
    assert (file.description, file.label, file.model, file.body) == (
        "Review: all", "/review [file] [count]", "big", "Review $1.",
    )  # fmt: skip
    assert (file.allowed, plain.description, plain.allowed) == (("Shell(git log *)", "Read"), "Make it so", None)


def test_commands_of_a_folders_file_wait_for_trust_and_a_change_asks_again(places: Places) -> None:
    places.put("mine.md", "See !`git log`", is_own=True)
    places.put("text.md", "Only words")
    trust = FolderTrust(commands_trust(places.workspace))
    assert trust.waiting() == []
    places.put("commits.md", "See !`git log`")
    assert {name: file.may_run for name, file in places.usable().items()} == {"commits": False, "text": True, "mine": True}
    assert [item.text for item in trust.waiting()] == ["/commits runs git log"]
    say(trust, is_trusted=True)
    assert places.usable()["commits"].may_run
    places.put("text.md", "Other words")
    assert places.usable()["commits"].may_run
    places.put("commits.md", "See !`rm -rf .`")
    assert not places.usable()["commits"].may_run


def test_what_cannot_be_used_says_why(places: Places, tmp_path: Path) -> None:
    places.put("two words.md")
    places.put("empty.md", "---\ndescription: x\n---\n")
    places.put("large.md", "x" * 300_000)
    (places.workspace / "secret").write_text("s3cret")
    folder = places.workspace / ".lmagent" / "commands"
    (folder / "link.md").symlink_to(places.workspace / "secret")
    (folder / "far").symlink_to(tmp_path)
    problems = {source.rpartition("/")[2]: problem for source, problem in places.problems().items()}
    assert set(problems) == {"two words.md", "empty.md", "large.md", "link.md", "far"}
    assert ("link" in problems["link.md"], problems["far"]) == (True, "not read: it is a link")


@given(st.text(max_size=200) | st.text(max_size=80).map(lambda text: f"---\n{text}\n---\nbody"))
def test_any_text_is_split_without_an_error(text: str) -> None:
    found = read_front(text)
    assert found.body == text.strip() or text.startswith("---")
    assert all(key == key.strip().lower() for key in found.fields)
