from __future__ import annotations

from lmtui.tui.lines.transcript import fences_of, nearest

TEXT = "a\n```python\nx = 1\n```\nb\n~~~\n```\ny\n~~~\n  ```sh\n  ls\n   -l\n  ```\n"


def test_every_fence_gives_exactly_its_code() -> None:
    assert [(fence.code, fence.language) for fence in fences_of(TEXT)] == [
        ("x = 1", "python"),
        ("```\ny", ""),
        ("ls\n -l", "sh"),
    ]
    assert [fence.code for fence in fences_of("```\na\nb")] == ["a\nb"]
    for fence in fences_of(TEXT):
        assert fence.code.split("\n")[0] in TEXT[fence.start : fence.end]


def test_the_nearest_is_the_one_here_or_the_next_or_the_last() -> None:
    fences = fences_of(TEXT)
    assert [nearest(fences, at) for at in (0, 10, 25, len(TEXT))] == [0, 0, 1, 2]
