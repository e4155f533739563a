"""What the bars say of a session: pure functions from state to words and parts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from math import ceil
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from textual.content import Content
from textual.screen import Screen
from textual.style import Style

from lmtui.core.events import TurnReason
from lmtui.core.sanitize import pluralize, sanitize_line
from lmtui.core.sessions import SessionSummary
from lmtui.core.times import LocalZone, moment_text
from lmtui.core.verification import CheckOutcome
from lmtui.tui.commands import Command, command, first_key
from lmtui.tui.lines.styled_text import fit
from lmtui.tui.modals.results import VeiledScreen
from lmtui.tui.router import SessionView
from lmtui.tui.screens.beside import key_part
from lmtui.tui.session_state import SessionState
from lmtui.tui.widgets.bars import Part, Spinner
from lmtui.tui.widgets.start_page import TALL_ROWS, StartRow
from lmtui.tui.wording import age_text, duration_text, folder_text, tokens_text, window_text


def live_summary(view: SessionView, known: SessionSummary | None, now: datetime) -> SessionSummary:
    """Return the row of an open session; `known` is what its log said when it was read last."""
    state = view.state
    history = view.session.history()
    usage = state.usage.usage if state.usage is not None else None
    return SessionSummary(
        id=view.session.id,
        title=state.title,
        state=live_state(state),
        model=state.model.name,
        created=history[0].time if history else now,
        updated=now if state.turn.is_running else (history[-1].time if history else now),
        changed_files=len(state.changes),
        last_line=waits_for(state) or state.last_line,
        is_open=True,
        tokens=usage.prompt_tokens + usage.completion_tokens if usage is not None else 0,
        match=known.match if known is not None else "",
        wakes=state.turn.wakes,
    )


def live_state(state: SessionState) -> str:
    """Return the state as a list names it."""
    if state.waits:
        return "waits"
    if state.turn.is_running:
        return "writing"
    if state.turn.wakes is not None:
        return TurnReason.WAITING.value
    return state.turn.reason.value if state.turn.reason is not None else "new"


def waits_for(state: SessionState) -> str:
    """Return what a session waits for an answer to, empty for nothing."""
    if not state.approvals:
        return f"plan: {sanitize_line(state.proposal.proposal.title)}" if state.proposal is not None and state.waits else ""
    request = next(iter(state.approvals.values()))
    return sanitize_line(f"{request.tool} {request.text.partition(chr(10))[0]}")


def in_order(
    found: Iterable[SessionSummary], views: Mapping[str, SessionView], parked: Iterable[str], now: datetime
) -> list[SessionSummary]:
    """Return sessions as they are at this moment: what waits, what works, the other open ones, the others by age.

    `parked` are open but not read yet.
    """
    known = {each.id: each for each in found}
    live = [live_summary(views[each], known[each], now) for each in sorted(views, reverse=True) if each in known]
    asleep = [replace(known[each], is_open=True) for each in sorted(parked, reverse=True) if each in known]
    first = {each.id for each in (*live, *asleep)}
    rows = [*live, *asleep, *(each for each in known.values() if each.id not in first)]
    return sorted(rows, key=lambda each: (each.state != "waits", each.state != "writing"))


LEAST_TITLE_CELLS, MOST_TITLE_CELLS, SHORT_TITLE_CELLS = 12, 36, 24
TAB_CELLS, MORE_CELLS = 8, 6  # a tab without its title and with the gap behind it; `+3 ▲`
SHORT_CELLS = 100
CHARS_PER_TOKEN = 4
RATE_AFTER_S, LEAST_TOKENS = 2.0, 16  # a rate of less says nothing
METER_CELLS, MOST_MODEL_CELLS = 10, 32
REASON_CHARS = 46
FULL_PERCENT, NEARLY_FULL_PERCENT = 95, 80

ENDINGS = {
    TurnReason.BLOCKED: "blocked",
    TurnReason.LIMIT: TurnReason.LIMIT.words,
    TurnReason.UNFINISHED: "unfinished",
    TurnReason.ERROR: "failed",
    TurnReason.WAITING: "waiting for its time",
}


def activity_text(state: SessionState, now: datetime) -> str:
    """Return what continues in a session, such as `shell: pytest -q · 4 s`."""
    if state.approvals:
        return f"{pluralize(len(state.approvals), 'approval')} needed · {first_key(command('session.next_waiting'))}"
    if state.waits:
        return f"plan ready for review · {first_key(command('session.next_waiting'))}"
    if not state.turn.is_running:
        if state.turn.wakes is not None:
            return f"◔ wakes {moment_text(state.turn.wakes, now, LocalZone())}"
        return "idle"
    activity = state.turn.activity
    text = activity.text or activity.doing
    parts = [fit(text, REASON_CHARS) if activity.doing in ("retrying", "loading") else text]
    elapsed_s = max(0.0, (now - activity.since).total_seconds()) if activity.since else 0.0
    if activity.doing == "retrying":
        left_s = ceil(activity.wait_s - elapsed_s)
        parts.insert(0, f"trying again in {left_s} s" if left_s > 0 else "trying again")
    elif elapsed_s >= 1 and activity.doing != "loading":  # that says its time itself
        parts.append(duration_text(elapsed_s))
    return " · ".join(parts)


def sandbox_text(state: SessionState) -> str:
    """Return the sandbox in a few words: `docker, no network`."""
    if state.sandbox is None:
        return "not started"
    backend = sanitize_line(state.sandbox.backend)
    lacks = ", no overlays" if backend in _WITH_OVERLAYS and not state.sandbox.has_overlays else ""
    return f"{_BACKEND_WORDS.get(backend, backend)}, {network_text(state.sandbox.network)}{lacks}"


def network_text(network: str) -> str:
    """Return what commands can reach."""
    return {"none": "no network", "on": "network on: internet and LAN"}.get(network, sanitize_line(network))


_WITH_OVERLAYS = ("docker", "podman", "bubblewrap")  # what lacks them there is the kernel, or the network is on
_BACKEND_WORDS = {"process": "no sandbox", "landlock": "landlock (reduced)"}
_SANDBOX_STYLES = {"process": "bold $error", "landlock": "$warning"}


def header_parts(
    active: SessionView | None,
    views: Collection[SessionView],
    now: datetime,
    cells: int,
    place: tuple[Path, str],
    *notes: Part,
) -> tuple[list[Part], list[Part]]:
    """Return the header: the place (folder and branch), a tab for each open session, what features say, and the sandbox.

    On a narrow screen of so many `cells`, only the session on it.
    """
    state = active.state if active is not None else SessionState()
    style = sandbox_style(state)
    others = [view for view in views if view is not active]
    if cells < SHORT_CELLS:
        sign, sign_style = tab_sign(state, now)
        left = [Part("lmtui", "bold $accent", 3)]
        title = Content.assemble((fit(_tab_title(state), SHORT_TITLE_CELLS), "bold"), " ", (sign, sign_style))
        count = f"{[*views].index(active) + 1} of {len(views)}" if active and others else ""
        left += [Part(title), Part(count, "$text-muted", 2)]
        waiting = sum(len(view.state.approvals) or view.state.waits for view in views)
        left += [Part(f" ▲ {waiting} ", "bold $warning on $waiting-ground", 1)] if waiting else []
        short = Part("not merged", "bold $warning", 0) if state.work.unmerged else Part(short_sandbox(state), style, 1)
        return left, [*notes, short]
    left = [Part("lmtui", "bold $accent", 3), Part(sanitize_line(folder_text(place[0], Path.home())), "", 1)]
    left += [Part(f"⎇ {sanitize_line(place[1])}", "$text-muted", 4)] if place[1] else []
    words = sandbox_text(state)
    sandbox = Content.assemble(("" if words.startswith("no sandbox") else "sandbox ", "$text-muted"), (words, style))
    right = [*notes]  # what comes and goes moves no tab
    right += [Part(unmerged_text(state), "bold $warning", 0)] if state.work.unmerged else []
    used = sum(part.content.cell_length + 2 for part in (*left, *right)) + sandbox.cell_length + 4
    return [*left, Part(_tabs(active, [*views], now, cells - used))], [*right, Part(sandbox)]


def _tabs(active: SessionView | None, views: list[SessionView], now: datetime, room: int) -> Content:
    """Return the tabs that fit, that of the session on screen among them, and how many more there are."""
    if not views or active is None:
        return Content.styled(" 1 New session ○ ", "bold on $background")
    most = max(LEAST_TITLE_CELLS, min(MOST_TITLE_CELLS, room // len(views) - TAB_CELLS))
    tabs = [_tab(view, number, now, most, is_active=view is active) for number, view in enumerate(views)]
    first, last = 0, len(tabs) - 1
    more_cells = 0
    while sum(tab.cell_length + 2 for tab in tabs[first : last + 1]) + more_cells > room and first < last:
        more_cells = MORE_CELLS
        first, last = (first, last - 1) if tabs[last] is not tabs[views.index(active)] else (first + 1, last)
    hidden = [view.state for view in (*views[:first], *views[last + 1 :])]
    shown = Content("  ").join(tabs[first : last + 1])
    if not hidden:
        return shown
    sign, style = tab_sign(next((each for each in hidden if each.waits), hidden[0]), now)
    is_waiting = any(each.waits for each in hidden)
    return Content.assemble(shown, (f"  +{len(hidden)}", "$text-muted"), (f" {sign}" if is_waiting else "", style))


def _tab(view: SessionView, number: int, now: datetime, most: int, *, is_active: bool) -> Content:
    state = view.state
    ground = "on $waiting-ground" if state.waits and not is_active else "on $background" if is_active else ""
    name_style = f"{'bold $warning' if state.waits else 'bold $text' if is_active else '$text-muted'} {ground}"
    sign, sign_style = tab_sign(state, now)
    tab = Content.assemble(
        (f" {fit(_tab_title(state), most)}", name_style),
        (f" {sign} ", f"{sign_style} {ground}"),
    )
    return tab if is_active else tab.stylize(Style.from_meta({"verb": f"show_tab({number})"}))


def _tab_title(state: SessionState) -> str:
    return state.title or "New session"


def tab_sign(state: SessionState, now: datetime) -> tuple[str, str]:
    """Return the sign of a session's state and its style."""
    if state.waits:
        return "▲", "bold $warning"
    if state.turn.is_running:
        return Spinner.sign(now), "$accent"
    if state.turn.wakes is not None:
        return "◔", "$text-muted"
    return _TAB_SIGNS.get(state.turn.reason, ("○", "$accent"))


