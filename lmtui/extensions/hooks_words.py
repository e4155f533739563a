"""What a hook is told, in the format's own words: names of tools, fields, modes.  And what it changes, back in ours.  Pure."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lmtui.core.clean import clean_line
from lmtui.core.hooks import HookCall, HookEvent
from lmtui.core.permissions import Mode
from lmtui.extensions.hooks_config import HookEntry

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


def odd_matchers(entries: Sequence[HookEntry], tools: Sequence[str]) -> tuple[str, ...]:
    """Return in words which matchers are about no tool, with the nearest name; `tools` are our names of all.

    Tools of servers and promoted ones come later, so a matcher that speaks of them is let be.
    """
    names = tuple(dict.fromkeys(name for tool in tools for name in tool_names(tool)))
    found: list[str] = []
    for entry in entries:
        is_for_tools = entry.event in (HookEvent.PRE_TOOL_USE, HookEvent.POST_TOOL_USE)
        if not is_for_tools or entry.is_about(names) or any(mark in entry.matcher for mark in ("mcp_", "skill_")):
            continue
        by_letters = {name.lower(): name for name in names}
        close = difflib.get_close_matches(entry.matcher.lower(), by_letters, n=1)
        hint = f"Did you mean {by_letters[close[0]]}?" if close else "`lmtui` names tools as Bash, Edit, Write, Read and so on."
        where = clean_line(f"{entry.source}: {entry.event}, matcher {entry.matcher[:60]!r}")
        found.append(f"{where} is the name of no tool, so this hook never runs.  {hint}")
    return tuple(dict.fromkeys(found))


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
