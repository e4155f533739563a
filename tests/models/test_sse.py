from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmtui.core.errors import ProviderError
from lmtui.models.stream_accumulator import MAX_EVENT_BYTES, SseDecoder

STREAM = (
    ': comment\r\ndata: {"a": 1}\r\n\r\ndata: {"b": "ä€😀"}\n\nevent: x\ndata: one\ndata: two\n\n'
    'data:{"c":3}\r\rid: 7\n\ndata: [DONE]\n\n'
).encode()
WHOLE = ['{"a": 1}', '{"b": "ä€😀"}', "one\ntwo", '{"c":3}', "[DONE]"]


def decoded(chunks: list[bytes]) -> list[str]:
    decoder = SseDecoder()
    return [event for chunk in chunks for event in decoder.feed(chunk)] + decoder.finish()


@given(st.lists(st.integers(0, len(STREAM)), max_size=20))
def test_any_split_gives_what_the_whole_gives(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(STREAM)]
    assert decoded([STREAM[start:end] for start, end in itertools.pairwise(edges)]) == WHOLE


@pytest.mark.parametrize("line", [b"data: " + b"x" * 1_048_570, b'{"a": "' + b"x" * 1_048_570], ids=["data", "bare"])
def test_an_event_of_many_lines_is_no_larger_than_one_of_a_single_line(line: bytes) -> None:
    decoder = SseDecoder()
    for _ in range(MAX_EVENT_BYTES // len(line) - 1):
        assert decoder.feed(line + b"\n") == []
    with pytest.raises(ProviderError, match="16 MiB"):
        _ = decoder.feed(line + b"\n") + decoder.feed(line + b"\n")


def test_a_last_event_without_its_blank_line_and_many_large_ones_are_read() -> None:
    assert (decoded([b"data: x"]), decoded([b"data: x\n"])) == (["x"], ["x"])
    assert decoded([b'{"error": {"message": "no"}}']) == ['{"error": {"message": "no"}}']
    decoder = SseDecoder()
    line = b"data: " + b"x" * (MAX_EVENT_BYTES // 3) + b"\n\n"
    assert [len(event) for _ in range(5) for event in decoder.feed(line)] == [MAX_EVENT_BYTES // 3] * 5
