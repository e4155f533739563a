"""Who may do what: the one function that decides for every caller, whoever asks.

Deny comes before ask, ask before allow, allow before the mode.  Shell commands are decided part by part in
`core.command_policy`; rules and their words are in `core.rules`.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from lmtui.core.permissions import path_patterns
from lmtui.core.permissions.command_search import covers, fits, is_unclear, names_path, straight
from lmtui.core.permissions.git_commands import changes_files, writing_git_commands
from lmtui.core.permissions.path_patterns import is_secret_path
from lmtui.core.permissions.rules import (
    MCP,
    SETTINGS,
    THIS_SESSION,
    Access,
    Decision,
    Effect,
    FileEffect,
    Mode,
    Rule,
    Verdict,
    revealing_patterns,
    tools_that,
    traits_of,
)
from lmtui.core.permissions.shell_grammar import ParsedCommand, outline, parse, unquoted, word_set
from lmtui.core.permissions.shell_review import is_harmless, layers, reason_of, risks_of

PROMOTED = "skill__"  # how the names of tools begin that run a function of a file
MOST_CHARS = 50_000
OUTSIDE_OVERLAY = "try mode allows nothing outside its overlay; to allow this, leave try mode (F5 or /mode)"
_NO_SECRETS = "try mode shows no secret files; to allow this, leave try mode (F5 or /mode)"
_UNASKED = (Mode.AUTO, Mode.TRY)
_TOO_LONG = f"it is longer than {MOST_CHARS:,} characters"
# The arguments of these are names, patterns or texts, not files whose contents they show.
_NAMES_ONLY = word_set("ls stat find echo printf test [ du wc basename dirname realpath readlink which fd tree type")
_PATTERN_FIRST = word_set("grep egrep fgrep rg ag sed awk jq")


_NOTED = "notes change only with your approval"
_BY_YOUR_WORD = {
    "promote_skill": "a function becomes a tool only with your approval",
    "memory_append": _NOTED,
    "memory_forget": _NOTED,
    "memory": _NOTED,
}


def decide_command(
    tool: str,
    text: str,
    mode: Mode,
    rules: tuple[Rule, ...],
    *,
    asks_each: bool,
    is_read_only: bool = False,
    masks_git: bool = False,
) -> Decision:
    """Decide about one command.

    Args:
        tool: the tool's own name.
        text: the command as it would be given to bash.
        mode: the session's mode.
        rules: all rules in force.
        asks_each: nothing but an exact rule of this session or of the settings lets a command run unasked (a reduced sandbox).
        is_read_only: the sandbox can run it where it cannot change anything.
        masks_git: git's objects also contain a file that is hidden there.
    """
    for rule in rules:
        if rule.effect is Effect.DENY and _is_about(rule, tool, text):
            return Decision(Verdict.DENY, f"your rule {rule} forbids it", str(rule), commands=len(parse(text).commands))
    if len(text) > MOST_CHARS:
        return Decision(Verdict.DENY if mode is Mode.PLAN else Verdict.ASK, _TOO_LONG, takes_no_rule=True)
    shown, secrets = revealing_patterns(rules), _named_secrets(text)
    secrets = tuple(path for path in secrets if not any(path_patterns.matches(pattern, path) for pattern in shown))
    look = _Look(tool, text, parse(text), rules, secrets)
    shows_hidden = masks_git and "git" in text  # it would fail there: the objects are masked
    git_commands = writing_git_commands(text)
    if mode is Mode.PLAN and (shows_hidden or git_commands or not is_read_only):
        why = "git would change the repository" if git_commands else "this sandbox cannot enforce that"
        why = "git may show hidden files" if shows_hidden else why
        return look.decision(Verdict.DENY, f"plan mode only reads, and {why}")
    if not (found := _by_rule(look, asks_each=asks_each)):
        denied = tuple(rule.pattern for rule in rules if rule.effect is Effect.DENY and rule.tool == tool)
        if denied and is_unclear(text, denied):
            return look.ask("it may run what one of your rules forbids")
        found = _by_parts(look, mode)
        is_shown = shows_hidden or bool(secrets or git_commands)
        can_contain = is_read_only and not is_shown and mode not in (Mode.MANUAL, *_UNASKED)
        if can_contain and (mode is Mode.PLAN or not found.rule):
            return replace(look.decision(Verdict.ALLOW, "it runs where it cannot change your files"), is_read_only=True)
    moves = any(map(changes_files, git_commands))  # a merge may also give hidden contents another name
    effects = (FileEffect.CHANGES, FileEffect.SHOWS)[: 1 + moves]
    denying = (rule for rule in rules if rule.effect is Effect.DENY and any(map(rule.is_for_paths, effects)))
    kept = next(denying, None)
    is_kept = kept is None or (bool(git_commands) and not moves)
    if is_kept or found.verdict is not Verdict.ALLOW or mode is Mode.TRY:
        return found
    is_contained = is_read_only and not git_commands
    return replace(found, is_read_only=True) if is_contained else look.ask(f"it runs where your rule {kept} cannot hold")


@dataclass(frozen=True, slots=True)
class _Look:
    """Facts about a command; `secrets` are the secret files that it names."""

    tool: str
    text: str
    parsed: ParsedCommand
    rules: tuple[Rule, ...]
    secrets: tuple[str, ...]

    def decision(self, verdict: Verdict, why: str, rule: str = "", uncovered: tuple[str, ...] = ()) -> Decision:
        """Return a decision about it."""
        secrets = () if verdict is Verdict.DENY else self.secrets
        return Decision(verdict, why, rule, uncovered, len(self.parsed.commands), reveals=secrets)

    def ask(self, why: str) -> Decision:
        """Return a decision that asks about the whole command."""
        return self.decision(Verdict.ASK, why, "", tuple(part.text for part in self.parsed.commands) or (self.text,))


def _by_rule(look: _Look, *, asks_each: bool) -> Decision | None:
    """Decide by a rule that names the whole command or asks about it; None without such a rule."""
    tool, text = look.tool, look.text
    exact = next(
        (each for each in look.rules if each.effect is Effect.ALLOW and each.names(tool) and each.is_exactly(text)), None
    )
    allowed = look.decision(Verdict.ALLOW, f"your rule {exact} allows it", str(exact))
    if exact is not None and exact.source == THIS_SESSION:
        return allowed
    if asks_each and (exact is None or exact.source != SETTINGS):
        return look.ask("this sandbox is reduced: each command is asked about")
    for rule in look.rules:
        if rule.effect is Effect.ASK and _is_about(rule, tool, text):
            return look.decision(Verdict.ASK, f"your rule {rule} asks", str(rule), (text,))
    return allowed if exact is not None else None


def _by_parts(look: _Look, mode: Mode) -> Decision:
    """Decide about a command that no rule names as a whole."""
    parsed = look.parsed
    allowing = tuple(rule for rule in look.rules if rule.effect is Effect.ALLOW and rule.names(look.tool))
    is_elsewhere = _leaves_folder(parsed)  # there the words of a rule may mean other things
    may_grant = [() if is_elsewhere and not is_harmless(part) else allowing for part in parsed.commands]
    pairs = list(zip(may_grant, parsed.commands, strict=True))
    granted = [next((str(rule) for rule in some if covers(rule.pattern, part)), "") for some, part in pairs]
    if look.secrets:  # a rule about commands shows no secret
        return look.ask(f"it names {look.secrets[0]}, which may hold secrets")
    if mode in _UNASKED:
        return look.decision(Verdict.ALLOW, f"{mode} mode")
    if parsed.problem:
        return look.ask(f"it cannot be checked against rules: {parsed.problem}")
    is_beside = mode is not Mode.MANUAL and any(granted)
    left = [part for rule, part in zip(granted, parsed.commands, strict=True) if not rule]
    uncovered = tuple(part.text for part in left if not (is_beside and is_harmless(part)))
    if uncovered:
        reasons = (reason_of(part, risk) for part in left if part.text in uncovered for risk in risks_of(part))
        asks = "asks for everything" if mode is Mode.MANUAL else "asks before changes"
        why = "; ".join((f"{mode} mode {asks}", *itertools.islice(reasons, 1)))  # where one word is the reason, that word
        return look.decision(Verdict.ASK, why, "", uncovered)
    used = ", ".join(dict.fromkeys(rule for rule in granted if rule))
    return look.decision(Verdict.ALLOW, f"your rule {used} allows it", used)


def _leaves_folder(parsed: ParsedCommand) -> bool:
    """Tell whether a command line goes where the words of a rule may mean other things."""
    inner = [layers(part)[-1] for part in parsed.commands]
    targets = [part.words[-1] if len(part.words) > 1 else "~" for part in inner if part.program == "cd"]
    is_plain = all(re.fullmatch(r"(?:/workspace(?:/|\Z))?(?![/~-])[^\0]*", target) and ".." not in target for target in targets)
    has_path = any("/" in part.program for part in inner)
    return bool(targets) and (not is_plain or has_path)


def _is_about(rule: Rule, tool: str, text: str) -> bool:
    """Tell whether a rule that forbids or asks is about a command: by its words, or by a path that it may not read."""
    if rule.names(tool) and fits(rule.pattern, text):
        return True
    return rule.is_for_paths(FileEffect.SHOWS) and names_path(rule.pattern, text)


def _named_secrets(text: str) -> tuple[str, ...]:
    """Return the secret files that a command plainly names as its operands, relative to the workspace."""
    seen = outline(text)
    if seen.problem:
        pieces = re.split(r"[\s;|&<>()`'\"={},:@]+", text)
        return _secrets_of(tuple(word for word in pieces if not word.endswith(".key") or "/" in word))
    named = (*seen.sources, *(word for command in seen.commands for word in _file_words(tuple(map(unquoted, command)))))
    return _secrets_of(tuple(piece for word in named for piece in (word, *re.split(r"[=:@,]", word))))


def _secrets_of(words: tuple[str, ...]) -> tuple[str, ...]:
    plain = (word for word in words if word and not re.search(r"[*?\[]", word))  # what only matches a pattern stays hidden
    return tuple(dict.fromkeys(straight(word) for word in plain if is_secret_path(word)))


def _file_words(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words of a command that may be files whose contents it uses."""
    program = words[0].rpartition("/")[2]
    if program in _NAMES_ONLY and not any(word.startswith("--files") for word in words):
        return words[words.index("-exec") :] if "-exec" in words else ()
    rest = words[1:]
    if program == "git" and rest[:1] in (("status",), ("branch",), ("tag",), ("ls-files",)):
        return ()
    if program == "git":
        rest = tuple(
            word for i, word in enumerate(rest) if not re.match(r"--(?:grep|author)|-[SG]", rest[i - 1] if i else word)
        )
    if program in _PATTERN_FIRST and not any(re.match(r"-\w*[ef]|--(?:file|regexp|expression)", word) for word in rest):
        first = next((i for i, word in enumerate(rest) if not word.startswith("-")), len(rest))
        rest = (*rest[:first], *rest[first + 1 :])
    return rest


