"""The tools of an agent in their fixed order, found by their own name or by what other programs call them."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from lmtui.core.errors import ToolError
from lmtui.core.lenient_json import fit_values
from lmtui.core.messages import ToolSet, ToolSpec
from lmtui.core.permissions.rules import Access
from lmtui.core.ports import PreparedCall
from lmtui.core.subagents import ChildKind
from lmtui.core.workspace import CommandLimits
from lmtui.registry import features
from lmtui.tools import edit_file, file_tools, session_tools, shell
from lmtui.tools.tool import Call, Told, Tool, aliases_of

ALL_TOOLS: tuple[Tool[Any], ...] = (
    file_tools.READ,
    edit_file.WRITE,
    edit_file.EDIT,
    file_tools.GLOB,
    file_tools.GREP,
    file_tools.LS,
    file_tools.MKDIR,
    *shell.COMMANDS,
    *session_tools.TODOS,
    session_tools.PROPOSE_PLAN,
    session_tools.PLAN_COMPLETE_STEP,
    session_tools.TASK_STATE_UPDATE,
    *session_tools.SENDERS,
    shell.PYTHON,
    file_tools.DATA_VIEW,
    *(feature.load(place) for feature in features() for place in feature.tools),
    file_tools.LOOK,
)
_EXPLORES = "read glob grep ls git_status git_diff"
_WORKS = "read write edit glob grep ls shell background todo_add todo_complete todo_update todo_list"
LEAN_TOOLS: dict[str, tuple[str, ...]] = {
    "read": ("path", "offset"),
    "write": ("path", "content"),
    "edit": ("path", "search", "replace"),
    "grep": ("pattern", "path"),
    "ls": ("path",),
    "shell": ("command",),
    "look": ("path",),
    "report_result": ("status", "summary", "artifacts"),
}
LONG_TOOLS: dict[str, tuple[str, ...]] = LEAN_TOOLS | {
    "todo_add": ("description",),
    "todo_update": ("id", "status"),
    "plan_complete_step": ("step_id", "verification_notes"),
    "task_state_update": ("objective", "pattern", "done"),
    "delegate": ("objective",),
}


def child_tools(root: str, kind: ChildKind, *, can_send: bool, limits: CommandLimits = CommandLimits()) -> ToolRegistry:
    """Return the tools of a sub-agent; one that only reads sends no others."""
    is_explorer = kind is ChildKind.EXPLORE
    names = (_EXPLORES if is_explorer else _WORKS).split()
    senders = session_tools.SENDERS if can_send and not is_explorer else ()
    own = [tool for tool in ALL_TOOLS if tool.name in names]
    return ToolRegistry(root, (*own, *senders, session_tools.REPORT_RESULT), limits)


def without_agents() -> list[Tool[Any]]:
    """Return all tools but those that send sub-agents."""
    return [tool for tool in ALL_TOOLS if tool not in session_tools.SENDERS]


def _note(call: Call[Any], unknown: Mapping[str, bool]) -> str:
    """Return a note about arguments that a tool does not know.

    Raises:
        ToolError: without them, a call that writes or runs something may not do what was meant.
    """
    refused = [name for name, is_meant in unknown.items() if is_meant]
    if refused and call.access in (Access.WRITE, Access.EXECUTE):
        names = ", ".join(name[:40] for name in refused)
        text = f"{call.tool} was not run: unknown argument{'s' * (len(refused) > 1)} {names}."
        raise ToolError(text, f"It takes: {signature(call.spec.arguments)}.")
    names = ", ".join(name[:40] for name in unknown)
    return f"[ignored unknown argument{'s' * (len(unknown) > 1)}: {names}]"


_PLACEHOLDER = re.compile(
    r"\s*(?:\.{3}|…|\{\{[^{}\n]{1,80}\}\}|<[\w /]*\b(?:path|file|file ?name|command|contents?|text|code)\b[\w /]*>)\s*"
)
_NO_PATHS = frozenset({"path", "file_path", "filepath", "filename", "path/to/file", "path/to/file.txt", "path/to/file.py"})


def _refuse_placeholder(call: Call[Any]) -> None:
    """Refuse a call whose path, command or text only says that one belongs there.

    Raises:
        ToolError: it does.
    """
    for name in ("path", "command", "content", "code"):
        value = getattr(call.checked, name, None)
        is_made = name == "path" and call.tool in ("write", "mkdir") and value in _NO_PATHS
        if isinstance(value, str) and (is_made or _PLACEHOLDER.fullmatch(value)):
            raise ToolError(
                f"{call.tool} was not run: its {name} {value.strip()!r} is a placeholder.", f"Give the {name} itself."
            )


def _clamped(model: type[BaseModel], value: Mapping[str, object], checked: BaseModel) -> Iterator[str]:
    """Return a note about each number that was out of its range."""
    for name, each in _under_own_names(model, value)[0].items():
        used, text = getattr(checked, name, None), str(each).strip()
        if isinstance(used, int) and isinstance(each, int | str) and text.lstrip("-").isdigit() and int(text) != used:
            yield f"[{name} was {int(each)}, which is out of range; {used} was used]"


def _with_limits(spec: ToolSpec, limits: CommandLimits) -> ToolSpec:
    """Return the tool for commands with the limits that the settings gave them."""
    properties = spec.parameters["properties"]
    if spec.name != shell.SHELL.name or not isinstance(properties, dict):
        return spec
    timeout = {**properties["timeout"], "description": shell.TIMEOUT_DOC.format(limits=limits)}
    return replace(spec, parameters={**spec.parameters, "properties": {**properties, "timeout": timeout}})


def _lean(specs: Sequence[ToolSpec], told: dict[str, tuple[str, ...]]) -> tuple[ToolSpec, ...]:
    """Return some tools with some arguments, for where there is little room; the others are taken all the same."""
    few: list[ToolSpec] = []
    for spec in specs:
        if spec.name in told:
            properties = spec.parameters["properties"]
            assert isinstance(properties, dict)
            parameters = {**spec.parameters, "properties": {name: properties[name] for name in told[spec.name]}}
            few.append(replace(spec, parameters=parameters))
    return tuple(few)


class ToolRegistry:
    """A fixed set of tools; implements `core.ports.Toolbox`.

    Args:
        root: the workspace's path on the host; models may send paths that begin with it.
        limits: what commands may take; the model is told.
        told: when the model learns of a tool, by its name, where that differs from what the tool says.
    """

    def __init__(
        self,
        root: str = "",
        tools: Sequence[Tool[Any]] = ALL_TOOLS,
        limits: CommandLimits = CommandLimits(),
        told: Mapping[str, Told] = MappingProxyType({}),
    ) -> None:
        self._roots = (root.rstrip("/"),) if root.rstrip("/") else ()
        self._tools = tuple(tools)
        when = {tool.name: told.get(tool.name, tool.told) for tool in self._tools}
        every_told = tuple(_with_limits(tool.spec(), limits) for tool in self._tools if when[tool.name] is not Told.NEVER)
        specs = tuple(spec for spec in every_told if when[spec.name] is Told.ALWAYS)
        sets = {ToolSet.FULL: specs, ToolSet.ALL: every_told}
        sets |= {ToolSet.LEAN: _lean(specs, LEAN_TOOLS), ToolSet.LONG: _lean(specs, LONG_TOOLS)}
        self._by_name = {name.lower(): tool for tool in self._tools for name in (*tool.aliases, tool.name)}
        others = [each for each in shell.OTHER_TOOLS if each.into in self._by_name]
        others += [each for tool in self._tools for each in tool.others]
        self._others = {name: each for each in others for name in each.names}
        every = (*(each.spec() for each in others), *(tool.spec() for tool in self._tools))
        sets[ToolSet.HIDDEN] = tuple(replace(spec, is_hidden=True) for spec in every)
        self._specs = {
            (name, sees): tuple(spec for spec in few if sees or spec.name != file_tools.LOOK.name)
            for name, few in sets.items()
            for sees in (True, False)
        }

    def specs(self, tools: ToolSet = ToolSet.FULL, *, sees: bool = False) -> tuple[ToolSpec, ...]:
        return self._specs[tools, sees]

    def prepare(self, name: str, arguments: str) -> PreparedCall:
        plain = name.strip().lower()
        tool = self._by_name.get(plain) or self._by_name.get(plain.replace("-", "_"))
        if tool is None and (other := self._others.get(plain.replace("-", "_"))) is not None:
            given = check(name, other.arguments, read_object(name, arguments), self._roots)
            return self.prepare(other.into, json.dumps(other.convert(given)))
        if tool is None:
            raise ToolError(f"no tool {name[:40]!r}{self._nearest(name)}. Tools: {', '.join(self.names())}.")
        given = tool.read(arguments) if tool.read is not None else read_object(tool.name, arguments)
        call = Call(tool, check(tool.name, tool.arguments, given, self._roots))
        _refuse_placeholder(call)
        unknown = unknown_arguments(tool.arguments, given)
        notes = (_note(call, unknown) if unknown else "", *_clamped(tool.arguments, given, call.checked))
        return replace(call, note="\n".join(filter(None, notes)))

    def canonical(self, name: str) -> str:
        """Return a tool's own name for any name it goes by.

        Raises:
            ToolError: no such tool.
        """
        tool = self._by_name.get(name.lower())
        if tool is None:
            raise ToolError(f"no tool {name[:40]!r}{self._nearest(name)}")
        return tool.name

    def has(self, name: str) -> bool:
        """Tell whether one of the tools goes by a name."""
        return name.lower() in self._by_name or name.lower().replace("-", "_") in self._by_name

    def names(self) -> tuple[str, ...]:
        """Return the names of the tools, in their order."""
        return tuple(tool.name for tool in self._tools)

    def _nearest(self, name: str) -> str:
        close = difflib.get_close_matches(name.lower(), self._by_name, n=1, cutoff=0.75)
        return f"; did you mean {self._by_name[close[0]].name}?" if close else ""


M = TypeVar("M", bound=BaseModel)

# what models add to any call: words about it, what they expect of it, leftovers of its schema.  None changes what it means
_DESCRIPTIVE = frozenset({
    "description", "reason", "reasoning", "explanation", "thought", "thoughts", "thinking", "rationale", "purpose", "comment",
    "intent", "instruction", "justification", "requires_approval", "security_risk", "task_progress",
    "output", "result", "required", "properties", "type", "strict",
})  # fmt: skip


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

    Numbers, booleans and lists may come as text.  `unknown_arguments` reports those that the tool does not know.

    Raises:
        ToolError: one is missing or of the wrong type; the text names each and says what the tool takes.
    """
    given, _ = _under_own_names(model, value)
    try:
        return model.model_validate(given, context=roots)
    except ValidationError as error:
        repaired = _repaired(model, given, error)
        if repaired is not None:
            return check(tool, model, fit_values(tool, repaired), roots)
        problems = "; ".join(_problem(model, each["loc"], each["type"], each["msg"], each["input"]) for each in error.errors())
        raise ToolError(f"{tool} was not run: {problems}.", f"It takes: {signature(model)}.") from error


