"""What front ends meet of servers of tools: forms that these ask, resources to mention, where one may run.  No I/O."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from lmtui.core.errors import UsageError
from lmtui.core.remote_marks import mirrored, open_to_network
from lmtui.core.sanitize import sanitize_line

_MOST_FIELDS = 20
_MOST_CHARS = 300


@dataclass(frozen=True, slots=True)
class Form:
    """What `server` asks: a text, and fields as a flat JSON Schema, or an address to visit."""

    server: str
    text: str
    schema: Mapping[str, object] = field(default_factory=dict)
    url: str = ""


def is_web_address(url: str) -> bool:
    """Tell whether an address is one for a browser, and for no other program of this machine."""
    return url.lower().startswith(("http://", "https://"))


Ask = Callable[[Form], Awaitable[Mapping[str, object] | None]]


async def ask_nobody(_: Form) -> None:
    """Answer no form, where nobody is there."""
    return


@dataclass(frozen=True, slots=True)
class Field:
    """One question: `kind` is string, integer, number, boolean or array; `choices` are values with their words.

    `least` and `most` bound a number, or the length of a text.
    """

    name: str
    title: str
    kind: str = "string"
    note: str = ""
    default: object = None
    is_required: bool = False
    choices: tuple[tuple[str, str], ...] = ()
    least: float | None = None
    most: float | None = None

    def read(self, text: str) -> object:
        """Return what a person typed as the field's own value; None where an optional field was left empty.

        Raises:
            UsageError: it is not such a value; the text says what would be.
        """
        text = text.strip()
        if not text and self.default is not None:
            return self.default
        if not text and not self.is_required:
            return None
        if self.kind in ("integer", "number"):
            return self._number(text)
        if not (self.least or 0) <= len(text) <= (self.most if self.most is not None else len(text)):
            most = f" and at most {self.most:g}" if self.most is not None else ""
            raise UsageError(f"{self.title}: at least {self.least or 0:g}{most} characters")
        return text

    def _number(self, text: str) -> float:
        try:
            found = int(text) if self.kind == "integer" else float(text)
            if isinstance(found, float) and not math.isfinite(found):
                raise ValueError(text)
        except ValueError as error:
            whole = "whole " if self.kind == "integer" else ""
            raise UsageError(f"{self.title}: a {whole}number, such as 3") from error
        if (self.least is not None and found < self.least) or (self.most is not None and found > self.most):
            raise UsageError(f"{self.title}: a number from {self.least} to {self.most}")
        return found


def _bound(value: object) -> float | None:
    """Return a bound that a server names, None where it is none that a number can have."""
    try:
        return float(value) if isinstance(value, int | float) else None
    except OverflowError:
        return None


def fields_of(form: Form) -> tuple[Field, ...]:
    """Return a form's questions in their order."""
    properties, required = form.schema.get("properties"), form.schema.get("required")
    names = set(map(str, required)) if isinstance(required, Sequence) and not isinstance(required, str) else set()
    if not isinstance(properties, Mapping):
        return ()
    pairs = [(str(name), value) for name, value in properties.items() if isinstance(value, Mapping)]
    return tuple(_field(name, value, is_required=name in names) for name, value in pairs[:_MOST_FIELDS])


def _field(name: str, value: Mapping[str, object], *, is_required: bool) -> Field:
    kind = str(value.get("type", "string"))
    source = value.get("items") if kind == "array" and isinstance(value.get("items"), Mapping) else value
    bounds = [value.get(low) if kind in ("integer", "number") else value.get(long) for low, long in _BOUNDS]
    return Field(
        name,
        sanitize_line(str(value.get("title") or name))[:_MOST_CHARS],
        kind if kind in ("integer", "number", "boolean", "array") else "string",
        sanitize_line(str(value.get("description") or ""))[:_MOST_CHARS],
        value.get("default"),
        is_required,
        _choices(source if isinstance(source, Mapping) else value),
        *map(_bound, bounds),
    )


_BOUNDS = (("minimum", "minLength"), ("maximum", "maxLength"))


def _choices(value: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    """Return the values that may be chosen: an `enum` with or without names, or titled constants."""
    plain, names = value.get("enum"), value.get("enumNames")
    if isinstance(plain, list):
        words = names if isinstance(names, list) and len(names) == len(plain) else plain
        return tuple((str(each), sanitize_line(str(word))[:_MOST_CHARS]) for each, word in zip(plain, words, strict=True))
    titled = value.get("oneOf") or value.get("anyOf")
    if not isinstance(titled, list):
        return ()
    found = [each for each in titled if isinstance(each, Mapping) and "const" in each]
    return tuple((str(each["const"]), sanitize_line(str(each.get("title") or each["const"]))[:_MOST_CHARS]) for each in found)


READ_RESOURCE = "mcp_resource"
"""The call that a mention of a resource makes: it names a `server`, as tools are named after it, and a `uri`."""


class Reach(StrEnum):
    """Where the user lets a server run, whatever its entry says."""

    ENTRY = "as its entry says"
    NETWORK = "in the sandbox, with network"
    HOST = "on this machine without a sandbox"


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource of a server, or a template of several: `server` is what means it in names, `title` cleaned and short."""

    server: str
    uri: str
    title: str = ""
    is_template: bool = False


class ToolServers(Protocol):
    """The servers of tools in a workspace."""

    @open_to_network
    @mirrored
    def problems(self) -> Sequence[str]:
        """Return what of the configuration cannot be read, each with its file and the way out."""

    @open_to_network
    def listen(self, on_change: Callable[[], object]) -> Callable[[], None]:
        """Call `on_change` after each change; the returned function ends it."""

    def choose_reach(self, name: str, reach: Reach) -> None:
        """Keep where the user lets a server run; it holds for its entry as it is now.  Blocks (small files).

        Raises:
            UsageError: no such server, or it is not started here.
        """

    @open_to_network
    def resources(self) -> Sequence[Resource]:
        """Return the resources of all servers, as far as they are known."""

    def bring(self, entries: Mapping[str, Mapping[str, object]], source: str) -> None:
        """Add servers, as entries of mcp.json by name, to those of the files, of which they replace any of the same name.

        `source` says in words who brings them.  They count as the user's own, and start with the first session.

        Raises:
            ConfigError: an entry cannot be.
        """

    @open_to_network
    def answer_with(self, ask: Ask) -> None:
        """Put what servers ask the user in the middle of a call before `ask`; until then it is declined."""
