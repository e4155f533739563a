"""A task as a text that the user edits, in TOML."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from lmtui.core.errors import UsageError
from lmtui.core.pipeline import TaskSpec
from lmtui.core.sanitize import sanitize_line

_TEXTS, _LISTS = ("title", "text", "phase"), {"files": str, "after": int, "checks": str}
_NUMBERS = ("max_steps", "max_tokens")
_FIELDS = ("title", "text", "files", "after", "checks", "phase", *_NUMBERS)


def spec_text(spec: TaskSpec) -> str:
    """Return the text of a task."""
    body = "\n".join(_quoted(line)[1:-1] for line in spec.text.split("\n"))
    return (
        f"title = {_quoted(spec.title)}\n"
        f'text = """\n{body}"""\n'
        f"files = {_listed(spec.files)}\n"
        f"after = {_listed(spec.after)}\n"
        f"checks = {_listed(spec.checks)}\n"
        f"phase = {_quoted(spec.phase)}\n"
        f"max_steps = {spec.max_steps}  # of an attempt; 0: no limit\n"
        f"max_tokens = {spec.max_tokens}\n"
    )


def read_spec(text: str, spec: TaskSpec) -> TaskSpec:
    """Return a task as a text has it; what the text leaves out stays.

    Raises:
        UsageError: the text is not one of a task; it says which line is wrong.
    """
    try:
        found = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        problem = str(error).replace("at end of document", f"at line {len(text.splitlines())}, the last one")
        raise UsageError(f"not valid TOML: {sanitize_line(problem)}") from error
    for name, value in found.items():
        line = next((at for at, each in enumerate(text.split("\n"), 1) if re.match(rf"\s*{re.escape(name)}\s*[=.]", each)), 0)
        if name not in _FIELDS:
            raise UsageError(f"line {line}: a task has no {sanitize_line(name)[:40]!r}, only {', '.join(_FIELDS)}")
        if name in _TEXTS and not isinstance(value, str):
            raise UsageError(f"line {line}: {name} has to be a text in quotes")
        if name in _LISTS and not _is_list(value, _LISTS[name]):
            raise UsageError(f"line {line}: {name} has to be a list of {'numbers' if name == 'after' else 'texts in quotes'}")
        if name in _NUMBERS and (type(value) is not int or value < 0):
            raise UsageError(f"line {line}: {name} has to be a number of 0 or more")
    values: dict[str, Any] = {name: tuple(value) if name in _LISTS else value for name, value in found.items()}
    return replace(spec, **values)


def _is_list(value: Any, kind: type) -> bool:
    return isinstance(value, list) and all(type(each) is kind for each in value)


def _quoted(text: str) -> str:
    """Return a text as a string of TOML, which takes JSON's escapes."""
    clean = text.encode("utf-8", "replace").decode("utf-8")
    return json.dumps(clean, ensure_ascii=False).replace("\x7f", "\\u007f")


def _listed(values: Iterable[str | int]) -> str:
    return f"[{', '.join(_quoted(each) if isinstance(each, str) else str(each) for each in values)}]"
