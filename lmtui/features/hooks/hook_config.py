"""The files that name hooks, read into entries.  An error is one entry's: the others are read all the same.

The format is the de-facto one: `{"hooks": {EVENT: [{"matcher": "Bash|Edit", "hooks": [{"type": "command", …}]}]}}`.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from lmtui.core.errors import ConfigError, UsageError
from lmtui.core.permissions.command_search import fits, is_unclear, mentioned
from lmtui.core.permissions.rules import Effect, Mode, Rule, matches_glob, parse_rule, traits_of
from lmtui.core.permissions.shell_grammar import word_set
from lmtui.core.permissions.shell_review import is_interpreter
from lmtui.core.sanitize import escape_invisible_line, sanitize_line
from lmtui.features.hooks.values import HookCall, HookEvent
from lmtui.paths import config_dir
from lmtui.plain_files import NotPlain, read_plain

OWN_FILE = "hooks.json"
FOLDER_FILES = (".lmagent/hooks.json", ".claude/settings.json", ".claude/settings.local.json")
DEFAULT_LIMIT_S, MAX_LIMIT_S = 60.0, 600.0
_MAX_BYTES = 1_048_576
_SHAPE = '{"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "…"}]}]}}'
_FIX = f"Fix or remove it; the form is {_SHAPE}."
_TOOL_EVENTS = (HookEvent.PRE_TOOL_USE, HookEvent.POST_TOOL_USE)
_WITH_MATCHER = frozenset({*_TOOL_EVENTS, HookEvent.PRE_COMPACT, HookEvent.SESSION_START})
_NAMES = re.compile(r"[A-Za-z0-9_\- ,|]*")
_NOT_PASSED = re.compile(r"[\0\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class HookEntry:
    """One hook as a file names it; `source` is the file in words, `is_own` whether it is the user's.

    `arguments`: `command` is a program that gets these, without a shell; None: it is a text for the shell.  `condition` is the
    permission rule that a call has to meet.  `problem` is why it cannot be read; it never runs then.
    """

    event: HookEvent
    command: str
    matcher: str = ""
    limit_s: float = DEFAULT_LIMIT_S
    source: str = ""
    is_own: bool = True
    arguments: tuple[str, ...] | None = None
    condition: str = ""
    problem: str = ""

    def is_about(self, names: tuple[str, ...]) -> bool:
        """Tell whether it waits for something that goes by one of these names."""
        if self.matcher in ("", "*") or self.event not in _WITH_MATCHER:
            return True
        if _NAMES.fullmatch(self.matcher):
            return any(part.strip() in names for part in re.split("[|,]", self.matcher))
        return any(re.search(self.matcher, name) for name in names)

    def program(self, root: str) -> str | tuple[str, ...]:
        """Return what is run: a text for the shell, or the words of a program; `root` is the workspace's path there."""
        if self.arguments is None:
            return self.command
        return tuple(word.replace("${CLAUDE_PROJECT_DIR}", root) for word in (self.command, *self.arguments))

    @property
    def shown(self) -> str:
        """Return what is run as one text."""
        return self.command if self.arguments is None else shlex.join((self.command, *self.arguments))

    @property
    def words(self) -> str:
        """Return when it runs and what."""
        matcher = f" {self.matcher}" if self.matcher else ""
        condition = f" if {self.condition}" if self.condition else ""
        what = f"cannot be read, so each call is asked about ({self.problem})" if self.problem else self.shown
        return escape_invisible_line(f"{self.event}{matcher}{condition}: {what}")


@dataclass(frozen=True, slots=True)
class HookFiles:
    """What all files name together, and what is wrong with them.

    `unread` are hooks before tool calls that cannot be read, so that it is not known what they would forbid.
    """

    entries: tuple[HookEntry, ...] = ()
    problems: tuple[str, ...] = ()
    unread: tuple[HookEntry, ...] = ()

    @property
    def is_unsafe(self) -> bool:
        """Tell whether some of the unread are the user's own."""
        return any(entry.is_own for entry in self.unread)

    @property
    def folders(self) -> tuple[HookEntry, ...]:
        """Return those that the folder brings."""
        return tuple(entry for entry in (*self.entries, *self.unread) if not entry.is_own)

    @property
    def digest(self) -> str:
        """Return the hash of what the folder brings: a yes holds for this and nothing else; empty where it brings none."""
        parts = [_digested(entry) for entry in self.folders]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest() if parts else ""


