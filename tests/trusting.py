"""The user who answers what is shown."""

from __future__ import annotations

from lmtui.core.trust import Trust
from lmtui.features.folder_consent import FolderConsent, FolderTrust


def say(trust: Trust | FolderConsent, *, is_trusted: bool) -> None:
    """Answer all that is open with one word."""
    asked = FolderTrust(trust) if isinstance(trust, FolderConsent) else trust
    asked.answer(asked.waiting() or asked.refused(), is_trusted=is_trusted)
