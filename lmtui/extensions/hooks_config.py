"""The files that name hooks, read into entries.  An error is one entry's: the others are read all the same.

The format is the de-facto one: `{"hooks": {EVENT: [{"matcher": "Bash|Edit", "hooks": [{"type": "command", …}]}]}}`.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeGuard

from lmtui.core.clean import clean_line, reveal_line
from lmtui.core.errors import ConfigError
from lmtui.core.hooks import HookEvent
from lmtui.core.shell.command import word_set
from lmtui.core.shell.review import is_interpreter
from lmtui.paths import config_dir
from lmtui.plain_files import NotPlain, read_plain

OWN_FILE = "hooks.json"
FOLDER_FILES = (".lmagent/hooks.json", ".claude/settings.json")
DEFAULT_LIMIT_S, MAX_LIMIT_S = 60.0, 600.0
_MAX_BYTES = 1_048_576
_SHAPE = '{"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "…"}]}]}}'
_MEND = f"Mend it or take it out; the form is {_SHAPE}."
_TOOL_EVENTS = (HookEvent.PRE_TOOL_USE, HookEvent.POST_TOOL_USE)
_WITH_MATCHER = frozenset({*_TOOL_EVENTS, HookEvent.PRE_COMPACT, HookEvent.SESSION_START})
_KEYS = frozenset({"type", "command", "args", "if", "timeout", "statusMessage"})
# Events of the format that have no counterpart here (https://code.claude.com/docs/en/hooks).
_NOT_HERE = word_set(
    "Setup InstructionsLoaded UserPromptExpansion PermissionRequest PermissionDenied PostToolUseFailure PostToolBatch "
    "SubagentStart TaskCreated TaskCompleted StopFailure TeammateIdle ConfigChange CwdChanged FileChanged WorktreeCreate "
    "WorktreeRemove PostCompact Elicitation ElicitationResult"
)
_NAMES = re.compile(r"[A-Za-z0-9_\- ,|]*")
_NOT_PASSED = re.compile(r"[\0\ud800-\udfff]")  # no program can be given these


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
        return reveal_line(f"{self.event}{matcher}{condition}: {what}")


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


def own_file() -> Path:
    """Return the file of the user's own hooks."""
    return config_dir() / OWN_FILE


def read_hooks(workspace: Path) -> HookFiles:
    """Read every file; the user's own come first.  Blocks."""
    entries: list[HookEntry] = []
    unread: list[HookEntry] = []
    problems: list[str] = []
    places = [(config_dir(), OWN_FILE, True), *((workspace, name, False) for name in FOLDER_FILES)]
    for root, name, is_own in places:
        like = HookEntry(HookEvent.PRE_TOOL_USE, "", source=str(root / name) if is_own else name, is_own=is_own)
        try:
            for found in _entries(_read_file(root, name, like.source), like):
                if isinstance(found, str):
                    problems.append(found)
                elif not found.problem:
                    entries.append(found)
                else:
                    problems.append(found.problem)
                    unread += [found] if found.event is HookEvent.PRE_TOOL_USE else []
        except ConfigError as error:
            problems.append(error.full_text())
            unread += [replace(like, problem=error.full_text())] if is_own else []
    return HookFiles(tuple(entries), tuple(problems), tuple(unread))


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
        raise ConfigError(f"{source} cannot be read: {error}", "Mend the JSON or remove the file.") from error
    if not isinstance(found, dict) or not isinstance(found.get("hooks", {}), dict):
        raise ConfigError(f"{source} has no object of hooks", f"Write {_SHAPE}.")
    return found


def _entries(found: dict[str, Any], like: HookEntry) -> Iterator[HookEntry | str]:
    """Yield the hooks of a file, those that cannot be read with their problem, and in words what else is to be known."""
    hooks: dict[str, Any] = found.get("hooks", {})
    if hooks and found.get("disableAllHooks") is True:
        yield f"{like.source}: disableAllHooks is set, so none of its hooks runs"
        return
    if absent := [name for name in hooks if name in _NOT_HERE]:
        yield f"{like.source}: lmtui does not have {', '.join(absent)}, so hooks for that never run"
    if unknown := [name for name in hooks if name not in _NOT_HERE and name not in tuple(HookEvent)]:
        names = ", ".join(repr(clean_line(name)[:60]) for name in unknown)
        text = f"{like.source}: there is no event {names}.  There are {', '.join(HookEvent)}."
        yield replace(like, problem=text) if any(map(_is_meant_before_tools, unknown)) else text
    for name, groups in hooks.items():
        if name not in tuple(HookEvent):
            continue
        for number, group in enumerate(groups if isinstance(groups, list) else [None], 1):
            yield from _group(group, replace(like, event=HookEvent(name)), f"{like.source}: {name}, entry {number}")


