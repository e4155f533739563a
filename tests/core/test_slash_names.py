from __future__ import annotations

from lmtui.core.prompt_text import nearest, slash_call
from tests.sets import for_each


@for_each(("text", "call"), [
    ("/review", ("review", "")), ("/review  the parser \n", ("review", "the parser")),
    ("/review\nthe parser", ("review", "the parser")), ("/git:log x/y", ("git:log", "x/y")),
    ("/etc/hosts is wrong", None), ("/notes.txt is wrong", None), ("//comment", None), (" /review", None), ("/", None),
    ("/ review", None), ("look at /review", None), ("", None),
])  # fmt: skip
def test_the_first_word_says_whether_it_is_a_command(text: str, call: tuple[str, str] | None) -> None:
    assert slash_call(text) == call


def test_the_nearest_name_is_asked_about_and_a_far_one_is_not() -> None:
    assert nearest("Reveiw", ["review", "skill"]) == "Did you mean /review?"
    assert nearest("frobnicate", ["review", "skill"]) == ""