# Who may not do the one may not do the others.
_SCOPE_FAMILIES = tuple(frozenset(tools_that(effect)) for effect in (FileEffect.SHOWS, FileEffect.RUNS))
# Who may do the one may do the other: it shows or makes no more.
_COVERS = {"look": "read", "mkdir": "write"}


@dataclass(frozen=True, slots=True)
class SkillScope:
    """The tools that a skill names; `rules` are its words for them, all of the allowing kind.

    With `is_agent` it is the definition of a sub-agent that names them; tools that `denied` rules are about are left out.
    `ends` says when it is over.
    """

    skill: str
    rules: tuple[Rule, ...] = field(default=())
    is_agent: bool = False
    denied: tuple[Rule, ...] = ()
    ends: str = "until this turn ends"

    @property
    def source(self) -> str:
        """Return whose limits these are, in words."""
        return f"{'sub-agent' if self.is_agent else 'skill'} {self.skill}"

    def refusal(self, tool: str, access: Access, subject: str) -> str:
        """Return why a call is none of the skill's, empty where it is one.

        What does nothing outside the session (plans, todos, the time, reading skills) always is.
        """
        if access is Access.NONE or self._covers(tool, subject):
            return ""
        named = ", ".join(map(str, self.rules)) or "no tools"
        if self.is_agent:
            return f"the {self.source} may use only {named}"
        return f"{self.source} is in use {self.ends}, and its allowed-tools are {named}"

    def rules_for(self, tool: str) -> tuple[Rule, ...]:
        """Return those of the rules that are about a tool."""
        family = {tool}.union(*(each for each in _SCOPE_FAMILIES if tool in each))
        if any(rule.names(each) for rule in self.denied for each in family):
            return ()
        return tuple(rule for rule in self.rules if rule.names(tool) or rule.tool == _COVERS.get(tool))

    def _covers(self, tool: str, subject: str) -> bool:
        rules = self.rules_for(tool)
        if tool == "shell" and not any(rule.pattern == "*" for rule in rules):
            return bool(rules) and decide_command(tool, subject, Mode.MANUAL, rules, asks_each=False).verdict is Verdict.ALLOW
        return any(rule.is_about(subject) for rule in rules)


