"""What the bars say of a session: pure functions from state to words and parts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from lmtui.core.events import TurnReason
from lmtui.core.sanitize import sanitize_line
from lmtui.core.sessions import SessionSummary
from lmtui.core.times import LocalZone, moment_text
from lmtui.tui.commands import command, first_key, hint_text
from lmtui.tui.router import SessionView
from lmtui.tui.session_state import Activity, ActivityKind, SessionState
from lmtui.tui.widgets.bars import Part
from lmtui.tui.wording import duration_text, folder_text, shorten_middle, tokens_text, window_text


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
    """Return sessions, the open ones first, as they are at this moment: what waits, what works, the others by age.

    `parked` are open but not read yet.
    """
    known = {each.id: each for each in found}
    live = [live_summary(views[each], known[each], now) for each in sorted(views, reverse=True) if each in known]
    live.sort(key=lambda each: (each.state != "waits", each.state != "writing"))
    asleep = [replace(known[each], is_open=True) for each in sorted(parked, reverse=True) if each in known]
    first = {each.id for each in (*live, *asleep)}
    return [*live, *asleep, *(each for each in known.values() if each.id not in first)]


MAX_TITLE_CHARS = 16
CHARS_PER_TOKEN = 4
RATE_AFTER_S = 2.0

_ENDINGS = {
    TurnReason.BLOCKED: "blocked",
    TurnReason.LIMIT: TurnReason.LIMIT.words,
    TurnReason.INTERRUPTED: "interrupted",
    TurnReason.ERROR: "failed",
    TurnReason.WAITING: "waiting for its time",
}


def activity_text(state: SessionState, now: datetime) -> str:
    """Return what continues in a session, such as `shell: pytest -q · 4 s`."""
    if state.approvals:
        return f"waiting for you: {len(state.approvals)}"
    if state.waits:
        return f"a plan waits for you: {first_key(command('plan.ask'))}"
    if not state.turn.is_running:
        if state.turn.wakes is not None:
            return f"⏲ wakes {moment_text(state.turn.wakes, now, LocalZone())}"
        ending = _ENDINGS.get(state.turn.reason) if state.turn.reason else None
        return f"idle · {ending}" if ending else "idle"
    activity = state.turn.activity
    parts = [_doing_text(activity)]
    elapsed_s = max(0.0, (now - activity.since).total_seconds()) if activity.since else 0.0
    if activity.doing is ActivityKind.WRITING:
        rate = activity.chars / CHARS_PER_TOKEN / elapsed_s if elapsed_s >= RATE_AFTER_S else 0.0
        if rate:
            parts.append(f"{rate:.0f} tok/s")
    elif elapsed_s >= 1:
        parts.append(duration_text(elapsed_s))
    return " · ".join(parts)


def _doing_text(activity: Activity) -> str:
    match activity.doing:
        case ActivityKind.READING:
            return _reading_text(activity)
        case ActivityKind.WRITING_CALL:
            return f"writing {activity.detail} call"
        case ActivityKind.RUNNING_TOOL:
            return activity.detail
        case ActivityKind.RETRYING:
            return f"{activity.detail}, again in {activity.wait_s:.0f} s"
        case ActivityKind.WAITING_FOR_MODEL:
            return "waiting for the model"
        case _:
            return activity.doing.value


def _reading_text(activity: Activity) -> str:
    """Return how far the model is with its prompt, or how long that takes, as far as it is known."""
    if activity.queued > 0:
        return f"waiting for the server: {activity.queued} before this"
    if activity.ratio > 0 or (activity.ratio == 0 and not activity.estimate_s):
        return f"reading prompt {activity.ratio * 100:.0f} %"
    about = f", about {duration_text(activity.estimate_s)}" if activity.estimate_s >= 1 else ""
    return f"reading {tokens_text(activity.tokens)} tokens{about}" if activity.tokens else "reading prompt"


def usage_text(state: SessionState) -> str:
    """Return the tokens used of the window, such as `3.1k of 8k`; empty before the first request."""
    if state.usage is None:
        return ""
    used = state.usage.usage.prompt_tokens + state.usage.usage.completion_tokens
    sign = "≈" if state.usage.is_estimate else ""
    return (
        f"{sign}{tokens_text(used)} of {window_text(state.model.window_tokens)}"
        if state.model.window_tokens
        else sign + tokens_text(used)
    )


def reused_text(state: SessionState) -> str:
    """Return which part of the last prompt the server had kept, such as `reused 96 %`."""
    if state.usage is None or not state.usage.usage.prompt_tokens or not state.usage.usage.cached_tokens:
        return ""
    return f"reused {100 * state.usage.usage.cached_tokens // state.usage.usage.prompt_tokens} %"


def sandbox_text(state: SessionState) -> str:
    """Return the sandbox in a few words: `docker, no network`."""
    if state.sandbox is None:
        return "not started"
    backend = sanitize_line(state.sandbox.backend)
    return f"{_BACKEND_WORDS.get(backend, backend)}, {network_text(state.sandbox.network)}"


def network_text(network: str) -> str:
    """Return what commands can reach."""
    return {"none": "no network", "on": "network on: internet and LAN"}.get(network, sanitize_line(network))


PANES = ("chat", "files", "plan", "log")
_BACKEND_WORDS = {"process": "no sandbox", "files": "no shell", "landlock": "landlock (reduced)"}
_SANDBOX_STYLES = {"process": "bold $error", "files": "bold $warning", "landlock": "$warning"}


def header_parts(state: SessionState | None, folder: Path, first_mode: str, pane: str) -> tuple[list[Part], list[Part]]:
    """Return the header: folder, model, window, sandbox, mode; short and with the panes' names where `pane` names one."""
    state = state or SessionState()
    mode = state.mode or first_mode
    mode_style = {"auto": "$warning", "plan": "$accent"}.get(mode, "$text-muted")
    if pane:
        name = state.title or sanitize_line(folder.name)
        left = [Part(shorten_middle(name, MAX_TITLE_CHARS), "bold", 0), Part(state.model.name, "$text-muted", 4)]
        left += [Part(_short_sandbox(state), sandbox_style(state), 1), Part(mode, mode_style, 2)]
        tabs = " ".join(f"[{each}]" if each == pane else each for each in PANES)
        return left, [Part(tabs, "$text-muted", 3)]
    left = [Part("lmtui", "bold $accent", 3), Part(sanitize_line(folder_text(folder, Path.home())), "", 0)]
    window = f"{window_text(state.model.window_tokens)} window" if state.model.window_tokens else ""
    right = [Part(_model_text(state), "", 1), Part(window, "$text-muted", 4)]
    right += [Part(f"sandbox: {sandbox_text(state)}", sandbox_style(state), 0), Part(f"mode: {mode}", mode_style, 2)]
    return left, right


