"""Commands of the instructions: show them and the persona, draft an AGENTS.md."""

from __future__ import annotations

from collections.abc import Iterator

from lmtui.commands.command import Begin, Command, CommandContext, Output, Scope
from lmtui.commands.session_commands import SCREEN
from lmtui.core.prompt_parts import PERSONA, SKILLS, WHOLE_CHARS, PromptParts, PromptSource
from lmtui.core.sanitize import sanitize_line


async def _read(context: CommandContext) -> PromptParts:
    return await context.host.extensions[PromptSource].read(WHOLE_CHARS)


async def show_instructions(context: CommandContext, words: str) -> Output:
    """Show which instructions are read, or the persona."""
    read = await _read(context)
    return Output(_persona_lines(read), "Persona") if words == "persona" else Output(_guidance_lines(read), "Instructions")


async def draft_instructions(_context: CommandContext, focus: str) -> Begin:
    """Have the model draft an AGENTS.md."""
    task = _INIT_TASK.format(focus=f"\n\nThe user says: {focus.strip()}" if focus.strip() else "")
    return Begin(lambda session: session.submit(task, typed=f"/init {focus}"))


_NO_PERSONA = (
    "No persona: the agent is a plain coding agent.",
    "Write one into .lmagent/.soul.md (or .soul.md) of this folder, or into soul.md in your settings folder for all folders.",
)
_NO_INSTRUCTIONS = (
    "No instructions: no AGENTS.md here or above, up to the top of the repository.",
    "/init drafts one from what is in this folder. CLAUDE.md, GEMINI.md and .lmagent.md are read too.",
)
_INIT_TASK = """\
Write AGENTS.md, the instructions for coding agents that work in this folder, into the file AGENTS.md. \
If there is one, keep what is right in it and fix the rest. First look: list the folder, read the README, the project's \
configuration (pyproject.toml, package.json, Cargo.toml, go.mod, Makefile or the like), the CI's files, two or three typical \
source and test files. Then write, in Markdown and at most 60 lines: what the project is, in two sentences; the commands that \
build, run, lint and test it, one test alone included; where things are; the conventions of code, tests and commits that you \
really saw; what must not be touched. Nothing that a reader sees at once from the file names, nothing invented, no general \
advice: each line has to change what an agent does here.{focus}"""


def _persona_lines(guidance: PromptParts) -> tuple[str, ...]:
    """Return the persona as the model gets it, or how to add one."""
    sources = [source for source in guidance.sources if source.kind == PERSONA]
    if not sources:
        return _NO_PERSONA
    return (f"{sanitize_line(sources[0].name)}, {sources[0].tokens:,} tokens in each request", *guidance.persona.split("\n"))


def _guidance_lines(guidance: PromptParts) -> tuple[str, ...]:
    """Return what is read, with the price of each file, and what is not."""
    is_bare = not guidance.problems and all(source.kind == SKILLS for source in guidance.sources)
    return (*(_NO_INSTRUCTIONS if is_bare else ()), *_lines(guidance))


def _lines(guidance: PromptParts) -> Iterator[str]:
    for source in guidance.sources:
        cut = "; cut, as it is longer than its share of the window or 128 KB" if source.is_cut else ""
        is_list, way = source.kind == SKILLS, " (/skill)" if source.name == "skills" else ""
        name = f"the list of {source.name}{way}" if is_list else f"{sanitize_line(source.name)}: {source.kind}"
        yield f"{name}, {source.tokens:,} tokens in each request{cut}"
    for problem in guidance.problems:
        yield sanitize_line(problem)
    if len(guidance.sources) > 1:
        yield f"all together: {sum(source.tokens for source in guidance.sources):,} tokens"


COMMANDS: tuple[Command, ...] = (
    Command("guidance.show", Scope.WORKBENCH, "Instructions",
        "Show which instruction files are read, such as AGENTS.md, and their size.", slash=("instructions",),
        argument="[persona]", aliases={"soul": "persona"}, is_rare=True, handler=show_instructions, instead="`lmtui doctor`"),
    Command("guidance.draft", Scope.WORKBENCH, "Draft AGENTS.md", "Ask the model to draft an AGENTS.md for this folder.",
        slash=("init",), argument="[focus]", handler=draft_instructions, instead=SCREEN),
)  # fmt: skip
