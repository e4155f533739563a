"""What a task says without a screen: words for the model, the command of a file, a skill, or what cannot be done."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from lmtui.core.errors import LmtuiError, ToolError, UsageError
from lmtui.core.messages import Image
from lmtui.core.prompt_text import AS_WORDS, OWN_NAMES, nearest, slash_call
from lmtui.core.sanitize import sanitize_line
from lmtui.core.sessions import Extensions, Session
from lmtui.core.skills import skill_call

_SKILL = ("skill", "skills")
_SCREENS = "`lmtui` (or `lmtui --plain`)"
WAYS = {
    "budget": 'the option --budget "WORDS"',
    "calls": "the setting call_form",
    "changes": "`git diff`, or files_changed of --output json",
    "commands": "`lmtui doctor`",
    "config": "`lmtui config`",
    "deep": '`lmtui plan --approve --budget "WORDS" "TASK"`',
    "export": "`lmtui export ID`",
    "help": "`lmtui --help`",
    "instructions": "`lmtui doctor`",
    "jobs": "`lmtui jobs`",
    "log": "`lmtui show --audit ID`",
    "mcp": "`lmtui mcp`",
    "mode": "the option --mode NAME",
    "model": "the option --model NAME",
    "models": "`lmtui models`",
    "permissions": "the options --allow and --deny",
    "plan": '`lmtui plan "TASK"`',
    "resume": '`lmtui resume ID "TEXT"`',
    "rules": "the options --allow and --deny",
    "search": '`lmtui sessions --search "WORDS"`',
    "session": "`lmtui sessions`",
    "sessions": "`lmtui sessions`",
    "settings": "`lmtui config`",
    "skill": "`lmtui skills`",
    "skills": "`lmtui skills`",
    "submit": '`lmtui submit "TASK"`',
    "trust": "`lmtui config trust`",
}

Begin = Callable[[Session], None]


async def read_task(extensions: Extensions, text: str, images: tuple[Image, ...]) -> Begin:
    """Return what gives a session its task.

    Raises:
        UsageError: it is a slash command that is not there, or one that needs a screen.
    """
    call = slash_call(text)
    if call is None:
        return lambda session: session.submit(text, images=images)
    name, argument = call
    if images:
        raise UsageError(f"no picture goes along with /{sanitize_line(name)}", "Leave it out, or say what to do in words.")
    if name.lower() in _SKILL:
        if not argument:
            raise UsageError(f"/{name} wants the name of a skill", f"`lmtui skills` lists them.  {AS_WORDS}")
        return await _skill(extensions, argument)
    if name.lower() in OWN_NAMES:
        way = WAYS.get(name.lower(), _SCREENS)
        raise UsageError(f"/{name} needs a screen", f"Use {way}.  {AS_WORDS}")
    try:
        prompt = await extensions.prompts.read(text)
    except LmtuiError as error:
        raise UsageError(str(error), error.hint) from error
    if prompt is not None:
        return lambda session: session.prompts.begin(prompt, text.strip())
    files = await asyncio.to_thread(extensions.prompts.found)
    broken = next((file for file in files if file.name == name), None)
    if broken is not None:
        raise UsageError(
            f"/{sanitize_line(name)} cannot be used: {sanitize_line(f'{broken.source}: {broken.problem}')}", AS_WORDS
        )
    near = nearest(name, ["skill", *OWN_NAMES, *(file.name for file in files if not file.problem)])
    raise UsageError(f"no command /{sanitize_line(name)}", f"{near}  {AS_WORDS}".strip())


async def _skill(extensions: Extensions, argument: str) -> Begin:
    name, words = skill_call(argument)
    try:
        used = await extensions.skills.use(name)
    except ToolError as error:
        raise UsageError(str(error), error.hint) from error
    return lambda session: session.skills.begin(used, words)
