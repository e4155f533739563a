from __future__ import annotations

from pathlib import Path

import pytest

from lmtui.sandbox.inside.beneath import Refused, Root
from lmtui.sandbox.inside.search import Query, grep


@pytest.mark.parametrize("pattern", ["(", "a{99999999999999999999}", "(" * 3000 + ")" * 3000])
def test_a_pattern_that_python_cannot_compile_is_refused_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pattern: str
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    (tmp_path / "a.txt").write_text("aaa\n")
    with pytest.raises(Refused, match="not a regular expression"):
        _ = grep(
            Root(str(tmp_path)), Query(pattern, "", "", ignore_case=False, is_literal=False, context_lines=0, max_matches=10)
        )
