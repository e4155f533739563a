"""Who may do what: the one function that decides for every caller, whoever asks.

Deny comes before ask, ask before allow, allow before the mode.  Shell commands are decided part by part in
`core.command_policy`; rules and their words are in `core.rules`.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

from lmtui.core import path_patterns
from lmtui.core.command_policy import decide_command
from lmtui.core.masks import reveals_secret
from lmtui.core.rules import (
    SOURCES,
    THIS_SESSION,
    Access,
    Decision,
    Effect,
    GrantScope,
    Mode,
    Rule,
    Verdict,
    exact_rule,
    parse_rule,
    source_of,
)
from lmtui.core.secrets import is_secret_path
from lmtui.core.skill_scope import SkillScope
from lmtui.core.skills import PROMOTE_TOOL, PROMOTED
from lmtui.core.tool_facts import Deed, facts_of, tools_that

__all__ = [
    "SOURCES",
    "THIS_SESSION",
    "Access",
    "Decision",
    "Effect",
    "GrantScope",
    "Mode",
    "Rule",
    "Verdict",
    "decide",
    "decide_all",
    "exact_rule",
    "parse_rule",
    "source_of",
    "strictest",
]

# A rule that forbids one tool of a family forbids the others: what must not be read must not be searched either.
_FAMILIES = tuple(tools_that(deed) for deed in (Deed.SHOWS, Deed.CHANGES, Deed.RUNS))


def decide(
    tool: str,
    access: Access,
    subject: str,
    mode: Mode,
    rules: tuple[Rule, ...],
    *,
    asks_each_command: bool = False,
    is_read_only: bool = False,
    masks_git: bool = False,
) -> Decision:
    """Decide about one call.

    Args:
        tool: the tool's own name.
        access: what the call does.
        subject: the command (shell), `server/tool` (a tool of an MCP server), nothing (other code) or the path relative to the
            workspace that the call is about.
        mode: the session's mode.
        rules: all rules in force, in any order.
        asks_each_command: every command asks, unless this session has an exact rule for it (the sandbox is a reduced one).
        is_read_only: the sandbox has an instance that no command can change; without it, none passes because it only reads.
        masks_git: git's objects also contain a file that is hidden there.
    """
    if access is Access.EXECUTE and tool == "shell":
        asks = asks_each_command
        return decide_command(tool, subject, mode, rules, asks_each=asks, is_read_only=is_read_only, masks_git=masks_git)
    for rule in rules:
        if rule.effect is Effect.DENY and _is_about(rule, tool, subject):
            return Decision(Verdict.DENY, f"your rule {rule} forbids it", str(rule))
    if mode is Mode.PLAN and access in (Access.WRITE, Access.EXECUTE):
        return Decision(Verdict.DENY, "plan mode only reads")
    if mode is Mode.PLAN and facts_of(tool).is_for_work:
        return Decision(Verdict.DENY, "plan mode only reads and plans; it is for the work on an approved plan")
    if tool == PROMOTE_TOOL:
        return Decision(Verdict.ASK, "a function becomes a tool only by your yes", takes_no_rule=True)
    allowing = [rule for rule in rules if rule.effect is Effect.ALLOW and _allows(rule, tool, access, subject)]
    exact = next((rule for rule in allowing if rule.is_exactly(subject)), None)
    if exact is None or exact.source != THIS_SESSION:
        for rule in rules:
            if rule.effect is Effect.ASK and _is_about(rule, tool, subject):
                return Decision(Verdict.ASK, f"your rule {rule} asks", str(rule))
        doubt = next((rule for rule in rules if rule.effect is Effect.DENY and _may_break(rule, tool, subject)), None)
        if doubt is not None:
            return Decision(Verdict.ASK, f"it may show what your rule {doubt} forbids", str(doubt))
    is_named = any(reveals_secret(rule.pattern) for rule in allowing if rule.pattern != "*")
    if not is_named and _shows_secret(tool, access, subject):  # a wider rule shows no secret, in auto mode neither
        return Decision(Verdict.ASK, f"{subject} may hold secrets", reveals=(subject,))
    decision = _at_last(access, mode, exact or next(iter(allowing), None), asks_each=asks_each_command)
    return replace(decision, reveals=(subject,)) if _needs_secret(tool, decision, subject) else decision


def decide_all(
    tool: str,
    access: Access,
    subjects: tuple[str, ...],
    mode: Mode,
    rules: tuple[Rule, ...],
    *,
    asks_each_command: bool = False,
    is_read_only: bool = False,
    masks_git: bool = False,
    scopes: Sequence[SkillScope] = (),
) -> Decision:
    """Decide about a call that is about several things: one that is denied denies it, one that asks asks.

    `scopes` are those of the skills in use and of the sub-agent's definition: what one of them does not name is denied.
    """
    for scope, subject in itertools.product(scopes, subjects or ("",)):
        if refusal := scope.refusal(tool, access, subject):
            return Decision(Verdict.DENY, refusal, scope.source)
    facts = {"asks_each_command": asks_each_command, "is_read_only": is_read_only, "masks_git": masks_git}
    decisions = [decide(tool, access, subject, mode, rules, **facts) for subject in subjects or ("",)]
    revealed = (path for decision in decisions for path in decision.reveals)
    return replace(strictest(decisions), reveals=tuple(dict.fromkeys(revealed)))


def strictest(decisions: Sequence[Decision]) -> Decision:
    """Return the first of those that deny, else of those that ask, else of all."""
    return min(decisions, key=lambda decision: (Verdict.DENY, Verdict.ASK, Verdict.ALLOW).index(decision.verdict))


def _at_last(access: Access, mode: Mode, allowing: Rule | None, *, asks_each: bool) -> Decision:
    """Decide about a call that nothing forbids and nothing else asks about."""
    is_sessions = allowing is not None and allowing.source == THIS_SESSION
    if asks_each and access is Access.EXECUTE and not is_sessions:
        return Decision(Verdict.ASK, "the reduced sandbox asks for each command; --sandbox landlock lets the mode decide")
    if allowing is not None:
        return Decision(Verdict.ALLOW, f"your rule {allowing} allows it", str(allowing))
    return _by_mode(access, mode)


def _by_mode(access: Access, mode: Mode) -> Decision:
    if access is Access.REACH:
        return Decision(Verdict.ASK, "it is not on the public internet")
    if access is Access.NONE or mode is Mode.AUTO:
        return Decision(Verdict.ALLOW, f"{mode} mode")
    if access in (Access.READ, Access.WEB) and mode is not Mode.MANUAL:
        return Decision(Verdict.ALLOW, f"{mode} mode")
    asks = "asks for everything" if mode is Mode.MANUAL else "asks before changes"
    return Decision(Verdict.ASK, f"{mode} mode {asks}")


def _is_about(rule: Rule, tool: str, subject: str) -> bool:
    """Tell whether a rule that forbids or asks is about a call; one for any tool of a family holds for all of it."""
    kind = _kind(tool)
    is_named = rule.names(tool) or any({rule.tool, kind} <= family for family in _FAMILIES)
    inside = f"{subject}/\0" if facts_of(tool).is_deep else subject  # a search of a folder reads what is in it
    return is_named and any(rule.is_about(each) for each in (subject, inside))


def _kind(tool: str) -> str:
    """Return the tool that a tool is like: a promoted one runs Python."""
    return "python" if tool.startswith(PROMOTED) else tool


def _is_within(rule: Rule, tool: str, subject: str) -> bool:
    """Tell whether a difference of a whole folder may show what a rule forbids (a search leaves such files out)."""
    is_read = _takes_in(rule, Deed.SHOWS) and rule.pattern != "*"
    return tool == "git_diff" and is_read and path_patterns.can_be_below(rule.pattern, subject)


def _takes_in(rule: Rule, *deeds: Deed) -> bool:
    """Tell whether a rule is for tools that do one of these."""
    return rule.tool == "*" or facts_of(rule.tool).deed in deeds


def _may_break(rule: Rule, tool: str, subject: str) -> bool:
    """Tell whether a call may do what a rule forbids without naming it."""
    if _kind(tool) == "python":
        return _takes_in(rule, Deed.SHOWS, Deed.CHANGES) and rule.pattern != "*"
    return _is_within(rule, tool, subject)


def _allows(rule: Rule, tool: str, access: Access, subject: str) -> bool:
    """Tell whether a rule that allows covers a call; to change an added folder, it has to name the whole path."""
    is_beyond = access is Access.WRITE and subject.startswith(("/", "../")) and not rule.pattern.startswith("/")
    return rule.names(tool) and not is_beyond and rule.is_about(subject)


def _needs_secret(tool: str, decision: Decision, subject: str) -> bool:
    """Tell whether a call works on a secret file; that needs a rule or an approval, the mode is not enough."""
    is_told = decision.verdict is Verdict.ASK or decision.rule != "" or tool == "write"
    return is_told and facts_of(tool).is_about_paths and is_secret_path(subject)


def _shows_secret(tool: str, access: Access, subject: str) -> bool:
    return access is Access.READ and facts_of(tool).deed not in (Deed.LISTS, Deed.GIT) and is_secret_path(subject)