_TAB_SIGNS: dict[TurnReason | None, tuple[str, str]] = {
    TurnReason.DONE: ("✓", "$success"),
    TurnReason.BLOCKED: ("✗", "$error"),
    TurnReason.ERROR: ("✗", "$error"),
    TurnReason.INTERRUPTED: ("■", "$text-muted"),
    TurnReason.LIMIT: ("■", "$text-muted"),
    TurnReason.UNFINISHED: ("✗", "$warning"),
}


def short_sandbox(state: SessionState) -> str:
    """Return the sandbox in as few words as it takes: `docker, no net`."""
    if state.sandbox is None:
        return "no sandbox yet"
    backend = sanitize_line(state.sandbox.backend)
    words = _BACKEND_WORDS.get(backend, backend)
    return f"{words}, {'no net' if state.sandbox.network == 'none' else network_text(state.sandbox.network).partition(':')[0]}"


def _model_text(state: SessionState) -> str:
    name = state.model.name or state.model.default_name
    return fit(name, MOST_MODEL_CELLS) if name else "server's model" if state.model.url else "no model yet"


def sandbox_style(state: SessionState) -> str:
    """Return the colour of the sandbox: red without one or with the network on, amber for a weaker one, quiet else."""
    if state.sandbox is None:
        return "$text-muted"
    if state.sandbox.network == "on":
        return "bold $error"
    if state.sandbox.backend in _SANDBOX_STYLES:
        return _SANDBOX_STYLES[state.sandbox.backend]
    return "$warning" if state.sandbox.is_weaker else "$text-muted"


