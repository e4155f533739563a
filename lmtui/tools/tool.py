"""What a tool is: a name, typed arguments, what it does to the workspace, and a function.  The schema comes from the types."""

from __future__ import annotations

import contextlib
import difflib
import posixpath
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import cache
from operator import attrgetter
from typing import Annotated, Any, Generic, TypeVar

from pydantic import AfterValidator, AliasChoices, BaseModel, ConfigDict, Field, ValidationInfo
from pydantic.config import JsonDict

from lmtui.core.errors import SandboxError
from lmtui.core.events import ROOT, Envelope, ModelChanged, TurnStarted
from lmtui.core.messages import ToolSet, ToolSpec
from lmtui.core.model_events import Compacted
from lmtui.core.permissions.rules import Access, Verdict, escape_glob
from lmtui.core.ports import PreparedCall, Preview, Toolbox, ToolContext, ToolResult
from lmtui.core.sanitize import sanitize_line


class Arguments(BaseModel):
    """The base of all tool arguments: what a schema does not name is dropped here and answered by `ToolRegistry.prepare`."""

    model_config = ConfigDict(extra="ignore", populate_by_name=True, frozen=True)


_UNTOLD = "untold"
A = TypeVar("A", bound=Arguments)


def argument(default: Any = ..., *, also: tuple[str, ...] = (), doc: str = "", is_told: bool = True, **limits: Any) -> Any:
    """Declare an argument: its default (none: required), the names other programs use for it, a few words for the model.

    One that is not told of is taken all the same, from models that know it from elsewhere.
    """
    alias = AliasChoices(*also) if also else None
    extra: JsonDict | None = None if is_told else {_UNTOLD: True}
    return Field(default, description=doc or None, validation_alias=alias, json_schema_extra=extra, **limits)


def path_argument(default: Any = ..., doc: str = "", *, is_told: bool = True) -> Any:
    """Declare an argument that is a path, under every name that models use for it."""
    return argument(
        default,
        also=("file_path", "filePath", "filename", "file", "filepath", "target_file", "absolute_path", "dir_path", "directory"),
        doc=doc,
        is_told=is_told,
    )


def below_root(path: str, info: ValidationInfo) -> str:
    """Return a path relative to the workspace in its one normal form, so that rules are matched against what is opened."""
    for root in (*(info.context or ()), "/workspace"):
        if path == root or path.startswith(f"{root}/"):
            path = path[len(root) :].lstrip("/")
            break
    normal = posixpath.normpath(path) if path else ""
    return "" if normal == "." else normal


WorkspacePath = Annotated[str, AfterValidator(below_root)]


class EmptyArguments(Arguments):
    """No arguments."""


def always(access: Access) -> Callable[[Arguments], Access]:
    """Return the access of a tool whose calls all do the same."""
    return lambda _: access


class Told(Enum):
    """When the model learns of a tool: always, where the settings or a skill ask for it, or never (another does the same)."""

    ALWAYS = auto()
    SELDOM = auto()
    NEVER = auto()


@dataclass(frozen=True, slots=True)
class OtherTool(Generic[A]):
    """A tool that models invent: a call of it becomes one of the tool `into`, whose permissions hold."""

    names: tuple[str, ...]
    arguments: type[A]
    into: str
    convert: Callable[[A], dict[str, object]]

    def spec(self) -> ToolSpec:
        """Return how it is called."""
        return ToolSpec(self.names[0], "", schema_of(self.arguments), self.names[1:], aliases_of(self.arguments))


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool(Generic[A]):
    """One tool.

    Attributes:
        arguments: the typed arguments; their class docstring is not shown to the model, `description` is.
        access: what a call does, by its arguments where that differs.
        subject: what permission rules are matched against; several, where a call is about several files.
        title: the arguments in a few words, for one line; by default the subjects.
        preview: what an approval shows; by default the title.
        aliases: names that other programs use; accepted, never listed.
        told: when the model learns of it; it can be called all the same.
        others: what models invent for some of its calls.
        read: reads the arguments, where they may be written more freely than as one whole JSON object.
    """

    name: str
    description: str
    arguments: type[A]
    run: Callable[[A, ToolContext], Awaitable[ToolResult]]
    access: Callable[[A], Access]
    subject: Callable[[A], str | tuple[str, ...]]
    title: Callable[[A], str] | None = None
    preview: Callable[[A, ToolContext], Awaitable[Preview]] | None = None
    aliases: tuple[str, ...] = ()
    read: Callable[[str], dict[str, object]] | None = None
    told: Told = Told.ALWAYS
    others: tuple[OtherTool[Any], ...] = ()

    def spec(self) -> ToolSpec:
        """Return what the model is told."""
        return ToolSpec(self.name, self.description, schema_of(self.arguments), self.aliases, aliases_of(self.arguments))


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionTool(Tool[A]):
    """A tool that touches nothing but the session: nobody is asked about it, and no rule names it."""

    access: Callable[[A], Access] = lambda _: Access.NONE
    subject: Callable[[A], str | tuple[str, ...]] = lambda _: ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PathTool(Tool[A]):
    """A tool that is about one path, and reads it if nothing else is said."""

    access: Callable[[A], Access] = lambda _: Access.READ
    subject: Callable[[A], str | tuple[str, ...]] = attrgetter("path")


