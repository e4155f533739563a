"""The sessions of many folders in one process.  Knows nothing of clients, sockets and HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from lmtui.app.host import Runtime, attended_runtime
from lmtui.app.model_servers import FILES_URL
from lmtui.app.settings_trust import load_trusted
from lmtui.core.errors import LmtuiError, NotFound, UsageError
from lmtui.core.events import Envelope, MessageAdded, RetryScheduled, TextDelta, ThinkingDelta, TurnEnded
from lmtui.core.sanitize import sanitize_path
from lmtui.core.servers import server_with
from lmtui.core.sessions import Session, SessionSummary
from lmtui.core.tool_servers import Form, ToolServers


@dataclass(frozen=True, slots=True)
class GivenSettings:
    """Settings that a client brings: by their names in `lmtui.config` as flags, and as variables of its environment."""

    flags: Mapping[str, object] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Return what is the same for the same settings."""
        return json.dumps([self.flags, self.environment], sort_keys=True, default=str)


Ask = Callable[[Form], Awaitable[Mapping[str, object] | None]]
"""Puts a form of an MCP server before the user; None declines it."""

_Delta = TextDelta | ThinkingDelta
Listener = Callable[[Path, Envelope], None]
"""Is called with each event of each open session and the folder of that session, on the event loop; must not raise."""


def open_folder(folder: Path, given: GivenSettings) -> Runtime:
    """Return the runtime of a folder for a user who is there, with the settings in force now.  Blocks (disk).

    Raises:
        LmtuiError: the folder cannot be worked in, or a setting cannot be read.
    """
    read = partial(load_trusted, folder, {**os.environ, **given.environment}, given.flags)
    return attended_runtime(folder, read(), read)


@dataclass(slots=True)
class _OpenFolder:
    """One folder with some flags: its runtime once it is open, and the task that serves it."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    runtime: Runtime | None = None
    work: asyncio.Task[None] | None = None


class SharedControls:
    """What the clients of one folder set together: the folders that are watched, and who answers forms of MCP servers."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._watched: dict[object, frozenset[str]] = {}
        self._forms: dict[object, Ask] = {}

    def watch_folders(self, client: object, folders: Iterable[str]) -> None:
        self._watched[client] = frozenset(folders)
        self._watch()

    def _watch(self) -> None:
        self._runtime.files.watch(frozenset().union(*self._watched.values()))

    def ask_with(self, client: object, ask: Ask) -> None:
        """Put forms before the client that came last."""
        self._forms[client] = ask
        if ToolServers in self._runtime.extensions:
            self._runtime.extensions[ToolServers].answer_with(self._ask)

    async def _ask(self, form: Form) -> Mapping[str, object] | None:
        """Ask the client that came last; without any, and where that does not answer, a form is declined."""
        with contextlib.suppress(LmtuiError, TimeoutError, LookupError):
            return await list(self._forms.values())[-1](form)
        return None

    def leave(self, client: object) -> None:
        """Forget a client."""
        self._forms.pop(client, None)
        if self._watched.pop(client, None) is not None:
            self._watch()


