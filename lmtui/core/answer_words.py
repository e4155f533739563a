"""Who answered a question and how, in words; the text of a model or a user in them is not cleaned."""

from __future__ import annotations

from lmtui.core.events import ApprovalResolved, Outcome

NOBODY = "headless"
_NOBODY_THERE = "nobody was there to ask"


def answer_words(event: ApprovalResolved, part: str = "") -> str:
    """Return an answer in a line, such as `session by user` or `no: nobody was there to ask`; `part` begins it instead."""
    if event.by == NOBODY and event.outcome is Outcome.NO:
        return f"{event.outcome}: {_NOBODY_THERE}"
    feedback = f": {event.feedback}" if event.feedback else ""
    return f"{part or f'{event.outcome} by'} {event.by}{feedback}"


def refusal_words(event: ApprovalResolved) -> str:
    """Return why something was refused, by whom."""
    return _NOBODY_THERE if event.by == NOBODY else f"you: {event.feedback}"
