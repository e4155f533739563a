"""The arguments of a call against the schema of its tool.  Heavy (jsonschema): imported when a call is checked.

A schema may be a server's word, so the check itself is bounded: no pattern of a server's runs, nothing is fetched, and one that
doubles at each of its references is given up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from jsonschema import Draft202012Validator, validators
from jsonschema.exceptions import SchemaError, ValidationError
from jsonschema.protocols import Validator
from referencing import Registry
from referencing.exceptions import Unresolvable

_MAX_PROBLEMS = 5
_MAX_CHECKS = 50_000  # about a second
_SLOW_WORDS = frozenset({"pattern", "patternProperties", "format"})  # could take for ever; the server checks too
_BY_NAME = frozenset({"properties", "$defs", "definitions", "dependentSchemas"})  # their keys are names, not words of a schema
_VALUES = frozenset({"enum", "const", "default", "examples", "required"})

_extend: Callable[..., Any] = validators.extend
_Check = Callable[[Validator, Any, Any, Mapping[str, Any]], Iterator[ValidationError] | None]


class _TooMuch(Exception):
    """A schema takes more checks than any honest one."""


def problems(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what does not fit, in words for the model; nothing where the schema itself cannot be used."""
    usable = _without(schema)
    try:
        Draft202012Validator.check_schema(usable)
        checker: Validator = _counting()(usable, registry=Registry())
        found = sorted(checker.iter_errors(dict(arguments)), key=lambda error: [str(part) for part in error.absolute_path])
    except (SchemaError, Unresolvable, RecursionError, _TooMuch):
        return ()
    return tuple(
        f"{'.'.join(map(str, each.absolute_path)) or 'arguments'}: {each.message[:200]}" for each in found[:_MAX_PROBLEMS]
    )


def _counting() -> Any:
    """Return a validator that gives up after so many checks, however its schema refers to itself."""
    left = _MAX_CHECKS

    def counted(check: _Check) -> _Check:
        def checked(validator: Validator, value: Any, instance: Any, schema: Mapping[str, Any]) -> Iterator[ValidationError]:
            nonlocal left
            left -= 1
            if left < 0:
                raise _TooMuch
            yield from check(validator, value, instance, schema) or ()

        return checked

    return _extend(Draft202012Validator, {word: counted(check) for word, check in Draft202012Validator.VALIDATORS.items()})


def _without(schema: Any) -> Any:
    """Return a schema without the words that could take for ever; what merely has such a name stays."""
    if isinstance(schema, list):
        return [_without(each) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    kept: dict[str, Any] = {}
    for word, value in schema.items():
        if word in _BY_NAME and isinstance(value, Mapping):
            kept[word] = {name: _without(each) for name, each in value.items()}
        elif word in _VALUES:
            kept[word] = value
        elif word not in _SLOW_WORDS:
            kept[word] = _without(value)
    return kept
