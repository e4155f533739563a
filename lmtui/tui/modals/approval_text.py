"""The text of an approval: pure functions from a request.  Everything that others wrote is cleaned here."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from textual.content import Content

from lmtui.core.event_text import MODE_ASKS, SHELL, dangers_of, question_text, why_text
from lmtui.core.events import ROOT, ApprovalRequested
from lmtui.core.look_alikes import approval_warning
from lmtui.core.permissions.command_search import WITH_SUBCOMMANDS
from lmtui.core.permissions.dangerous_commands import Danger
from lmtui.core.permissions.rules import GrantScope
from lmtui.core.permissions.shell_grammar import outline, word_set
from lmtui.core.sanitize import escape_invisible_line, sanitize, sanitize_line, show_controls
from lmtui.core.workspace import EFFECT_TOOL, EffectKind
from lmtui.tui.commands import key_of
from lmtui.tui.lines.code import highlight, lexer_by_name
from lmtui.tui.lines.diff_layout import diff_lines
from lmtui.tui.lines.page_view import whole_line, whole_text
from lmtui.tui.lines.patch import MINUS, changed_lines, parse_patch
from lmtui.tui.lines.styled_text import Line, fit_middle, restyle
from lmtui.tui.session_state import SessionState
from lmtui.tui.summary import sandbox_style, sandbox_text
from lmtui.tui.wording import folder_text

MOST_PARTS, PART_CELLS, SHORT_PART = 4, 48, 40
_PLAIN = word_set("echo printf cd true false test [ cat head tail ls grep wc sort uniq cut tr :")
SCOPE_MEANINGS = {
    GrantScope.WORKSPACE: "in this folder, in this session and in all later ones",
    GrantScope.USER: "in every folder, in this session and in all later ones",
}


def question(request: ApprovalRequested, state: SessionState) -> str:
    """Return what is asked, with the agent's name where there are several."""
    asked = question_text(request)
    if not state.work.agents.by_id:
        return asked
    who = "main" if request.agent == ROOT else sanitize_line(request.agent).replace("_", " ")
    return f"{who}: {asked[:1].lower()}{asked[1:]}"


def deletes(request: ApprovalRequested) -> bool:
    """Tell whether a yes to all of an effect deletes something."""
    return any(part.kind is EffectKind.DELETED for part in request.parts)


def place_of(request: ApprovalRequested, state: SessionState) -> str:
    """Return which of several open requests it is, empty for the only one."""
    open_ids = list(state.approvals)
    is_one = len(open_ids) < 2 or request.approval_id not in open_ids
    return "" if is_one else f"{open_ids.index(request.approval_id) + 1} of {len(open_ids)}"


def _special_limits(request: ApprovalRequested) -> str:
    """Return that a command stays in the background, or what it would reach; else nothing."""
    limits = sanitize_line(request.limits) if request.tool == SHELL else ""
    return limits if limits.startswith("in the background") else limits.partition("; ")[2]


def counts(request: ApprovalRequested) -> Content:
    """Return how many lines a change adds and removes."""
    patches = parse_patch(request.diff, request.path) if request.diff and request.path else ()
    if not patches:
        return Content("")
    added, removed = changed_lines(patches)
    return Content.assemble((f"+{added}", "$success"), " ", (f"{MINUS}{removed}", "$error"))


def conditions(request: ApprovalRequested, state: SessionState) -> list[tuple[str, str]]:
    """Return where and within which limits it would run, each with its style; what comes first matters most."""
    where = request.with_network(sanitize_line(request.sandbox) or sandbox_text(state))
    style = "bold $error" if "network on" in where else sandbox_style(state)
    folder = sanitize_line(request.cwd)
    if state.workspace and (folder == "/workspace" or folder.startswith("/workspace/")):
        folder = sanitize_line(folder_text(Path(state.workspace + folder.removeprefix("/workspace")), Path.home()))
    limits = _MEMORY.sub("", sanitize_line(request.limits))
    found = [(where, style), (f"in {folder}" if folder else "", "$text-muted"), (limits, "$text-muted")]
    return [each for each in found if each[0]]


