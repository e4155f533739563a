from __future__ import annotations

import pytest

from lmtui.core.errors import ToolError
from lmtui.features.call_arguments import fitted, read_arguments

DEPTHS = [100, 300, 500, 700, 900, 5_000, 100_000]


@pytest.mark.parametrize("depth", DEPTHS)
def test_arguments_that_are_nested_too_deep_are_refused_in_words(depth: int) -> None:
    for text in ('{"a":' + "[" * depth + "]" * depth + "}", '{"a":' * depth + "1" + "}" * depth):
        with pytest.raises(ToolError, match=r"not JSON|nested more than"):
            read_arguments("mcp__a__b", text)


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_text_that_is_no_usable_list_stays_a_text(depth: int) -> None:
    for text in ("[" * depth, "[" * depth + "]" * depth):
        assert fitted({"a": text}, {"properties": {"a": {"type": "array"}}}) == {"a": text}


def test_arguments_lose_halves_of_characters_that_no_server_takes() -> None:
    assert read_arguments("t", '{"a": "\\ud800x"}') == {"a": "\ufffdx"}
    assert read_arguments("t", "  ") == {}
    with pytest.raises(ToolError, match="not a JSON object"):
        read_arguments("t", "[1]")
