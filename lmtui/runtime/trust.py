"""Whether the user trusts what the workspace's own files bring."""

from __future__ import annotations

from collections.abc import Sequence

from lmtui.core.sessions import TrustItem


class NothingToTrust:
    """A folder that brings nothing; implements `core.sessions.Trust`."""

    def waiting(self) -> Sequence[TrustItem]:
        """Return nothing."""
        return ()

    def answer(self, *, is_trusted: bool) -> None:
        """Do nothing."""
