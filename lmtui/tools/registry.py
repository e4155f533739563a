"""The tools of an agent in their fixed order, found by their own name or by what other programs call them."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from lmtui.core.errors import ToolError
from lmtui.core.messages import ToolSet, ToolSpec
from lmtui.core.permissions.decide import Access
from lmtui.core.ports import PreparedCall
from lmtui.core.subagents import ChildKind
from lmtui.core.workspace import CommandLimits
from lmtui.tools import (
    data_view,
    delegation,
    edit_file,
    fetch,
    file_tools,
    git_tools,
    shell,
    skill,
    task_state_tools,
    todo_tools,
    wait,
)
from lmtui.tools.arguments import check, read_object, signature, unknown_arguments
from lmtui.tools.tool import Call, Tool

ALL_TOOLS: tuple[Tool[Any], ...] = (
    file_tools.READ,
    file_tools.WRITE,
    edit_file.EDIT,
    file_tools.GLOB,
    file_tools.GREP,
    file_tools.LS,
    file_tools.MKDIR,
    shell.SHELL,
    shell.BACKGROUND,
    git_tools.STATUS,
    git_tools.DIFF,
    git_tools.ADD,
    git_tools.COMMIT,
    git_tools.BRANCH,
    todo_tools.TODO_ADD,
    todo_tools.TODO_COMPLETE,
    todo_tools.TODO_UPDATE,
    todo_tools.TODO_LIST,
    todo_tools.PROPOSE_PLAN,
    todo_tools.PLAN_COMPLETE_STEP,
    task_state_tools.TASK_STATE_UPDATE,
    task_state_tools.TASK_RECONCILE,
    task_state_tools.TASK_STATE_GET,
    todo_tools.TODO_SET,
    todo_tools.MANAGE_TASKS,
    wait.GET_TIME,
    wait.WAIT,
    delegation.DELEGATE,
    delegation.EXPLORE,
    delegation.DECOMPOSE,
    shell.PYTHON,
    fetch.FETCH,
    data_view.DATA_VIEW,
    skill.SKILL,
    skill.PROMOTE,
    data_view.LOOK,
)
_SENDERS = (delegation.DELEGATE, delegation.EXPLORE, delegation.DECOMPOSE)
_READERS: tuple[Tool[Any], ...] = (
    file_tools.READ,
    file_tools.GLOB,
    file_tools.GREP,
    file_tools.LS,
    git_tools.STATUS,
    git_tools.DIFF,
)
_WORKERS: tuple[Tool[Any], ...] = (
    file_tools.READ,
    file_tools.WRITE,
    edit_file.EDIT,
    file_tools.GLOB,
    file_tools.GREP,
    file_tools.LS,
    shell.SHELL,
    shell.BACKGROUND,
    todo_tools.TODO_ADD,
    todo_tools.TODO_COMPLETE,
    todo_tools.TODO_UPDATE,
    todo_tools.TODO_LIST,
)
_UNTOLD = frozenset({  # another one does the same; taken all the same
    "mkdir", "todo_complete", "todo_list", "task_state_get", "task_reconcile", "task_todo_set", "manage_tasks",
    "promote_skill",  # told by a skill that names it
})  # fmt: skip
SELDOM = frozenset({  # told where the settings or a skill ask for them, taken all the same
    "python", "fetch", "data_view", "skill", "background",
})  # fmt: skip
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
    if kind is ChildKind.EXPLORE:
        return ToolRegistry(root, (*_READERS, delegation.REPORT_RESULT))
    return ToolRegistry(root, (*_WORKERS, *(_SENDERS if can_send else ()), delegation.REPORT_RESULT), limits)


def tools_without_agents(root: str, limits: CommandLimits = CommandLimits()) -> ToolRegistry:
    """Return all tools but those that send sub-agents."""
    return ToolRegistry(root, [tool for tool in ALL_TOOLS if tool not in _SENDERS], limits)


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


def _for_the_blind(specs: Sequence[ToolSpec]) -> tuple[ToolSpec, ...]:
    """Return those tools that show no pictures."""
    return tuple(spec for spec in specs if spec.name != data_view.LOOK.name)


class ToolRegistry:
    """A fixed set of tools; implements `core.ports.Toolbox`.

    Args:
        root: the workspace's path on the host; models may send paths that begin with it.
        limits: what commands may take; the model is told.
    """

    def __init__(self, root: str = "", tools: Sequence[Tool[Any]] = ALL_TOOLS, limits: CommandLimits = CommandLimits()) -> None:
        self._roots = (root.rstrip("/"),) if root.rstrip("/") else ()
        self._tools = tuple(tools)
        told = tuple(_with_limits(tool.spec(), limits) for tool in self._tools if tool.name not in _UNTOLD)
        specs = tuple(spec for spec in told if spec.name not in SELDOM)
        sets = {ToolSet.FULL: specs, ToolSet.ALL: told}
        sets |= {ToolSet.LEAN: _lean(specs, LEAN_TOOLS), ToolSet.LONG: _lean(specs, LONG_TOOLS)}
        self._specs = {(name, True): few for name, few in sets.items()}
        self._specs |= {(name, False): _for_the_blind(few) for name, few in sets.items()}
        self._by_name = {name.lower(): tool for tool in self._tools for name in (*tool.aliases, tool.name)}

    def specs(self, tools: ToolSet = ToolSet.FULL, *, sees: bool = False) -> tuple[ToolSpec, ...]:
        """Return what the model is told about the tools; the others of a small set can be called all the same."""
        return self._specs[tools, sees]

    def prepare(self, name: str, arguments: str) -> PreparedCall:
        """Check one call; see `core.ports.Toolbox.prepare`."""
        tool = self._by_name.get(name.strip().lower()) or self._by_name.get(name.strip().lower().replace("-", "_"))
        if tool is None:
            raise ToolError(f"no tool {name[:40]!r}{self._nearest(name)}. Tools: {', '.join(self.names())}.")
        given = tool.read(arguments) if tool.read is not None else read_object(tool.name, arguments)
        call = Call(tool, check(tool.name, tool.arguments, given, self._roots))
        unknown = unknown_arguments(tool.arguments, given)
        return replace(call, note=_note(call, unknown)) if unknown else call

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
