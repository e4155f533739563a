from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lmtui.core.events import Envelope, Event, PrefillProgress, TextDelta, ThinkingDelta, ToolOutputDelta
from lmtui.tui.router import merge_into
from tests.tui.fakes import START

PIECES = st.one_of(
    st.builds(TextDelta, text=st.text(max_size=5), agent=st.sampled_from(["root", "a1"])),
    st.builds(ThinkingDelta, text=st.text(max_size=5), agent=st.sampled_from(["root", "a1"])),
    st.builds(ToolOutputDelta, call_id=st.sampled_from(["c1", "c2"]), text=st.text(max_size=5)),
    st.builds(PrefillProgress, ratio=st.floats(0, 1)),
)


@given(st.lists(PIECES, max_size=30))
def test_merging_keeps_every_text_in_its_order(pieces: list[Event]) -> None:
    merged: list[Envelope] = []
    for number, piece in enumerate(pieces):
        merge_into(merged, Envelope(number, START, "s", piece))
    for kind in (TextDelta, ThinkingDelta, ToolOutputDelta):
        before = [(piece.agent, getattr(piece, "call_id", ""), piece.text) for piece in pieces if isinstance(piece, kind)]
        after = [
            (each.event.agent, getattr(each.event, "call_id", ""), each.event.text)
            for each in merged
            if isinstance(each.event, kind)
        ]
        for key in {(agent, call_id) for agent, call_id, _ in before}:
            assert "".join(text for *own, text in before if tuple(own) == key) == "".join(
                text for *own, text in after if tuple(own) == key
            )
