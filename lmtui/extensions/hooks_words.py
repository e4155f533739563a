"""What a hook is told, in the format's own words: names of tools, fields, modes.  And what it changes, back in ours.  Pure."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from lmtui.core import globs
from lmtui.core.clean import clean_line
from lmtui.core.errors import UsageError
from lmtui.core.hooks import HookCall, HookEvent
from lmtui.core.permissions import Effect, Mode, Rule, parse_rule
from lmtui.core.shell.command import word_set
from lmtui.core.shell.mentions import fits, is_unclear, mentioned
from lmtui.core.tool_facts import facts_of
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
    "delegate": ("Task", "Agent"),
    "explore": ("Task", "Agent"),
    "decompose": ("Task", "Agent"),
    "skill": ("Skill",),
    "todo_add": ("TodoWrite",),
    "todo_update": ("TodoWrite",),
    "todo_complete": ("TodoWrite",),
    "propose_plan": ("ExitPlanMode",),
}
# Tools of the format that do not exist here: no mistake in a matcher.
_NOT_HERE = word_set(
    "NotebookEdit NotebookRead WebSearch AskUserQuestion BashOutput KillShell KillBash TaskOutput TaskStop TaskCreate "
    "TaskGet TaskList TaskUpdate TodoRead SlashCommand EnterPlanMode EnterWorktree ExitWorktree ListMcpResourcesTool "
    "ReadMcpResourceTool ToolSearch LSP PowerShell Monitor SendMessage TeamCreate TeamDelete CronCreate CronDelete CronList"
)
_TWO_RULES = re.compile(r"\)[\s|,]+\w+\(")
_ANY_WORDS = re.compile(r":\*\)\s*\Z")
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
        if entry.condition and _rule(entry.condition, _ours(entry.condition.partition("(")[0].strip().lower())) is None:
            where = clean_line(f"{entry.source}: {entry.event}, if {entry.condition[:60]!r}")
            found.append(f"{where} is not a rule that is known here, so this hook runs whatever the call is.")
        is_for_tools = entry.event in (HookEvent.PRE_TOOL_USE, HookEvent.POST_TOOL_USE)
        is_known = entry.is_about((*names, *_NOT_HERE)) or any(mark in entry.matcher for mark in ("mcp_", "skill_"))
        if not is_for_tools or is_known:
            continue
        by_letters = {name.lower(): name for name in names}
        close = difflib.get_close_matches(entry.matcher.lower(), by_letters, n=1)
        hint = f"Did you mean {by_letters[close[0]]}?" if close else "`lmtui` names tools as Bash, Edit, Write, Read and so on."
        where = clean_line(f"{entry.source}: {entry.event}, matcher {entry.matcher[:60]!r}")
        found.append(f"{where} is the name of no tool, so this hook never runs.  {hint}")
    return tuple(dict.fromkeys(found))


def meets(condition: str, call: HookCall) -> bool:
    """Tell whether a call may be what a hook's `if` is about; where that is not certain, it is."""
    if not condition:
        return True
    if call.arguments is None:
        return False
    name = condition.partition("(")[0].strip().lower()
    is_named = name in [each.lower() for each in tool_names(call.subject)]
    rule = _rule(condition, call.subject if is_named else _ours(name))
    if rule is None:
        return True
    if is_named and call.subject == "shell":
        return not call.subjects or any(_may_run(rule.pattern, text) for text in call.subjects)
    if is_named or rule.names(call.subject):
        return _is_about_path(rule, call)
    mine, theirs = facts_of(call.subject), facts_of(rule.tool)  # one about edits holds for all that changes files
    return mine.is_about_paths and theirs.is_about_paths and mine.deed is theirs.deed and _is_about_path(rule, call)


def _ours(name: str) -> str:
    """Return our name of a tool by any of its names, in small letters."""
    return next((tool for tool, theirs in _THEIRS.items() if name in [each.lower() for each in theirs]), name)


def _rule(condition: str, tool: str) -> Rule | None:
    """Return the one rule that a condition is, for a tool by our name; None where it cannot be held against a call here."""
    _, bracket, pattern = condition.partition("(")
    if _TWO_RULES.search(condition) or pattern.startswith("//"):  # `//` is a path from the root of the machine
        return None
    try:
        return parse_rule(f"{tool}{bracket}{_ANY_WORDS.sub(' *)', pattern)}", Effect.DENY, "")
    except UsageError:
        return None


def _is_about_path(rule: Rule, call: HookCall) -> bool:
    facts = facts_of(call.subject)
    if not facts.is_about_paths or facts.is_deep or not call.subjects or rule.pattern == "*":
        return True
    anywhere = rule if "/" in rule.pattern else replace(rule, pattern=f"**/{rule.pattern}")
    return any(anywhere.is_about(path) for path in call.subjects)


def _may_run(pattern: str, text: str) -> bool:
    commands = (" ".join(words) for group in mentioned(text).values() for words in group)
    return fits(pattern, text) or is_unclear(text, (pattern,)) or any(globs.matches(pattern, each) for each in commands)


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