def activity_parts(active: SessionView | None, now: datetime, note: str) -> tuple[list[Part], list[Part]]:
    """Return the row over the prompt: what runs and for how long, or what just ended; at the right what stops it."""
    if active is None:
        return [Part(note, "$text-muted")], []
    state = active.state
    if not (state.turn.is_running or state.waits or state.turn.wakes):  # the chat has the ending
        return [], []
    text, _, rest = activity_text(state, now).partition(" · ")
    style = "bold $warning" if state.waits else "$warning" if state.turn.activity.doing == "retrying" else "bold"
    left = [Part(text[:1].upper() + text[1:], style, 0), Part(rest, "$text-muted", 1)]
    return left, [key_part("app.stop", 0, "Esc stop")] if state.turn.is_running and not state.approvals else []


def foot_parts(state: SessionState, first_mode: str, now: datetime) -> tuple[list[Part], list[Part]]:
    """Return the foot of the prompt: mode and model, how full the context is, what the cache kept, and how fast it writes."""
    mode = state.mode or first_mode
    waits = f" · {unmerged_text(state)}" if state.work.unmerged else ""
    style = "bold $warning" if mode == "auto" or waits else "bold $accent"
    shown = Content.styled(f"{mode}{waits}", style)
    merges = Style.from_meta({"verb": command("merge.show").action}) if waits else ""
    left = [Part(shown.stylize(merges), "", 0), Part(_model_text(state), "", 2)]
    right = [Part(_context_meter(state), "", 1)]
    usage = state.usage.usage if state.usage is not None else None
    if usage is not None and usage.prompt_tokens and usage.cached_tokens:
        percent = 100 * usage.cached_tokens // usage.prompt_tokens
        right.append(Part(Content.assemble(("cache ", "$text-muted"), f"{percent} %"), "", 4))
    rate = _rate(state, now)
    if rate >= 1:
        right.append(Part(Content.assemble(f"{rate:.0f}", (" tok/s", "$text-muted")), "", 3))
    return left, right


