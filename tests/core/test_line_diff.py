from __future__ import annotations

from itertools import pairwise
from time import process_time

from hypothesis import given
from hypothesis import strategies as st

from lmtui.core.line_diff import Span, compare, hunks_of, split_lines, with_hunks

TEXT = st.lists(
    st.sampled_from(["a\n", "b\n", "a\r\n", "\n", "c", "\r", "@@\n", "\x0c\n", "d\n", "e\n", "f\n"]), max_size=40
).map("".join)
FAST_S = 10.0


def reference(old: list[str], new: list[str], spans: list[Span], chosen: set[int]) -> str:
    """Apply hunks from the last to the first, each as a whole, unchanged lines around it among them."""
    found = list(old)
    for number, (before, after) in reversed(list(enumerate(map(own_lines, hunks_of(spans, is_fine=True))))):
        if number in chosen:
            found[before] = new[after]
    return "".join(found)


def own_lines(hunk: list[Span]) -> tuple[slice, slice]:
    (span,) = (span for span in hunk if not span.is_equal)
    return slice(span.old_start, span.old_end), slice(span.new_start, span.new_end)


@given(TEXT, TEXT, st.sets(st.integers(0, 12)))
def test_spans_hold_both_texts_in_turn_and_any_hunks_are_applied_to_the_byte(old: str, new: str, chosen: set[int]) -> None:
    before, after = split_lines(old), split_lines(new)
    spans = compare(before, after)
    assert ("".join(before), [line for span in spans for line in before[span.old_start : span.old_end]]) == (old, before)
    assert [line for span in spans for line in after[span.new_start : span.new_end]] == after
    for span in spans:
        sides = before[span.old_start : span.old_end], after[span.new_start : span.new_end]
        assert (sides[0] == sides[1]) == span.is_equal
    assert all(one.is_equal != other.is_equal for one, other in pairwise(spans))
    assert with_hunks(before, after, spans, chosen) == reference(before, after, spans, chosen)
    assert (with_hunks(before, after, spans, range(100)), with_hunks(before, after, spans, ())) == (new, old)
    coarse = [span for hunk in hunks_of(spans) for span in hunk if not span.is_equal]
    assert [own_lines(hunk) for hunk in hunks_of(spans, is_fine=True)] == [own_lines([span]) for span in coarse]


def test_large_and_hostile_texts_take_no_quadratic_time() -> None:
    many = [f"line {number}\n" for number in range(50_000)]
    pairs = [
        (many, [f"LINE {number}\n" if number % 50 == 7 else line for number, line in enumerate(many)]),
        (many, [line.upper() for line in many]),
        (["a\n", "b\n"] * 25_000, ["b\n", "a\n", "c\n"] * 16_000),
        (many, many[25_000:] + many[:25_000]),
    ]
    for old, new in pairs:
        began = process_time()
        spans = compare(old, new)
        assert process_time() - began < FAST_S
        assert spans[-1].old_end == len(old)
    assert len(hunks_of(compare(*pairs[0]))) == 1000
