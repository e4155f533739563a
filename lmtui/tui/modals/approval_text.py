"""The text of an approval: pure functions from a request.  Everything that others wrote is cleaned here."""

from __future__ import annotations

from textual.content import Content

from lmtui.core.events import ApprovalRequested
from lmtui.core.hosts import NETWORK_TOOL, SHOWN_TOOLS
from lmtui.core.look_alikes import approval_warning
from lmtui.core.permissions.rules import FileEffect, GrantScope, traits_of
from lmtui.core.permissions.suggested_rules import grants
from lmtui.core.sanitize import escape_invisible_line, pluralize, sanitize_line
from lmtui.tui.commands import command, first_key
from lmtui.tui.lines.page_view import whole_text
from lmtui.tui.lines.patch import MINUS, digits_of, parse_patch, unified_lines
from lmtui.tui.lines.styled_text import Line
from lmtui.tui.session_state import SessionState
from lmtui.tui.summary import sandbox_style, sandbox_text
from lmtui.tui.wording import shorten_middle

SHELL = "shell"
MOST_PARTS, PART_CELLS = 4, 72
SCOPE_MEANINGS = {
    GrantScope.WORKSPACE: "in this folder, in this session and in all later ones",
    GrantScope.USER: "in every folder, in this session and in all later ones",
}


def action_text(request: ApprovalRequested) -> str:
    """Return what is asked for in a few words."""
    if request.tool == SHELL:
        return "run a command"
    verb = "read" if traits_of(request.tool).file_effect is FileEffect.SHOWS else "change"
    return f"{verb} {escape_invisible_line(request.path)}" if request.path else f"use {escape_invisible_line(request.tool)}"


def question(request: ApprovalRequested) -> str:
    """Return who asks for what."""
    if request.tool == NETWORK_TOOL:
        host = escape_invisible_line(request.text)
        name, colon, port = host.rpartition(":")
        return f"a command wants to reach {name if colon and port == '443' else host}"
    if request.tool == SHOWN_TOOLS:
        return "show this folder of tools to commands, read-only?"
    return f"{sanitize_line(request.agent)} asks to {action_text(request)}"


def sandbox_words(request: ApprovalRequested, state: SessionState) -> str:
    """Return where it would run."""
    return sanitize_line(request.sandbox) or sandbox_text(state)


def conditions(request: ApprovalRequested) -> str:
    """Return how much, where and within which limits it would run."""
    parts = [pluralize(request.commands, "command") if request.commands else ""]
    if request.diff and request.path:
        patches = parse_patch(request.diff, request.path)
        parts.append(f"+{sum(each.added for each in patches)} {MINUS}{sum(each.removed for each in patches)}")
    parts += [f"in {sanitize_line(request.cwd)}" if request.cwd else "", sanitize_line(request.limits)]
    return " · ".join(part for part in parts if part)


def notes(request: ApprovalRequested) -> Content:
    """Return the conditions that are shown under the text."""
    found = approval_warning(request)
    lines = [Content.styled(found, "$error")] if found else []
    if conditions(request):
        lines.append(Content.styled(conditions(request), "$text-muted"))
    if request.uncovered:
        parts = _in_short(request.uncovered)
        lines.append(Content.assemble(("not covered by your rules: ", "$text-muted"), (parts, "$warning")))
    elif request.why:
        lines.append(Content.styled(sanitize_line(request.why), "$text-muted"))
    return Content("\n").join(lines)


def _in_short(parts: tuple[str, ...]) -> str:
    """Return the first parts, each cut in its middle: all of them are in the text above and in the explanation."""
    found = [shorten_middle(escape_invisible_line(part), PART_CELLS) for part in parts[:MOST_PARTS]]
    return " · ".join([*found, f"{len(parts) - MOST_PARTS} more"] if len(parts) > MOST_PARTS else found)


def explanation(request: ApprovalRequested, state: SessionState) -> list[str]:
    """Return why it asks and what each answer would do, as paragraphs."""
    found = [f"It asks because {sanitize_line(request.why)}." if request.why else "It asks because no rule allows it."]
    if request.uncovered:
        found.append("No rule of yours covers: " + " · ".join(escape_invisible_line(part) for part in request.uncovered))
    found.append(
        f"It would run in: {sandbox_words(request, state)}" + (f" · {conditions(request)}" if conditions(request) else "")
    )
    found.append(f"{_key('once')}  lets it happen this once. Nothing is kept.")
    if request.suggested_rule:
        found.append(
            f"{_key('session')}  also allows {escape_invisible_line(request.suggested_rule)} "
            "without asking until this session ends."
        )
        offered = " · ".join(dict.fromkeys(escape_invisible_line(grant.rule) for grant in grants(request)))
        found.append(f"{_key('always')}  keeps a rule that you choose next, in this folder or everywhere: {offered}")
    if request.tool == SHELL:
        found.append(f"{_key('edit')}  lets you change the command first. Only what you leave there runs, this once.")
    found.append(f"{_key('no')}  refuses; the model is told that you did. {_key('because')}  refuses and tells the model why.")
    if request.digest:
        found.append(f"Exactly what is shown is what happens; its SHA-256 is {sanitize_line(request.digest)}.")
    return found


def _key(verb: str) -> str:
    return first_key(command(f"approve.{verb}"))


def has_difference(request: ApprovalRequested) -> bool:
    """Tell whether there is a change to be shown line by line."""
    return any(file.hunks for file in parse_patch(request.diff, request.path))


def body_lines(request: ApprovalRequested, width: int) -> list[Line]:
    """Return what would run; a change that cannot be laid out line by line is shown as it is."""
    return whole_text("\n".join(part for part in (request.text, request.diff) if part), width)


def request_lines(request: ApprovalRequested, state: SessionState, width: int) -> list[Line]:
    """Return a whole request as lines: who, what, and under which conditions."""
    head: Line = ((question(request), "warn strong"),)
    found = [head]
    if has_difference(request):
        files = parse_patch(request.diff, request.path)
        for file in files:
            for hunk in file.hunks:
                found += unified_lines(hunk, width, digits_of(files))
    else:
        found += [((" ", ""), (" ", ""), *line) for line in body_lines(request, width - 2)]
    if warned := approval_warning(request):
        found += whole_text(warned, width, "bad")
    small = " · ".join(part for part in (sandbox_words(request, state), conditions(request)) if part)
    return [*found, *whole_text(small, width, "muted")]


def titled(left: str, right: str, right_style: str, width: int) -> Content:
    """Return a title with something at its right end, or below it where the line is short."""
    before, after = Content.styled(left, "bold $warning"), Content.styled(right, right_style)
    space = width - before.cell_length - after.cell_length
    return Content.assemble(before, " " * space if space >= 2 else "\n" if right else "", after)


def title(request: ApprovalRequested, state: SessionState, place: str, width: int) -> Content:
    """Return the title line: the question, which of several it is, and the sandbox."""
    left = f"{question(request)}{f'  ({place})' if place else ''}"
    words = sandbox_words(request, state)
    style = "bold $error" if "network on" in words else sandbox_style(state)
    return titled(left, words, style, width)
