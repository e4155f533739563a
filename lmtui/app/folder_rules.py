"""The permission rules of a folder, from settings, flags and the rules file.

The rules file holds beyond a session: for one folder, or for every folder of the user.  It is TOML, one table per folder and
`["*"]` for all of them: `["/home/me/project"]` with `allow = ["Shell(make test)"]`, `ask = […]` and `deny = […]`.  It may be
edited manually (comments of one's own are not kept when a rule is added): deleting a line revokes its rule.
What cannot be read is told and never overwritten.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, TypeAdapter, ValidationError

from lmtui.config import Config
from lmtui.core import events
from lmtui.core.errors import ConfigError, ToolError, UsageError
from lmtui.core.hosts import NETWORK_TOOL, SHOWN_TOOLS, parse_pattern
from lmtui.core.permissions.decide import PROMOTED
from lmtui.core.permissions.rules import MCP, SOURCES, Effect, GrantScope, Rule, checked, parse_rule
from lmtui.engine.session import EngineSession
from lmtui.paths import config_dir
from lmtui.store.state_files import locked, write_whole
from lmtui.tools.registry import ToolRegistry


def rules_in_force(config: Config, workspace: Path) -> tuple[Rule, ...]:
    """Return the rules from settings and flags, and the stored ones.

    Raises:
        UsageError: a rule in settings or flags is not valid (for stored ones see `kept_problems`).
        ConfigError: the rules file cannot be read.
    """
    named = ((Effect.ALLOW, config.allow), (Effect.ASK, config.ask), (Effect.DENY, config.deny))
    own = known_rules([parse_rule(text, effect, "settings") for effect, texts in named for text in texts])
    tools = ToolRegistry()
    return (*own, *(rule for kept in read_rules(workspace) if (rule := _kept(kept, tools)[0]) is not None))


def granted_rules(workspace: Path) -> Sequence[str]:
    """Return the rules that were granted for always in a workspace.

    Raises:
        ConfigError: their file cannot be read.
    """
    return [rule.text for rule in read_rules(workspace) if rule.effect is Effect.ALLOW]


def known_rules(rules: Sequence[Rule]) -> tuple[Rule, ...]:
    """Return rules with the tools' own names.

    Raises:
        UsageError: no such tool, or the pattern is none.
    """
    tools = ToolRegistry() if rules else None
    return tuple(_known(rule, tools) for rule in rules if tools is not None)


def kept_problems(workspace: Path) -> tuple[str, ...]:
    """Return the problems of stored rules, and what applies instead.

    Raises:
        ConfigError: their file cannot be read.
    """
    tools = ToolRegistry()
    return tuple(problem for kept in read_rules(workspace) if (problem := _kept(kept, tools)[1]))


def keep_grants(
    workspace: Path, session: EngineSession, sessions: Callable[[], Iterable[EngineSession]], envelope: events.Envelope
) -> None:
    """Keep what a session grants for always; what it revokes leaves the file, and then the other `sessions`."""
    try:
        match envelope.event:
            case events.ApprovalResolved(outcome=events.Outcome.ALWAYS) as event if event.rule:
                scope = GrantScope(event.scope) if event.scope in tuple(GrantScope) else GrantScope.WORKSPACE
                add_rule(workspace, event.rule, scope)
            case events.RuleRevoked() as event:
                effect, scopes = Effect(event.effect), (GrantScope.WORKSPACE, GrantScope.USER)
                removed = sum(remove_rule(workspace, event.rule, scope, effect) for scope in scopes)
                for other in sessions() if removed else ():
                    for rule in other.rules:
                        is_same = str(rule) == event.rule and rule.effect is effect and rule.source.startswith("always")
                        if other is not session and is_same:
                            asyncio.get_running_loop().call_soon(other.revoke, rule)
    except ConfigError as error:
        notice = events.Notice(level=events.Level.WARNING, text=error.full_text())
        asyncio.get_running_loop().call_soon(session.emit, notice)


def _kept(kept: StoredRule, tools: ToolRegistry) -> tuple[Rule | None, str]:
    """Return a stored rule, and its problem. An invalid one allows nothing; an invalid deny or ask rule covers the tool."""
    try:
        return _known(parse_rule(kept.text, kept.effect, SOURCES[kept.scope]), tools), ""
    except UsageError as error:
        allows = kept.effect is Effect.ALLOW
        held = "lmtui ignores it" if allows else f"until then, it applies to every file ({kept.effect})"
        problem = f"{rules_file()}: {error.full_text()} Change or delete the line; {held}."
    name = re.match(r"\s*(\w+)", kept.text)
    try:
        tool = tools.canonical(name[1].lower()) if name else "*"
    except ToolError:
        tool = "*"
    return (None if allows else Rule(kept.effect, tool, "**", SOURCES[kept.scope])), problem


def _known(rule: Rule, tools: ToolRegistry) -> Rule:
    """Return a rule with the tool's canonical name; a rule for an unknown tool would silently never match.

    Raises:
        UsageError: no such tool, or the pattern is none.
    """
    if rule.tool == "*" or rule.tool.startswith((MCP, PROMOTED)):
        return rule
    if rule.tool == NETWORK_TOOL:
        return replace(rule, pattern=rule.pattern if rule.pattern == "*" else parse_pattern(rule.pattern))
    if rule.tool == SHOWN_TOOLS:
        place = os.path.expanduser(rule.pattern)  # noqa: PTH111  (the home folder may be unknown)
        if place != "*" and not place.startswith("/"):
            raise UsageError(f"Rule {rule} never matches: it needs the whole path.", "Write it as Tools(/srv/tools).")
        return replace(rule, pattern=place)
    try:
        return checked(replace(rule, tool=tools.canonical(rule.tool)))
    except ToolError as error:
        raise UsageError(f"Rule {rule} never matches: {error}", f"Tools: {', '.join(tools.names())}.") from error


_HEADER = "# Rules for all sessions. Delete a line to revoke a rule.\n\n"
_Tables = dict[
    str, dict[Effect, Annotated[list[str], BeforeValidator(lambda found: [found] if isinstance(found, str) else found)]]
]
_TABLES = TypeAdapter(_Tables)


@dataclass(frozen=True, slots=True)
class StoredRule:
    """One kept rule: what it says, its text as it is in the file, and how far it reaches (workspace or user)."""

    effect: Effect
    text: str
    scope: GrantScope


def rules_file() -> Path:
    """Return the file of the kept rules."""
    return config_dir() / "rules.toml"


def read_rules(workspace: Path) -> tuple[StoredRule, ...]:
    """Return the rules that hold in a workspace, its own first.

    Raises:
        ConfigError: the file cannot be read; a rule that cannot be read must not be taken for none.
    """
    tables = _read()
    return tuple(
        StoredRule(effect, text, scope)
        for scope in (GrantScope.WORKSPACE, GrantScope.USER)
        for effect, texts in tables.get(_key(workspace, scope), {}).items()
        for text in texts
    )


def add_rule(workspace: Path, rule: str, scope: GrantScope = GrantScope.WORKSPACE, effect: Effect = Effect.ALLOW) -> None:
    """Keep a rule for a workspace or, with the user's scope, for every folder; one that is there already stays as it is.

    Raises:
        ConfigError: the file cannot be read or written.
    """
    with _changing(workspace, scope, effect) as texts:
        if not any(_is_same(text, rule) for text in texts):
            texts.append(rule)


def remove_rule(workspace: Path, rule: str, scope: GrantScope, effect: Effect = Effect.ALLOW) -> bool:
    """Take a rule back and tell whether it was there; only the same tool with the same pattern is the same rule.

    Raises:
        ConfigError: the file cannot be read or written.
    """
    with _changing(workspace, scope, effect) as texts:
        kept = [text for text in texts if not _is_same(text, rule)]
        is_there = len(kept) < len(texts)
        texts[:] = kept
    return is_there


def _key(workspace: Path, scope: GrantScope) -> str:
    return "*" if scope is GrantScope.USER else str(workspace)


def _is_same(one: str, other: str) -> bool:
    """Compare two rules by what they say: `bash(x)` and `Shell(x)` are one."""
    try:
        return parse_rule(one, Effect.ALLOW, "") == parse_rule(other, Effect.ALLOW, "")
    except UsageError:
        return one == other


@contextlib.contextmanager
def _changing(workspace: Path, scope: GrantScope, effect: Effect) -> Iterator[list[str]]:
    """Give some rules to change and write them; another lmtui may change them at the same time."""
    import tomlkit  # noqa: PLC0415  (start-up: only who changes a rule needs it)

    try:
        with locked(rules_file().with_suffix(".lock")):
            tables = _read()
            before = list(texts := tables.setdefault(_key(workspace, scope), {}).setdefault(effect, []))
            yield texts
            if texts == before:
                return
            document = tomlkit.document()
            for folder, effects in tables.items():
                kept = {str(name): tomlkit.array().multiline(multiline=True) for name, own in effects.items() if own}
                for name, array in kept.items():
                    array.extend(effects[Effect(name)])
                document |= {folder: kept} if kept else {}
            write_whole(rules_file(), _HEADER + tomlkit.dumps(document), errors="strict")
    except (OSError, UnicodeEncodeError) as error:
        why = "a name in it is not text" if isinstance(error, UnicodeError) else error.strerror
        raise ConfigError(f"{rules_file()} could not be changed: {why}", "It applies to this session only.") from error


def _read() -> _Tables:
    try:
        return _TABLES.validate_python(tomllib.loads(rules_file().read_text(encoding="utf-8")))
    except FileNotFoundError:
        return {}
    except ValidationError as error:
        place = ", ".join(map(str, error.errors()[0]["loc"][:2]))
        hint = f"Fix it: each of {', '.join(Effect)} is a list of texts such as Shell(make test)."
        raise ConfigError(f"{rules_file()}: {place} is not a list of rules", hint) from error
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{rules_file()} cannot be read: {error}", "Fix it or delete it.") from error