_MEMORY = re.compile(r", [\d,]+ MB")  # who is asked need not know


def notes(request: ApprovalRequested) -> Content:
    """Return what is shown under the text: what is dangerous, what may be something else, and why it asks."""
    lines: list[Content] = []
    for each in dangers_of(request):
        subject = (sanitize_line(escape_invisible_line(each.subject)), "bold $text")
        lines.append(Content.assemble(("✗  ", "$error"), (f"{each.reason}{': ' if each.subject else ''}", "$text"), subject))
    if limits := _special_limits(request):
        lines.append(Content.styled(f"·  {limits}", "$warning"))
    elif lines and "no network" in request.sandbox and _NEEDS_NETWORK.search(request.text):
        lines.append(Content.styled("·  the sandbox has no network: this will probably fail", "$text-muted"))
    if found := approval_warning(request):
        lines.append(Content.styled(found, "$error"))
    by_mode = MODE_ASKS.fullmatch(sanitize_line(request.why))
    if request.uncovered and (by_mode or not request.why) and not dangers_of(request):
        parts = [escape_invisible_line(each) for each in new_parts(request)]
        shown = [Content.styled(fit_middle(each, PART_CELLS), "$text-secondary") for each in parts[:MOST_PARTS]]
        shown += [Content(f"{len(parts) - MOST_PARTS} more")] if len(parts) > MOST_PARTS else []
        said = [Content("No rule allows  "), Content(",  ").join(shown), Content(by_mode[3] if by_mode else "")]
        lines.append(Content("").join(said).stylize_before("$text-muted"))
    elif request.why and not has_difference(request) and (not by_mode or (request.tool != SHELL and not lines)):
        lines.append(Content.styled(why_text(request), "$text-muted"))
    return Content("\n").join(lines)


_NEEDS_NETWORK = re.compile(r"\b(?:curl|wget|git +(?:push|pull|clone|fetch)|pip3? +install|npm +(?:i|install|publish)|apt)\b")


def new_parts(request: ApprovalRequested) -> list[str]:
    """Return the smallest parts of a command that no rule covers, and what it writes."""
    found: list[str] = []
    for part in request.uncovered:
        if len(part) <= SHORT_PART and "\n" not in part:
            found.append(part)
            continue
        seen = outline(part)
        names = [words[:2] if words[0] in WITH_SUBCOMMANDS else words[:1] for words in seen.commands]
        found += [" ".join(name) for name in names if name[0] not in _PLAIN] or [part]
        found += [f"writes {target}" for target in seen.targets if not target.startswith("/dev/")]
    return list(dict.fromkeys(found))


def explanation(request: ApprovalRequested, state: SessionState) -> list[str]:
    """Return why it asks and what a yes means, in at most four lines."""
    why, dangers = f"{why_text(request)}." if request.why else "No rule allows it.", dangers_of(request)
    if request.tool == EFFECT_TOOL:
        ran = f"{escape_invisible_line(effect_command(request))}  ran in a copy: nothing has changed in your folder yet."
        return [why, ran, "Files whose deletion is undecided stay. What is applied can be undone."]
    found = [why]
    if dangers:
        found.append(f"Only {key_of('approve.anyway')} allows it, once: it is dangerous.")
    elif [*request.uncovered] != new_parts(request):
        found.append(f"No rule allows  {',  '.join(map(escape_invisible_line, request.uncovered))}")
    if request.tool == SHELL:
        found.append(f"It would run here: {' · '.join(text for text, _ in conditions(request, state))}")
    elif has_difference(request):
        found.append("Nothing is written before you allow it. What is written can be undone.")
    if request.suggested_rule and not dangers:
        rule, session, always = (
            escape_invisible_line(request.suggested_rule),
            key_of("request.session"),
            key_of("request.always"),
        )
        found.append(f"{session} also allows {rule} until this session ends, {always} adds a rule that you choose.")
    return found


