from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmtui.core.sanitize import sanitize
from lmtui.sandbox.guest.capture import HEAD_BYTES, TAIL_BYTES, Capture, Spool
from lmtui.sandbox.replies import LiveOutput

_TEXT = st.text(alphabet="aä\x1b[31m;]0\x07\r\n\x9b€😀", max_size=30)


@given(text=_TEXT, cuts=st.lists(st.integers(0, 120), max_size=4))
def test_pieces_come_out_as_the_whole_does(text: str, cuts: list[int]) -> None:
    data = text.encode()
    shown: list[str] = []
    live = LiveOutput(shown.append)
    start = 0
    for cut in sorted(cuts):
        live(data[start:cut], 0)
        start = max(start, cut)
    live(data[start:], 0)
    live.finish()
    assert "".join(shown) == sanitize(text)


def test_what_was_skipped_is_said() -> None:
    shown: list[str] = []
    live = LiveOutput(shown.append)
    live(b"one", 0)
    live(b"two", 5000)
    assert "".join(shown) == "one\n… 5,000 bytes not shown …\ntwo"


@given(sizes=st.lists(st.integers(1, 50_000), min_size=1, max_size=12))
def test_head_and_tail_are_the_ends_of_what_was_written(sizes: list[int]) -> None:
    spool = Spool()
    capture = Capture(spool)
    data = b"".join(bytes([index % 251]) * size for index, size in enumerate(sizes))
    start = 0
    for size in sizes:
        capture.add(data[start : start + size])
        start += size
    capture.close()
    kept = bytes(capture.head + capture.tail)
    assert capture.total_bytes == len(data)
    assert kept == (data if len(data) <= HEAD_BYTES + TAIL_BYTES else data[:HEAD_BYTES] + data[-TAIL_BYTES:])
    if capture.saved_path:
        assert Path(capture.saved_path).read_bytes() == data[:1_048_576]
    assert bool(capture.saved_path) == (len(data) > HEAD_BYTES + TAIL_BYTES)
    spool.remove()


def test_saved_outputs_are_few_and_go_with_the_spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    spool = Spool()
    for _ in range(20):
        os.close(spool.create()[0])
    assert len(list(tmp_path.rglob("*.txt"))) == 16
    spool.remove()
    assert not list(tmp_path.iterdir())
