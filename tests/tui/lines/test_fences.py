from __future__ import annotations

from lmtui.tui.lines.transcript import Transcript
from tests.tui.lines.test_transcript import answer, filled


def test_each_block_of_code_of_the_last_answer_is_copied_in_turn() -> None:
    transcript = Transcript()
    filled(transcript, [answer("a\n```python\nx = 1\n```\nb\n~~~\n```\ny\n~~~\n"), answer("no code")])
    assert [transcript.next_fence() for _ in range(3)] == [("x = 1", 1, 2), ("```\ny", 2, 2), ("x = 1", 1, 2)]
