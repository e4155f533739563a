"""What an approved plan may be allowed in one go: each file and each command that it names, to the letter, for this session.

What a plan names is a model's words.  Only what the permission function would ask about for the mode's sake alone is granted;
what is dangerous, unclear, secret or forbidden is left out, each with its reason.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass

from lmtui.core.clean import reveal
from lmtui.core.offers import offered_rules
from lmtui.core.permissions import decide
from lmtui.core.proposals import Proposal
from lmtui.core.rules import THIS_SESSION, Access, Effect, Mode, Rule, Verdict, exact_rule, parse_rule
from lmtui.core.secrets import is_secret_path
from lmtui.core.shell.command import SimpleCommand, objection
from lmtui.core.shell.grammar import parse
from lmtui.core.shell.review import is_interpreter, layers, risks_of
from lmtui.core.shell.tools import NEVER_BROAD

_PROTECTED = frozenset({".git", ".lmagent"})
_FOR_GOOD = frozenset(
    {"rm", "rmdir", "unlink", "shred", "dd", "truncate", "mkfs", "chmod", "chown", "kill", "pkill", "killall", "reboot"}
)
_OUTSIDE = frozenset({"curl", "wget", "ssh", "scp", "rsync", "nc", "ftp"})
_GIT_FOR_GOOD = frozenset({"push", "reset", "clean", "rebase", "filter-branch", "gc", "remote", "config"})


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Something that a plan names and that is not granted with it, and why."""

    name: str
    why: str


@dataclass(frozen=True, slots=True)
class Grants:
    """The rules that a plan would bring, and what of it is left out."""

    rules: tuple[str, ...] = ()
    left_out: tuple[LeftOut, ...] = ()


def grants_of(proposal: Proposal, rules: tuple[Rule, ...]) -> Grants:
    """Return what may be granted with a plan, beside the rules in force."""
    found: list[str] = []
    left_out: list[LeftOut] = []
    for path in proposal.files:
        why = _against_path(path, rules)
        left_out += [LeftOut(path, why)] if why else []
        found += [] if why else [str(exact_rule(tool, _normal(path), THIS_SESSION)) for tool in ("write", "edit")]
    for command in proposal.commands:
        why = _against_command(command, rules)
        left_out += [LeftOut(command, why)] if why else []
        found += [] if why else [offered_rules("shell", Access.EXECUTE, (command,))[0]]
    return Grants(tuple(rule for rule in dict.fromkeys(found) if not _is_there(rule, rules)), tuple(left_out))


def _is_there(text: str, rules: tuple[Rule, ...]) -> bool:
    rule = parse_rule(text, Effect.ALLOW, THIS_SESSION)
    return any((each.effect, each.tool, each.pattern) == (rule.effect, rule.tool, rule.pattern) for each in rules)


def _normal(path: str) -> str:
    return posixpath.normpath(path.removeprefix("/workspace/"))


def _against_path(path: str, rules: tuple[Rule, ...]) -> str:
    """Return why a file is not granted, empty where it may be."""
    normal = _normal(path)
    if reveal(path) != path or "\n" in path:
        return "it holds characters that cannot be seen"
    if normal.startswith(("/", "..", "~")) or normal == ".":
        return "it is not inside the folder"
    if path.endswith("/") or re.search(r"[*?\[]", path):
        return "it names more than one file"
    if _PROTECTED & set(normal.lower().split("/")):
        return "it is protected"
    if is_secret_path(normal):
        return "it may hold secrets"
    decisions = [decide(tool, Access.WRITE, normal, Mode.AUTO, rules) for tool in ("write", "edit")]
    return next((each.why for each in decisions if each.verdict is not Verdict.ALLOW), "")


def _against_command(command: str, rules: tuple[Rule, ...]) -> str:
    """Return why a command is not granted, empty where it may be."""
    problem = objection(command) or ("it is more than one line" if "\n" in command else "")
    parsed = parse(command)
    if problem or parsed.problem or not parsed.commands:
        return problem or parsed.problem or "it is not understood"
    for part in parsed.commands:
        if why := _danger(part):
            return why
    decision = decide("shell", Access.EXECUTE, command, Mode.AUTO, rules)
    return "" if decision.verdict is Verdict.ALLOW else decision.why


def _danger(part: SimpleCommand) -> str:
    found = layers(part)
    for each in found:
        name = each.program.rpartition("/")[2]
        if name in NEVER_BROAD:
            return f"{name} may run anything"
        if name in _FOR_GOOD:
            return f"{name} deletes or changes things for good"
        if name in _OUTSIDE:
            return f"{name} reaches other machines"
    inner = found[-1]
    words = inner.words
    if inner.program == "git" and _GIT_FOR_GOOD & set(words[1:]):
        return "it changes the repository for good"
    if is_interpreter(inner.program):
        is_module = len(words) > 2 and words[1] == "-m" and re.fullmatch(r"[A-Za-z_][\w.]*", words[2]) is not None
        is_file = len(words) > 1 and not words[1].startswith("-")
        return "" if is_module or is_file else f"{inner.program} runs code that no file holds"
    risks = risks_of(inner)
    return risks[0].why if risks else ""
