from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from lmtui.providers.sse import SseDecoder

STREAM = (
    ': comment\r\ndata: {"a": 1}\r\n\r\ndata: {"b": "ä€😀"}\n\nevent: x\ndata: one\ndata: two\n\n'
    'data:{"c":3}\r\rid: 7\n\ndata: [DONE]\n\n'
).encode()
WHOLE = ['{"a": 1}', '{"b": "ä€😀"}', "one\ntwo", '{"c":3}', "[DONE]"]


def decoded(chunks: list[bytes]) -> list[str]:
    decoder = SseDecoder()
    return [event for chunk in chunks for event in decoder.feed(chunk)] + decoder.finish()


def test_every_two_way_split_gives_what_the_whole_gives() -> None:
    assert decoded([STREAM]) == WHOLE
    for cut in range(len(STREAM)):
        assert decoded([STREAM[:cut], STREAM[cut:]]) == WHOLE


@given(st.lists(st.integers(0, len(STREAM)), max_size=20))
def test_any_split_gives_what_the_whole_gives(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(STREAM)]
    assert decoded([STREAM[start:end] for start, end in itertools.pairwise(edges)]) == WHOLE


def test_a_last_event_without_its_blank_line_counts() -> None:
    assert decoded([b"data: x"]) == ["x"]
    assert decoded([b"data: x\n"]) == ["x"]


def test_a_bare_json_body_counts_as_an_event() -> None:
    assert decoded([b'{"error": {"message": "no"}}']) == ['{"error": {"message": "no"}}']
