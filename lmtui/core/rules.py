"""The vocabulary of permissions: modes, what a call does, rules and their syntax, verdicts.

A rule is written `Tool(pattern)`: `Shell(git status *)`, `Write(src/**)`, `Edit`, `*(docs/**)`; one about tools of MCP servers
names them: `mcp__server__tool`, `mcp__server__*`, `mcp__*`.  Patterns of paths are those of `core.path_patterns`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import StrEnum

from lmtui.core import globs, path_patterns
from lmtui.core.errors import UsageError
from lmtui.core.tool_facts import facts_of


class Mode(StrEnum):
    """How much the user wants to be asked."""

    MANUAL = "manual"
    NORMAL = "normal"
    AUTO = "auto"
    PLAN = "plan"


class Access(StrEnum):
    """What a call does: nothing outside the session, read, change files, or run a command.

    `WEB` is a page of the public internet (its host is asked about beside), `REACH` one of an address that is not public.
    """

    NONE = "none"
    READ = "read"
    WEB = "web"
    REACH = "reach"
    WRITE = "write"
    EXECUTE = "execute"


class Effect(StrEnum):
    """What a rule says."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


class GrantScope(StrEnum):
    """How far a grant reaches: this session, this folder in every session, or every folder of the user."""

    SESSION = "session"
    WORKSPACE = "workspace"
    USER = "user"


class Verdict(StrEnum):
    """What is to be done with a call."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


MCP = "mcp__"
THIS_SESSION = "this session"
SETTINGS = "settings"
SOURCES = {
    GrantScope.SESSION: THIS_SESSION,
    GrantScope.WORKSPACE: "always, this folder",
    GrantScope.USER: "always, everywhere",
}


def source_of(scope: str) -> str:
    """Return a grant's source in words; a scope that is unknown (an older log) is the workspace's."""
    return next((words for known, words in SOURCES.items() if known == scope), SOURCES[GrantScope.WORKSPACE])


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule; `source` says where it came from, in words for the user ("settings", "always, this folder", …)."""

    effect: Effect
    tool: str
    pattern: str = "*"
    source: str = THIS_SESSION

    def __str__(self) -> str:
        name = self.tool if self.tool.startswith(MCP) else self.tool[:1].upper() + self.tool[1:]
        return name if self.pattern == "*" else f"{name}({self.pattern})"

    def names(self, tool: str) -> bool:
        """Tell whether the rule is about a tool."""
        if self.tool.startswith(MCP):
            return globs.matches(self.tool.lower(), tool.lower())
        return self.tool in ("*", tool)

    @property
    def is_about_paths(self) -> bool:
        """Tell whether the pattern matches paths (see `core.path_patterns`)."""
        return self.tool == "*" or facts_of(self.tool).is_about_paths

    def is_exactly(self, subject: str) -> bool:
        """Tell whether the rule names this subject to the letter."""
        literal = path_patterns.literal if self.is_about_paths else globs.literal
        names = (subject, f"/{subject}") if self.is_about_paths else (subject,)
        return self.pattern != "*" and literal(self.pattern) in names

    def is_about(self, subject: str) -> bool:
        """Tell whether the pattern covers a subject; a deny or ask rule for a folder covers everything in it."""
        if not self.is_about_paths:
            return globs.matches(self.pattern, subject)
        return path_patterns.matches(self.pattern, subject, covers_below=self.effect is not Effect.ALLOW)


@dataclass(frozen=True, slots=True)
class Decision:
    """The verdict, why in words, and the rules that made it, if any did.

    `uncovered` are the parts of a command that no rule covers, `commands` is how many commands it runs (0 where that is not
    known, or it is none).  `takes_no_rule`: what asks is no matter of rules, so that a yes holds for this once.
    `is_read_only`: allowed in the instance of the sandbox where nothing can be changed, and only there.  `reveals` are the
    files with secrets that the call names: once it is allowed, they are not hidden from it.
    """

    verdict: Verdict
    why: str
    rule: str = ""
    uncovered: tuple[str, ...] = ()
    commands: int = 0
    takes_no_rule: bool = False
    is_read_only: bool = False
    reveals: tuple[str, ...] = ()


_RULE = re.compile(r"\s*(?P<tool>\*|mcp__[A-Za-z0-9_*-]+|[A-Za-z][A-Za-z0-9_]*)\s*(?:\((?P<pattern>.*)\))?\s*\Z", re.DOTALL)
_NAMES = {"bash": "shell", "fileread": "read", "filewrite": "write", "fileedit": "edit", "listdir": "ls"}


def parse_rule(text: str, effect: Effect, source: str) -> Rule:
    """Read a rule such as `Shell(git status *)`.

    Raises:
        UsageError: the text is not a rule.
    """
    match = _RULE.match(text)
    if match is None:
        raise UsageError(f"not a permission rule: {text!r}", "Write it as Tool or Tool(pattern), such as Shell(git status *).")
    name = match["tool"].lower()
    pattern = "*" if match["pattern"] is None else match["pattern"]
    if name.startswith(MCP):
        return Rule(effect, match["tool"], pattern, source)
    if name == "mcp":  # Mcp(server/tool)
        server, _, tool = pattern.partition("/")
        return Rule(effect, f"{MCP}{server or '*'}__{tool or '*'}", "*", source)
    return checked(Rule(effect, _NAMES.get(name, name), pattern, source))


def checked(rule: Rule) -> Rule:
    """Return a rule with its pattern of paths normalized.

    Raises:
        UsageError: the pattern is not valid.
    """
    if not rule.is_about_paths:
        return rule
    try:
        return replace(rule, pattern=path_patterns.normalize(rule.pattern))
    except UsageError as error:
        raise UsageError(f"the {rule.effect} rule {rule} is not valid: {error}", error.hint) from error


def exact_rule(tool: str, subject: str, source: str) -> Rule:
    """Return the allow rule that covers this one subject and nothing else."""
    rule = Rule(Effect.ALLOW, tool, source=source)
    return replace(rule, pattern=path_patterns.escape(subject) if rule.is_about_paths else globs.escape(subject))
