"""The vocabulary of permissions: modes, what a call does, rules and their syntax, verdicts.

A rule is written `Tool(pattern)`: `Shell(git status *)`, `Write(src/**)`, `Edit`, `*(docs/**)`; one about tools of MCP servers
names them: `mcp__server__tool`, `mcp__server__*`, `mcp__*`.  Patterns of paths are those of `core.path_patterns`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache

from lmtui.core.errors import UsageError
from lmtui.core.permissions import path_patterns
from lmtui.core.permissions.path_patterns import is_secret_path, secret_regex


def matches_glob(pattern: str, subject: str) -> bool:
    """Match a glob against a whole subject in time linear in it, however many stars there are (a rule may be hostile)."""
    fixed = literal_of(pattern)
    if fixed is not None:
        return fixed == subject
    return _compiled(pattern).fullmatch(subject) is not None


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    """Return an expression in which each star stops at the first place where the rest matches, without backtracking."""
    pieces = [""]
    for match in re.finditer(r"\\(.)|(\*)|(\?)|(.)", pattern, re.DOTALL):
        if match[2]:
            pieces.append("")
        else:
            pieces[-1] += "." if match[3] else re.escape(match[1] or match[4])
    if len(pieces) == 1:
        return re.compile(pieces[0], re.DOTALL)
    return re.compile(f"{pieces[0]}{''.join(f'(?>.*?{piece})' for piece in pieces[1:-1])}.*{pieces[-1]}", re.DOTALL)


def escape_glob(text: str) -> str:
    """Return the glob that matches this text and nothing else."""
    return re.sub(r"([*?\[\]\\])", r"\\\1", text)


@lru_cache(maxsize=1024)
def literal_of(pattern: str, wildcards: str = r"*?\[") -> str | None:
    """Return the one text that a pattern without wildcards means, else None."""
    if re.search(rf"(?<!\\)(?:\\\\)*[{wildcards}]", pattern):
        return None
    return re.sub(r"\\(.)", r"\1", pattern, flags=re.DOTALL)


class FileEffect(StrEnum):
    """What a call does to the files of the workspace.  Of a tool that is not built in nothing is known: it may do all of it."""

    NOTHING = "nothing"
    SHOWS = "shows what is in them"
    LISTS = "tells their names"
    CHANGES = "changes those it names and no others"
    GIT = "moves what git keeps, and files with it"
    RUNS = "runs code"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ToolTraits:
    """One tool.

    `is_about_paths`: what it is about are paths, so that a rule for it may be widened to a folder; `is_deep`: of a folder it
    shows all that is below; `is_for_work`: it belongs to carrying a plan out and has no meaning in plan mode.
    """

    file_effect: FileEffect
    is_about_paths: bool = False
    is_deep: bool = False
    is_for_work: bool = False

    @property
    def may_change_unseen(self) -> bool:
        """Tell whether files may be other than they were, though the call named none of them."""
        return self.file_effect in (FileEffect.GIT, FileEffect.RUNS, FileEffect.UNKNOWN)

    @property
    def meets_file(self) -> bool:
        """Tell whether a call is about one file, which it shows or changes."""
        return self.file_effect is FileEffect.CHANGES or (self.file_effect is FileEffect.SHOWS and not self.is_deep)

    @property
    def looks(self) -> bool:
        """Tell whether a call that went well says how things are in the workspace."""
        return self.file_effect in (FileEffect.SHOWS, FileEffect.LISTS, FileEffect.RUNS) and not self.is_for_work


_NOTHING, _SENDS = ToolTraits(FileEffect.NOTHING), ToolTraits(FileEffect.UNKNOWN)
_WORK = ToolTraits(FileEffect.NOTHING, is_for_work=True)
_SHOWS, _CHANGES = ToolTraits(FileEffect.SHOWS, is_about_paths=True), ToolTraits(FileEffect.CHANGES, is_about_paths=True)
_SEARCHES = ToolTraits(FileEffect.SHOWS, is_about_paths=True, is_deep=True)
_LISTS, _GIT, _RUNS = ToolTraits(FileEffect.LISTS), ToolTraits(FileEffect.GIT), ToolTraits(FileEffect.RUNS)
_LISTS_FOR_WORK = ToolTraits(FileEffect.LISTS, is_for_work=True)
TOOL_TRAITS = {
    **dict.fromkeys(("read", "look", "data_view", "promote_skill"), _SHOWS),
    **dict.fromkeys(("grep", "git_diff", "find_relevant_files"), _SEARCHES),
    **dict.fromkeys(("write", "edit", "mkdir"), _CHANGES),
    **dict.fromkeys(("glob", "git_status"), _LISTS),
    "ls": ToolTraits(FileEffect.LISTS, is_about_paths=True),
    **dict.fromkeys(("git_commit", "git_branch"), _GIT),
    "git_add": ToolTraits(FileEffect.GIT, is_about_paths=True),
    **dict.fromkeys(("shell", "python"), _RUNS),
    **dict.fromkeys(("background", "delegate", "explore", "decompose"), _SENDS),
    **dict.fromkeys(("todo_add", "todo_update", "todo_complete", "task_todo_set", "manage_tasks"), _WORK),
    **dict.fromkeys(("plan_complete_step", "wait"), _WORK),
    "task_state_update": _LISTS_FOR_WORK,
    **dict.fromkeys(("report_result", "todo_list", "propose_plan", "get_time", "fetch"), _NOTHING),
    **dict.fromkeys(("web_search", "skill", "pipeline", "memory", "memory_search", "memory_append"), _NOTHING),
    **dict.fromkeys(("memory_forget", "memory_read"), _NOTHING),
}
_OF_OTHERS = ToolTraits(FileEffect.UNKNOWN)


def traits_of(tool: str) -> ToolTraits:
    """Return what is known of a tool by its own name."""
    return TOOL_TRAITS.get(tool, _OF_OTHERS)


def tools_that(*effects: FileEffect) -> frozenset[str]:
    """Return the names of the built-in tools that do one of these."""
    return frozenset(name for name, traits in TOOL_TRAITS.items() if traits.file_effect in effects)


class Mode(StrEnum):
    """How much the user wants to be asked."""

    MANUAL = "manual"
    NORMAL = "normal"
    AUTO = "auto"
    TRY = "try"
    PLAN = "plan"


class Access(StrEnum):
    """What a call does: nothing outside the session, read, change files, or run a command.

    `WEB` is a page of the public internet (its host is asked about next to), `REACH` one of an address that is not public.
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
SOURCES = {GrantScope.SESSION: THIS_SESSION, GrantScope.WORKSPACE: "always, this folder", GrantScope.USER: "always, everywhere"}


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
            return matches_glob(self.tool.lower(), tool.lower())
        return self.tool in ("*", tool)

    @property
    def is_about_paths(self) -> bool:
        """Tell whether the pattern matches paths (see `core.path_patterns`)."""
        return self.tool == "*" or traits_of(self.tool).is_about_paths

    def is_for_paths(self, effect: FileEffect) -> bool:
        """Tell whether the rule names paths, and is for tools that do this to files."""
        return self.pattern != "*" and (self.tool == "*" or traits_of(self.tool).file_effect is effect)

    def is_exactly(self, subject: str) -> bool:
        """Tell whether the rule names this subject to the letter."""
        if not self.is_about_paths:
            return literal_of(self.pattern) == subject
        return literal_of(self.pattern, path_patterns.WILDCARDS) in (subject, f"/{subject}")

    def is_about(self, subject: str) -> bool:
        """Tell whether the pattern covers a subject; a deny or ask rule for a folder covers everything in it."""
        if not self.is_about_paths:
            return matches_glob(self.pattern, subject)
        return path_patterns.matches(self.pattern, subject, covers_below=self.effect is not Effect.ALLOW)