def unknown_arguments(model: type[BaseModel], value: Mapping[str, object]) -> dict[str, bool]:
    """Return the names of the arguments without effect, and whether each may have been meant to change what the call does.

    Those inside lists and objects are reported as `items.name`.  A second name for an argument that was given with another
    value is one of them; nulls are not.
    """
    found: dict[str, bool] = {}
    for name, each in _unknown(model, value):
        is_meant = name.rpartition(".")[2].lower() not in _DESCRIPTIVE and each not in ("", [], {}, False)
        found[name] = found.get(name, False) or is_meant
    return found


def _unknown(model: type[BaseModel], value: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    if model.model_config.get("extra") == "allow":
        return
    given, unknown = _under_own_names(model, value)
    yield from ((name, value[name]) for name in unknown)
    for name, each in given.items():
        inner = _inner_model(model.model_fields[name].annotation)
        items = _structure(each, list) if isinstance(each, str) else each
        items = items if isinstance(items, list) else [items]
        if inner is not None:
            objects = (item for item in items if isinstance(item, Mapping))
            yield from ((f"{name}.{key}", inside) for item in objects for key, inside in _unknown(inner, item))


def _inner_model(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for each in get_args(annotation) if (found := _inner_model(each)) is not None), None)


def _under_own_names(model: type[BaseModel], value: Mapping[str, object]) -> tuple[dict[str, object], list[str]]:
    """Return what is given of each argument by its own name, and the names under which nothing was taken."""
    own = {_folded(alias): name for name, others in aliases_of(model).items() for alias in (name, *others)}
    given: dict[str, object] = {}
    unknown: list[str] = []
    for name, each in sorted(value.items(), key=lambda pair: pair[0] not in model.model_fields):
        known = own.get(_folded(name), "")
        if each is None:
            continue
        if known and given.setdefault(known, each) == each:
            continue
        unknown.append(name)
    if model.model_config.get("extra") == "allow":
        given |= {name: value[name] for name in unknown}
    return given, unknown