def checks_content(state: SessionState) -> tuple[Content, str]:
    """Return the checks of the turn that runs, each with its sign, and the class of the worst."""
    checks = state.turn.checks if state.turn.is_running else {}
    if not checks:
        return Content(""), ""
    signs = {rung: _CHECK_SIGNS.get(outcome, ("✓", "$success")) for rung, outcome in checks.items()}
    parts = [Content.assemble(f"{rung} ", sign) for rung, sign in signs.items()]
    styles = {style for _, style in signs.values()}
    worst = "-bad" if "$error" in styles else "-warn" if "$warning" in styles else "-good"
    return Content("  ").join([Content.styled("Checks", "bold"), *parts]), worst


_CHECK_SIGNS = {CheckOutcome.FAILED: ("✗", "$error"), CheckOutcome.NOT_RUN: ("!", "$warning")}


def unmerged_text(state: SessionState) -> str:
    """Return how many files of try mode are not merged."""
    return f"{pluralize(state.work.unmerged, 'file')} not merged"


def _context_meter(state: SessionState) -> Content:
    window, usage = state.model.window_tokens, state.usage
    used = usage.usage.prompt_tokens + usage.usage.completion_tokens if usage is not None else 0
    sign = "≈" if usage is not None and usage.is_estimate else ""
    if not window:
        return Content.assemble(("context ", "$text-muted"), sign + tokens_text(used)) if used else Content("")
    percent = 100 * used / window
    filled = min(METER_CELLS, round(percent * METER_CELLS / 100))
    style = "$error" if percent >= FULL_PERCENT else "$warning" if percent >= NEARLY_FULL_PERCENT else "$accent"
    return Content.assemble(
        ("context ", "$text-muted"),
        ("━" * filled, style),
        ("─" * (METER_CELLS - filled), "$faint"),
        f" {sign}{tokens_text(used)} / {window_text(window)}",
    )


def _rate(state: SessionState, now: datetime) -> float:
    """Return how many tokens a second are written now, or were last; 0 where it is not known."""
    activity = state.turn.activity
    if activity.doing == "writing" and activity.since is not None:
        elapsed_s = (now - activity.since).total_seconds()
        if elapsed_s >= RATE_AFTER_S:
            return activity.chars / CHARS_PER_TOKEN / elapsed_s
    usage = state.usage if state.turn.reason is not TurnReason.INTERRUPTED else None
    return usage.tokens_per_s if usage is not None and usage.usage.completion_tokens >= LEAST_TOKENS else 0.0


def start_rows(state: SessionState, last: SessionSummary | None, now: datetime, *, is_read: bool) -> list[StartRow]:
    """Return what the page of a new session says below its suggestions; `is_read`: one knows whether there is a `last` one."""
    host = urlsplit(state.model.url).netloc
    server = Content.assemble(sanitize_line(host) or "not chosen yet")
    if window := state.model.window_tokens:
        server = Content.assemble(server, (" ✓", "$success"), (f"  {window_text(window)} context", "$text-muted"))
    resumed = Content.styled("reading…", "$text-muted")
    if last is not None:
        notes = [f"{age_text(last.updated, now)} ago".replace("now ago", "now")]
        notes += [pluralize(last.changed_files, "file") + " changed"] if last.changed_files else []
        resumed = Content.assemble(sanitize_line(last.title), (f"  · {' · '.join(notes)}", "$text-muted"))
    sandbox = "set up before the first command" if state.sandbox is None else sandbox_text(state)
    found = [StartRow("Warning", Content.styled(state.warning, "$warning"), Content(""))] if state.warning else []
    if last is not None or not is_read:
        found.append(StartRow("Resume", resumed, key_part("session.list", 0, "all sessions").content))
    return [
        *found,
        StartRow("Server", server, key_part("model.choose", 0, "models").content),
        StartRow("Sandbox", Content.styled(sandbox, sandbox_style(state)), Content("")),
    ]