@dataclass(frozen=True, slots=True)
class Call(Generic[A]):
    """A call whose arguments were checked; implements `core.ports.PreparedCall`.  `note` appears below its result."""

    spec: Tool[A]
    checked: A
    note: str = ""

    @property
    def tool(self) -> str:
        return self.spec.name

    @property
    def arguments(self) -> Mapping[str, object]:
        return self.checked.model_dump(mode="json", exclude_unset=True)

    @property
    def title(self) -> str:
        return self.spec.title(self.checked) if self.spec.title is not None else " ".join(self.subjects)

    @property
    def access(self) -> Access:
        return self.spec.access(self.checked)

    @property
    def subjects(self) -> tuple[str, ...]:
        subject = self.spec.subject(self.checked)
        return (subject,) if isinstance(subject, str) else subject

    async def preview(self, context: ToolContext) -> Preview:
        if self.spec.preview is None:
            return Preview(self.title, path=self.subjects[0] if self.access is Access.READ else "")
        async with _naming_neighbours(context):
            return await self.spec.preview(self.checked, context)

    async def run(self, context: ToolContext) -> ToolResult:
        async with _naming_neighbours(context):
            result = await self.spec.run(self.checked, context)
        return replace(result, text=f"{result.text}\n{self.note}") if self.note else result


_GONE, _FOLDER = " does not exist", " is a folder"
_MOST_NAMES = 20


@contextlib.asynccontextmanager
async def _naming_neighbours(context: ToolContext) -> AsyncIterator[None]:
    """Add to an error about a path that does not exist, or is a folder, which paths there are: models guess names.

    Raises:
        SandboxError: what was raised inside.
    """
    try:
        yield
    except SandboxError as error:
        ending = next((each for each in (_GONE, _FOLDER) if str(error).endswith(each)), "")
        if not ending or error.hint:
            raise
        path = str(error).removesuffix(ending)
        found = await _same_name(context, path) if ending == _GONE else []
        folder = posixpath.dirname(path) if ending == _GONE else path
        hint = f"Did you mean {' or '.join(found)}?" if found else await listed(context, folder, like=path)
        raise SandboxError(str(error), hint) from error


async def _same_name(context: ToolContext, path: str) -> list[str]:
    """Return a few files that go by the name of a path, wherever they are and whatever their case."""
    name = posixpath.basename(path)
    pattern = "".join(f"[{each.lower()}{each.upper()}]" if each.isalpha() else escape_glob(each) for each in name)
    try:
        found = await context.sandbox.glob(f"**/{pattern}", _MOST_NAMES) if name else []
    except SandboxError:
        return []
    same = [each for each in found if posixpath.basename(each).lower() == name.lower() and each != path]
    return [sanitize_line(each) for each in same[:3] if context.on_reading(each) is not Verdict.DENY]


async def listed(context: ToolContext, folder: str, like: str = "") -> str:
    """Return in a sentence what is in a folder, or in the nearest one above it that exists; paths like another one first."""
    try:
        entries = await context.sandbox.list_directory(folder, 1, 500)
    except SandboxError:
        return await listed(context, posixpath.dirname(folder.strip("/")), like) if folder else ""
    if context.on_reading(folder or ".") is not Verdict.ALLOW:
        return ""
    names = [f"{each.path}/" if each.kind == "dir" else each.path for each in entries]
    close = difflib.get_close_matches(like, names, n=3)
    shown = list(dict.fromkeys((*close, *names)))[:_MOST_NAMES]
    more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
    here = sanitize_line(folder) or "This folder"
    return f"{here} has: {', '.join(map(sanitize_line, shown))}{more}." if shown else f"{here} is empty."


