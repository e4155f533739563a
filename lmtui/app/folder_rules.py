"""The permission rules of a folder, from settings, flags and the rules file; and which of them match no file."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from lmtui.config import Config
from lmtui.core import events
from lmtui.core.errors import ConfigError, ToolError, UsageError
from lmtui.core.hosts import NETWORK_TOOL, SHOWN_TOOLS, parse_pattern
from lmtui.core.permissions import path_patterns
from lmtui.core.permissions.decide import PROMOTED
from lmtui.core.permissions.rules import MCP, SOURCES, Effect, GrantScope, Rule, checked, parse_rule
from lmtui.engine.session import EngineSession
from lmtui.store.rule_store import StoredRule, add_rule, read_rules, remove_rule, rules_file
from lmtui.tools.registry import ToolRegistry

__all__ = ["rules_file"]  # what else front ends need, who see no store

_MOST_PATHS = 100_000


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


def unmatched(rules: Sequence[Rule], workspace: Path) -> tuple[Rule, ...]:
    """Return the rules about paths that match no existing file or folder; blocks (disk)."""
    left = [rule for rule in rules if rule.is_about_paths and rule.tool != "*" and rule.pattern != "*"]
    left = [rule for rule in left if not rule.pattern.startswith("/")]  # it may be about another folder
    for count, path in enumerate(_paths(workspace)):
        if not left or count > _MOST_PATHS:
            return ()
        left = [rule for rule in left if not path_patterns.matches(rule.pattern, path, covers_below=True)]
    return tuple(left)


def _paths(workspace: Path) -> Iterator[str]:
    for folder, folders, files in os.walk(workspace):
        folders[:] = [name for name in folders if name != ".git"]
        inside = Path(folder).relative_to(workspace)
        yield from ((inside / name).as_posix() for name in (*folders, *files))


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
        if rule.pattern != "*" and not rule.pattern.startswith("/"):
            raise UsageError(f"Rule {rule} never matches: it needs the whole path.", "Write it as Tools(/srv/tools).")
        return rule
    try:
        return checked(replace(rule, tool=tools.canonical(rule.tool)))
    except ToolError as error:
        raise UsageError(f"Rule {rule} never matches: {error}", f"Tools: {', '.join(tools.names())}.") from error
