from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lmtui.core.errors import UsageError
from lmtui.features.pipeline.task_list import read_spec, spec_text
from lmtui.features.pipeline.tools import PipelineArguments
from lmtui.features.pipeline.values import TaskSpec
from tests.sets import for_each

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
NUMBERS = st.integers(0, 1_000_000)
LISTS = st.lists(TEXTS, max_size=3).map(tuple)
AFTER = st.lists(st.integers(1, 99), max_size=3).map(tuple)
SPEC = TaskSpec("Nested comments", "Count the depth.\nKeep strings.", ("a.py",), (3,), ("pytest -q",), "lexer")


@given(st.builds(TaskSpec, TEXTS, TEXTS, LISTS, AFTER, LISTS, TEXTS, NUMBERS, NUMBERS))
@example(TaskSpec("a", "b\r\n\\\r\n\r\r\n", ("c\r\n",)))
def test_what_is_written_is_read_back(spec: TaskSpec) -> None:
    assert read_spec(spec_text(spec), TaskSpec("")) == spec
    assert read_spec(spec_text(replace(spec, files=("a\ud800",))), TaskSpec("")) == replace(spec, files=("a?",))


@for_each(("text", "problem"), [
    ("# a\ntitle = Nested", "line 2"), ('title = "a"\nfiles = "b"', "files: .*array"), ('after = ["3"]', "after.0: .*integer"),
    ('\n\ncheck = ["x"]', "a task has no 'check', only title"),
    ("title = 3", "title: .*string"),
    ("text = 2026-01-01\ntitle = 1", "title: .*string"), ("after = " + "[" * 2000, "TOML"),
])  # fmt: skip
def test_a_wrong_text_says_what_is_wrong(text: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        _ = read_spec(text, SPEC)


def test_what_is_accepted_is_a_check_where_it_is_a_command_and_text_where_it_is_prose() -> None:
    specs = [PipelineArguments(title="Do it", acceptance=each).spec() for each in ("pytest -q", "The tests pass.")]
    assert [(each.checks, each.text) for each in specs] == [(("pytest -q",), ""), ((), "The tests pass.")]
