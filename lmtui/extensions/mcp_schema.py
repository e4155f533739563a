"""The arguments of a call against the schema that its server gave.  Heavy (jsonschema): imported when a call is checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from jsonschema.protocols import Validator
from referencing import Registry
from referencing.exceptions import Unresolvable

_MAX_PROBLEMS = 5
_SLOW_WORDS = frozenset(
    {"pattern", "patternProperties", "format"}
)  # a hostile pattern could take for ever; the server checks too


def problems(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what does not fit, in words for the model; nothing where the schema itself cannot be used."""
    usable = _without(schema)
    try:
        Draft202012Validator.check_schema(usable)
        checker: Validator = Draft202012Validator(usable, registry=Registry())
        found = sorted(checker.iter_errors(dict(arguments)), key=lambda error: [str(part) for part in error.absolute_path])
    except (SchemaError, Unresolvable, RecursionError):
        return ()
    return tuple(
        f"{'.'.join(map(str, each.absolute_path)) or 'arguments'}: {each.message[:200]}" for each in found[:_MAX_PROBLEMS]
    )


def _without(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {
            key: _without(each) for key, each in value.items() if key not in _SLOW_WORDS or not isinstance(each, str | Mapping)
        }
    return [_without(each) for each in value] if isinstance(value, list) else value
