"""What commands reach on the internet; see `core.events` for what holds of all events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lmtui.core.events import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class HostReached(Event):
    """A command reached a host of the internet through the proxy, or with `why_not` was kept from it."""

    kind: ClassVar[str] = "host_reached"
    call_id: str
    host: str
    sent_bytes: int = 0
    received_bytes: int = 0
    why_not: str = ""
