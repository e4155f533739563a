"""The turns of a conversation that one can go back to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from lmtui.core.events import ROOT, Envelope, MessageAdded
from lmtui.core.file_events import Rewound
from lmtui.core.messages import Role


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn that one can go back to."""

    id: str
    text: str
    time: datetime


def turns_of(history: Sequence[Envelope]) -> list[Turn]:
    """Return the turns of the conversation as it goes now, oldest first; what was rewound is not among them."""
    found: list[Turn] = []
    for envelope in history:
        match envelope.event:
            case MessageAdded(role=Role.USER, agent=agent, turn_id=turn_id, text=text) if agent == ROOT and turn_id:
                if all(turn.id != turn_id for turn in found):
                    found.append(Turn(turn_id, text, envelope.time))
            case Rewound(turn_id=turn_id):
                at = next((at for at, turn in enumerate(found) if turn.id == turn_id), len(found))
                del found[at:]
            case _:
                pass
    return found
