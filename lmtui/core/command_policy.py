"""Deciding about a shell command.  What forbids looks at every text; what allows only at what the grammar understood."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from lmtui.core import globs, path_patterns
from lmtui.core.rules import SETTINGS, THIS_SESSION, Decision, Effect, Mode, Rule, Verdict
from lmtui.core.secrets import could_be_secret
from lmtui.core.shell.command import ParsedCommand, SimpleCommand
from lmtui.core.shell.grammar import parse
from lmtui.core.shell.matching import covers
from lmtui.core.shell.mentions import fits, has_more_paths, is_unclear, mentioned, paths_mentioned, straight
from lmtui.core.shell.review import layers, review
from lmtui.core.tool_facts import Deed, tools_that

_FILE_READERS, _FILE_CHANGERS = tools_that(Deed.SHOWS), tools_that(Deed.CHANGES)
MOST_CHARS = 50_000
_TOO_LONG = f"it is longer than {MOST_CHARS:,} characters: whether a rule forbids any of it was not looked for"
_SEARCHERS = frozenset({"rg", "ag", "ack"})
_SWEEPERS = _SEARCHERS | {"tar", "zip", "cpio", "rsync", "cp", "7z", "xargs"}
_FIND_RUNS = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_PIECES = re.compile(r"[\s;|&<>()`'\"={},:@]+")


def decide_command(
    tool: str, text: str, mode: Mode, rules: tuple[Rule, ...], *, asks_each: bool, is_read_only: bool = False
) -> Decision:
    """Decide about one command.

    Args:
        tool: the tool's own name.
        text: the command as it would be given to bash.
        mode: the session's mode.
        rules: all rules in force.
        asks_each: nothing but an exact rule of this session or of the settings lets a command run unasked (a reduced sandbox).
        is_read_only: the sandbox keeps commands from changing anything; without that none may run in plan mode.
    """
    if len(text) > MOST_CHARS:
        return Decision(Verdict.DENY if mode is Mode.PLAN else Verdict.ASK, _TOO_LONG, takes_no_rule=True)
    parsed = parse(text)
    count = len(parsed.commands)
    for rule in rules:
        if rule.effect is Effect.DENY and _is_about(rule, tool, text):
            return Decision(Verdict.DENY, f"your rule {rule} forbids it", str(rule), commands=count)
    if mode is Mode.PLAN and not _only_reads(parsed):
        return Decision(Verdict.DENY, "plan mode only reads", commands=count)
    if mode is Mode.PLAN and not is_read_only:
        return Decision(Verdict.DENY, "plan mode only reads, and nothing here keeps a command to that", commands=count)
    exact = next((rule for rule in rules if _is_exact(rule, tool, text)), None)
    if exact is not None and exact.source == THIS_SESSION:
        return Decision(Verdict.ALLOW, f"your rule {exact} allows it", str(exact), commands=count)
    if asks_each and (exact is None or exact.source != SETTINGS):
        return _ask("this sandbox is reduced: each command is asked about", text, parsed)
    for rule in rules:
        if rule.effect is Effect.ASK and _is_about(rule, tool, text):
            return Decision(Verdict.ASK, f"your rule {rule} asks", str(rule), (text,), count)
    if exact is not None:
        return Decision(Verdict.ALLOW, f"your rule {exact} allows it", str(exact), commands=count)
    return _decide_by_parts(tool, text, parsed, mode, rules)


def _decide_by_parts(tool: str, text: str, parsed: ParsedCommand, mode: Mode, rules: tuple[Rule, ...]) -> Decision:
    """Decide about a command that no rule names as a whole."""
    doubt = _doubt(tool, text, parsed, rules)
    if doubt:
        return _ask(doubt, text, parsed)
    allowing = tuple(rule for rule in rules if rule.effect is Effect.ALLOW and rule.names(tool))
    granted = [_granting(command, parsed, allowing) for command in parsed.commands]
    secret = _named_secret(text, parsed)
    is_covered = bool(granted) and all(granted)
    if secret and not (mode is Mode.AUTO and is_covered):
        return _ask(f"it names {secret}, which may hold secrets", text, parsed)
    if mode is Mode.AUTO:
        return Decision(Verdict.ALLOW, "auto mode", commands=len(parsed.commands))
    if parsed.problem:
        return _ask(f"not understood: {parsed.problem}", text, parsed)
    if mode is not Mode.MANUAL:
        granted = [
            rule or ("reads" if review(part).is_reader else "") for rule, part in zip(granted, parsed.commands, strict=True)
        ]
    uncovered = tuple(part.text for rule, part in zip(granted, parsed.commands, strict=True) if not rule)
    if uncovered:
        return Decision(Verdict.ASK, _why_asked(mode, parsed, uncovered), "", uncovered, len(parsed.commands))
    used = ", ".join(dict.fromkeys(rule for rule in granted if rule != "reads"))
    why = f"your rule {used} allows it" if used else "it only reads"
    return Decision(Verdict.ALLOW, why, used, commands=len(parsed.commands))


def _why_asked(mode: Mode, parsed: ParsedCommand, uncovered: tuple[str, ...]) -> str:
    """Return why a command is asked about; where one risky word is the reason, that word."""
    risk = next((risk for part in parsed.commands if part.text in uncovered for risk in review(part).risks), None)
    asks = "asks for everything" if mode is Mode.MANUAL else "asks before changes"
    return f"{mode} mode {asks}" + (f"; {risk.why}" if risk else "")


def _ask(why: str, text: str, parsed: ParsedCommand) -> Decision:
    return Decision(Verdict.ASK, why, "", tuple(part.text for part in parsed.commands) or (text,), len(parsed.commands))


def _is_exact(rule: Rule, tool: str, text: str) -> bool:
    return rule.effect is Effect.ALLOW and rule.names(tool) and rule.is_exactly(text)


def _granting(command: SimpleCommand, parsed: ParsedCommand, rules: tuple[Rule, ...]) -> str:
    """Return the rule that covers a part of a command, empty where none does."""
    is_elsewhere = _leaves_folder(parsed)
    for rule in rules:
        if covers(rule.pattern, command) and not (is_elsewhere and not review(command).is_reader):
            return str(rule)
    return ""


def _leaves_folder(parsed: ParsedCommand) -> bool:
    """Tell whether a command line goes where the words of a rule may mean other things."""
    inner = [layers(part)[-1] for part in parsed.commands]
    targets = [part.words[-1] if len(part.words) > 1 else "~" for part in inner if part.program == "cd"]
    is_plain = all(re.fullmatch(r"(?:/workspace(?:/|\Z))?(?![/~-])[^\0]*", target) and ".." not in target for target in targets)
    has_path = any("/" in part.program for part in inner)
    return bool(targets) and (not is_plain or has_path)


def _only_reads(parsed: ParsedCommand) -> bool:
    return not parsed.problem and all(review(part).is_reader for part in parsed.commands)


def _is_about(rule: Rule, tool: str, text: str) -> bool:
    """Tell whether a rule that forbids or asks is about a command: by its words, or by a path that it may not read."""
    if rule.names(tool) and fits(rule.pattern, text):
        return True
    is_path_rule = rule.tool in _FILE_READERS or rule.tool == "*"
    return is_path_rule and rule.pattern != "*" and _names_path(rule.pattern, text)


def _names_path(pattern: str, text: str) -> bool:
    """Tell whether a text names what a path rule is about, or the folder that holds it (`secrets` for `secrets/**`)."""
    if any(
        path_patterns.matches(pattern, each, covers_below=True)
        for path in paths_mentioned(text)
        for each in (path, f"{path}/\0")
    ):
        return True
    stars = (each for part in parse(text).commands for each in part.globs if each)
    return any(globs.can_meet(each.removeprefix("./"), pattern) for each in stars)


def _doubt(tool: str, text: str, parsed: ParsedCommand, rules: tuple[Rule, ...]) -> str:
    """Return why a command may come near what a deny rule forbids, empty where it cannot."""
    denying = [rule for rule in rules if rule.effect is Effect.DENY]
    patterns = tuple(rule.pattern for rule in denying if rule.tool == tool)
    if patterns and is_unclear(text, patterns):
        return "it may run what one of your rules forbids"
    strict = (rule.tool for rule in rules if rule.effect is not Effect.ALLOW and rule.pattern != "*")
    if {*_FILE_READERS, *_FILE_CHANGERS, "*"} & set(strict) and has_more_paths(text):
        return "it goes to more folders than can be looked through"
    for rule in denying:
        if rule.tool in (*_FILE_READERS, "*") and rule.pattern != "*" and _may_show(text, parsed, rule.pattern):
            return f"it may show what your rule {rule} forbids"
    if not _only_reads(parsed):
        for rule in denying:
            if rule.tool in _FILE_CHANGERS and rule.pattern != "*" and _names_path(rule.pattern, text):
                return f"it names what your rule {rule} keeps from being changed"
    return ""


def _may_show(text: str, parsed: ParsedCommand, pattern: str) -> bool:
    """Tell whether a command line may show what a path rule is about without naming it."""
    if not parsed.problem:
        return any(_sweeps(layers(each)[-1].words, pattern) for each in parsed.commands)
    words = (word.removeprefix("./") for word in paths_mentioned(text) if re.search(r"[*?\[]", word))
    if any(globs.can_meet(word, pattern) for word in words):
        return True
    return any(_sweeps((*each, *_FIND_RUNS) if each[0] == "find" else each, pattern) for each in mentioned(text))


def _sweeps(words: tuple[str, ...], pattern: str) -> bool:
    """Tell whether a command shows what is in whole folders, one of which may hold what a path rule is about."""
    name, rest = words[0].rpartition("/")[2], words[1:]
    operands = [word for word in rest if not word.startswith("-")]
    if name == "git":
        is_sweep = bool({"grep", "diff", "show", "log", "stash", "blame", "archive", "format-patch"} & set(operands[:2]))
        operands = list(rest[rest.index("--") + 1 :]) if "--" in rest else []
    elif name in ("grep", "egrep", "fgrep", "zgrep"):
        is_sweep = any(re.match(r"-[A-Za-z]*[rRd]|--(?:recur|deref|direc)", word) for word in rest)
        operands = operands[1:]
    else:
        is_sweep = name in _SWEEPERS or (name == "diff" and any(re.match(r"-[A-Za-z]*r|--recur", word) for word in rest))
        is_sweep = is_sweep or (name == "find" and any(word in _FIND_RUNS for word in rest))
        if name in ("find", "xargs"):  # folders stand before the options; of xargs the words come from elsewhere
            operands = list(itertools.takewhile(lambda word: not word.startswith("-"), rest)) if name == "find" else []
        operands = operands[1:] if name in _SEARCHERS else operands
    places = [word for word in operands if not word.startswith("/") or word.startswith("/workspace")]
    return is_sweep and any(path_patterns.can_be_below(pattern, straight(place)) for place in places or ["."])


def _named_secret(text: str, parsed: ParsedCommand) -> str:
    """Return the word of a command that may name a file with secrets whose contents it shows or moves."""
    if parsed.problem:
        words = (word for word in dict.fromkeys(_PIECES.split(text)) if not word.endswith(".key") or "/" in word)
        return next((word for word in words if could_be_secret(globs.escape(word))), "")
    return next((word for part in parsed.commands for word, glob in _shown(part) if could_be_secret(glob)), "")


def _shown(command: SimpleCommand) -> Iterator[tuple[str, str]]:
    """Yield the words whose files a command may show, with the globs that they stand for."""
    found = review(command)
    places = found.shows if found.is_reader else range(1, len(command.words))
    for i in places:
        word, glob = command.words[i], command.globs[i]
        if glob:
            yield word, glob
        for piece in (word, *re.split(r"[=:@,]", word), word[2:] if word.startswith("-") else ""):
            yield word, globs.escape(piece)