def read_hooks(workspace: Path) -> HookFiles:
    """Read every file; the user's own come first.  Blocks."""
    found: list[HookEntry | str] = []
    places = [(config_dir(), OWN_FILE, True), *((workspace, name, False) for name in FOLDER_FILES)]
    for root, name, is_own in places:
        like = HookEntry(HookEvent.PRE_TOOL_USE, "", source=str(root / name) if is_own else name, is_own=is_own)
        try:
            found += _entries(_read_file(root, name, like.source), like)
        except ConfigError as error:
            found.append(replace(like, problem=error.full_text()) if is_own else error.full_text())
    entries = [each for each in found if isinstance(each, HookEntry)]
    problems = filter(None, (each.problem if isinstance(each, HookEntry) else each for each in found))
    unread = (each for each in entries if each.problem and each.event is HookEvent.PRE_TOOL_USE)
    return HookFiles(tuple(each for each in entries if not each.problem), tuple(problems), tuple(unread))


def _digested(entry: HookEntry) -> tuple[object, ...]:
    more = (entry.arguments, entry.condition, entry.problem)
    plain = (entry.event, entry.matcher, entry.command, entry.limit_s, entry.source)
    return plain if more == (None, "", "") else (*plain, more)


def _read_file(root: Path, name: str, source: str) -> dict[str, Any]:
    """Return what is in a file, empty where there is none."""
    try:
        data = read_plain(root, name, _MAX_BYTES + 1)
    except NotPlain as error:
        raise ConfigError(f"{source} cannot be read: {error}", "Put a plain file in its place.") from error
    if data is None:
        return {}
    if len(data) > _MAX_BYTES:
        raise ConfigError(f"{source} cannot be read: it is larger than {_MAX_BYTES:,} bytes", "Make it smaller.")
    try:
        found = json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{source} cannot be read: {error}", "Fix the JSON or remove the file.") from error
    if not isinstance(found, dict) or not isinstance(found.get("hooks", {}), dict):
        raise ConfigError(f"{source} has no object of hooks", f"Write {_SHAPE}.")
    return found


def _entries(found: dict[str, Any], like: HookEntry) -> Iterator[HookEntry | str]:
    """Yield the hooks of a file, those that cannot be read with their problem, and in words what else is to be known."""
    hooks: dict[str, Any] = found.get("hooks", {})
    if hooks and found.get("disableAllHooks") is True:
        yield f"{like.source}: disableAllHooks is set, so none of its hooks runs"
        return
    if unknown := [name for name in hooks if name not in tuple(HookEvent)]:
        names = ", ".join(repr(sanitize_line(name)[:60]) for name in unknown)
        text = f"{like.source}: lmtui does not have {names}, so hooks for that never run. There are {', '.join(HookEvent)}."
        near = [difflib.get_close_matches(name.lower(), [event.lower() for event in HookEvent], n=1) for name in unknown]
        yield replace(like, problem=text) if [HookEvent.PRE_TOOL_USE.lower()] in near else text
    for name, groups in hooks.items():
        if name in unknown:
            continue
        for number, group in enumerate(groups if isinstance(groups, list) else [None], 1):
            yield from _group(group, replace(like, event=HookEvent(name)), f"{like.source}: {name}, entry {number}")


class _Hook(BaseModel):
    """A hook as a file has it, with the matcher of its group; its other keys change nothing."""

    model_config = ConfigDict(extra="allow", strict=True)
    type: Literal["command"] = "command"
    command: str
    args: list[str] | None = None
    condition: str = Field("", alias="if")
    timeout: float = Field(DEFAULT_LIMIT_S, gt=0)
    matcher: str

    @model_validator(mode="after")
    def _can_run(self) -> _Hook:
        words = self.command.split() if self.args is None else [self.command, *self.args]
        if not self.command.strip() or _NOT_PASSED.search("".join((self.command, self.condition, *words))):
            raise ValueError("it has no command, or one with invalid characters")
        if is_interpreter(words[0]) and set(words[1:]) <= {"-", "-s"}:
            raise ValueError(f"{words[0][:40]} has no script, so it would run the call itself as one")
        try:
            _ = self.matcher == "*" or re.compile(self.matcher)
        except (re.error, OverflowError, RecursionError, MemoryError) as error:
            raise ValueError(f"its matcher {self.matcher!r:.60} is not a regular expression: {error}") from error
        return self


