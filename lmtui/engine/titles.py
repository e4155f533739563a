"""A title for a session in a few words, by the model that the settings name for titles; without one the first words stay."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

from lmtui.core.clean import clean_line
from lmtui.core.errors import ProviderError
from lmtui.core.events import ROOT, Envelope, Event, MessageAdded, SessionRenamed, TurnEnded
from lmtui.core.messages import Completion, Message, ModelRequest, Role, TextPiece, Urgency
from lmtui.core.roles import ModelRole, RoleModel
from lmtui.engine.desk import Desk
from lmtui.engine.packing import bare
from lmtui.engine.roles import for_role
from lmtui.engine.spending import TITLER
from lmtui.engine.usage import usage_beside

MAX_TITLE_CHARS = 60
_MOST_WORDS_CHARS = 1_500
_MAX_TOKENS, _THINKING_TOKENS = 40, 2_000
_TOO_MUCH_CHARS = 400
_ANY = range(1, 1_000_000)
_ASK = "You name conversations. Answer with a title of three to six words for this one, without quotes, and with nothing else."


def wants_title(desk: Desk, history: Sequence[Envelope], turns: range = range(1, 2)) -> bool:
    """Tell whether a model is named for titles, so many turns are over, and the session has only its first words as a name."""
    if not desk.roles.get(ModelRole.TITLE, RoleModel()).model:
        return False
    kinds = [type(each.event) for each in bare(history) if each.event.agent == ROOT]
    return kinds.count(TurnEnded) in turns and kinds.count(SessionRenamed) <= 1


async def make_title(desk: Desk, history: Callable[[], Sequence[Envelope]], emit: Callable[[Event], None]) -> None:
    """Ask for a title when the server has nothing else to do; where none comes, or the user was quicker, the name stays."""
    said = [each.event for each in bare(history()) if isinstance(each.event, MessageAdded) and each.event.agent == ROOT]
    words = "\n\n".join(f"{event.role}: {event.text}" for event in said if event.text.strip())[:_MOST_WORDS_CHARS]
    settings = for_role(desk.roles, ModelRole.TITLE, desk.main)
    request = ModelRequest(
        (Message(Role.SYSTEM, _ASK), Message(Role.USER, words)),
        (),
        settings.model,
        temperature=settings.temperature,
        seed=settings.seed,
        max_tokens=min(_MAX_TOKENS + _THINKING_TOKENS, settings.max_tokens or _ANY.stop),
        urgency=Urgency.NOBODY,
        is_attended=False,
    )
    size_chars = 0  # only the answer counts: a model may think first, and one that continues after it is stopped
    with contextlib.suppress(ProviderError):
        async with contextlib.aclosing(desk.provider.stream(request)) as pieces:
            async for piece in pieces:
                size_chars += len(piece.text) if isinstance(piece, TextPiece) else 0
                if size_chars > _TOO_MUCH_CHARS:
                    return
                if isinstance(piece, Completion):
                    emit(usage_beside(TITLER, request, piece))
                    title = _title(piece.message.text)
                    if title and wants_title(desk, history(), turns=_ANY):
                        emit(SessionRenamed(title=title))


def _title(text: str) -> str:
    """Return the first line of an answer as a title, empty where it is none."""
    line = clean_line(text.strip().partition("\n")[0]).strip(" \"'“”*#.")
    return line if 0 < len(line) <= MAX_TITLE_CHARS else ""
