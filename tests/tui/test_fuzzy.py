from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lmtui.tui.path_index import FuzzyPaths, positions

PATHS = ["README.md", "parser/lexer.py", "parser/tests/test_lexer.py", "lexicon/a.txt", "Long/Enough/X.py", "src/x.py"]


def test_a_name_that_begins_so_comes_first_and_scattered_characters_last() -> None:
    assert FuzzyPaths(PATHS).search("lex") == (
        ["parser/lexer.py", "parser/tests/test_lexer.py", "lexicon/a.txt", "Long/Enough/X.py"],
        4,
    )


def test_a_longer_text_narrows_and_a_shorter_one_widens_again() -> None:
    index = FuzzyPaths(PATHS)
    assert index.search("p")[1] == 4
    assert index.search("py")[1] == 4
    assert index.search("pyx")[1] == 0
    assert index.search("le")[1] == 4
    assert index.search("")[1] == len(PATHS)


def test_the_characters_found_are_a_run_in_the_name_where_there_is_one() -> None:
    assert positions("lex", "lex/lexer.py") == [4, 5, 6]
    assert positions("lpy", "parser/lexer.py") == [7, 13, 14]
    assert positions("zz", "parser/lexer.py") == []


TEXTS = st.text("ab/.é漢ẞ", max_size=6)


@given(st.lists(TEXTS, max_size=20), TEXTS, TEXTS)
def test_narrowing_finds_what_a_fresh_search_finds(paths: list[str], text: str, more: str) -> None:
    index = FuzzyPaths(paths)
    index.search(text)
    assert index.search(text + more) == FuzzyPaths(paths).search(text + more)


@given(TEXTS, TEXTS)
def test_positions_are_those_of_the_characters(text: str, path: str) -> None:
    found = positions(text, path)
    assert [path[at].casefold() for at in found] == (list(text.casefold()) if found else [])
    assert found == sorted(set(found))
