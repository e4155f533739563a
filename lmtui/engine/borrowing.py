"""Another model for one turn: a command's file may name one.  Afterwards the session has its own again."""

from __future__ import annotations

from dataclasses import replace

from lmtui.core.events import Level, ModelChanged, Notice
from lmtui.engine.desk import Desk
from lmtui.engine.known_model import Borrowed
from lmtui.engine.roles import take_up


async def borrow_model(desk: Desk, name: str, who: str) -> None:
    """Ask another model until the turn ends, if its server has it; else say so."""
    if not name or name == desk.main.model:
        return
    served = await desk.provider.served(name)
    if served is None:
        text = f"{desk.provider.url} does not offer {name}, which {who} names; the model in use is asked."
        desk.emit(Notice(agent=desk.agent, level=Level.WARNING, text=text))
        return
    back = ModelChanged(agent=desk.agent, model=desk.main.model, url=desk.provider.url, window_tokens=desk.window_tokens)
    before = desk.borrowed if desk.has_borrowed else None
    desk.borrowed = replace(before, model=name) if before is not None else Borrowed(back, desk.model, name)
    desk.model = desk.model.another()
    desk.emit(ModelChanged(agent=desk.agent, model=name, url=desk.provider.url, is_for_turn=True))
    desk.model.forget()
    take_up(desk, served, desk.emit)


def give_back(desk: Desk) -> None:
    """Ask the session's own model again, unless the user chose one meanwhile."""
    borrowed, desk.borrowed = desk.borrowed, None
    if borrowed is not None and desk.main.model == borrowed.model:
        desk.emit(borrowed.back)
        desk.model = borrowed.known
