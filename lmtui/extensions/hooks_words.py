"""What a hook is told, in the format's own words: names of tools, fields, modes.  And what it changes, back in ours.  Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from lmtui.core.hooks import HookCall, HookEvent
from lmtui.core.permissions import Mode

_THEIRS = {
    "shell": ("Bash",),
    "python": ("Bash",),  # it runs programs too: who guards one guards both
    "read": ("Read",),
    "look": ("Read",),
    "write": ("Write",),
    "edit": ("Edit", "MultiEdit"),
    "glob": ("Glob",),
    "grep": ("Grep",),
    "ls": ("LS",),
    "fetch": ("WebFetch",),
    "delegate": ("Task",),
    "explore": ("Task",),
    "decompose": ("Task",),
    "todo_add": ("TodoWrite",),
    "todo_update": ("TodoWrite",),
    "todo_complete": ("TodoWrite",),
    "propose_plan": ("ExitPlanMode",),
}
_PATH = {"path": "file_path"}
_FIELDS = {
    "read": _PATH,
    "look": _PATH,
    "python": {"code": "command"},
    "write": _PATH,
    "edit": {**_PATH, "search": "old_string", "replace": "new_string"},
}
_MODES = {Mode.PLAN: "plan", Mode.AUTO: "bypassPermissions"}


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What every hook is told: the session, its log, and the workspace's path where the hook runs."""

    session_id: str
    log: str
    root: str


def tool_names(tool: str) -> tuple[str, ...]:
    """Return every name that a matcher may call one of our tools by, the one that is told first."""
    return (*_THEIRS.get(tool, ()), tool)


def payload(call: HookCall, around: Surroundings) -> bytes:
    """Return what a hook reads from its standard input: one JSON object in UTF-8."""
    told: dict[str, object] = {
        "session_id": around.session_id,
        "transcript_path": around.log,
        "cwd": around.root,
        "permission_mode": _MODES.get(Mode(call.mode), "default") if call.mode in tuple(Mode) else "default",
        "lmtui_mode": call.mode,
        "lmtui_agent": call.agent,
        "hook_event_name": str(call.event),
    }
    if call.arguments is not None:
        told |= {"tool_name": tool_names(call.subject)[0], "lmtui_tool": call.subject}
        told["tool_input"] = _their_input(call.subject, call.arguments, around.root)
    told |= call.facts
    return json.dumps(told, ensure_ascii=False, default=str).encode("utf-8", "replace") + b"\n"


def our_input(call: HookCall, changed: Mapping[str, object]) -> dict[str, object]:
    """Return the arguments of a call with what a hook put in their place; what it left out stays."""
    fields = _FIELDS.get(call.subject, {})
    theirs = {their: our for our, their in fields.items()}
    given = {name: value for name, value in changed.items() if fields.get(name) not in changed}  # their word for it counts
    return {**(call.arguments or {}), **{theirs.get(name, name): value for name, value in given.items()}}


def matched_names(call: HookCall) -> tuple[str, ...]:
    """Return what the matchers of hooks are held against."""
    return tool_names(call.subject) if call.event in (HookEvent.PRE_TOOL_USE, HookEvent.POST_TOOL_USE) else (call.subject,)


def _their_input(tool: str, arguments: Mapping[str, object], root: str) -> dict[str, object]:
    fields = _FIELDS.get(tool, {})
    told = {fields.get(name, name): value for name, value in arguments.items()}
    if "file_path" in told and isinstance(told["file_path"], str):
        told["file_path"] = f"{root}/{told['file_path']}".rstrip("/")
    return told