def _group(group: object, like: HookEntry, where: str) -> Iterator[HookEntry | str]:
    """Yield the hooks of one matcher."""
    read = group if isinstance(group, dict) else {}
    hooks, matcher = read.get("hooks"), read.get("matcher") or ""
    like = replace(like, matcher=str(matcher))
    for given in hooks if isinstance(hooks, list) else [None]:
        try:
            hook = _Hook.model_validate({**(given if isinstance(given, dict) else {}), "matcher": matcher})
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            why = "".join(f"{part}: " for part in first["loc"]) + first["msg"].removeprefix("Value error, ")
            yield replace(like, problem=f"{where}: {sanitize_line(why)[:300]}. {_FIX}")
            continue
        extra = (hook.model_extra or {}).items()
        if odd := [key for key, value in extra if key != "statusMessage" and value not in (None, False, "bash")]:
            yield f"{where}: {', '.join(sanitize_line(key)[:60] for key in odd)} is unknown and has no effect"
        if hook.condition and like.event not in _TOOL_EVENTS:
            yield f"{where}: `if` is only for tool calls, so this hook never runs"
        if hook.timeout > MAX_LIMIT_S:
            yield f"{where}: its timeout is limited to {MAX_LIMIT_S:g} seconds"
        words = None if hook.args is None else tuple(hook.args)
        entry = replace(like, command=hook.command, arguments=words, condition=hook.condition)
        yield replace(entry, limit_s=min(hook.timeout, MAX_LIMIT_S))


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
    "web_search": ("WebSearch",),
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
class HookEnvironment:
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
    names = {name for tool in tools for name in tool_names(tool)}
    found: list[str] = []
    for entry in entries:
        if entry.event not in _TOOL_EVENTS:
            continue
        if entry.condition and _rule(entry.condition, _ours(entry.condition.partition("(")[0].strip().lower())) is None:
            where = sanitize_line(f"{entry.source}: {entry.event}, if {entry.condition[:60]!r}")
            found.append(f"{where} is not a rule that is known here, so this hook runs whatever the call is.")
        if not entry.is_about((*names, *_NOT_HERE)) and not any(mark in entry.matcher for mark in ("mcp_", "skill_")):
            close = difflib.get_close_matches(entry.matcher, names, n=1)
            hint = f"Did you mean {close[0]}?" if close else "`lmtui` names tools as Bash, Edit, Write, Read and so on."
            where = sanitize_line(f"{entry.source}: {entry.event}, matcher {entry.matcher[:60]!r}")
            found.append(f"{where} is not the name of a tool, so this hook never runs.  {hint}")
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
    mine, theirs = traits_of(call.subject), traits_of(rule.tool)  # one about edits holds for all that changes files
    return (
        mine.is_about_paths and theirs.is_about_paths and mine.file_effect is theirs.file_effect and _is_about_path(rule, call)
    )


def _ours(name: str) -> str:
    """Return our name of a tool by any of its names, in small letters."""
    return next((tool for tool, theirs in _THEIRS.items() if name in [each.lower() for each in theirs]), name)


def _rule(condition: str, tool: str) -> Rule | None:
    """Return the one rule that a condition is, for a tool by our name."""
    _, bracket, pattern = condition.partition("(")
    if _TWO_RULES.search(condition) or pattern.startswith("//"):  # `//` is a path from the root of the machine
        return None
    try:
        return parse_rule(f"{tool}{bracket}{_ANY_WORDS.sub(' *)', pattern)}", Effect.DENY, "")
    except UsageError:
        return None


def _is_about_path(rule: Rule, call: HookCall) -> bool:
    traits = traits_of(call.subject)
    if not traits.is_about_paths or traits.is_deep or not call.subjects or rule.pattern == "*":
        return True
    anywhere = rule if "/" in rule.pattern else replace(rule, pattern=f"**/{rule.pattern}")
    return any(anywhere.is_about(path) for path in call.subjects)


def _may_run(pattern: str, text: str) -> bool:
    commands = (" ".join(words) for group in mentioned(text).values() for words in group)
    return fits(pattern, text) or is_unclear(text, (pattern,)) or any(matches_glob(pattern, each) for each in commands)


def payload(call: HookCall, around: HookEnvironment) -> bytes:
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
    return tool_names(call.subject) if call.event in _TOOL_EVENTS else (call.subject,)


def _their_input(tool: str, arguments: Mapping[str, object], root: str) -> dict[str, object]:
    told = {_FIELDS.get(tool, {}).get(name, name): value for name, value in arguments.items()}
    if "file_path" in told and isinstance(told["file_path"], str):
        told["file_path"] = f"{root}/{told['file_path']}".rstrip("/")
    return told
