from __future__ import annotations

import re
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmtui.core.errors import SandboxError
from lmtui.sandbox.workspace_sandbox import translate
from tests.sets import for_each

CASES = [
    ("*.py", "a.py", True), ("*.py", "x/y/a.py", True), ("*.py", "a.pyc", False), ("src/*.py", "src/a.py", True),
    ("src/*.py", "src/x/a.py", False), ("src/*.py", "other/src/a.py", False), ("**/*.py", "a.py", True),
    ("**/*.py", "x/a.py", True), ("src/**", "src/x/y", True), ("src/**/z", "src/z", True), ("src/**/z", "src/a/b/z", True),
    ("a?c", "abc", True), ("a?c", "a/c", False), ("[ab].txt", "b.txt", True), ("[!ab].txt", "b.txt", False),
    ("[!ab].txt", "c.txt", True), ("[a-c]x", "bx", True), ("*.{py,txt}", "a.txt", True), ("*.{py,txt}", "a.md", False),
    ("{src,lib}/{a,b}.py", "lib/b.py", True), (r"\*.py", "*.py", True), (r"\*.py", "a.py", False), ("a[", "a[", True),
    ("./x", "x", True), (".hidden", "sub/.hidden", True), ("a+b(c)", "a+b(c)", True), ("x\n", "x", False),
]  # fmt: skip


@for_each(("pattern", "path", "expected"), CASES)
def test_a_glob_matches_what_it_means(pattern: str, path: str, expected: bool) -> None:
    assert bool(re.compile(translate(pattern)).match(path)) is expected


@given(pattern=st.text(alphabet="ab*?[]{}!^,\\/.-&|~", min_size=1, max_size=12))
def test_every_glob_is_an_expression_or_refused(pattern: str) -> None:
    with suppress(SandboxError):
        re.compile(translate(pattern))


@for_each("pattern", ["", "x" * 2000, "{a", "a\0b", "[z-a]"])
def test_a_glob_that_cannot_be_is_refused(pattern: str) -> None:
    with pytest.raises(SandboxError):
        translate(pattern)
