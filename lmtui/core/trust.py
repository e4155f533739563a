"""What a folder brings that waits for the user's word.  Values only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from lmtui.core.errors import ConfigError
from lmtui.core.remote_marks import in_thread, open_to_network
from lmtui.core.sanitize import pluralize


@dataclass(frozen=True, slots=True)
class TrustItem:
    """One thing of a folder that waits for trust: `kind` (setting, rule, hook, MCP server …), where from, and what.

    `digest` is the hash of all of it: two that read alike may not be the same.  `server` names an MCP server that is started
    here, for which the user may choose where it runs.  `change` says how it differs from what was trusted in its place before.
    """

    kind: str
    source: str
    text: str
    digest: str = ""
    server: str = ""
    change: str = ""

    @property
    def words(self) -> str:
        """Return the text, and what changed in it."""
        return f"{self.text} ({self.change})" if self.change else self.text


_AT_ONCE = frozenset({"MCP server", "command", "skill", "sub-agent"})


def check_shown(items: Sequence[TrustItem], shown: Sequence[TrustItem]) -> None:
    """Make sure that what is to be answered is what was shown.

    Raises:
        ConfigError: something is there that was not shown, or was another.
    """
    if not set(items) <= set(shown):
        raise ConfigError("The folder's extensions have changed.", "Review them again: /trust, or `lmtui trust`.")


def kinds_text(items: Sequence[TrustItem]) -> str:
    """Return which kinds of things these are, each with how many: `2 hooks, 1 setting`."""
    counts = Counter(item.kind for item in items)
    return ", ".join(pluralize(count, kind) for kind, count in counts.items())


def outcome_text(items: Sequence[TrustItem], *, is_trusted: bool) -> str:
    """Return what an answer does: what holds as soon as it is trusted, and what in sessions opened from then on."""
    now, later = ([item for item in items if (item.kind in _AT_ONCE) is is_now] for is_now in (True, False))
    parts = {"From now on": now, "From the next session on": later}
    if not is_trusted:
        return "lmtui ignores all of this."
    return " ".join(f"{when}: {kinds_text(found)}." for when, found in parts.items() if found)


class Trust(Protocol):
    """What a folder brings that does not hold until the user says so.  The answer is kept at user level."""

    @open_to_network
    @in_thread
    def waiting(self) -> Sequence[TrustItem]:
        """Return what waits; empty where there is nothing to ask (nothing there, or answered and unchanged since)."""

    @open_to_network
    @in_thread
    def refused(self) -> Sequence[TrustItem]:
        """Return what was answered with no and is unchanged since: it can be answered again."""

    @open_to_network
    @in_thread
    def trusted(self) -> Sequence[TrustItem]:
        """Return what was answered with yes and is unchanged since."""

    def revoke(self) -> None:
        """Forget every answer for the folder: all of it waits again.  What is open keeps what was read when it was opened.

        Raises:
            ConfigError: it cannot be kept.
        """

    @open_to_network
    @in_thread
    def answered_elsewhere(self) -> bool | None:
        """Take up the answer that another lmtui kept for what waits here, and return it; None where there is none."""

    def answer(self, shown: Sequence[TrustItem], *, is_trusted: bool) -> None:
        """Keep the answer for what was shown (of `waiting()`, or else of `refused()`), and for nothing else.

        Raises:
            ConfigError: it is another by now, or it cannot be kept.
        """
