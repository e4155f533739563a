"""From the words of a model to checked arguments.  What is safe is mended; the rest becomes an error that shows the form."""

from __future__ import annotations

import json
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from lmtui.core.call_values import fit_values
from lmtui.core.errors import ToolError

M = TypeVar("M", bound=BaseModel)


def read_object(tool: str, text: str) -> dict[str, object]:
    """Return the arguments as an object.

    Raw line breaks inside strings and arguments wrapped in a string once more are taken; nothing is guessed.

    Raises:
        ToolError: they are not one whole JSON object, are nested too deep, or a path, pattern or command in them holds a NUL.
    """
    try:
        value = json.loads(text or "{}", strict=False)
        if isinstance(value, str):
            value = json.loads(value, strict=False)
    except (ValueError, RecursionError) as error:
        where = getattr(error, "pos", len(text))
        is_cut = where >= len(text.rstrip()) - 1 or "Unterminated" in str(error)
        what = "end too early" if is_cut else f"are not JSON (at character {where})"
        raise ToolError(
            f"{tool} was not run: its arguments {what}.", "Send the whole call again, with complete JSON."
        ) from error
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ToolError(f"{tool} was not run: its arguments must be one JSON object.")
    given = fit_values(tool, value)
    for key, each in given.items():
        _refuse_nul(tool, key, each)
    return given


_FREE_TEXT = frozenset({"content", "contents", "file_text", "text", "search", "replace", "old_string", "new_string"})


def _refuse_nul(tool: str, key: str, value: object) -> None:
    """Refuse a path, pattern or command that holds a NUL.

    Raises:
        ToolError: one does.
    """
    if isinstance(value, str) and "\0" in value and key not in _FREE_TEXT:
        raise ToolError(f"{tool} was not run: {key} holds a NUL character.")
    if isinstance(value, list):
        for each in value:
            _refuse_nul(tool, key, each)
    if isinstance(value, dict):
        for name, each in value.items():
            _refuse_nul(tool, name, each)


def check(tool: str, model: type[M], value: dict[str, object], roots: tuple[str, ...] = ()) -> M:
    """Return checked arguments; paths may begin with one of `roots`.

    Numbers, booleans and lists may come as text; what the tool does not know is dropped.

    Raises:
        ToolError: one is missing or of the wrong type; the text names each and says what the tool takes.
    """
    given = {key: each for key, each in value.items() if each is not None}
    try:
        return model.model_validate(given, context=roots)
    except ValidationError as error:
        mended = _mended(given, error)
        if mended is not None:
            return check(tool, model, fit_values(tool, mended), roots)
        problems = "; ".join(_problem(model, each["loc"], each["type"], each["msg"], each["input"]) for each in error.errors())
        raise ToolError(f"{tool} was not run: {problems}.", f"It takes: {signature(model)}.") from error


_STRUCTURES = {"list_type": list, "tuple_type": list, "dict_type": dict, "model_type": dict}


def _mended(given: dict[str, object], error: ValidationError) -> dict[str, object] | None:
    """Return the arguments with those that only came in the wrong type put right, None where none can be."""
    mended = dict(given)
    for each in error.errors():
        name, wanted = str(each["loc"][0]) if each["loc"] else "", _STRUCTURES.get(each["type"])
        if wanted is None or len(each["loc"]) != 1 or name not in mended:
            continue
        value = mended[name]
        mended[name] = _structure(value, wanted) if isinstance(value, str) else value
    return mended if mended != given else None


def _structure(text: str, kind: type) -> object:
    """Return the list or object that a text holds, the text where it holds none."""
    try:
        value = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, kind) else text


def signature(model: type[BaseModel]) -> str:
    """Return the arguments of a tool in a line: `path (text), offset (integer, optional)`."""
    properties = model.model_json_schema(by_alias=False).get("properties", {})
    parts = []
    for name, field in model.model_fields.items():
        kind = _kind(properties.get(name, {}))
        parts.append(f"{name} ({kind})" if field.is_required() else f"{name} ({kind}, optional)")
    return ", ".join(parts) or "no arguments"


def _kind(schema: dict[str, object]) -> str:
    choices = schema.get("anyOf")
    kinds = [choice.get("type") for choice in choices] if isinstance(choices, list) else [schema.get("type")]
    kind = next((str(each) for each in kinds if each and each != "null"), "text")
    return "text" if kind == "string" else kind


def _problem(model: type[BaseModel], place: tuple[int | str, ...], kind: str, message: str, given: object) -> str:
    name = _own_name(model, str(place[0])) if place else "the arguments"
    if kind == "missing":
        return f"{name} is missing"
    shown = json.dumps(given, ensure_ascii=False, default=str)[:60]
    return f"{name} is wrong ({message[:1].lower()}{message[1:]}; got {shown})"


def _own_name(model: type[BaseModel], given: str) -> str:
    for name, field in model.model_fields.items():
        choices = getattr(field.validation_alias, "choices", ())
        if given == name or given in choices:
            return name
    return given