IN_THE_PROMPT = ("prompt.send", "prompt.newline")
TYPED_SIGNS = (("@", "file"), ("/", "command"), ("!", "shell"))
IN_A_PANE = {
    "files": ("lines.select", "files.filter", "files.mark", "files.edit", "files.hidden"),
    "chat": ("lines.select", "chat.find_here", "lines.copy", "chat.copy_code", "copying.start"),
    "plan": ("lines.select", "lines.copy"),
    "log": ("lines.select", "log.filter", "lines.copy"),
}
EVERYWHERE = (("session.list", "sessions", 3), ("app.palette", "commands", 2), ("app.help", "help", 1))
OVER_THE_CHAT = (("pane.files", "files"), ("pane.plan", "plan"), ("pane.log", "log"), ("changes.show", "changes"))
COMPLETING = (("prompt.send", "complete"), ("picker.row", "choose"), ("app.stop", "close"))
SHORT_VERBS = 4


@dataclass(frozen=True, slots=True)
class KeyPlace:
    """Where the keys go: the pane with the focus (empty: the prompt) or a question, and how high the screen is.

    `waiting` counts what the user is asked in all sessions; with `is_danger` a dangerous command is among it.
    `dialog` are the commands of a dialog that has the keys, and what escape does there; None without one.  `is_completing`:
    the prompt offers something.  `notes` are what
    features say while the session rests.
    """

    pane: str = ""
    is_asked: bool = False
    waiting: int = 0
    is_danger: bool = False
    has_mouse: bool = True
    rows: int = TALL_ROWS
    dialog: tuple[Sequence[Command], str] | None = None
    notes: Sequence[Part] = ()
    is_completing: bool = False


def dialog_keys(top: Screen[Any]) -> tuple[Sequence[Command], str] | None:
    """Return the commands of the screen on top, and what escape does there; None if it is not a dialog."""
    question = getattr(top, "question", None)
    if question is not None:
        shown = [command("question.reply")] if question.dialog.letters.type_on is not None else []
        shown += [command("question.chat").ways[0]] if question.dialog.fit.chat.can_scroll else []
        return shown, "back" if question.dialog.inner else question.closing
    return top.key_verbs() if isinstance(top, VeiledScreen) else None


def hint_parts(place: KeyPlace) -> tuple[list[Part], list[Part]]:
    """Return the key row: what waits, what the keys do here, and what they do everywhere."""
    left: list[Part] = []
    if place.waiting:
        style = "bold $background on $error" if place.is_danger else "bold $warning on $waiting-ground"
        key = "" if place.is_asked else f" · {first_key(command('session.next_waiting'))}"
        left.append(Part(f" ▲ {pluralize(place.waiting, 'approval')}{key} ", style))
    if place.dialog is not None:
        shown = [each for each in place.dialog[0] if each.hint and each.bound_keys]
        least = 2 if place.is_asked else 4
        left += [key_part(each, rank + least) for rank, each in enumerate(shown)]
        left += [key_part("app.stop", 0, place.dialog[1])] if place.dialog[1] else []
        right = EVERYWHERE if place.is_asked else EVERYWHERE[-1:]
        return left, [key_part(each, rank, verb) for each, verb, rank in right]
    if place.pane:
        verbs = IN_A_PANE[place.pane]
        is_cut = place.rows < TALL_ROWS and len(verbs) >= SHORT_VERBS
        left += [key_part(each, rank + 4) for rank, each in enumerate(verbs[: SHORT_VERBS - 1] if is_cut else verbs)]
        left += [key_part(f"pane.{place.pane}", 4, "prompt")]
        left += [Part(Content.assemble("?", (" more", "$text-muted")), "", 9)] if is_cut else []
    elif place.is_completing:
        left += [key_part(each, 4, verb) for each, verb in COMPLETING]
    elif place.rows < TALL_ROWS:
        left += [key_part(each, rank + 4, verb) for rank, (each, verb) in enumerate(OVER_THE_CHAT)]
    else:
        left += [key_part(each, 4) for each in IN_THE_PROMPT]
        left += [Part(Content.assemble(sign, (f" {verb}", "$text-muted")), "", 5) for sign, verb in TYPED_SIGNS]
        left += place.notes
    if not place.has_mouse:
        left += [Part("mouse off · /mouse turns it on", "$warning", 1)]
    return left, [key_part(each, rank, verb) for each, verb, rank in EVERYWHERE]
