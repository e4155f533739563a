"""A plan as text: what would be done, whole, and the answer in a letter or a word."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from lmtui.core.errors import ToolError, UsageError
from lmtui.core.plan_events import PlanProposed
from lmtui.core.proposal_text import from_text, to_text
from lmtui.core.proposal_words import grant_lines, proposal_lines
from lmtui.core.proposals import Proposal
from lmtui.frontends.plain.desk import Desk

CHOICES = {
    "y": ("yes", "approve it and let it be carried out"),
    "g": ("grant", "approve it and allow what it names, after a list of that"),
    "e": ("edit", "change it in your editor (VISUAL or EDITOR)"),
    "f": ("change", "say what should be different; words may follow at once"),
    "n": ("no", "drop it; plan mode stays on"),
    "l": ("later", "leave it waiting; /plan asks again"),
}
_LETTERS = " ".join(CHOICES)

Editor = Callable[[str], str | None]


def ask_plan(desk: Desk, edit: Editor | None = None) -> bool:
    """Ask about the plan that waits, if one does; True where the session goes on by the answer.

    `edit` returns what an editor made of a text, None where there is none.
    """
    asked = desk.act(lambda session: session.plans.open)
    if asked is None:
        return False
    proposal = asked.proposal
    _show(desk, proposal)
    while True:
        letter, words = _chosen(desk.terminal.read(f"your answer ({_LETTERS}): "))
        if letter == "e":
            proposal = _edited(desk, proposal, edit or _in_editor)
            _show(desk, proposal)
            continue
        try:
            done = _answer(desk, asked, proposal, letter, words)
        except ToolError as error:
            desk.say(f"error: {error.full_text()}")
            continue
        if done is not None:
            return done


def _show(desk: Desk, proposal: Proposal) -> None:
    desk.say("a plan waits for your word:", *(f"  {line}" for line in proposal_lines(proposal)), "choices:")
    desk.say(*(f"  {letter} or {word}: {text}" for letter, (word, text) in CHOICES.items()))
    desk.terminal.drop_typed()  # what was typed before the question was there is no answer to it


def _chosen(typed: str) -> tuple[str, str]:
    """Return the letter of what was typed and the words behind it; an empty letter where it is no choice."""
    head, _, words = typed.strip().partition(" ")
    found = next((letter for letter, (word, _) in CHOICES.items() if head.lower() in (letter, word)), "")
    return (found, words.strip()) if not words or found == "f" else ("", "")


def _answer(desk: Desk, asked: PlanProposed, proposal: Proposal, letter: str, words: str) -> bool | None:
    """Give an answer; True or False where the question is done, None where it goes on."""
    edited = proposal if proposal != asked.proposal else None

    match letter:
        case "y":
            desk.act(lambda session: session.plans.approve(asked.proposal_id, edited))
            return True
        case "g":
            grants = desk.act(lambda session: session.plans.grants(proposal))
            desk.say(*grant_lines(grants) if grants.rules or grants.left_out else ("nothing that it names can be allowed",))
            desk.terminal.drop_typed()
            if desk.terminal.read("approve it with these rules, for this session? yes or no: ").strip().lower() in ("y", "yes"):
                desk.act(lambda session: session.plans.approve(asked.proposal_id, edited, rules=grants.rules))
                return True
        case "f":
            said = words or desk.terminal.read("what should be different? this goes to the model: ").strip()
            desk.act(lambda session: session.plans.revise(asked.proposal_id, said))
            return True
        case "n":
            desk.act(lambda session: session.plans.reject(asked.proposal_id))
            desk.say("the plan is dropped; /mode and a name leaves plan mode")
            return False
        case "l":
            desk.say("the plan waits; /plan asks again")
            return False
        case _:
            desk.say(f"one of these letters, or its word: {_LETTERS}")
    return None


def _edited(desk: Desk, proposal: Proposal, edit: Editor) -> Proposal:
    """Return the plan as the user changed it; what is no plan is opened again, with the reason."""
    text = to_text(proposal)
    while True:
        written = edit(text)
        if written is None:
            desk.say("there is no editor, or it did not end well: set VISUAL or EDITOR; the plan stays as it was")
            return proposal
        try:
            return from_text(written)
        except UsageError as error:
            text = written
            desk.say(f"error: {error}")
            if desk.terminal.read("edit it again? yes or no, which drops the changes: ").strip().lower() not in ("y", "yes"):
                return proposal


def _in_editor(text: str) -> str | None:
    """Return what the user's editor made of a text; blocks until it ends."""
    try:
        command = shlex.split(os.environ.get("VISUAL", "").strip() or os.environ.get("EDITOR", "").strip())
    except ValueError:  # a quotation in it that does not end
        return None
    if not command:
        return None
    with tempfile.TemporaryDirectory(prefix="lmtui-plan-") as folder:
        path = Path(folder) / "plan.txt"
        path.write_text(text, encoding="utf-8")
        try:
            ended = subprocess.run([*command, str(path)], check=False)
            return path.read_text(encoding="utf-8") if ended.returncode == 0 else None
        except (OSError, UnicodeError):
            return None
