"""Somebody who answers every question of a session alike."""

from __future__ import annotations

import asyncio

from lmtui.core.events import ApprovalRequested, Envelope, Outcome
from lmtui.core.sessions import Answer, Session


def answering(session: Session, outcome: Outcome) -> list[ApprovalRequested]:
    """Answer every question with one word; return the questions as they come."""
    asked: list[ApprovalRequested] = []

    def answer(envelope: Envelope) -> None:
        if isinstance(envelope.event, ApprovalRequested):
            asked.append(envelope.event)
            asyncio.get_running_loop().call_soon(session.answer, envelope.event.approval_id, Answer(outcome))

    _ = session.subscribe(answer)
    return asked
