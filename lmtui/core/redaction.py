"""Taking the values of keys out of what is stored, shown to a model or logged.  Pure; who knows the keys passes them in."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

_T = TypeVar("_T")
_SHORTEST = 16
_FEWEST_SIGNS = 8
REDACTED = "[key redacted]"


class Redactor:
    """Replaces known values wherever they stand.

    A value counts only if it cannot be an ordinary word: at least 16 characters, 8 of them different (local servers take
    anything for a key, and a placeholder must not eat holes into files).
    """

    def __init__(self, values: Iterable[str]) -> None:
        kept = {value for value in values if len(value) >= _SHORTEST and len(set(value)) >= _FEWEST_SIGNS}
        self._values = tuple(sorted(kept, key=len, reverse=True))

    def __bool__(self) -> bool:
        return bool(self._values)

    def also(self, values: Iterable[str]) -> Redactor:
        """Return one that takes out these values too."""
        return Redactor((*self._values, *values))

    def text(self, text: str) -> str:
        """Return a text without the values."""
        for value in self._values:
            if value in text:
                text = text.replace(value, REDACTED)
        return text

    def value(self, value: _T) -> _T:
        """Return a frozen dataclass, tuple, list, dict or text without the values; one without any is returned as it is."""
        return self._clean(value) if self._values else value

    def _clean(self, value: Any) -> Any:  # Any: whatever fields an event has
        if isinstance(value, str):
            return type(value)(self.text(value)) if any(each in value for each in self._values) else value
        if isinstance(value, tuple | list):
            cleaned = [self._clean(each) for each in value]
            return value if all(a is b for a, b in zip(cleaned, value, strict=True)) else type(value)(cleaned)
        if isinstance(value, dict):
            pairs = {self._clean(key): self._clean(each) for key, each in value.items()}
            return value if pairs == value else pairs
        if is_dataclass(value) and not isinstance(value, type):
            changed = {
                each.name: new for each in fields(value) if (new := self._clean(old := getattr(value, each.name))) is not old
            }
            return replace(value, **changed) if changed else value
        return value
