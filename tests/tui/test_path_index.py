from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lmtui.tui.path_index import FuzzyPaths, offered_paths, positions, with_folders
from tests.sets import for_each

FILES = [
    "src/lexer.py", "src/my_lexer.py", "src/relexer.py", "lexer/other.py", "src/deep/down/lexer_notes.md", "docs/a b.md",
    "README.md", "src/l_e_x.txt",
]  # fmt: skip
LATELY = "src/deep/down/lexer_notes.md"
TEXTS = st.text("ab/.é漢ẞ", max_size=6)


def test_folders_are_known_by_what_is_in_them() -> None:
    assert with_folders(["a/b/c.py", "d.py"]) == ["a/", "a/b/", "a/b/c.py", "d.py"]


@for_each(
    ("query", "recent", "first"),
    [
        ("lexer", [], ["lexer/", "src/lexer.py", LATELY, "src/my_lexer.py", "src/relexer.py", "lexer/other.py"]),
        ("md", [LATELY], [LATELY]),
        ("", ["src/lexer.py", "gone.py"], ["src/lexer.py", "docs/", "lexer/", "src/", "README.md"]),
        ("src/", [], ["src/deep/"]),
        ("lxtxt", [], ["src/l_e_x.txt"]),
    ],
)
def test_names_that_begin_so_come_first_then_words_then_the_rest(query: str, recent: list[str], first: list[str]) -> None:
    found = offered_paths(FuzzyPaths(with_folders(FILES)), query, recent)
    assert found[: len(first)] == first
    assert query not in found


def test_the_characters_found_are_a_run_in_the_name_where_there_is_one() -> None:
    assert positions("lex", "lex/lexer.py") == [4, 5, 6]
    assert positions("lpy", "parser/lexer.py") == [7, 13, 14]
    assert positions("zz", "parser/lexer.py") == []


@given(st.lists(TEXTS, max_size=20), TEXTS, TEXTS)
def test_narrowing_finds_what_a_fresh_search_finds(paths: list[str], text: str, more: str) -> None:
    index = FuzzyPaths(paths)
    index.search(text)
    assert index.search(text + more) == FuzzyPaths(paths).search(text + more)
    assert index.search("")[1] == len(paths)


@given(TEXTS, TEXTS)
def test_positions_are_those_of_the_characters(text: str, path: str) -> None:
    found = positions(text, path)
    assert [path[at].casefold() for at in found] == (list(text.casefold()) if found else [])
    assert found == sorted(set(found))
