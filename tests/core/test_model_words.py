from __future__ import annotations

import pytest

from lmtui.core.events import Event, TurnStarted
from lmtui.core.model_events import CallFormChanged, Compacted, Reminder, ToolSetChanged
from lmtui.core.model_words import model_words


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (
            CallFormChanged(form="text", why="it writes its calls as text"),
            "from here on the model calls tools in its text: it writes its calls as text",
        ),
        (CallFormChanged(form="\x1b[31mnew"), "from here on the model calls tools new"),
        (ToolSetChanged(tools="lean", why="small window"), "tools: lean, small window"),
        (Reminder(text="Answer with one call.\nLike this:"), "lmtui told the model: Answer with one call."),
        (Reminder(text="x" * 500), f"lmtui told the model: {'x' * 120}…"),
        (
            Compacted(why="nearly full", tokens_before=6200, tokens_after=3100, elided=("a",), kept_from=9),
            "room was made: 1 long result shortened and what was said first summarised, 6,200 → 3,100 tokens (nearly full)",
        ),
        (TurnStarted(turn_id="t"), ""),
    ],
    ids=["form", "unknown form", "tools", "reminder", "long reminder", "compacted", "other"],
)
def test_a_change_is_told_in_one_line(event: Event, words: str) -> None:
    assert model_words(event) == words