def effect_command(request: ApprovalRequested) -> str:
    """Return the command that a question about an effect is about."""
    return request.text.rpartition("\n\n")[0]


def has_difference(request: ApprovalRequested) -> bool:
    """Tell whether there is a change to be shown line by line."""
    return any(file.hunks for file in parse_patch(request.diff, request.path))


def body_lines(request: ApprovalRequested, width: int) -> list[Line]:
    """Return what would run; a change that cannot be laid out line by line is shown as it is."""
    if request.tool == SHELL:
        return command_lines(request.text, width, dangers_of(request))
    text = request.text.removeprefix(f"{request.tool}\n").rstrip()  # the head says which tool
    return whole_text("\n".join(filter(None, (text, request.diff))), width) if text or request.diff else []


def command_lines(text: str, width: int, marked: Sequence[Danger] = ()) -> list[Line]:
    """Return a command in the colours of a shell, all of it, with the dangerous words marked."""
    raw = text.split("\n")
    lines = highlight([_shown(each) for each in raw], lexer_by_name("bash"))
    found: list[Line] = []
    start = 0
    for number, (source, shown) in enumerate(zip(raw, lines, strict=True)):
        line = shown
        for each in marked:
            first, last = max(0, each.start - start), min(len(source), each.end - start)
            if first < last:
                line = restyle(line, len(_shown(source[:first])), len(_shown(source[:last])), "removed-word strong")
        found += whole_line(line, width, (("$ " if not number else "  ", "muted"),))
        start += len(source) + 1
    return found


def _shown(text: str) -> str:
    return sanitize(show_controls(text)).replace("\n", " ").expandtabs(4)


def request_lines(request: ApprovalRequested, state: SessionState, width: int) -> list[Line]:
    """Return a whole request as lines: who, what, and under which conditions."""
    found: list[Line] = [((question(request, state), "warn strong"),)]
    if has_difference(request):
        found += diff_lines(parse_patch(request.diff, request.path), width)
    else:
        found += [((" ", ""), (" ", ""), *line) for line in body_lines(request, width - 2)]
    if warned := approval_warning(request):
        found += whole_text(warned, width, "bad")
    for each in dangers_of(request):
        found += whole_text(f"✗ {escape_invisible_line(each.text)}", width, "bad")
    return [*found, *whole_text(" · ".join(text for text, _ in conditions(request, state)), width, "muted")]


def titled(left: str, right: str, right_style: str, width: int) -> Content:
    """Return a title with something at its right end, or below it where the line is short."""
    return beside(Content.styled(left, "bold $warning"), Content.styled(right, right_style), width)


def title(request: ApprovalRequested, state: SessionState, place: str, width: int) -> Content:
    """Return the title: the question, which of several it is, and where it would run; a dangerous command has another."""
    more = f"  {place}" if place else ""
    if dangers_of(request):
        left = Content.assemble((" ! ", "bold $background on $error"), (f" Dangerous command{more}", "bold $text"))
    else:
        asked, count = Content.styled(question(request, state), "bold $warning"), counts(request)
        left = Content.assemble(asked, "   " if count.plain else "", count, (more, "$text-muted"))
    parts = conditions(request, state)
    if has_difference(request):
        parts = [(why_text(request), "$text-muted")] if request.why else parts[:1]
    while len(parts) > 1 and left.cell_length + 2 + _joined(parts).cell_length > width:
        parts.pop()
    return beside(left, _joined(parts), width)


def _joined(parts: Sequence[tuple[str, str]]) -> Content:
    return Content.styled(" · ", "$text-muted").join([Content.styled(*part) for part in parts])


def beside(before: Content, after: Content, width: int) -> Content:
    """Return a line with something at its right end, or below it where the line is short."""
    space = width - before.cell_length - after.cell_length
    return Content.assemble(before, " " * space if space >= 2 else "\n" if after.plain else "", after)