@cache
def aliases_of(arguments: type[BaseModel]) -> Mapping[str, tuple[str, ...]]:
    """Return the other names of each argument, including hidden ones."""
    found = {name: getattr(field.validation_alias, "choices", ()) for name, field in arguments.model_fields.items()}
    return {name: tuple(str(choice) for choice in choices) for name, choices in found.items()}


@cache
def schema_of(arguments: type[BaseModel]) -> dict[str, object]:
    """Return a JSON Schema with nothing in it that a small model does not need: no titles, no nulls, no defaults of nothing."""
    schema = arguments.model_json_schema(by_alias=False)
    told = {name: value for name, value in schema.get("properties", {}).items() if _UNTOLD not in value}
    properties = {name: _slim(value, schema.get("$defs", {})) for name, value in told.items()}
    slim: dict[str, object] = {"type": "object", "properties": properties}
    if schema.get("required"):
        slim["required"] = schema["required"]
    return slim


_DROPPED = frozenset({
    "title", "default", "exclusiveMinimum", "exclusiveMaximum", "minimum", "maximum", "minLength", "maxLength", "minItems",
    "maxItems",
})  # fmt: skip


def _slim(value: dict[str, Any], definitions: dict[str, Any]) -> dict[str, object]:
    if "$ref" in value:
        value = definitions[value["$ref"].rpartition("/")[2]] | {key: each for key, each in value.items() if key != "$ref"}
    choices = [choice for choice in value.get("anyOf", []) if choice.get("type") != "null"]
    if len(choices) == 1:
        value = {**_slim(choices[0], definitions), **{key: each for key, each in value.items() if key != "anyOf"}}
    slim = {key: each for key, each in value.items() if key not in _DROPPED}
    if isinstance(slim.get("items"), dict):
        slim["items"] = _slim(slim["items"], definitions)
    if "enum" in slim:
        slim.pop("description", None)
    return slim


@dataclass(frozen=True, slots=True)
class BroughtTools:
    """The tools that a feature brings to a conversation.

    `offer` returns what the model learns of them (one with the name of a tool of ours replaces it); it gets the set of
    tools and the size of the window (0: not known).
    `prepare` checks a call, like that of a toolbox; None for what it does not know.
    With `sources` it is asked only while one of them has something in it.
    """

    offer: Callable[[ToolSet, int], tuple[ToolSpec, ...]]
    prepare: Callable[[str, str], PreparedCall | None] = lambda *_: None
    sources: Sequence[Sized] = ()


class SessionToolbox:
    """Our own tools and those that features bring; implements `core.ports.Toolbox`.

    What the model learns of the latter stays once the conversation `is_begun`, since each change makes it read everything
    again; they are asked again where room is made.
    """

    def __init__(self, own: Toolbox, brought: Sequence[BroughtTools], *, is_begun: bool = False) -> None:
        self._own, self._brought, self._is_begun = own, brought, is_begun
        self._window_tokens = 0
        self._settled: dict[ToolSet, tuple[ToolSpec, ...]] = {}

    def follow(self, envelope: Envelope) -> None:
        """Take note of an event of the session."""
        match envelope.event:
            case ModelChanged(agent=agent, window_tokens=tokens) if agent == ROOT:
                self._window_tokens = tokens
            case TurnStarted():
                self._is_begun = True
            case Compacted():
                self._settled.clear()

    def specs(self, tools: ToolSet = ToolSet.FULL, *, sees: bool = False) -> tuple[ToolSpec, ...]:
        own, settled = self._own.specs(tools, sees=sees), self._settled.get(tools)
        if settled is None:
            asked = (each for each in self._brought if any(each.sources or (True,)))
            settled = tuple(spec for each in asked for spec in each.offer(tools, self._window_tokens))
            if self._is_begun:
                self._settled[tools] = settled
        brought = {spec.name: spec for spec in settled}
        return (*(brought.pop(spec.name, spec) for spec in own), *brought.values())

    def prepare(self, name: str, arguments: str) -> PreparedCall:
        found = (each.prepare(name, arguments) for each in reversed(self._brought))
        return next((call for call in found if call is not None), None) or self._own.prepare(name, arguments)
