"""Skills that are where a test puts them."""

from __future__ import annotations

from collections.abc import Sequence

from lmtui.core.errors import ToolError
from lmtui.core.subagents import FileState
from lmtui.features.skills.values import PromotedTool, Skill, SkillSource, SkillUse


class FakeSkills:
    """Skills and tools by name; each reads as what it describes.  What is to be followed or promoted is noted."""

    def __init__(self) -> None:
        self.known: list[Skill] = []
        self.tools: list[PromotedTool] = []
        self.begun: list[tuple[str, str]] = []
        self.wanted: list[tuple[str, str, str]] = []
        self.followed: tuple[str, ...] = ()

    async def found(self) -> Sequence[Skill]:
        return self.known

    async def listing(self) -> str:
        return "\n".join(skill.name for skill in self.known)

    async def use(self, name: str) -> SkillUse:
        skill = next((skill for skill in self.known if skill.name == name), None)
        if skill is None or skill.state is not FileState.READY:
            raise ToolError(f"no skill {name!r}", "There are others.")
        body = f"# {skill.name}\n\n{skill.description}\n\n1. Look at all of it.\n2. [@click=app.leave]No markup[/]."
        return SkillUse(skill.name, f'<skill name="{skill.name}">\n{body}\n</skill>', skill.source, skill.allowed)

    async def read_file(self, name: str, file: str) -> str:
        return f"{name}/{file}"

    def promoted(self) -> Sequence[PromotedTool]:
        return self.tools

    def remove(self, name: str) -> bool:
        before = len(self.tools)
        self.tools = [tool for tool in self.tools if tool.name != name]
        return len(self.tools) < before

    async def in_use(self, session_id: str) -> Sequence[str]:
        return self.followed

    def begin(self, session_id: str, name: str, words: str) -> None:
        self.begun.append((name, words))
        self.followed = (*self.followed, name)

    def end(self, session_id: str, name: str = "") -> None:
        self.followed = tuple(each for each in self.followed if name not in ("", each))

    def ask_to_promote(self, session_id: str, path: str, function: str, name: str = "") -> None:
        self.wanted.append((path, function, name))


def some_skills() -> list[Skill]:
    """Return a skill in each state."""
    shipped = SkillSource.SHIPPED
    return [
        Skill(
            "changelog",
            "Write a changelog entry.",
            SkillSource.USER,
            "~/.claude/skills/changelog/SKILL.md",
            tokens=13,
            body_tokens=1_210,
            warnings=("its allowed-tools name WebSearch, which is not a tool here",),
            allowed=("Read", "Shell(git log *)"),
        ),
        Skill(
            "deploy",
            "Deploy to the staging servers.",
            SkillSource.FOLDER,
            ".agents/skills/deploy/SKILL.md",
            FileState.WAITING,
            body_tokens=640,
        ),
        Skill(
            "find-bug",
            "Find the cause of a failure, crash or wrong result and fix it.",
            shipped,
            "lmtui/find-bug/SKILL.md",
            tokens=20,
            body_tokens=437,
        ),
        Skill(
            "find-bug",
            "Find bugs.",
            SkillSource.USER,
            "~/.agents/skills/find-bug/SKILL.md",
            FileState.HIDDEN,
            body_tokens=80,
            problem="the one in .agents/skills/find-bug/SKILL.md goes before it",
        ),
        Skill(
            "notes",
            "",
            SkillSource.FOLDER,
            ".claude/skills/notes/SKILL.md",
            FileState.BROKEN,
            problem=".claude/skills/notes/SKILL.md: line 3: mapping values are not allowed here",
        ),
        Skill(
            "old",
            "Do it as it was done.",
            SkillSource.FOLDER,
            ".lmagent/skills/old/SKILL.md",
            FileState.REFUSED,
            body_tokens=99,
        ),
        Skill(
            "write-tests",
            "Write tests for code that has few or none.",
            shipped,
            "lmtui/write-tests/SKILL.md",
            tokens=14,
            body_tokens=420,
        ),
    ]


def some_tools() -> list[PromotedTool]:
    """Return a promoted tool, and one whose file was changed."""
    source = 'def count_words(path: str) -> dict[str, int]:\n    """Count the words of a text file."""\n    return {}\n'
    return [
        PromotedTool(
            "skill__count_words", "count_words", "Count the words of a text file.", source, "tools/words.py", "d1", tokens=58
        ),
        PromotedTool(
            "skill__draw", "draw", "Draw.", "", "tools/draw.py", "d2", tokens=31, problem="its file is not the one you approved"
        ),
    ]
