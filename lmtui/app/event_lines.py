"""Events as lines of JSON, the form of the log, of `--output stream-json` and of what a host sends."""

from __future__ import annotations

from lmtui.core.events import Envelope
from lmtui.store.session_logs import decode, encode


def encode_event(envelope: Envelope) -> str:
    """Return an event as one line."""
    return encode(envelope)


def decode_event(line: str) -> Envelope:
    """Return the event of a line.

    Raises:
        SessionFileError: it is none that this version knows.
    """
    return decode(line)
