from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lmtui.core.messages import Image
from lmtui.tui.prompt_store import Folds, is_large

PNG = Image("a]b\n.png", "image/png", b"x")


@given(st.lists(st.text()))
def test_what_is_folded_comes_back_whole(texts: list[str]) -> None:
    folds = Folds()
    tokens = [folds.fold(text) for text in texts]
    assert folds.expand(" ".join(tokens)) == " ".join(texts)


def test_a_token_in_a_paste_is_not_expanded_again() -> None:
    folds = Folds()
    inner = folds.fold("secret")
    assert folds.expand(folds.fold(inner)) == inner
    assert Folds().expand("[pasted 30 lines #1] [image #2 a.png]") == "[pasted 30 lines #1] [image #2 a.png]"


def test_a_picture_is_named_by_a_token_that_can_be_read_back() -> None:
    folds = Folds()
    token = folds.add_image(PNG)
    assert token == "[image #1 a_b⏎.png]"
    assert folds.images(f"see {token} and {token}") == (PNG,)
    assert folds.expand(token) == token


def test_numbers_go_on_after_those_of_an_earlier_run() -> None:
    folds = Folds()
    folds.load({"[pasted 30 lines #7]": "old", "no token #9": "x"})
    assert folds.fold("x" * 2000) == "[pasted 2000 characters #8]"
    assert folds.typed("a [pasted 30 lines #7]").pastes == {"[pasted 30 lines #7]": "old"}


def test_the_token_at_a_column_is_found_and_its_ends_count_where_asked() -> None:
    folds = Folds()
    line = f"a {folds.fold('x' * 2000)} b"
    end = len(line) - 2
    assert folds.at(line, 5) == (2, end)
    assert folds.at(line, 2) is None
    assert folds.at(line, 2, before=True) == (2, end)
    assert folds.at(line, end) is None
    assert folds.at(line, end, after=True) == (2, end)


def test_only_large_pastes_fold() -> None:
    assert not is_large("\n".join("0123456789"))
    assert is_large("\n".join("0123456789A"))
    assert is_large("x" * 1001)
