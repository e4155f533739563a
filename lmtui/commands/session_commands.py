"""Commands of sessions: list, open, name, and say where one is."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from lmtui.commands.command import Ask, Choose, Command, CommandContext, OpenSession, OpenView, Output, Result, Scope
from lmtui.core.errors import UsageError
from lmtui.core.event_text import budget_words
from lmtui.core.events import MessageAdded, ModelChanged, SandboxSelected, SessionRenamed
from lmtui.core.messages import Role
from lmtui.core.model_events import swaps_of
from lmtui.core.permissions.rules import Mode
from lmtui.core.sanitize import pluralize, sanitize_line
from lmtui.core.sessions import BETWEEN_TURNS, Session, summary_line

SCREEN = "`lmtui` (or `lmtui --plain`)"
MAX_LISTED = 20
MODE_NOTES: dict[str, str] = {
    Mode.MANUAL: "asks before everything",
    Mode.NORMAL: "reads freely, asks before edits and about what commands changed",
    Mode.AUTO: "asks nothing; only the sandbox protects you",
    Mode.TRY: "asks nothing; changes stay in an overlay until you merge them",
    Mode.PLAN: "reads and plans only",
}


async def list_sessions(context: CommandContext, words: str) -> OpenView:
    """List the sessions, or those that contain some words, with numbers to resume them by."""

    async def lines() -> Iterable[str]:
        found = await asyncio.to_thread(context.host.archive.sessions, words, MAX_LISTED)
        context.listed[:] = [each.id for each in found]
        current = context.active.id if context.active is not None else ""
        listed = [
            f"{number}. {summary_line(each)}{', this one' if each.id == current else ''}"
            for number, each in enumerate(found, 1)
        ]
        return [*listed, "/resume NUMBER opens one" if found else "no sessions"]

    return OpenView("session.list", words, lines)


async def resume(context: CommandContext, which: str) -> Result:
    """Open an earlier session by its number in the list or its id."""
    if not which:
        return await list_sessions(context, "")
    is_listed = which.isdecimal() and 0 < int(which) <= len(context.listed)
    return OpenSession(context.listed[int(which) - 1] if is_listed else which)


async def new_session(_context: CommandContext, _: str) -> OpenSession:
    """Start a new session."""
    return OpenSession()


async def rename(context: CommandContext, title: str) -> Result:
    """Give the session a title, and ask for it where there is none."""
    session = context.session

    async def take(typed: str) -> Result:
        if not typed:
            return None
        session.rename(typed)
        return Output((f"title: {sanitize_line(typed)}",))

    return await take(title) if title else Ask("Title of this session", take, title_of(session))


def title_of(session: Session) -> str:
    """Return the title that a session was given, else the first line that the user said."""
    events = [envelope.event for envelope in session.history()]
    titles = [event.title for event in events if isinstance(event, SessionRenamed)]
    said = [event.text.strip() for event in events if isinstance(event, MessageAdded) and event.role is Role.USER]
    return sanitize_line(titles[-1] if titles else "".join(said[:1]).partition("\n")[0])


async def show_status(context: CommandContext, _: str) -> Output:
    """Say where one is."""
    session, host = context.session, context.host
    last = {type(each.event): each.event for each in session.history()}
    model, sandbox = last.get(ModelChanged), last.get(SandboxSelected)
    named = f"{model.model or model.default_model or 'the default'} at {model.url}" if isinstance(model, ModelChanged) else ""
    place = f"{sandbox.text}  {sandbox.reason}" if isinstance(sandbox, SandboxSelected) else "not started"
    tokens = sum(part.tokens for part in session.window_use.parts())
    window = f" of {model.window_tokens:,}" if isinstance(model, ModelChanged) and model.window_tokens else ""
    rows = {
        "session": session.id,
        "folder": str(host.workspace),
        "model": named or "not chosen",
        "sandbox": place.strip(),
        "mode": session.mode.value,
        "next request": f"about {tokens:,}{window} tokens",
        "budget": budget_words(session).removeprefix("budget: "),
        **dict([await each.status(context) for each in context.commands.commands if each.status]),
        "not merged": f"{pluralize(session.trial.waiting, 'file')}: /merge" if session.trial.waiting else "",
        "models": str(swaps_of(session.history())),
    }
    return Output(tuple(f"{name:<13} {sanitize_line(value)}" for name, value in rows.items() if value), "Status")


async def set_mode(session: Session, name: str) -> None:
    """Change the permission mode of a session.

    Raises:
        UsageError: the mode is unknown, or not possible now.
    """
    if name not in set(Mode):
        raise UsageError(f"no mode {sanitize_line(name)!r}; there are {', '.join(Mode)}")
    is_about_try = Mode.TRY in (Mode(name), session.mode) and name != session.mode
    if is_about_try and name == Mode.TRY and (problem := await session.trial.problem()):
        raise UsageError(problem)
    if is_about_try and session.is_running:
        raise UsageError(BETWEEN_TURNS)
    session.set_mode(Mode(name))


async def choose_mode(context: CommandContext, name: str) -> Result:
    """Change the permission mode, and ask for it where none is named."""
    session = context.session

    async def take(chosen: str) -> Result:
        await set_mode(session, chosen)
        return None

    return await take(name) if name else Choose("Permission mode", MODE_NOTES, take, session.mode.value)


SESSIONS: tuple[Command, ...] = (
    Command("session.list", Scope.WORKBENCH, "Sessions", "List all sessions; open, search, rename, close or delete one.",
        ("f2",), "sessions", ("sessions",), "[text]", is_first=True,
        aliases={"agents": "", "projects": ""}, handler=list_sessions, instead="`lmtui sessions`"),
    Command("session.resume", Scope.WORKBENCH, "Resume", "Open an earlier session.", slash=("resume",), argument="[id]",
        handler=resume, instead='`lmtui resume ID "TEXT"`'),
    Command("session.next_waiting", Scope.WORKBENCH, "Next waiting session", "Go to the next session that is waiting for you.",
        ("f3",), "next waiting", is_first=True),
    Command("session.new", Scope.WORKBENCH, "New session", "Start a new session; earlier sessions stay in the list.", ("f4",),
        "", ("new",), is_first=True, aliases={"clear": ""}, handler=new_session, instead=SCREEN),
    Command("session.rename", Scope.WORKBENCH, "Rename session", "Give this session a title.", slash=("rename",),
        argument="TITLE", handler=rename, instead=SCREEN, is_rare=True),
    Command("session.status", Scope.WORKBENCH, "Status", slash=("status",), handler=show_status, instead=SCREEN,
        aliases={"session": ""},
        help="Show the session, folder, model, sandbox, mode, context, budget, MCP servers and jobs."),
    Command("mode.choose", Scope.WORKBENCH, "Permission mode", "Choose when to ask: manual, normal, auto, try or plan.",
        ("f5",), "mode", ("mode",), "LEVEL", is_first=True, values="modes", handler=choose_mode,
        instead="the option --mode NAME"),
)  # fmt: skip


MORE_SESSIONS: tuple[Command, ...] = (
    Command("session.next", Scope.WORKBENCH, "Next session", "Go to the next open session.", ("alt+right",),
        is_first=True, is_rare=True),
    Command("session.previous", Scope.WORKBENCH, "Previous session", "Go to the previous open session.", ("alt+left",),
        is_first=True, is_rare=True),
    Command("session.fork", Scope.WORKBENCH, "Fork session",
        "Continue in a copy of this session, up to the message under the cursor.", slash=("fork",)),
    Command("session.export", Scope.WORKBENCH, "Export session", "Write this session to a file: md, html or jsonl.",
        slash=("export",), is_rare=True, argument="[md|html|jsonl]", instead="`lmtui export ID`"),
    Command("session.close", Scope.WORKBENCH, "Close session", "Close this session; it stays in the list.", slash=("close",),
        is_rare=True),
)  # fmt: skip
