"""An approval as text: what would happen, whole and with hidden characters named, and the answer in a word or a letter."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lmtui.core.clean import clean_line, reveal, reveal_line
from lmtui.core.counting import counted
from lmtui.core.events import ApprovalRequested, Outcome
from lmtui.core.look_alikes import approval_warning
from lmtui.core.rules import GrantScope
from lmtui.core.sessions import Answer
from lmtui.core.tool_facts import Deed, facts_of
from lmtui.frontends.plain.words import INDENT

SHELL, NETWORK, SHOWN = "shell", "network", "tools"
PLACES = {GrantScope.WORKSPACE: "in this folder", GrantScope.USER: "everywhere"}


@dataclass(frozen=True, slots=True)
class Choice:
    """One way to answer: its letter, its word, and what it does."""

    letter: str
    word: str
    text: str


@dataclass(frozen=True, slots=True)
class Grant:
    """One thing that `always` may mean."""

    rule: str
    scope: GrantScope

    def __str__(self) -> str:
        return f"{reveal_line(self.rule)}, {PLACES[self.scope]}"


def question(request: ApprovalRequested) -> Iterator[str]:
    """Return everything that is to be known before an answer, the text that would run or change unabridged."""
    yield f"approval needed: {_deed(request)}"
    text = request.diff if "\n@@" in request.diff else "\n".join(part for part in (request.text, request.diff) if part)
    yield from (f"{INDENT}{line}" for line in reveal(text).split("\n"))
    if found := approval_warning(request):
        yield found
    conditions = [
        counted(request.commands, "command") if request.commands else "",
        f"in {clean_line(request.cwd)}" if request.cwd else "",
        clean_line(request.limits),
        f"sandbox {clean_line(request.sandbox)}" if request.sandbox else "",
    ]
    if any(conditions):
        yield f"it would run: {', '.join(part for part in conditions if part)}"
    if request.uncovered:
        yield f"not covered by your rules: {'; '.join(map(reveal_line, request.uncovered))}"
    elif request.why:
        yield f"it asks because: {clean_line(request.why)}"


def choices(request: ApprovalRequested) -> list[Choice]:
    """Return what may be answered."""
    found = [Choice("y", "yes", "let it happen this once")]
    if request.suggested_rule:
        found.append(Choice("s", "session", f"and allow {reveal_line(request.suggested_rule)} until this session ends"))
        found.append(Choice("a", "always", "and keep a rule that you choose next"))
    found.append(Choice("n", "no", "refuse"))
    found.append(Choice("f", "because", "refuse and tell the model why; words may follow at once"))
    if request.tool == SHELL:
        found.append(Choice("e", "edit", "write the command that runs instead"))
    return found


def choice_lines(request: ApprovalRequested) -> Iterator[str]:
    """Return the choices, one a line."""
    return (f"  {each.letter} or {each.word}: {each.text}" for each in choices(request))


def chosen(request: ApprovalRequested, typed: str) -> tuple[str, str]:
    """Return the letter of what was typed and the words behind it; an empty letter where it is no choice."""
    head, _, words = typed.strip().partition(" ")
    for each in choices(request):
        if head.lower() in (each.letter, each.word) and (not words or each.letter == "f"):
            return each.letter, words.strip()
    return "", ""


def direct_answer(request: ApprovalRequested, letter: str, words: str) -> Answer | None:
    """Return the answer behind a letter; None where more must be asked."""
    match letter:
        case "y":
            return Answer(Outcome.ONCE)
        case "s":
            return Answer(Outcome.SESSION, rule=request.suggested_rule)
        case "n":
            return Answer(Outcome.NO)
        case "f" if words:
            return Answer(Outcome.NO, feedback=words)
        case _:
            return None


def grants(request: ApprovalRequested) -> list[Grant]:
    """Return what may be granted for always, the narrowest first."""
    rules = request.offered_rules or ((request.suggested_rule,) if request.suggested_rule else ())
    return [Grant(rule, scope) for scope in PLACES for rule in dict.fromkeys(rules)]


def _deed(request: ApprovalRequested) -> str:
    who = clean_line(request.agent)
    who = "lmtui" if who == "root" else who
    if request.tool == NETWORK:
        return "a command wants to reach the host"
    if request.tool == SHOWN:
        return "a command needs this folder of tools, read-only"
    if request.tool == SHELL:
        return f"{who} asks to run a command"
    verb = "read" if facts_of(request.tool).deed is Deed.SHOWS else "change"
    deed = f"{verb} {reveal_line(request.path)}" if request.path else f"use {clean_line(request.tool)}"
    return f"{who} asks to {deed}"
