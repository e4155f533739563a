"""JSON Schema: the answer to a task, and the arguments of a call.  Heavy (jsonschema): imported when something is checked."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator, validators
from jsonschema.exceptions import SchemaError, best_match
from jsonschema.protocols import Validator
from referencing import Registry
from referencing.exceptions import Unresolvable

from lmtui.core.errors import UsageError

_MAX_BYTES = 262_144
_WANTED = "When you are done, answer with JSON alone, no other word, that matches this JSON Schema:\n{schema}"
_WRONG = "the answer {why}\nAnswer again, with JSON alone that matches the schema."


class JsonAnswer:
    """What the answer to a task has to look like, as a schema says it (https://json-schema.org, draft 2020-12)."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = schema
        self._validator = Draft202012Validator(schema)

    def instruct(self, task: str) -> str:
        """Return a task that says how it is to be answered."""
        return f"{task}\n\n{_WANTED.format(schema=json.dumps(self._schema, ensure_ascii=False))}"

    def read(self, text: str) -> tuple[str, str]:
        """Return the answer as it is wanted, and what to tell the model where it is not (empty where it is)."""
        plain = text.strip()
        if plain.startswith("```") and plain.endswith("```"):
            plain = plain.partition("\n")[2].removesuffix("```")
        try:
            value = json.loads(plain)
        except (ValueError, RecursionError) as error:
            return "", _WRONG.format(why=f"is not JSON alone: {error}")
        try:
            found = best_match(self._validator.iter_errors(value))
        except (Unresolvable, RecursionError) as error:
            why = str(error).partition(": ")[2] or "it refers to itself without end"  # before it is the name of a class
            raise UsageError(f"the schema cannot be used: $ref: {why}"[:500], "Give one complete file.") from error
        if found is None:
            return json.dumps(value, ensure_ascii=False), ""
        place = "/".join(map(str, ("#", *found.absolute_schema_path)))
        return "", _WRONG.format(why=f"does not match the schema at {place}: {found.json_path}: {found.message}"[:500])


def read_schema(path: Path) -> JsonAnswer:
    """Return what a schema file wants of an answer.

    Raises:
        UsageError: it cannot be read, or is not a JSON Schema.
    """
    try:
        schema = json.loads(path.read_bytes()[:_MAX_BYTES])
        Draft202012Validator.check_schema(schema)
    except OSError as error:
        raise UsageError(f"the schema {path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError, SchemaError) as error:
        why = error.message if isinstance(error, SchemaError) else str(error)
        raise UsageError(f"{path} is not a JSON Schema: {why}", "See https://json-schema.org.") from error
    if not isinstance(schema, dict):
        raise UsageError(f"{path} is not a JSON Schema: it is not an object", "See https://json-schema.org.")
    return JsonAnswer(schema)


_MAX_PROBLEMS = 5
_extend: Callable[..., Any] = validators.extend
# Expressions are of another dialect; the server checks them, too.
_CHECKER: Any = _extend(Draft202012Validator, dict.fromkeys(("pattern", "patternProperties"), lambda *_: ()))


def problems(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what does not fit, in words for the model; nothing where the schema itself cannot be used.

    For the process of parsers, as a schema may take for ever; nothing that it refers to is fetched.
    """
    try:
        _CHECKER.check_schema(schema, format_checker=None)
        checker: Validator = _CHECKER(schema, registry=Registry())
        found = sorted(checker.iter_errors(dict(arguments)), key=lambda error: [str(part) for part in error.absolute_path])
    except (SchemaError, Unresolvable, RecursionError, re.error):
        return ()
    return tuple(
        f"{'.'.join(map(str, each.absolute_path)) or 'arguments'}: {each.message[:200]}" for each in found[:_MAX_PROBLEMS]
    )