def _is_meant_before_tools(name: str) -> bool:
    close = difflib.get_close_matches(name.lower(), [event.lower() for event in HookEvent], n=1)
    return close == [HookEvent.PRE_TOOL_USE.lower()]


def _group(group: object, like: HookEntry, where: str) -> Iterator[HookEntry | str]:
    """Yield the hooks of one matcher."""
    problem = _wrong_group(group)
    if problem or not isinstance(group, dict):
        yield replace(like, problem=f"{where}: {problem}")
        return
    for hook in group["hooks"]:
        yield from _hook(hook, replace(like, matcher=group.get("matcher") or ""), where)


def _wrong_group(group: object) -> str:
    if not isinstance(group, dict) or not isinstance(group.get("hooks"), list):
        return f"it is no object with a list of hooks  {_MEND}"
    matcher = group.get("matcher") or ""
    if not isinstance(matcher, str):
        return f"its matcher is no text  {_MEND}"
    try:
        _ = matcher == "*" or re.compile(matcher)
    except (re.error, OverflowError, RecursionError, MemoryError) as error:
        return f"its matcher {clean_line(matcher)[:60]!r} is no regular expression: {error}  {_MEND}"
    return ""


def _hook(hook: object, like: HookEntry, where: str) -> Iterator[HookEntry | str]:
    problem = _wrong_hook(hook)
    if problem or not isinstance(hook, dict):
        yield replace(like, problem=f"{where}: {problem}")
        return
    if odd := [key for key, value in hook.items() if key not in _KEYS and value not in (None, False, "bash")]:
        yield f"{where}: {', '.join(clean_line(key)[:60] for key in odd)} is not known and changes nothing"
    limit, arguments, condition = hook.get("timeout", DEFAULT_LIMIT_S), hook.get("args"), hook.get("if", "")
    if limit > MAX_LIMIT_S:
        yield f"{where}: its timeout is {MAX_LIMIT_S:g} seconds, which is the most"
    if condition and like.event not in _TOOL_EVENTS:
        yield f"{where}: `if` is only for tool calls, so this hook never runs"
    given = tuple(arguments) if arguments is not None else None
    yield replace(like, command=hook["command"], limit_s=float(min(limit, MAX_LIMIT_S)), arguments=given, condition=condition)


def _wrong_hook(hook: object) -> str:
    if not isinstance(hook, dict) or hook.get("type", "command") != "command":
        return "it is not of the type command  Only commands are run as hooks."
    command, limit, arguments = hook.get("command"), hook.get("timeout", DEFAULT_LIMIT_S), hook.get("args", [])
    if not _is_passed(command) or not command.strip():
        return f"it has no command  {_MEND}"
    if not isinstance(arguments, list) or not all(map(_is_passed, arguments)):
        return 'its args are no list of texts  Write them as ["guard.sh", "--strict"].'
    first, *rest = [command, *arguments] if "args" in hook else command.split()
    if is_interpreter(first) and set(rest) <= {"-", "-s"}:
        return f"it gives {clean_line(first)[:40]} no script, so that the call itself would be run as one  {_MEND}"
    if not _is_passed(hook.get("if", "")):
        return "its `if` is no text  Write it as a permission rule, such as Bash(git push *)."
    if isinstance(limit, bool) or not isinstance(limit, int | float) or not limit > 0:
        return f"its timeout is {clean_line(repr(limit))[:40]}  It is in seconds, at most {MAX_LIMIT_S:g}."
    return ""


def _is_passed(value: object) -> TypeGuard[str]:
    """Tell whether a value is a text that a program can be given."""
    return isinstance(value, str) and not _NOT_PASSED.search(value)
