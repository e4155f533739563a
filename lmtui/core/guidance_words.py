"""Instructions, persona and profile in words for the user, and the task that drafts an AGENTS.md."""

from __future__ import annotations

from collections.abc import Iterator

from lmtui.core.clean import clean_line
from lmtui.core.guidance import PERSONA, SKILLS, Guidance

WHOLE_CHARS = 24_000
NO_PERSONA = (
    "No persona: the agent is a plain coding agent.",
    "Write one into .lmagent/.soul.md (or .soul.md) of this folder, or into soul.md in your settings folder for all folders.",
)
NO_INSTRUCTIONS = (
    "No instructions: there is no AGENTS.md here or above, up to the top of the repository.",
    "/init drafts one from what is in this folder. CLAUDE.md, GEMINI.md and .lmagent.md are read too.",
)
INIT_TASK = """\
Write AGENTS.md, the instructions for coding agents that work in this folder, into the file AGENTS.md. \
If there is one, keep what is right in it and mend the rest. First look: list the folder, read the README, the project's \
configuration (pyproject.toml, package.json, Cargo.toml, go.mod, Makefile or the like), the CI's files, two or three typical \
source and test files. Then write, in Markdown and at most 60 lines: what the project is, in two sentences; the commands that \
build, run, lint and test it, one test alone included; where things are; the conventions of code, tests and commits that you \
really saw; what must not be touched. Nothing that a reader sees at once from the file names, nothing invented, no general \
advice: each line has to change what an agent does here.{focus}"""


def init_task(focus: str) -> str:
    """Return the task that drafts an AGENTS.md; `focus` is what the user says of it."""
    return INIT_TASK.format(focus=f"\n\nThe user says: {focus.strip()}" if focus.strip() else "")


def persona_lines(guidance: Guidance) -> tuple[str, ...]:
    """Return the persona as it is told, or how to have one."""
    sources = [source for source in guidance.sources if source.kind == PERSONA]
    if not sources:
        return NO_PERSONA
    return (f"{clean_line(sources[0].name)}, {sources[0].tokens:,} tokens in each request", *guidance.persona.split("\n"))


def guidance_lines(guidance: Guidance) -> tuple[str, ...]:
    """Return what is read, with the price of each file, and what is not."""
    is_bare = not guidance.problems and all(source.kind == SKILLS for source in guidance.sources)
    return (*(NO_INSTRUCTIONS if is_bare else ()), *_lines(guidance))


def _lines(guidance: Guidance) -> Iterator[str]:
    for source in guidance.sources:
        cut = "; cut, as it is longer than its share of the window or 128 KB" if source.is_cut else ""
        is_list, way = source.kind == SKILLS, " (/skill)" if source.name == "skills" else ""
        name = f"the list of {source.name}{way}" if is_list else f"{clean_line(source.name)}: {source.kind}"
        yield f"{name}, {source.tokens:,} tokens in each request{cut}"
    for problem in guidance.problems:
        yield clean_line(problem)
    if len(guidance.sources) > 1:
        yield f"all together: {sum(source.tokens for source in guidance.sources):,} tokens"
