"""A change of which the user accepted only some hunks: what is to be written then, and what the model is told."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from lmtui.core.clean import clean
from lmtui.core.line_diff import compare, hunks_of, split_lines, with_hunks
from lmtui.tools.text import diff_lines

_MOST_LINES = 60
_MOST_CHARS = 3000


@dataclass(frozen=True, slots=True)
class Accepted:
    """What is left of a change: the whole new text, and words for the model on what was not applied."""

    text: str
    words: str


def accept(path: str, old: str, new: str, chosen: Collection[int]) -> Accepted:
    """Return the old text with only the chosen hunks (from 0, as the preview's diff has them) of the change to `new`."""
    before, after = split_lines(old), split_lines(new)
    spans = compare(before, after)
    numbers = range(len(hunks_of(spans)))
    applied, rejected = [each for each in numbers if each in chosen], [each for each in numbers if each not in chosen]
    words = (
        f"the user accepted {len(applied)} of {len(numbers)} hunks of this change; only these were applied. "
        f"Rejected, the file is unchanged there:\n{_rejected(path, before, after, rejected)}"
    )
    return Accepted(with_hunks(before, after, spans, applied), words)


def _rejected(path: str, before: list[str], after: list[str], numbers: Collection[int]) -> str:
    lines = list(diff_lines(path, before, after, compare(before, after), numbers))[2:]
    text = "\n".join(lines[:_MOST_LINES])[:_MOST_CHARS]
    left_out = len(lines) - text.count("\n") - 1
    return clean(text) + (f"\n… {left_out} more rejected lines" if left_out > 0 else "")
