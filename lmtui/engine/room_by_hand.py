"""Room that the user makes: the conversation is summed up now, with what matters to them in view."""

from __future__ import annotations

from dataclasses import replace

from lmtui.core.errors import SessionFileError
from lmtui.core.events import Level, Notice
from lmtui.engine.desk import Desk
from lmtui.engine.fitting import measure, plan_room
from lmtui.engine.hooking import before_room
from lmtui.engine.inbox import Said
from lmtui.engine.roles import take_role
from lmtui.engine.summaries import in_own_words

_TARGET_SHARE = 0.1
_NOTHING = "There is nothing that could be summed up: the conversation is short, or was summed up just now."


async def make_room_now(desk: Desk, said: Said, turn_id: str) -> None:
    """Sum up what was said so far; `said` is what matters most.  A cancel passes on, and nothing is changed then."""
    desk.turn_id = turn_id
    try:
        await take_role(desk)
        await desk.model.ready()
        await before_room(desk, "manual", said.text)
        tokens, room = measure(desk)
        least = room.fixed + int((room.limit - room.fixed) * _TARGET_SHARE)
        event = plan_room(desk, tokens, replace(room, target=min(least, tokens - 1)), "you asked for it")
        if event is None or not (event.kept_from or event.elided or event.folded):
            desk.emit(Notice(agent=desk.agent, level=Level.INFO, text=_NOTHING))
            return
        event = await in_own_words(desk, event, room, focus=said.text, is_asked=True)
        desk.emit(replace(event, agent=desk.agent))
    except SessionFileError as error:
        desk.emit(Notice(agent=desk.agent, level=Level.ERROR, text=error.full_text()))