# A rule that forbids one tool of a family forbids the others: what must not be read must not be searched either.
_FAMILIES = tuple(tools_that(effect) for effect in (FileEffect.SHOWS, FileEffect.CHANGES, FileEffect.RUNS))


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
        is_read_only: the sandbox has an instance that no command can change; without it, none runs unasked.
        masks_git: git's objects also contain a file that is hidden there.
    """
    if access is Access.EXECUTE and tool == "shell":
        asks = asks_each_command
        return decide_command(tool, subject, mode, rules, asks_each=asks, is_read_only=is_read_only, masks_git=masks_git)
    for rule in rules:
        if rule.effect is Effect.DENY and _is_about_call(rule, tool, subject):
            return Decision(Verdict.DENY, f"your rule {rule} forbids it", str(rule))
    if barred := _barred(tool, access, subject, mode):
        return Decision(Verdict.DENY, barred)
    if tool in _BY_YOUR_WORD and access is Access.WRITE:
        return Decision(Verdict.ASK, _BY_YOUR_WORD[tool], takes_no_rule=True)
    allowing = [rule for rule in rules if rule.effect is Effect.ALLOW and _allows(rule, tool, access, subject)]
    exact = next((rule for rule in allowing if rule.is_exactly(subject)), None)
    if exact is None or exact.source != THIS_SESSION:
        for rule in rules:
            if rule.effect is Effect.ASK and _is_about_call(rule, tool, subject):
                return Decision(Verdict.ASK, f"your rule {rule} asks", str(rule))
        is_granted = bool(allowing) and tool.startswith(MCP)  # a server that the user's rule names
        doubt = next((rule for rule in rules if rule.effect is Effect.DENY and _may_break(rule, tool, access, subject)), None)
        if doubt is not None and not is_granted:
            return Decision(Verdict.ASK, f"it may do what your rule {doubt} forbids", str(doubt))
    is_named = any(path_patterns.matches(pattern, subject) for pattern in revealing_patterns(rules))
    shows_contents = access is Access.READ and traits_of(tool).file_effect not in (FileEffect.LISTS, FileEffect.GIT)
    if shows_contents and not is_named and is_secret_path(subject):  # a wider rule shows no secret, in auto mode neither
        return Decision(Verdict.ASK, f"{subject} may hold secrets", reveals=(subject,))
    decision = _at_last(access, mode, exact or next(iter(allowing), None), asks_each=asks_each_command)
    is_told = decision.verdict is Verdict.ASK or decision.rule != "" or tool == "write"  # the mode is not enough
    works_on_secret = is_told and traits_of(tool).is_about_paths and is_secret_path(subject)
    return replace(decision, reveals=(subject,)) if works_on_secret else decision


def decide_all(
    tool: str,
    access: Access,
    subjects: tuple[str, ...],
    mode: Mode,
    rules: tuple[Rule, ...],
    *,
    scopes: Sequence[SkillScope] = (),
    **facts: bool,
) -> Decision:
    """Decide about a call that is about several things: one that is denied denies it, one that asks asks.

    `scopes` are those of the skills in use and of the sub-agent's definition: what one of them does not name is denied.
    `facts` are those of the sandbox, see `decide`.
    """
    for scope, subject in itertools.product(scopes, subjects or ("",)):
        if refusal := scope.refusal(tool, access, subject):
            return Decision(Verdict.DENY, refusal, scope.source)
    decisions = [decide(tool, access, subject, mode, rules, **facts) for subject in subjects or ("",)]
    revealed = (path for decision in decisions for path in decision.reveals)
    if mode is Mode.TRY and strictest(decisions).verdict is Verdict.ASK and any(each.reveals for each in decisions):
        return Decision(Verdict.DENY, _NO_SECRETS)
    return replace(strictest(decisions), reveals=tuple(dict.fromkeys(revealed)))


def strictest(decisions: Sequence[Decision]) -> Decision:
    """Return the first of those that deny, else of those that ask, else of all."""
    return min(decisions, key=lambda decision: (Verdict.DENY, Verdict.ASK, Verdict.ALLOW).index(decision.verdict))


def _at_last(access: Access, mode: Mode, allowing: Rule | None, *, asks_each: bool) -> Decision:
    """Decide about a call that nothing forbids and nothing else asks about."""
    is_sessions = allowing is not None and allowing.source == THIS_SESSION
    if asks_each and access is Access.EXECUTE and not is_sessions:
        return Decision(Verdict.ASK, "this sandbox is reduced: each command is asked about")
    if allowing is not None:
        return Decision(Verdict.ALLOW, f"your rule {allowing} allows it", str(allowing))
    if access is Access.REACH:
        return Decision(Verdict.ASK, "it is not on the public internet")
    is_reading = access in (Access.READ, Access.WEB) and mode is not Mode.MANUAL
    if access is Access.NONE or mode in _UNASKED or is_reading:
        return Decision(Verdict.ALLOW, f"{mode} mode")
    asks = "asks for everything" if mode is Mode.MANUAL else "asks before changes"
    return Decision(Verdict.ASK, f"{mode} mode {asks}")


def _barred(tool: str, access: Access, subject: str, mode: Mode) -> str:
    """Return why the mode forbids a call, empty where it does not."""
    traits, changes = traits_of(tool), access in (Access.WRITE, Access.EXECUTE)
    is_covered = traits.file_effect is FileEffect.CHANGES and not subject.startswith(("/", "../"))  # by the overlay
    if mode is Mode.TRY and changes and not is_covered:
        return OUTSIDE_OVERLAY
    if mode is Mode.PLAN and changes:
        return "plan mode only reads"
    is_early = mode is Mode.PLAN and traits.is_for_work
    return "plan mode only reads and plans; it is for the work on an approved plan" if is_early else ""


def _is_about_call(rule: Rule, tool: str, subject: str) -> bool:
    """Tell whether a rule that forbids or asks is about a call; one for any tool of a family holds for all of it."""
    kind = _kind(tool)
    is_named = rule.names(tool) or any({rule.tool, kind} <= family for family in _FAMILIES)
    inside = f"{subject}/\0" if traits_of(tool).is_deep else subject  # a search of a folder reads what is in it
    return is_named and any(rule.is_about(each) for each in (subject, inside))


def _kind(tool: str) -> str:
    """Return the tool that a tool is like: a promoted one runs Python."""
    return "python" if tool.startswith(PROMOTED) else tool


def _may_break(rule: Rule, tool: str, access: Access, subject: str) -> bool:
    """Tell whether a call may do what a rule forbids without naming it."""
    if (
        rule.is_for_paths(FileEffect.CHANGES)
        and access in (Access.WRITE, Access.EXECUTE)
        and tool not in ("git_add", "git_commit")
    ):
        return traits_of(tool).may_change_unseen
    if not rule.is_for_paths(FileEffect.SHOWS):
        return False
    # a difference of a whole folder may show it (a search leaves such files out)
    return _kind(tool) == "python" or (tool == "git_diff" and path_patterns.can_be_below(rule.pattern, subject))


def _allows(rule: Rule, tool: str, access: Access, subject: str) -> bool:
    """Tell whether a rule that allows covers a call; to change an added folder, it has to name the whole path."""
    is_beyond = access is Access.WRITE and subject.startswith(("/", "../")) and not rule.pattern.startswith("/")
    return rule.names(tool) and not is_beyond and rule.is_about(subject)
