"""Decide about a shell command.

Deny rules check every text. Allow rules for commands that can change files cover only what the grammar understood.  Commands
that only read run where nothing can be changed and secrets are hidden, so a wrong judgement does no harm.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from lmtui.core import path_patterns
from lmtui.core.masks import revealing_patterns
from lmtui.core.rules import SETTINGS, THIS_SESSION, Decision, Effect, Mode, Rule, Verdict
from lmtui.core.secrets import is_secret_path
from lmtui.core.shell.command import ParsedCommand, SimpleCommand, word_set
from lmtui.core.shell.grammar import outline, parse, unquoted
from lmtui.core.shell.matching import covers
from lmtui.core.shell.mentions import fits, is_unclear, leads_to_path, names_path, straight
from lmtui.core.shell.readers import not_reading, shows_history
from lmtui.core.shell.review import is_harmless, layers, risks_of
from lmtui.core.tool_facts import Deed, tools_that

_FILE_READERS, _FILE_CHANGERS = tools_that(Deed.SHOWS), tools_that(Deed.CHANGES)
MOST_CHARS = 50_000
_TOO_LONG = f"it is longer than {MOST_CHARS:,} characters"
# The arguments of these are names, patterns or texts, not files whose contents they show.
_NAMES_ONLY = word_set("ls stat find echo printf test [ du wc basename dirname realpath readlink which fd tree type")
_PATTERN_FIRST = word_set("grep egrep fgrep rg ag sed awk jq")


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
        is_read_only: the sandbox has an instance in which a command cannot change anything.
        masks_git: git's objects also contain a file that is hidden there.
    """
    for rule in rules:
        if rule.effect is Effect.DENY and _is_about(rule, tool, text):
            return Decision(Verdict.DENY, f"your rule {rule} forbids it", str(rule), commands=len(parse(text).commands))
    if len(text) > MOST_CHARS:
        return Decision(Verdict.DENY if mode is Mode.PLAN else Verdict.ASK, _TOO_LONG, takes_no_rule=True)
    secrets = _not_shown(_named_secrets(text), rules)
    look = _Look(tool, text, parse(text), rules, secrets, _why_not_reading(text, masks_git=masks_git))
    if mode is Mode.PLAN and (look.why_not_reading or not is_read_only):
        why = look.why_not_reading or "this sandbox cannot enforce that"
        return look.decision(Verdict.DENY, f"plan mode only reads, and {why}")
    if found := _by_rule(look, asks_each=asks_each):
        return found
    if doubt := _may_run_denied(tool, text, rules):
        return look.ask(doubt)
    reads = replace(look.decision(Verdict.ALLOW, "it only reads"), is_read_only=True)
    can_read = is_read_only and not look.why_not_reading and not look.secrets and mode is not Mode.MANUAL
    if kept := _may_change_denied(text, rules):
        return reads if can_read else look.ask(kept)
    found = _by_parts(look, mode)
    return reads if can_read and not found.rule and mode is not Mode.AUTO else found


@dataclass(frozen=True, slots=True)
class _Look:
    """Facts about a command; `secrets` are the secret files that it names, `why_not_reading` is empty if it only reads."""

    tool: str
    text: str
    parsed: ParsedCommand
    rules: tuple[Rule, ...]
    secrets: tuple[str, ...]
    why_not_reading: str

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
    granted = [_granting(command, parsed, allowing) for command in parsed.commands]
    if look.secrets:  # a rule about commands shows no secret
        return look.ask(f"it names {look.secrets[0]}, which may hold secrets")
    if mode is Mode.AUTO:
        return look.decision(Verdict.ALLOW, "auto mode")
    if parsed.problem:
        return look.ask(f"not understood: {parsed.problem}")
    is_beside = mode is not Mode.MANUAL and any(granted)
    pairs = list(zip(granted, parsed.commands, strict=True))
    uncovered = tuple(part.text for rule, part in pairs if not rule and not (is_beside and is_harmless(part)))
    if uncovered:
        return look.decision(Verdict.ASK, _why_asked(mode, parsed, uncovered), "", uncovered)
    used = ", ".join(dict.fromkeys(rule for rule in granted if rule))
    return look.decision(Verdict.ALLOW, f"your rule {used} allows it", used)


def _why_not_reading(text: str, *, masks_git: bool) -> str:
    if why := not_reading(text):
        return why
    return "git may show hidden files" if masks_git and shows_history(outline(text)) else ""


def _why_asked(mode: Mode, parsed: ParsedCommand, uncovered: tuple[str, ...]) -> str:
    """Return why a command is asked about; where one risky word is the reason, that word."""
    risk = next((risk for part in parsed.commands if part.text in uncovered for risk in risks_of(part)), None)
    asks = "asks for everything" if mode is Mode.MANUAL else "asks before changes"
    return f"{mode} mode {asks}" + (f"; {risk.why}" if risk else "")


def _granting(command: SimpleCommand, parsed: ParsedCommand, rules: tuple[Rule, ...]) -> str:
    """Return the rule that covers a part of a command, empty where none does."""
    if _leaves_folder(parsed) and not is_harmless(command):
        return ""
    return next((str(rule) for rule in rules if covers(rule.pattern, command)), "")


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
    return rule.tool in (*_FILE_READERS, "*") and rule.pattern != "*" and names_path(rule.pattern, text)


def _may_run_denied(tool: str, text: str, rules: tuple[Rule, ...]) -> str:
    """Return why a command may run something denied without naming it, or an empty string."""
    patterns = tuple(rule.pattern for rule in rules if rule.effect is Effect.DENY and rule.tool == tool)
    return "it may run what one of your rules forbids" if patterns and is_unclear(text, patterns) else ""


def _may_change_denied(text: str, rules: tuple[Rule, ...]) -> str:
    """Return why a command may change a path that a deny rule protects, or an empty string."""
    for rule in rules:
        is_kept = rule.effect is Effect.DENY and rule.tool in (*_FILE_CHANGERS, "*") and rule.pattern != "*"
        if is_kept and leads_to_path(rule.pattern, text):
            return f"it names what your rule {rule} keeps from being changed"
    return ""


def _named_secrets(text: str) -> tuple[str, ...]:
    """Return the secret files that a command plainly names as its operands, relative to the workspace."""
    seen = outline(text)
    if seen.problem:
        pieces = re.split(r"[\s;|&<>()`'\"={},:@]+", text)
        return _secrets_of(tuple(word for word in pieces if not word.endswith(".key") or "/" in word))
    named = (*seen.sources, *(word for command in seen.commands for word in _file_words(tuple(map(unquoted, command)))))
    return _secrets_of(tuple(piece for word in named for piece in (word, *re.split(r"[=:@,]", word))))


def _not_shown(secrets: tuple[str, ...], rules: tuple[Rule, ...]) -> tuple[str, ...]:
    """Return the secret files that no rule shows."""
    shown = revealing_patterns(rules) if secrets else ()
    return tuple(path for path in secrets if not any(path_patterns.matches(pattern, path) for pattern in shown))


def _secrets_of(words: tuple[str, ...]) -> tuple[str, ...]:
    plain = (
        word for word in dict.fromkeys(words) if word and not re.search(r"[*?\[]", word)
    )  # files that only match a pattern stay hidden
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
