from __future__ import annotations

import pytest

from lmtui.core.messages import ToolCallFormat
from lmtui.engine.exam_tasks import FormCounts, chosen, works_natively

N, T, S = ToolCallFormat.NATIVE, ToolCallFormat.TEXT, ToolCallFormat.SCHEMA
NONE = FormCounts(tasks=4, words=4)


def native(right: int, *, recovered: int = 0, malformed: int = 0, why_not: str = "") -> FormCounts:
    return FormCounts(4, right, structured=4, recovered=recovered, malformed=malformed, why_not=why_not)


def text(right: int, *, malformed: int = 0) -> FormCounts:
    return FormCounts(4, right, recovered=4, malformed=malformed)


@pytest.mark.parametrize(
    ("found", "form"),
    [
        ({N: native(4)}, N),
        ({N: native(2), T: text(2), S: text(2)}, N),
        ({N: native(2), T: text(3), S: text(3)}, T),
        ({N: native(3, why_not="its calls could not be read"), T: text(2), S: text(2)}, T),
        ({N: FormCounts(1, 1, recovered=1), T: text(2), S: text(2)}, T),
        ({N: NONE, T: text(2), S: text(3)}, T),
        ({N: NONE, T: text(2, malformed=2), S: text(3)}, S),
        ({N: NONE, T: text(2), S: text(4)}, S),
        ({N: NONE, T: NONE, S: text(1)}, S),
        ({N: NONE, T: text(1)}, T),
        ({N: NONE, T: NONE, S: NONE}, None),
        ({}, None),
    ],
)
def test_the_form_follows_from_the_counts(found: dict[ToolCallFormat, FormCounts], form: ToolCallFormat | None) -> None:
    assert chosen(found)[0] is form


def test_the_reason_begins_with_the_form_that_was_chosen_and_has_the_counts() -> None:
    _, note = chosen({N: NONE, T: text(3, malformed=1)})
    assert note == "text 3 of 4 tasks right, calls: 4 read, 1 malformed; native 0 of 4"


@pytest.mark.parametrize(
    ("counts", "works"),
    [
        (native(4), True),
        (native(3), False),
        (native(4, recovered=1), False),
        (native(4, malformed=1), False),
        (native(4, why_not="no time"), False),
        (text(4), False),
        (FormCounts(), False),
    ],
)
def test_native_calls_work_only_where_all_are_structured_and_right(counts: FormCounts, *, works: bool) -> None:
    assert works_natively(counts) is works