def _folded(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


_STRUCTURES = {"list_type": list, "tuple_type": list, "dict_type": dict, "model_type": dict}


def _repaired(model: type[BaseModel], given: dict[str, object], error: ValidationError) -> dict[str, object] | None:
    """Return the arguments with those that only came in the wrong type put right, None where none can be."""
    repaired = dict(given)
    for each in error.errors():
        name, wanted = str(each["loc"][0]) if each["loc"] else "", _STRUCTURES.get(each["type"])
        can_do_without = len(each["loc"]) == 1 and name in model.model_fields and not model.model_fields[name].is_required()
        if each["type"] == "less_than_equal" and can_do_without:
            repaired[name] = each["ctx"]["le"]
        elif each["type"] == "greater_than_equal" and can_do_without:  # 0 and -1 mean: as much as you would
            _ = repaired.pop(name, None)
        if wanted is None or len(each["loc"]) != 1 or name not in repaired:
            continue
        value = repaired[name]
        repaired[name] = _structure(value, wanted) if isinstance(value, str) else value
    return repaired if repaired != given else None


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
    own = (name for name, others in aliases_of(model).items() if place[:1] and place[0] in (name, *others))
    name = next(own, str(place[0])) if place else "the arguments"
    if kind == "missing":
        return f"{name} is missing"
    shown = json.dumps(given, ensure_ascii=False, default=str)[:60]
    return f"{name} is wrong ({message[:1].lower()}{message[1:]}; got {shown})"
