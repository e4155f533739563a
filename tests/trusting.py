"""The user who answers what is shown."""

from __future__ import annotations

from lmtui.core.trust import Trust


def say(trust: Trust, *, is_trusted: bool) -> None:
    """Answer all that is open with one word."""
    trust.answer(trust.waiting() or trust.refused(), is_trusted=is_trusted)
