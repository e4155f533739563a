"""Who may do what: modes, rules, and the one function that decides for every caller.

A rule is written `Tool(glob)`: `Shell(git status*)`, `Write(src/**)`, `Edit`, `*(docs/**)`.  Deny comes before allow, allow
before the mode.  For shell commands an allow rule counts only where the glob cannot be tricked: the command is one simple
command without shell syntax, or it is the rule's text to the letter.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from lmtui.core.errors import UsageError


class Mode(StrEnum):
    """How much the user wants to be asked."""

    MANUAL = "manual"
    NORMAL = "normal"
    AUTO = "auto"
    PLAN = "plan"


class Access(StrEnum):
    """What a call does: nothing outside the session, read, change files, or run a command."""

    NONE = "none"
    READ = "read"
    WRITE = "write"
    EXECUTE = "execute"


class Effect(StrEnum):
    """What a rule says."""

    ALLOW = "allow"
    DENY = "deny"


class Verdict(StrEnum):
    """What is to be done with a call."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule; `source` says where it came from (flag, session, workspace, user)."""

    effect: Effect
    tool: str
    pattern: str = "*"
    source: str = "session"

    def __str__(self) -> str:
        name = self.tool[:1].upper() + self.tool[1:]
        return name if self.pattern == "*" else f"{name}({self.pattern})"


@dataclass(frozen=True, slots=True)
class Decision:
    """The verdict, why in words, and the rule that made it, if one did."""

    verdict: Verdict
    why: str
    rule: str = ""


_RULE = re.compile(r"\s*(?P<tool>\*|[A-Za-z][A-Za-z0-9_]*)\s*(?:\((?P<pattern>.*)\))?\s*\Z", re.DOTALL)
_CHANGERS = frozenset({"write", "edit", "mkdir"})
_RULE_NAMES = {"bash": "shell", "fileread": "read", "filewrite": "write", "fileedit": "edit", "listdir": "ls"}
_SIMPLE_COMMAND = re.compile(r"[A-Za-z0-9 _./:,@%+=-]+\Z")
_ASSIGNMENT = re.compile(r"\s*[A-Za-z_][A-Za-z0-9_]*\+?=")
_WRAPPERS = frozenset({"command", "builtin", "exec", "env", "sudo", "nohup", "time", "nice", "then", "else", "do", "!"})
_SEGMENT_BREAK = re.compile(r"[;&|\n\r(){}`<>]+|\$\(")


def parse_rule(text: str, effect: Effect, source: str) -> Rule:
    """Read a rule such as `Shell(git status*)`.

    Raises:
        UsageError: the text is not a rule.
    """
    match = _RULE.match(text)
    if match is None:
        raise UsageError(f"not a permission rule: {text!r}", "Write it as Tool or Tool(glob), for example Shell(git status*).")
    name = match["tool"].lower()
    pattern = match["pattern"]
    return Rule(effect, _RULE_NAMES.get(name, name), "*" if pattern is None else pattern, source)


def exact_rule(tool: str, subject: str, source: str) -> Rule:
    """Return the allow rule that covers this one subject and nothing else."""
    return Rule(Effect.ALLOW, tool, re.sub(r"([*?\[\]\\])", r"\\\1", subject), source)


def decide(tool: str, access: Access, subject: str, mode: Mode, rules: tuple[Rule, ...]) -> Decision:
    """Decide about one call.

    Args:
        tool: the tool's own name.
        access: what the call does.
        subject: the command (shell) or the path relative to the workspace that the call is about.
        mode: the session's mode.
        rules: all rules in force, in any order.
    """
    for rule in rules:
        if rule.effect is Effect.DENY and _denies(rule, tool, access, subject):
            return Decision(Verdict.DENY, f"your rule {rule} forbids it", str(rule))
    if mode is Mode.PLAN and access in (Access.WRITE, Access.EXECUTE):
        return Decision(Verdict.DENY, "plan mode only reads")
    for rule in rules:
        if rule.effect is Effect.ALLOW and _allows(rule, tool, access, subject):
            return Decision(Verdict.ALLOW, f"your rule {rule} allows it", str(rule))
    if access is Access.NONE or mode is Mode.AUTO:
        return Decision(Verdict.ALLOW, f"{mode} mode")
    if access is Access.READ and mode is not Mode.MANUAL:
        return Decision(Verdict.ALLOW, f"{mode} mode")
    asks = "asks for everything" if mode is Mode.MANUAL else "asks before changes"
    return Decision(Verdict.ASK, f"{mode} mode {asks}")


def decide_all(tool: str, access: Access, subjects: tuple[str, ...], mode: Mode, rules: tuple[Rule, ...]) -> Decision:
    """Decide about a call that is about several things: one that is denied denies it, one that asks asks."""
    decisions = [decide(tool, access, subject, mode, rules) for subject in subjects or ("",)]
    return min(decisions, key=lambda decision: (Verdict.DENY, Verdict.ASK, Verdict.ALLOW).index(decision.verdict))


