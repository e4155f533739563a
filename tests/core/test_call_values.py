from __future__ import annotations

import pytest

from lmtui.core.errors import ToolError
from lmtui.core.lenient_json import MOST_LEVELS, fit_values


def nested(levels: int) -> object:
    value: object = "x"
    for number in range(levels):
        value = [value] if number % 2 else {"a": value}
    return value


def test_halves_of_pairs_go_from_names_and_values_and_whole_pairs_stay() -> None:
    given: dict[str, object] = {"a\ud800": ["\ud83d\ude00", {"\udc00": "b\udfff"}, 3, None, True]}
    assert fit_values("t", given) == {"a\ufffd": ["\U0001f600", {"\ufffd": "b\ufffd"}, 3, None, True]}


@pytest.mark.parametrize("levels", [MOST_LEVELS + 1, 400, 900])
def test_what_is_nested_too_deep_is_refused_and_what_is_not_stays(levels: int) -> None:
    deep = nested(MOST_LEVELS)
    assert fit_values("t", {"a": deep}) == {"a": deep}
    with pytest.raises(ToolError, match="nested more than"):
        fit_values("t", {"a": nested(levels)})