@dataclass(frozen=True, slots=True)
class Decision:
    """The verdict, why in words, and the rules that made it, if any did.

    `uncovered` are the parts of a command that no rule covers, `commands` is how many commands it runs (0 where that is not
    known, or it is none).  `takes_no_rule`: what asks is not a matter of rules, so that a yes holds for this once.
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
_NAMES = {
    "bash": "shell",
    "fileread": "read",
    "filewrite": "write",
    "fileedit": "edit",
    "listdir": "ls",
    "websearch": "web_search",
}


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
    return replace(rule, pattern=path_patterns.escape(subject) if rule.is_about_paths else escape_glob(subject))


@dataclass(frozen=True, slots=True)
class MaskExpressions:
    """Expressions for paths: `denied` by a rule, `secret` by name, `shown` although secret; empty ones match nothing."""

    denied: str = ""
    secret: str = field(default_factory=secret_regex)
    shown: str = ""


@lru_cache(maxsize=32)
def mask_expressions(rules: tuple[Rule, ...]) -> MaskExpressions:
    """Return the masks that follow from the rules."""
    both = masking_patterns(rules), revealing_patterns(rules)
    denied, shown = (path_patterns.regex(patterns) if patterns else "" for patterns in both)
    return MaskExpressions(denied, shown=shown)


def masking_patterns(rules: tuple[Rule, ...], effect: Effect = Effect.DENY) -> tuple[str, ...]:
    """Return the patterns of all files that rules deny (or allow) for reading.

    A rule that denies a whole tool (`Read`) hides no file.
    """
    found = (rule.pattern for rule in rules if rule.effect is effect and rule.is_for_paths(FileEffect.SHOWS))
    return tuple(dict.fromkeys(found))


def revealing_patterns(rules: tuple[Rule, ...]) -> tuple[str, ...]:
    """Return the patterns of secret files that rules allow to read: only those that name such files (`Read(.env)`)."""
    return tuple(filter(reveals_secret, masking_patterns(rules, Effect.ALLOW)))


def reveals_secret(pattern: str) -> bool:
    """Tell whether each path that a pattern matches would count as a secret file: `**/*.pem` does, `src/**` does not."""
    names = [each.replace("**/", "").replace("*", "x").replace("?", "x") for each in path_patterns.alternatives(pattern)]
    return all(is_secret_path(name) for name in names)
