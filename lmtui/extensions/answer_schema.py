"""An answer in a JSON Schema: the schema is told with the task, and the answer is compared with it.  Heavy (jsonschema)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, best_match

from lmtui.core.errors import UsageError

_MAX_BYTES = 262_144
_WANTED = "When you are done, answer with JSON alone, no other word, that matches this JSON Schema:\n{schema}"
_WRONG = "Your answer has to be JSON alone that matches the schema: {why}. Answer again, with the JSON alone."


class JsonAnswer:
    """Implements `core.sessions.AnswerForm` for one schema (https://json-schema.org, draft 2020-12)."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = schema
        self._validator = Draft202012Validator(schema)

    def told(self, task: str) -> str:
        """Return a task that says how it is to be answered."""
        return f"{task}\n\n{_WANTED.format(schema=json.dumps(self._schema, ensure_ascii=False))}"

    def read(self, text: str) -> tuple[str, str]:
        """Return the JSON of an answer, and what to tell the model where it does not match (empty where it does)."""
        plain = text.strip()
        if plain.startswith("```") and plain.endswith("```"):
            plain = plain.partition("\n")[2].removesuffix("```")
        try:
            value = json.loads(plain)
        except (ValueError, RecursionError) as error:
            return "", _WRONG.format(why=str(error))
        found = best_match(self._validator.iter_errors(value))
        if found is None:
            return json.dumps(value, ensure_ascii=False), ""
        return "", _WRONG.format(why=f"{found.json_path}: {found.message}"[:500])


def read_schema(path: Path) -> JsonAnswer:
    """Return what a schema file wants of an answer.

    Raises:
        UsageError: it cannot be read, or is no JSON Schema.
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
        raise UsageError(f"{path} is not a JSON Schema: it is no object", "See https://json-schema.org.")
    return JsonAnswer(schema)
