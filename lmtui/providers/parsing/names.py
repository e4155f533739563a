"""The tools of a request, found by any spelling that models use for them; and what is known of their arguments."""

from __future__ import annotations

import re
from collections.abc import Iterable

from lmtui.core.messages import ToolSpec

_PREFIXES = ("functions.", "function.", "tools.", "tool.", "default_api.", "functions::")
_NUMBER = re.compile(r":\d+$")


class ToolNames:
    """Finds tools: own names before aliases; case, `-`, `_` and prefixes such as `functions.` do not matter."""

    def __init__(self, specs: Iterable[ToolSpec]) -> None:
        self.specs = tuple(specs)
        self._found: dict[str, ToolSpec] = {}
        for spec in self.specs:
            self._found.setdefault(_plain(spec.name), spec)
        for spec in self.specs:
            for alias in spec.aliases:
                self._found.setdefault(_plain(alias), spec)

    def find(self, name: object) -> ToolSpec | None:
        """Return the tool that a name means, None where there is none."""
        if not isinstance(name, str) or not 0 < len(name) <= 100:
            return None
        name = name.strip().partition("<|")[0]
        found = self._found.get(_plain(name))
        if found is not None:
            return found
        for prefix in _PREFIXES:
            name = name.removeprefix(prefix)
        name = name.removesuffix(".call")
        return self._found.get(_plain(_NUMBER.sub("", name)))


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "").replace(" ", "")


def parameters(spec: ToolSpec) -> dict[str, dict[str, object]]:
    """Return a tool's parameters by name, each with its schema."""
    properties = spec.parameters.get("properties")
    if not isinstance(properties, dict):
        return {}
    return {str(name): schema if isinstance(schema, dict) else {} for name, schema in properties.items()}


def required(spec: ToolSpec) -> tuple[str, ...]:
    """Return the names of the parameters that a call must have."""
    names = spec.parameters.get("required")
    return tuple(str(name) for name in names) if isinstance(names, list | tuple) else ()


def own_parameter(spec: ToolSpec, name: str) -> str:
    """Return the own name of a parameter that goes by several, empty where there is none of that name."""
    if name in parameters(spec) or name in spec.argument_aliases:
        return name
    return next((own for own, others in spec.argument_aliases.items() if name in others), "")


def has_required(spec: ToolSpec, names: Iterable[str]) -> bool:
    """Tell whether all that a call must have is among these names, aliases included."""
    given = {own_parameter(spec, name) for name in names}
    return all(name in given for name in required(spec))


def type_of(spec: ToolSpec, name: str) -> str:
    """Return the JSON type of a parameter, empty where unknown."""
    schema = parameters(spec).get(own_parameter(spec, name), {})
    kind = schema.get("type")
    return kind if isinstance(kind, str) else ""
