"""The files that name hooks, read into entries.  An error is one entry's: the others are read all the same.

The format is the de-facto one: `{"hooks": {EVENT: [{"matcher": "Bash|Edit", "hooks": [{"type": "command", …}]}]}}`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmtui.core.clean import clean_line, reveal_line
from lmtui.core.errors import ConfigError
from lmtui.core.hooks import HookEvent
from lmtui.paths import config_dir
from lmtui.plain_files import NotPlain, read_plain

OWN_FILE = "hooks.json"
FOLDER_FILES = (".lmagent/hooks.json", ".claude/settings.json")
DEFAULT_LIMIT_S, MAX_LIMIT_S = 60.0, 600.0
_MAX_BYTES = 1_048_576
_SHAPE = '{"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "…"}]}]}}'
_MEND = f"Mend it or take it out; the form is {_SHAPE}."
_WITH_MATCHER = frozenset({HookEvent.PRE_TOOL_USE, HookEvent.POST_TOOL_USE, HookEvent.PRE_COMPACT, HookEvent.SESSION_START})


@dataclass(frozen=True, slots=True)
class HookEntry:
    """One hook as a file names it; `source` is the file in words, `is_own` whether it is the user's."""

    event: HookEvent
    command: str
    matcher: str = ""
    limit_s: float = DEFAULT_LIMIT_S
    source: str = ""
    is_own: bool = True

    def is_about(self, names: tuple[str, ...]) -> bool:
        """Tell whether it waits for something that goes by one of these names."""
        if self.matcher in ("", "*") or self.event not in _WITH_MATCHER:
            return True
        return any(re.fullmatch(self.matcher, name) for name in names)

    @property
    def words(self) -> str:
        """Return when it runs and what."""
        matcher = f" {self.matcher}" if self.matcher else ""
        return reveal_line(f"{self.event}{matcher}: {self.command}")


@dataclass(frozen=True, slots=True)
class HookFiles:
    """What all files name together, and what is wrong with them.

    `is_unsafe`: hooks of the user's own before tool calls cannot be read, so that it is not known what they would forbid.
    """

    entries: tuple[HookEntry, ...] = ()
    problems: tuple[str, ...] = ()
    is_unsafe: bool = False

    @property
    def folders(self) -> tuple[HookEntry, ...]:
        """Return those that the folder brings."""
        return tuple(entry for entry in self.entries if not entry.is_own)

    @property
    def digest(self) -> str:
        """Return the hash of what the folder brings: a yes holds for this and nothing else; empty where it brings none."""
        parts = [(entry.event, entry.matcher, entry.command, entry.limit_s, entry.source) for entry in self.folders]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest() if parts else ""


def own_file() -> Path:
    """Return the file of the user's own hooks."""
    return config_dir() / OWN_FILE


def read_hooks(workspace: Path) -> HookFiles:
    """Read every file; the user's own come first.  Blocks."""
    entries: list[HookEntry] = []
    problems: list[str] = []
    is_unsafe = False
    places = [(config_dir(), OWN_FILE, True), *((workspace, name, False) for name in FOLDER_FILES)]
    for root, name, is_own in places:
        source = str(root / name) if is_own else name
        try:
            for found in _entries(_read_file(root, name, source), source, is_own=is_own):
                if isinstance(found, HookEntry):
                    entries.append(found)
                else:
                    problems.append(found.error.full_text())
                    is_unsafe = is_unsafe or (is_own and found.is_before_tools)
        except ConfigError as error:
            problems.append(error.full_text())
            is_unsafe = is_unsafe or is_own
    return HookFiles(tuple(entries), tuple(problems), is_unsafe)


@dataclass(frozen=True, slots=True)
class _Broken:
    """An entry that cannot be read."""

    error: ConfigError
    is_before_tools: bool


def _read_file(root: Path, name: str, source: str) -> dict[str, Any]:
    """Return the events with what stands behind them, empty where there is no file."""
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
    hooks = found.get("hooks", {}) if isinstance(found, dict) else None
    if not isinstance(hooks, dict):
        raise ConfigError(f"{source} has no object of hooks", f"Write {_SHAPE}.")
    return hooks


def _entries(hooks: dict[str, Any], source: str, *, is_own: bool) -> Iterator[HookEntry | _Broken]:
    for name, groups in hooks.items():
        if name not in tuple(HookEvent):
            known = ", ".join(HookEvent)
            error = ConfigError(f"{source}: there is no event {clean_line(name)[:60]!r}", f"There are {known}.")
            yield _Broken(error, is_before_tools="tool" in name.lower())
            continue
        event = HookEvent(name)
        for number, group in enumerate(groups if isinstance(groups, list) else [None], 1):
            try:
                yield from _group(group, event, source, is_own=is_own)
            except ConfigError as error:
                where = ConfigError(f"{source}: {name}, entry {number}: {error}", error.hint)
                yield _Broken(where, is_before_tools=event is HookEvent.PRE_TOOL_USE)


def _group(group: object, event: HookEvent, source: str, *, is_own: bool) -> list[HookEntry]:
    """Return the hooks of one matcher.

    Raises:
        ConfigError: one of them cannot be read; none of them counts then.
    """
    if not isinstance(group, dict) or not isinstance(group.get("hooks"), list):
        raise ConfigError("it is no object with a list of hooks", _MEND)
    matcher = group.get("matcher") or ""
    if not isinstance(matcher, str):
        raise ConfigError("its matcher is no text", _MEND)
    try:
        _ = matcher == "*" or re.compile(matcher)
    except (re.error, OverflowError, RecursionError, MemoryError) as error:
        raise ConfigError(f"its matcher {clean_line(matcher)[:60]!r} is no regular expression: {error}", _MEND) from error
    return [_hook(hook, HookEntry(event, "", matcher, source=source, is_own=is_own)) for hook in group["hooks"]]


def _hook(hook: object, like: HookEntry) -> HookEntry:
    if not isinstance(hook, dict) or hook.get("type", "command") != "command":
        raise ConfigError("it is not of the type command", "Only commands are run as hooks.")
    command, limit = hook.get("command"), hook.get("timeout", DEFAULT_LIMIT_S)
    if not isinstance(command, str) or not command.strip() or "\0" in command:
        raise ConfigError("it has no command", _MEND)
    if isinstance(limit, bool) or not isinstance(limit, int | float) or not 0 < limit <= MAX_LIMIT_S:
        raise ConfigError(f"its timeout is {clean_line(repr(limit))[:40]}", f"It is in seconds, at most {MAX_LIMIT_S:g}.")
    return HookEntry(like.event, command, like.matcher, float(limit), like.source, like.is_own)
