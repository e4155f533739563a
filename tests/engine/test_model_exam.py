from __future__ import annotations

from lmtui.core.messages import ToolCallFormat
from lmtui.engine.model_exam import FormCounts, chosen
from tests.sets import for_each

N, T, S = ToolCallFormat.NATIVE, ToolCallFormat.TEXT, ToolCallFormat.SCHEMA
NONE = FormCounts(tasks=3, words=3)


def native(right: int, *, recovered: int = 0, why_not: str = "") -> FormCounts:
    return FormCounts(3, right, structured=3, recovered=recovered, why_not=why_not)


def text(right: int, *, malformed: int = 0) -> FormCounts:
    return FormCounts(3, right, recovered=3, malformed=malformed)


@for_each(("found", "form"), [
    ({N: native(3)}, N), ({N: native(2), T: text(2), S: text(2)}, N), ({N: native(2), T: text(3), S: text(3)}, T),
    ({N: native(2, why_not="its calls could not be read"), T: text(2), S: text(2)}, T),
    ({N: FormCounts(1, 1, recovered=1), T: text(2), S: text(2)}, T), ({N: NONE, T: text(2, malformed=2), S: text(3)}, S),
    ({N: NONE, T: NONE, S: text(1)}, S), ({N: NONE, T: NONE, S: NONE}, None), ({}, None),
])  # fmt: skip
def test_the_form_follows_from_the_counts(found: dict[ToolCallFormat, FormCounts], form: ToolCallFormat | None) -> None:
    assert chosen(found)[0] is form
