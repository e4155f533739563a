from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lmtui.core.prompt_text import Mention, find_mentions, mention_text
from tests.sets import for_each


@for_each(("text", "found"), [
    ("look at @a.py and @b/c.py.", [Mention("a.py"), Mention("b/c.py")]),
    ("(@a.py:10-20) @a.py:7, @a.py:0", [Mention("a.py", 10, 20), Mention("a.py", 7, 7), Mention("a.py", 1, 1)]),
    ("@a.py:20-10", [Mention("a.py", 20, 20)]),
    ('@"my notes/a b.md" and @"x y":3-4', [Mention("my notes/a b.md"), Mention("x y", 3, 4)]),
    ("@src/ twice @src/", [Mention("src/")]), ("me@example.org a/@b @ @... ", []),
    ("@@types/node", [Mention("@types/node")]), ('@"a:1"', [Mention("a:1")]),
    (f"@a:{'1' * 5000}", [Mention(f"a:{'1' * 5000}")]),
])  # fmt: skip
def test_what_is_mentioned_is_found_once_and_in_order(text: str, found: list[Mention]) -> None:
    assert list(find_mentions(text)) == found


@given(st.text(st.characters(exclude_characters='"\n', exclude_categories=["Cs"]), min_size=1))
def test_every_path_can_be_mentioned(path: str) -> None:
    assert find_mentions(f"see {mention_text(path)} now") == (Mention(path),)