def _denies(rule: Rule, tool: str, access: Access, subject: str) -> bool:
    """Tell whether a deny rule fits; one for any of the tools that change files holds for all of them."""
    if not _names(rule, tool) and not {rule.tool, tool} <= _CHANGERS:
        return False
    if _matches(rule.pattern, subject, is_path=access is not Access.EXECUTE):
        return True
    if access is not Access.EXECUTE:
        return False
    segments = (_plain_command(segment) for segment in _SEGMENT_BREAK.split(subject))
    return any(_matches(rule.pattern, segment, is_path=False) for segment in segments if segment)


def _plain_command(segment: str) -> str:
    """Return a simple command as deny rules mean it: no assignments, wrappers, quotes, folder of the program, odd spaces."""
    words = re.sub(r"[\\'\"]", "", segment).split()
    while words and (_ASSIGNMENT.match(words[0]) or words[0] in _WRAPPERS):
        words = words[1:]
    return " ".join([words[0].rpartition("/")[2], *words[1:]]) if words else ""


def _allows(rule: Rule, tool: str, access: Access, subject: str) -> bool:
    if not _names(rule, tool):
        return False
    if rule.pattern == "*" or access is not Access.EXECUTE:
        return _matches(rule.pattern, subject, is_path=access is not Access.EXECUTE)
    if _unescaped(rule.pattern) == subject:
        return True
    is_simple = _SIMPLE_COMMAND.match(subject) is not None and _ASSIGNMENT.match(subject) is None
    return is_simple and _matches(rule.pattern, subject, is_path=False)


def _names(rule: Rule, tool: str) -> bool:
    return rule.tool in ("*", tool)


def _unescaped(pattern: str) -> str | None:
    """Return the one text that a pattern without wildcards stands for, else None."""
    if re.search(r"(?<!\\)(?:\\\\)*[*?\[]", pattern):
        return None
    return re.sub(r"\\(.)", r"\1", pattern)


def _matches(pattern: str, subject: str, *, is_path: bool) -> bool:
    """Match a glob against a whole subject in time linear in both, however many stars it has (a rule may be hostile)."""
    tokens = _tokens(pattern, is_path)
    states = _closure({0}, tokens)
    for char in subject:
        states = _closure({after for state in states for after in _step(state, char, tokens)}, tokens)
        if not states:
            return False
    return len(tokens) in states


class _Token(NamedTuple):
    """A piece of a glob: `char` itself, or with `char` empty any character but those in `but`; again and again if `is_star`."""

    char: str = ""
    but: str = ""
    is_star: bool = False
    is_folders: bool = False


@lru_cache(maxsize=512)
def _tokens(pattern: str, is_path: bool) -> tuple[_Token, ...]:
    r"""Read a glob; a backslash takes the next character as itself.

    In paths `*` stops at `/` and `**` does not, `**/` is also nothing; in commands `*` is anything.
    """
    out: list[_Token] = []
    i = 0
    while i < len(pattern):
        char, is_wide = pattern[i], not is_path or pattern == "*"
        if char == "\\" and i + 1 < len(pattern):
            out.append(_Token(pattern[i + 1]))
            i += 1
        elif char == "*" and pattern[i : i + 3] == "**/" and is_path:
            out.append(_Token(is_star=True, is_folders=True))
            i += 2
        elif char == "*":
            is_double = pattern[i : i + 2] == "**"
            out.append(_Token(but="" if is_wide or is_double else "/", is_star=True))
            i += is_double
        elif char == "?":
            out.append(_Token(but="/" if is_path else ""))
        else:
            out.append(_Token(char))
        i += 1
    return tuple(out)


def _closure(states: set[int], tokens: tuple[_Token, ...]) -> set[int]:
    """Return the states with those reached without a character.  `**/` is left only at its start or behind a `/`."""
    todo = list(states)
    while todo:
        state = todo.pop()
        if 0 <= state < len(tokens) and tokens[state].is_star and state + 1 not in states:
            states.add(state + 1)
            todo.append(state + 1)
    return states


def _step(state: int, char: str, tokens: tuple[_Token, ...]) -> tuple[int, ...]:
    """Return where a character leads.  A negative state is inside the folders of a `**/`."""
    if state < 0:
        return (state, ~state) if char == "/" else (state,)
    if state >= len(tokens):
        return ()
    token = tokens[state]
    if token.is_folders:
        return (~state, state) if char == "/" else (~state,)
    fits = char == token.char if token.char else char not in token.but
    return () if not fits else (state,) if token.is_star else (state + 1,)
