"""Which model does which part of the work, as the settings say it: `planner: qwen3-14b temperature=0.2`.  Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from lmtui.core.errors import ConfigError


class ModelRole(StrEnum):
    """A part of the work that may have its own model."""

    PLANNER = "planner"
    CODER = "coder"
    REVIEWER = "reviewer"
    PILOT = "pilot"
    ANALYST = "analyst"
    SUMMARISER = "summariser"
    TITLE = "title"
    VISION = "vision"
    EMBEDDER = "embedder"


@dataclass(frozen=True, slots=True)
class RoleModel:
    """What the settings say of a role; what is empty or None is as for the main model.

    `context_length` is the window in tokens that its model is loaded with, `max_completion` its longest answer in tokens.
    """

    model: str = ""
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    repeat_penalty: float | None = None
    context_length: int | None = None
    max_completion: int | None = None


Roles = Mapping[ModelRole, RoleModel]
_LIMITS = {"temperature": (0.0, 2.0), "top_p": (0.0, 1.0), "repeat_penalty": (0.0, 2.0)}
_WHOLE = {"seed": (0, 2**63 - 1), "context_length": (512, 100_000_000), "max_completion": (1, 100_000_000)}
_UNASKED = (ModelRole.PILOT,)
_FORM = (
    'Write it as "planner: NAME temperature=0.2": a role, a colon, a model, its own settings; one of the two may be missing.'
)


def parse_roles(texts: Iterable[str]) -> Roles:
    """Read the setting `roles`; what a later entry says of a role comes before what an earlier one says.

    Raises:
        ConfigError: an entry cannot be read; the text names it.
    """
    found: dict[ModelRole, RoleModel] = {}
    for text in texts:
        role, given = _entry(text)
        found[role] = replace(found.get(role, RoleModel()), **given)
        if found[role].context_length and not found[role].model and role is not ModelRole.CODER:
            raise ConfigError(f"roles: {text!r} sets a context_length without a model", "Name the model that has this window.")
    return found


def with_role(texts: Iterable[str], role: ModelRole, model: str) -> tuple[str, ...]:
    """Return the entries with another model for a role, an empty one for none; its other settings stay."""
    others, words = [], []
    for text in texts:
        name, _, rest = text.partition(":")
        if name.strip().lower() == role:
            words += [word for word in rest.split() if "=" in word and (model or not word.startswith("context_length="))]
        else:
            others.append(text)
    words = [model, *words] if model else words
    return (*others, *([f"{role}: {' '.join(words)}"] if words else ()))


def unasked_roles(roles: Roles) -> str:
    """Return a line about the roles that nothing asks yet, empty where the settings name none of them."""
    named = " and ".join(role for role in _UNASKED if role in roles)
    return f"roles: nothing uses {named} yet; the setting is checked, but has no effect" if named else ""


def _entry(text: str) -> tuple[ModelRole, dict[str, Any]]:
    name, colon, rest = text.partition(":")
    role = name.strip().lower()
    if not colon:
        raise ConfigError(f"roles: {text!r} has no colon", _FORM)
    if role not in tuple(ModelRole):
        raise ConfigError(f"roles: {text!r} names no role", f"The roles are {', '.join(ModelRole)}.")
    words = rest.split()
    models = [word for word in words if "=" not in word]
    if not words or len(models) > 1:
        raise ConfigError(f"roles: {text!r} names {'two models' if models else 'nothing'}", _FORM)
    own = {"model": models[0]} if models else {}
    return ModelRole(role), {**own, **dict(_value(word, text) for word in words if "=" in word)}


def _value(word: str, text: str) -> tuple[str, float | int]:
    name, _, given = word.partition("=")
    if name not in (*_LIMITS, *_WHOLE):
        raise ConfigError(
            f"roles: {text!r} sets {name!r}, which does not exist", f"Use one of {', '.join((*_LIMITS, *_WHOLE))}."
        )
    least, most = _WHOLE[name] if name in _WHOLE else _LIMITS[name]
    try:
        number = int(given) if name in _WHOLE else float(given)
    except ValueError:
        number = math.nan
    if not least <= number <= most:
        limits = f"a whole number from {least}" if name in _WHOLE else f"a number from {least:g} to {most:g}"
        raise ConfigError(f"roles: in {text!r} {name} cannot be {given!r}", f"Use {limits}.")
    return name, number
