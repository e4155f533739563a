from __future__ import annotations

from typing import Any

import pytest

from lmtui.core.errors import UsageError
from lmtui.features.pipeline.subcommands import pipeline, pipeline_parser
from lmtui.features.service import CommandCall
from tests.sets import for_each

NONE: Any = None


@for_each(("words", "problem"), [
    ("status a", "takes no more words"), ("preflight", "takes PLAN"), ("answer plan 1", "takes PLAN N TEXT"),
    ("retry 2", "retry` takes PLAN N"), ("done a b", "one PLAN"), ("retry plan x", "'x' is not a task number"),
    ("answer plan 1a yes", "'1a' is not"), ("run --architect-only", "file of a plan"), ("run a.md --batch-size=-1", "is -1"),
])  # fmt: skip
async def test_wrong_arguments_are_an_error_before_the_host_is_opened(words: str, problem: str) -> None:
    call = CommandCall(workspace=NONE, arguments=pipeline_parser().parse_args(words.split()), open_host=NONE)
    with pytest.raises(UsageError, match=problem):
        await pipeline(call)
