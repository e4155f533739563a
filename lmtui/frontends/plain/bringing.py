"""What people bring to the model, in the linear mode: instructions, persona, skills."""

from __future__ import annotations

from lmtui.core.clean import clean_line
from lmtui.core.errors import LmtuiError
from lmtui.core.guidance_words import WHOLE_CHARS, guidance_lines, init_task, persona_lines
from lmtui.core.skill_words import promote_call, skill_call, skill_lines
from lmtui.frontends.plain.desk import Desk


def say_instructions(desk: Desk, _: str) -> None:
    """Say which instructions are read."""
    desk.say(*guidance_lines(desk.room.wait(desk.host.guide.read(WHOLE_CHARS))))


def say_persona(desk: Desk, _: str) -> None:
    """Say who the agent is told to be."""
    desk.say(*persona_lines(desk.room.wait(desk.host.guide.read(WHOLE_CHARS))))


def draft_instructions(desk: Desk, focus: str) -> None:
    """Have the model draft an AGENTS.md."""
    desk.act(lambda session: session.submit(init_task(focus)))


def use_skill(desk: Desk, argument: str) -> None:
    """Say which skills there are, or have one followed."""
    skills = desk.host.extensions.skills
    name, words = skill_call(argument)
    if not name:
        desk.say(*skill_lines(desk.room.wait(skills.found()), skills.promoted()))
        return
    used = desk.room.wait(skills.use(name))
    desk.act(lambda session: session.skills.begin(used, words))


def promote(desk: Desk, argument: str) -> None:
    """Ask whether a function may become a tool."""
    path, function, name = promote_call(argument)
    desk.act(lambda session: session.skills.promote(path, function, name))


def say_prompt_files(desk: Desk, _: str) -> None:
    """Say which commands are Markdown files or prompts of MCP servers."""
    for file in desk.host.extensions.prompts.found():
        runs = "" if file.may_run else " (its commands wait for trust: `lmtui config trust`)"
        words = clean_line(file.problem or file.description)
        desk.say(f"{clean_line(file.label)}: {words}{runs}, from {clean_line(file.source)}")


def run_prompt_file(desk: Desk, text: str) -> bool:
    """Run the command of a file; False where there is none of that name."""
    try:
        prompt = desk.room.wait(desk.host.extensions.prompts.read(text))
    except LmtuiError as error:
        desk.say(f"error: {error.full_text()}")
        return True
    if prompt is None:
        return False
    desk.act(lambda session: session.prompts.begin(prompt, text.strip()))
    return True
