"""The user's words on their way into the conversation: hooks may hold them back, and then they wait in the inbox."""

from __future__ import annotations

import asyncio

from lmtui.core.events import Level, Notice
from lmtui.core.hooks import HookEvent
from lmtui.engine.desk import Desk
from lmtui.engine.filling import fill_in
from lmtui.engine.hooking import call_hooks, tell_model
from lmtui.engine.inbox import Said
from lmtui.engine.mentions import add_message

_KEPT = "What you said is kept: take it back to change it, or send nothing to try it again."


class PromptHeld(Exception):
    """Hooks hold the user's words back; the text says why."""


async def accept(desk: Desk, said: Said, turn_id: str) -> None:
    """Put the user's words into the conversation, unless a hook holds them back.

    What is held back is what the user sent: a command's file is filled in anew, with its tools and its model.

    Raises:
        PromptHeld: one does; they wait in the inbox, held back.
    """
    try:
        words = said if said.prompt is None else await fill_in(desk, said, turn_id)
        if words.is_reminder or not desk.hooking.wants(HookEvent.USER_PROMPT_SUBMIT):
            verdict = None
        else:
            verdict = await call_hooks(desk, HookEvent.USER_PROMPT_SUBMIT, {"prompt": words.text})
    except asyncio.CancelledError:
        _hold(desk, said)
        raise
    if verdict is None:
        await add_message(desk, words, turn_id)
        return
    if verdict.blocks or verdict.ends_turn:
        desk.hooking.ended_by = ""
        _hold(desk, said)
        raise PromptHeld(verdict.reason or verdict.end_reason or "it gave no reason")
    await add_message(desk, words, turn_id)
    tell_model(desk, verdict.context, turn_id)


async def accept_steering(desk: Desk, said: Said, turn_id: str) -> None:
    """Put what the user says meanwhile into the conversation; where a hook holds it back, the turn goes on without it."""
    try:
        await accept(desk, said, turn_id)
    except PromptHeld as held:
        desk.emit(Notice(agent=desk.agent, level=Level.WARNING, text=held_words(held)))


def held_words(held: PromptHeld) -> str:
    """Return what the user is told."""
    return f"a hook held your words back: {held}  {_KEPT}"


def _hold(desk: Desk, said: Said) -> None:
    desk.inbox.hold(said)
    desk.emit(desk.inbox.as_event(desk.agent))
