"""Which model does which part of the work, as the settings say it: `planner: qwen3-14b temperature=0.2`.  Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from lmtui.core.errors import ConfigError


class ModelRole(StrEnum):
    """A part of the work that may have its own model."""

    PLANNER = "planner"
    CODER = "coder"
    REVIEWER = "reviewer"
    SUMMARISER = "summariser"
    TITLE = "title"
    VISION = "vision"


@dataclass(frozen=True, slots=True)
class RoleModel:
    """What the settings say of a role; what is empty or None is as for the main model."""

    model: str = ""
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    repeat_penalty: float | None = None


Roles = Mapping[ModelRole, RoleModel]
_LIMITS = {"temperature": (0.0, 2.0), "top_p": (0.0, 1.0), "repeat_penalty": (0.0, 2.0), "seed": (0.0, 2.0**63 - 1)}
_FORM = (
    'Write it as "planner: NAME temperature=0.2": a role, a colon, a model, its own settings; one of the two may be missing.'
)


def parse_roles(texts: Iterable[str]) -> Roles:
    """Read the setting `roles`; of two entries for one role the later one holds.

    Raises:
        ConfigError: an entry cannot be read; the text names it.
    """
    return dict(map(_entry, texts))


def _entry(text: str) -> tuple[ModelRole, RoleModel]:
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
    values = dict(_value(word, text) for word in words if "=" in word)
    seed = values.get("seed")
    return ModelRole(role), RoleModel(
        models[0] if models else "",
        values.get("temperature"),
        values.get("top_p"),
        int(seed) if seed is not None else None,
        values.get("repeat_penalty"),
    )


def _value(word: str, text: str) -> tuple[str, float]:
    name, _, given = word.partition("=")
    if name not in _LIMITS:
        raise ConfigError(f"roles: {text!r} sets {name!r}, which is none", f"There are {', '.join(_LIMITS)}.")
    least, most = _LIMITS[name]
    try:
        number = int(given) if name == "seed" else float(given)
    except ValueError:
        number = math.nan
    if not least <= number <= most:
        limits = "a whole number from 0" if name == "seed" else f"a number from {least:g} to {most:g}"
        raise ConfigError(f"roles: in {text!r} {name} cannot be {given!r}", f"It is {limits}.")
    return name, number
