"""Plans of every kind, for property tests."""

from __future__ import annotations

from hypothesis import strategies as st

from lmtui.core.plan import PlanStep
from lmtui.core.proposals import STEP_RISKS, Proposal

_CHARS = st.characters(codec="utf-8", exclude_characters="\r\x00")
WORDS = st.text(_CHARS, min_size=1, max_size=60).map(lambda text: text.strip()).filter(bool)
MANY = st.lists(WORDS, max_size=3, unique=True).map(tuple)


@st.composite
def proposals(draw: st.DrawFn) -> Proposal:
    ids = draw(st.lists(st.integers(1, 99), min_size=1, max_size=6, unique=True))
    steps = [
        PlanStep(
            number,
            draw(WORDS),
            depends_on=tuple(draw(st.lists(st.sampled_from(ids[:place]), unique=True))) if place else (),
            verification=draw(WORDS | st.just("")),
            risk=draw(st.sampled_from(STEP_RISKS)),
            files=draw(MANY),
            commands=draw(MANY),
        )
        for place, number in enumerate(ids)
    ]
    return Proposal(draw(WORDS), tuple(steps), draw(WORDS | st.just("")), draw(MANY))