class StreamedText:
    """What was streamed of the messages that are being written, for a client that comes in the middle of one."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str, str], tuple[Envelope, _Delta, list[str]]] = {}  # by session, agent and kind

    def take(self, envelope: Envelope) -> None:
        """Take an event; the end of a message, or of the turn, drops what was streamed of it."""
        event, session = envelope.event, envelope.session
        match event:
            case TextDelta(text=text) | ThinkingDelta(text=text):
                self._found.setdefault((session, event.agent, event.kind), (envelope, event, []))[2].append(text)
            case MessageAdded() | RetryScheduled() | TurnEnded():
                for kind in (ThinkingDelta.kind, TextDelta.kind):
                    _ = self._found.pop((session, event.agent, kind), None)

    def of(self, session_id: str) -> Sequence[Envelope]:
        """Return it as one event for each message, thinking first."""
        return [
            replace(envelope, event=replace(event, text="".join(parts)))
            for wanted in (ThinkingDelta.kind, TextDelta.kind)
            for (session, _, kind), (envelope, event, parts) in self._found.items()
            if (session, kind) == (session_id, wanted)
        ]


class SessionHub:
    """Opens folders and finds sessions in them.

    Args:
        folders: those that clients from elsewhere may open; one that the user opens here joins them.
        open_runtime: opens a folder; runs in a thread.
    """

    def __init__(
        self, folders: Iterable[Path] = (), open_runtime: Callable[[Path, GivenSettings], Runtime] = open_folder
    ) -> None:
        self._folders = {_real(each): None for each in folders}
        self._open_runtime = open_runtime
        self._places: dict[tuple[Path, str], _OpenFolder] = {}
        self._listeners: list[Listener] = []
        self._shared: dict[Runtime, SharedControls] = {}
        self._openings = 0
        self.streamed = StreamedText()
        self.watchers: Counter[str] = Counter()  # how many clients look at a session, by its id

    @property
    def folders(self) -> Sequence[Path]:
        """Return the folders that clients from elsewhere may open."""
        return tuple(self._folders)

    def allow(self, folder: Path) -> None:
        """Let clients from elsewhere open a folder."""
        self._folders[_real(folder)] = None

    def allowed(self, folder: str) -> Path:
        """Return a folder that a client from elsewhere named.

        Raises:
            UsageError: it is none of those that it may open.
        """
        path = _real(Path(folder))
        if path not in self._folders:
            raise UsageError(
                f"{sanitize_path(folder)} is not open to clients",
                "Add it to the setting host_folders, or open it on the host's machine.",
            )
        return path

    @property
    def runtimes(self) -> Sequence[Runtime]:
        """Return the runtimes that are open."""
        return [each.runtime for each in self._places.values() if each.runtime is not None]

    @property
    def sessions(self) -> Sequence[Session]:
        """Return the sessions that are open."""
        return [session for runtime in self.runtimes for session in runtime.sessions]

    def find(self, session_id: str) -> Session | None:
        """Return a session that is open."""
        return next((each for each in self.sessions if each.id == session_id), None)

    async def runtime(self, folder: Path, given: GivenSettings | None = None) -> Runtime:
        """Return the runtime of a folder, which is opened with these settings if it is not open with them.

        Raises:
            LmtuiError: see `open_folder`.
        """
        folder, given = _real(folder), given or GivenSettings()
        place = self._places.setdefault((folder, given.key), _OpenFolder())
        async with place.lock:
            if place.runtime is None:
                runtime = place.runtime = await asyncio.to_thread(self._open_runtime, folder, given)
                runtime.when_opened.append(lambda session: self._follow(runtime, session))
                place.work = asyncio.create_task(runtime.serve(), name=f"work in {folder}")
        return place.runtime

    def runtime_of(self, session_id: str, folder: Path | None = None) -> Runtime | None:
        """Return the runtime that has a session open, in a folder where one is named; there the end of an id is enough."""
        for runtime in self.runtimes:
            here = [each.id for each in runtime.sessions if folder is not None and each.id.endswith(session_id)]
            if runtime.is_open(session_id) or (session_id and len(here) == 1 and runtime.workspace == folder):
                return runtime
        return None

    async def session(self, session_id: str) -> Session:
        """Return a session of an open folder or of one that clients may open; one that is not open is opened.

        Raises:
            NotFound: none of these folders has it.
            LmtuiError: it cannot be opened.
        """
        return await (await self.find_runtime(session_id)).open_session(session_id)

    async def find_runtime(self, session_id: str) -> Runtime:
        """Return the runtime of the folder that has a session, open or not.

        Raises:
            NotFound: no open folder has it, nor one that clients may open.
        """
        if (runtime := self.runtime_of(session_id)) is not None:
            return runtime
        opened = {each.workspace: each for each in reversed(self.runtimes)}
        for folder in dict.fromkeys((*opened, *self._folders)):
            with contextlib.suppress(LmtuiError):
                runtime = opened.get(folder) or await self.runtime(folder)
                if await asyncio.to_thread(runtime.archive.look_up, [session_id]):
                    return runtime
        raise NotFound(f"no session {sanitize_path(session_id)[:60]}", "`lmtui sessions` lists the sessions of a folder.")

    async def switch_model(self, runtime: Runtime, session_id: str, url: str, model: str) -> None:
        """Use another model for a session (empty: for those opened later).

        Raises:
            NotFound: no server of the user's has it.
        """
        url = server_with([each for each in await runtime.servers.find() if each.url != FILES_URL], model, url)
        if session_id:
            await runtime.switch_model(session_id, url, model, is_kept=False)
        else:
            await runtime.servers.use(url, model, is_kept=False)

    def as_seen_here(self, rows: Sequence[SessionSummary]) -> Sequence[SessionSummary]:
        """Return sessions with those open that any runtime has, as a client sees them: a folder may have several."""
        here = {row.id for row in rows if row.is_elsewhere and self.runtime_of(row.id) is not None}
        return [replace(row, is_open=True, is_elsewhere=False) if row.id in here else row for row in rows]

    def follow(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` with each event of all sessions from now on; the returned function ends it, once."""
        self._listeners.append(listener)
        return partial(self._listeners.remove, listener)

    def _follow(self, runtime: Runtime, session: Session) -> None:
        def tell(envelope: Envelope) -> None:
            self.streamed.take(envelope)
            for listener in tuple(self._listeners):
                listener(runtime.workspace, envelope)

        _ = session.subscribe(tell)

    def is_busy(self, session: Session) -> bool:
        """Tell whether an open session has something to do: a turn, a command in the background, or a time to wait for."""
        runs = any(each.exit_code is None for each in session.background.commands())
        own = (each for runtime in self.runtimes for each in runtime.sessions if each.id == session.id)
        return session.is_running or runs or any(each.sleep.wait is not None for each in own)

    def busy(self) -> Sequence[str]:
        """Return in words what there is to do, empty where this process could end: sessions, attempts, work of features."""
        found = [f"session {each.id}" for each in self.sessions if self.is_busy(each)]
        for runtime in self.runtimes:
            found += [f"{work} in {runtime.workspace}" for work in runtime.works()]
        return found

    def shared(self, runtime: Runtime) -> SharedControls:
        """Return what the clients of a folder set together."""
        return self._shared.setdefault(runtime, SharedControls(runtime))

    def watch(self, session_id: str) -> None:
        """Keep a session open for one client more."""
        self.watchers[session_id] += 1

    def unwatch(self, session_id: str) -> None:
        """Let go of a session; one that nobody looks at any more is closed after a while, unless it has something to do."""
        self.watchers[session_id] -= 1
        if self.watchers[session_id] <= 0:
            del self.watchers[session_id]

    @contextlib.contextmanager
    def opening(self) -> Iterator[None]:
        """Keep every session open until a client that opens one watches it."""
        self._openings += 1
        try:
            yield
        finally:
            self._openings -= 1

    async def tidy(self) -> None:
        """Close the sessions that nobody looks at and that have nothing to do."""
        for session in self.sessions:
            if not self._openings and not self.watchers[session.id] and not self.is_busy(session):
                with contextlib.suppress(LmtuiError):  # a log on a full disk, say: it is tried again
                    await session.close()

    async def close(self) -> None:
        """Close every session and folder."""
        for place in list(self._places.values()):
            async with place.lock:
                if place.work is not None:
                    _ = place.work.cancel()
                    await asyncio.gather(place.work, return_exceptions=True)
                if place.runtime is not None:
                    runtime, place.runtime = place.runtime, None
                    await runtime.close()
        self._places.clear()


def _real(folder: Path) -> Path:
    try:
        return Path(os.path.realpath(folder.expanduser()))
    except (RuntimeError, ValueError) as error:  # an unknown user after `~`, or a NUL
        raise UsageError(f"{sanitize_path(str(folder))[:200]} is not a path", "Name an existing folder.") from error