def _short_sandbox(state: SessionState) -> str:
    if state.sandbox is None:
        return "no sandbox yet"
    backend = sanitize_line(state.sandbox.backend)
    words = _BACKEND_WORDS.get(backend, backend)
    return words if state.sandbox.network == "none" else f"{words}, {network_text(state.sandbox.network).partition(':')[0]}"


def _model_text(state: SessionState) -> str:
    return state.model.name or ("server's default" if state.model.url else "no model yet")


def sandbox_style(state: SessionState) -> str:
    """Return the colour of the sandbox: red without one or with the network on, amber for a weaker one, quiet else."""
    if state.sandbox is None:
        return "$text-muted"
    if state.sandbox.network == "on":
        return "bold $error"
    if state.sandbox.backend in _SANDBOX_STYLES:
        return _SANDBOX_STYLES[state.sandbox.backend]
    return "$warning" if state.sandbox.is_weaker else "$text-muted"


def status_parts(
    active: SessionView | None, views: Collection[SessionView], now: datetime, note: str
) -> tuple[list[Part], list[Part]]:
    """Return the status line: sessions, what continues, tokens, and the two keys that lead everywhere."""
    left: list[Part] = []
    if len(views) > 1:
        left.append(Part(f"{len(views)} sessions", "$text-muted", 6))
        left += [_mark(view.state, is_active=view is active) for view in views]
    if active is None:
        left.append(Part(note, "$text-muted", 0))
    else:
        left.append(Part(activity_text(active.state, now), _activity_style(active.state), 0))
        left += [Part(usage_text(active.state), "$text-muted", 2), Part(reused_text(active.state), "$text-muted", 5)]
    return left, [_key_part("app.palette", 3), _key_part("app.help", 4)]


def _mark(state: SessionState, *, is_active: bool) -> Part:
    title = shorten_middle(state.title or "new", MAX_TITLE_CHARS)
    if state.waits:
        return Part(f"◐ {title} (waits)", "$warning", 1)
    sign = "●" if state.turn.is_running else "○"
    return Part(f"{sign} {title}", "$accent" if is_active else "$text-muted", 5)


def _activity_style(state: SessionState) -> str:
    if state.waits:
        return "bold $warning"
    if not state.turn.is_running:
        return "$text-muted"
    return "$warning" if state.turn.activity.doing is ActivityKind.RETRYING else "$accent"


def _key_part(command_id: str, rank: int) -> Part:
    each = command(command_id)
    return Part(f"{first_key(each)} {each.hint}", "$text-muted", rank)


def status_text(state: SessionState, session_id: str) -> str:
    """Return everything that `/status` tells, on one line."""
    sandbox = state.sandbox.text if state.sandbox and state.sandbox.is_weaker else sandbox_text(state)
    parts = [state.workspace, state.model.name or "the server's own model", state.model.url, f"sandbox {sandbox}"]
    parts += [f"mode {state.mode}", f"session {session_id}", usage_text(state), state.sandbox.reason if state.sandbox else ""]
    return " · ".join(sanitize_line(part) for part in parts if part)


IN_THE_PROMPT = ("prompt.send", "prompt.newline", "session.list", "mode.choose", "app.stop")
IN_A_PANE = {
    "files": ("lines.select", "files.filter", "files.mark", "files.edit", "files.hidden"),
    "chat": ("lines.select", "chat.find_here", "lines.copy", "chat.copy_code", "copying.start"),
    "plan": ("lines.select", "lines.copy"),
    "log": ("lines.select", "log.filter", "lines.copy"),
}


ASKED = ("keys answer the question", "/ and other words go to the prompt")


def hint_parts(pane: str, *, has_mouse: bool, is_asked: bool = False) -> tuple[list[Part], list[Part]]:
    """Return the line's parts; `pane` is the one that has the focus, empty for the prompt; `is_asked`: a question has it."""
    if is_asked:
        return [Part(ASKED[0], "$accent", 0), Part(ASKED[1], "$text-muted", 1)], []
    ids = IN_A_PANE.get(pane, IN_THE_PROMPT)
    left = [Part(f"keys go to {pane}", "$accent", 0)] if pane else []
    left += [Part(hint_text([command(each)]), "$text-muted", rank) for rank, each in enumerate(ids, 1 if pane else 0)]
    left += [Part(f"{first_key(command(f'pane.{pane}'))} prompt", "$text-muted", 1)] if pane else []
    mouse = "" if has_mouse else f"mouse off  {first_key(command('app.mouse'))} on"
    return left, [Part(mouse, "$warning", 1)] if mouse else []
