"""The exam of a model: what is measured on purpose, as values that a front end shows.  Nothing here does I/O."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from lmtui.core.profiles import ModelProfile

EXAM = "exam"


class Grade(StrEnum):
    """How a part of the exam ended."""

    GOOD = "good"
    WEAK = "weak"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class ExamRow:
    """One thing that was measured: its name, how it ended, the result in words, a way out where there is one, its seconds."""

    name: str
    grade: Grade
    text: str
    hint: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class ExamState:
    """An exam as it stands.

    `doing` is the step that is worked on, in words.  `profile` holds what is known so far, `kept` says in words what of it was
    kept; `is_over` once nothing more comes.
    """

    url: str
    model: str
    doing: str = ""
    elapsed_s: float = 0.0
    rows: tuple[ExamRow, ...] = ()
    profile: ModelProfile = field(default_factory=ModelProfile)
    kept: str = ""
    is_over: bool = False

    @property
    def has_failed(self) -> bool:
        """Tell whether the model could not be examined, or nothing works with it."""
        return any(row.grade is Grade.FAILED for row in self.rows)


OnStep = Callable[[ExamState], None]
