"""What features bring to a workspace or a session, each under a port: what is not there is not offered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from lmtui.core.errors import LmtuiError, ToolError

Offered = TypeVar("Offered")


class Offers:
    """What is offered, by port: the protocol that it implements; `session` is the id of the session that it is for, if any."""

    def __init__(self, session: str = "") -> None:
        self.session = session
        self._found: dict[type, Any] = {}
        self._refused: dict[type, LmtuiError] = {}

    def add(self, port: type[Offered], offer: Offered) -> None:
        """Offer something; the last one for a port counts."""
        self._found[port] = offer

    def refuse(self, port: type, why: LmtuiError) -> None:
        """Say why something is not offered."""
        self._refused[port] = why

    @property
    def ports(self) -> Sequence[type]:
        """Return the ports that something is offered for."""
        return list(self._found)

    @property
    def names(self) -> Sequence[str]:
        """Return the names of these ports."""
        return [port.__name__ for port in self._found]

    def get(self, port: type[Offered]) -> Offered | None:
        """Return what is offered, None where nothing is."""
        return self._found.get(port)

    def __contains__(self, port: type) -> bool:
        return port in self._found

    def __getitem__(self, port: type[Offered]) -> Offered:
        """Return what is offered.

        Raises:
            LmtuiError: nothing is: it is turned off, or not for this agent.
        """
        if (found := self.get(port)) is None:
            raise self._refused.get(port) or ToolError("This is turned off or not available here.")
        return found

    def only(self, *ports: type) -> Offers:
        """Return some of it."""
        found = Offers(self.session)
        found._found = {port: offer for port, offer in self._found.items() if port in ports}
        return found
