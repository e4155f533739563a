"""Reading facts out of foreign JSON: what has the wrong type is not told."""

from __future__ import annotations

import hashlib
from typing import Any

from lmtui.core.clean import clean_line

_DIGEST_CHARS = 16


def items(value: Any, key: str) -> list[dict[str, Any]]:
    """Return the objects of a list inside an object."""
    found = value.get(key) if isinstance(value, dict) else None
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def has_list(value: Any, key: str) -> bool:
    """Tell whether an object has a list (an empty one may be null) under a key."""
    return isinstance(value, dict) and key in value and isinstance(value[key], list | None)


def part(value: Any, key: str) -> dict[str, Any]:
    """Return an object inside an object, an empty one where there is none."""
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


def number(value: Any, *keys: str) -> int:
    """Return the first positive whole number under any of the keys, else 0."""
    for key in keys:
        found = value.get(key) if isinstance(value, dict) else None
        if isinstance(found, int) and not isinstance(found, bool) and found > 0:
            return found
    return 0


def text(value: Any, key: str) -> str:
    """Return a text on one line, without control sequences; an empty one where there is none."""
    found = value.get(key) if isinstance(value, dict) else None
    return clean_line(found) if isinstance(found, str) else ""


def raw_text(value: Any, key: str) -> str:
    """Return a text as it is."""
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, str) else ""


def flag(value: Any, key: str) -> bool | None:
    """Return a truth value, None where it is not told."""
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, bool) else None


def words(value: Any, key: str) -> list[str]:
    """Return the texts of a list inside an object."""
    found = value.get(key) if isinstance(value, dict) else None
    return [each for each in found if isinstance(each, str)] if isinstance(found, list) else []


def digest(template: str) -> str:
    """Return a short digest of a chat template, empty for none."""
    return hashlib.sha256(template.encode()).hexdigest()[:_DIGEST_CHARS] if template else ""
