"""A prompt that a command's file says becomes the user's words: its own commands run first, as calls that are decided about."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from lmtui.core.clean import clean_line
from lmtui.core.events import Level, Notice
from lmtui.core.messages import ToolCall
from lmtui.core.prompt_files import FilledPrompt
from lmtui.core.skills import SkillUsed
from lmtui.engine.borrowing import borrow_model
from lmtui.engine.inbox import Said
from lmtui.engine.tool_runner import run_call

if TYPE_CHECKING:
    from lmtui.engine.desk import Desk

_TIMEOUT_S = 60
_MOST_CHARS = 16_000
_UNTRUSTED = "{name} is not trusted in this folder, so its commands were left out: `lmtui config trust` shows them and asks."


class PromptsByHand:
    """Implements `core.prompt_files.PromptsInUse`; `put` takes the user's words."""

    def __init__(self, put: Callable[[Said], None]) -> None:
        self._put = put

    def begin(self, prompt: FilledPrompt, typed: str) -> None:
        """Take up a task that a file says."""
        self._put(Said(typed, prompt=prompt))


async def fill_in(desk: Desk, said: Said, turn_id: str) -> Said:
    """Return the user's words as the file has them; only what the file and the arguments say is looked through for files."""
    prompt = said.prompt
    assert prompt is not None
    name = f"/{prompt.file.name}"
    if prompt.file.allowed is not None:
        desk.emit(
            SkillUsed(agent=desk.agent, skill=name, source=prompt.file.source, is_limited=True, allowed=prompt.file.allowed)
        )
    await borrow_model(desk, prompt.file.model, name)
    if prompt.file.commands and not prompt.file.may_run:
        desk.emit(Notice(agent=desk.agent, level=Level.WARNING, text=_UNTRUSTED.format(name=name)))
    text, typed = "", ""
    for number, piece in enumerate(prompt.pieces):
        if piece.is_foreign:
            text += _cut(piece.text, min(_MOST_CHARS, desk.result_limit_chars()), "what the server said")
        elif not piece.is_command:
            text, typed = text + piece.text, typed + piece.text
        elif prompt.file.may_run:
            text += await _output(desk, piece.text, f"{turn_id}_{number}", turn_id)
        else:
            text += "[a command stood here; it was not run]"
    return replace(
        said, text=text, typed=typed or said.text, images=(*said.images, *prompt.images), prompt=None, is_from_file=True
    )


async def _output(desk: Desk, command: str, call_id: str, turn_id: str) -> str:
    """Run one command and return what takes its place."""
    call = ToolCall(f"prompt_{call_id}", "shell", json.dumps({"command": command, "timeout": _TIMEOUT_S}))
    result = await run_call(desk, call, turn_id, desk.files, by="file")
    if result.summary in ("refused", "not run", "stopped", "not understood"):
        return f"[a command stood here; it was not run: {clean_line(result.summary)}]"
    return _cut(result.text, _MOST_CHARS, "what the command said")


def _cut(text: str, most: int, whose: str) -> str:
    left = len(text) - most
    return text[:most].rstrip("\n") + (f"\n[cut here: {left:,} more characters of {whose}]" if left > 0 else "")
