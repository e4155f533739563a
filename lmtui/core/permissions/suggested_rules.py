"""The rules that an approval offers: this one call first, then wider ones that still cover it and nothing dangerous."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from dataclasses import dataclass

from lmtui.core.events import ApprovalRequested
from lmtui.core.permissions import path_patterns
from lmtui.core.permissions.command_search import WITH_SUBCOMMANDS, covers
from lmtui.core.permissions.path_patterns import is_secret_path
from lmtui.core.permissions.rules import MCP, THIS_SESSION, Access, Effect, GrantScope, Rule, escape_glob, exact_rule, traits_of
from lmtui.core.permissions.shell_grammar import SimpleCommand, parse
from lmtui.core.permissions.shell_review import NEVER_BROAD, is_harmless, is_interpreter, layers, risks_of
from lmtui.core.sanitize import escape_invisible_line

SCOPE_TEXTS = {GrantScope.WORKSPACE: "in this folder", GrantScope.USER: "everywhere"}


@dataclass(frozen=True, slots=True)
class Grant:
    """One rule that `always` may mean; `number` is its place among those offered."""

    rule: str
    scope: GrantScope
    number: int = 0

    def __str__(self) -> str:
        return f"{escape_invisible_line(self.rule)}, {SCOPE_TEXTS[self.scope]}"


def grants(request: ApprovalRequested) -> list[Grant]:
    """Return what may be granted for always, the narrowest first."""
    rules = request.offered_rules or ((request.suggested_rule,) if request.suggested_rule else ())
    return [Grant(rule, scope, number) for scope in SCOPE_TEXTS for number, rule in enumerate(rules)]


def suggested_rules(tool: str, access: Access, subjects: tuple[str, ...]) -> tuple[str, ...]:
    """Return what may be granted for a call, the narrowest first; never a wide rule for what a wildcard must not cover."""
    if tool.startswith(MCP):
        server = tool.removeprefix(MCP).partition("__")[0]
        return (tool, f"{MCP}{server}__*")
    is_one = len(subjects) == 1
    narrow = exact_rule(tool, subjects[0], THIS_SESSION) if is_one else Rule(Effect.ALLOW, tool)
    if access is Access.EXECUTE and tool == "shell":
        words = (word for part in parse(subjects[0]).commands for word in part.words[1:]) if is_one else ()
        wider = [] if not is_one or any(map(is_secret_path, words)) else list(_for_command(subjects[0]))
    elif traits_of(tool).is_about_paths:
        wider = list(_for_paths(subjects))
    else:
        wider = ["*"]
    rules = [str(narrow), *(str(Rule(Effect.ALLOW, tool, pattern)) for pattern in wider)]
    return tuple(dict.fromkeys(rules))


def _for_command(text: str) -> Iterator[str]:
    """Yield patterns that cover the one part of a command that does more than read."""
    commands = parse(text).commands
    parts = [part for part in commands if not is_harmless(part)] or list(commands[:1] if len(commands) == 1 else ())
    if len(parts) != 1:
        return
    inner = layers(parts[0])[-1]
    if is_interpreter(inner.program) or inner.program in NEVER_BROAD or risks_of(inner):
        return
    yield from (pattern for pattern in _patterns(inner) if covers(pattern, parts[0]))


def _patterns(command: SimpleCommand) -> Iterator[str]:
    program, *rest = (escape_glob(word) for word in command.words)
    if program not in WITH_SUBCOMMANDS:
        yield f"{program} *"
    elif rest and rest[0].replace("-", "").isalnum() and not rest[0].startswith("-"):
        if rest[0] in ("run", "run-script", "mod", "compose") and len(rest) > 1 and not rest[1].startswith("-"):
            yield f"{program} {rest[0]} {rest[1]} *"
        else:
            yield f"{program} {rest[0]} *"


def _for_paths(subjects: tuple[str, ...]) -> Iterator[str]:
    """Yield the folder that holds all paths, and its topmost folder."""
    if not subjects or any(is_secret_path(subject) or subject.startswith(("/", "..")) for subject in subjects):
        return
    folder = posixpath.commonpath([posixpath.dirname(subject.rstrip("/")) or "." for subject in subjects])
    if folder in ("", "."):
        return
    yield f"{path_patterns.escape(folder)}/**"
    yield f"{path_patterns.escape(folder.split('/')[0])}/**"
