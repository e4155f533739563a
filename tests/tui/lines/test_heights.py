from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmtui.tui.lines.document import HeightIndex

HEIGHTS = st.lists(st.integers(1, 9), min_size=1, max_size=700)


@settings(deadline=None)
@given(HEIGHTS, st.data())
def test_locate_agrees_with_counting_after_any_changes(heights: list[int], data: st.DataObject) -> None:
    index = HeightIndex(heights)
    for _ in range(data.draw(st.integers(0, 6))):
        match data.draw(st.sampled_from(["set", "append", "pop", "locate"])):
            case "set":
                at = data.draw(st.integers(0, len(heights) - 1))
                heights[at] = data.draw(st.integers(1, 40))
                index.set(at, heights[at])
            case "append":
                heights.append(3)
                index.append(3)
            case "pop" if len(heights) > 1:
                heights.pop()
                index.pop()
            case _:
                index.locate(data.draw(st.integers(0, index.total - 1)))
    tops = [0, *accumulate(heights)]
    assert index.total == sum(heights)
    line = data.draw(st.integers(0, index.total - 1))
    block, top = index.locate(line)
    assert top == tops[block] == index.top(block)
    assert top <= line < top + heights[block] == top + index[block]


def test_a_line_beyond_the_end_is_refused() -> None:
    with pytest.raises(IndexError):
        HeightIndex([2, 3]).locate(5)
