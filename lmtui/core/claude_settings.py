"""The permissions of a folder's `.claude/settings.json`, as rules of ours; and what of the file has no meaning here.  Pure.

An allow rule becomes no wider than it was, a deny or ask rule no narrower: what cannot be said like that is named.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from lmtui.core.errors import UsageError
from lmtui.core.hosts import parse_pattern
from lmtui.core.permissions.rules import MCP, Effect, parse_rule
from lmtui.core.sanitize import sanitize_line

_READ_ELSEWHERE = frozenset({"permissions", "hooks", "disableAllHooks", "$schema"})
_MOST_RULES, _MOST_CHARS, _MOST_NAMED = 500, 500, 20
_RULE = re.compile(r"(?P<name>mcp__[\w-]+(?:\*)?|\w+)(?:\((?P<pattern>.*)\))?", re.ASCII)
_EDITS = {"edit": ("Edit", "Write"), "multiedit": ("Edit",), "notebookedit": ("Edit",), "write": ("Write",)}
_BARE = {"glob": "Glob", "grep": "Grep", "ls": "Ls", "websearch": "Web_search"}


def claude_rules(found: Mapping[str, Any]) -> tuple[dict[str, tuple[str, ...]], list[str]]:
    """Return the rules of each effect, and in words what of the file is not used."""
    given = found.get("permissions", {})
    lists = given if isinstance(given, dict) else {}
    unused = [name for name in found if name not in _READ_ELSEWHERE] + ([] if given == lists else ["permissions"])
    unused += [f"permissions.{name}" for name in lists if name not in tuple(Effect)]
    rules: dict[str, tuple[str, ...]] = {}
    for effect in Effect:
        texts = lists.get(effect, [])
        known: dict[str, None] = {}
        for text in texts[:_MOST_RULES] if isinstance(texts, list) else [texts]:
            ours = _ours(text, effect) if isinstance(text, str) and text.isprintable() and len(text) <= _MOST_CHARS else []
            known.update(dict.fromkeys(ours))
            unused += [] if ours else [f"{effect} {str(text)[:60]}"]
        unused += [f"{effect} after {_MOST_RULES} rules"] if isinstance(texts, list) and len(texts) > _MOST_RULES else []
        rules |= {str(effect): tuple(known)} if known else {}
    more = [f"{len(unused) - _MOST_NAMED} more"] if len(unused) > _MOST_NAMED else []
    return rules, [sanitize_line(each)[:80] for each in unused[:_MOST_NAMED]] + more


def _ours(text: str, effect: Effect) -> list[str]:
    """Return the rules that say the same, none where there are none."""
    match = _RULE.fullmatch(text.strip())
    if match is None:
        return []
    found = list(_said(match["name"], match["pattern"], is_allow=effect is Effect.ALLOW))
    try:
        for rule in found:
            _ = parse_rule(rule, effect, "")
    except UsageError:
        return []
    return found


def _said(name: str, pattern: str | None, *, is_allow: bool) -> Iterator[str]:
    key, is_bare = name.lower(), pattern in (None, "", "*")
    if name.startswith(MCP):
        if pattern is None:
            yield name if name.count("__") > 1 else f"{name.removesuffix('*').removesuffix('__')}__*"
    elif key == "bash":
        yield from ["Shell"] if is_bare else _commands(pattern or "")
    elif key == "webfetch":
        yield from _hosts(pattern or "", is_allow=is_allow)
    elif key in _BARE and is_bare:
        yield _BARE[key]
    elif key == "read" or key in _EDITS:
        path = "" if is_bare else _path(pattern or "")
        if path is not None:
            yield from (f"{tool}({path})" if path else tool for tool in _EDITS.get(key, ("Read",)))


def _commands(pattern: str) -> Iterator[str]:
    """Yield the patterns of a command."""
    literal = re.sub(r"([?\[\]\\])", r"\\\1", pattern)
    stem = literal.removesuffix(":*").removesuffix(" *")
    yield f"Shell({stem})"
    if stem != literal:
        yield f"Shell({stem} *)"


def _hosts(pattern: str, *, is_allow: bool) -> Iterator[str]:
    """Yield rules about a host; one about every host would also open the network to commands, so it is not allowed."""
    kind, _, host = pattern.partition(":")
    if pattern in ("", "*") or (kind, host) == ("domain", "*"):
        yield from () if is_allow else ("Fetch",)
    elif kind == "domain":
        names = [f".{host[2:]}"] if host.startswith("*.") else [host] if is_allow else [host, f".{host}"]
        try:
            yield from [f"Network({parse_pattern(name)})" for name in names]
        except UsageError:
            return


def _path(pattern: str) -> str | None:
    """Return a pattern of paths as ours, None for a place outside the folder or a sign with another meaning."""
    if pattern.startswith(("//", "~", "!")) or any(sign in pattern for sign in "{}"):
        return None
    is_anchored = "/" in pattern.rstrip("/")
    return pattern.removeprefix("./").removeprefix("/") if is_anchored else f"**/{pattern}"
