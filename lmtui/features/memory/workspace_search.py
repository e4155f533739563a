"""Searches the notes, earlier sessions, documents and code of a workspace, and keeps their index up to date.

All reading and indexing is done in one thread, which takes at most a fiftieth of a core while
nobody searches.  It is not "nice": at a lower priority it might be stopped while it holds Python's
lock, and every other thread would wait for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

from lmtui.core.errors import Fault, JobsError, LmtuiError, ProviderError, SessionFileError, UsageError
from lmtui.core.events import MessageAdded, SessionRenamed
from lmtui.core.messages import Role
from lmtui.core.permissions.path_patterns import is_secret_path
from lmtui.core.permissions.rules import Effect
from lmtui.core.roles import ModelRole, RoleModel, parse_roles
from lmtui.core.sanitize import pluralize, sanitize_line, sanitize_path
from lmtui.core.workspace import MAX_PATHS
from lmtui.features.memory.chunks import MAX_CHUNK_CHARS, Chunk, cut, is_generated, source_of, words_of
from lmtui.features.memory.notes import Note
from lmtui.features.memory.search_index import SearchIndex, Sources, State, Vector
from lmtui.features.memory.values import SearchHit, SearchSource
from lmtui.features.service import Workspace
from lmtui.paths import PROTECTED_NAMES, kept_dir, sessions_dir
from lmtui.plain_files import NotPlain, open_own, plain_states, read_plain
from lmtui.store.session_logs import SessionStore, is_in_use, known_sessions
from lmtui.store.session_logs import decode as decode_event
from lmtui.tools.text import decode

_log = logging.getLogger(__name__)
BATCH = 10
MAX_FILE_BYTES, MAX_LOG_BYTES = 1_000_000, 64_000_000
UPDATE_LIMIT_S = 2.0
RELEVANT = 0.75  # found on the tuning set of `benchmarks.memory`
_QUERY_S, _RETRY_S = 1.5, 60.0
_SHORT_CHARS, _MAX_MESSAGE_CHARS, _STEM_CHARS = 200, 2_000, 4
_FRESH_S, _START_S, _PERIOD_S = 2.0, 10.0, 60.0
_IDLE_REST, _ASKED_REST = 60.0, 3.0  # seconds of rest for one of work: 1.6 % of a core while idle, 25 % once asked
# What the models were trained with: their cards on Hugging Face say so (nomic-embed-text-v1.5, multilingual-e5-large).
_PREFIXES = {"nomic": ("search_query: ", "search_document: "), "e5-": ("query: ", "passage: ")}
_TOO_LONG = (Fault.REJECTED, Fault.OVERFLOW, Fault.SERVER_ERROR)
_MESSAGE = re.compile(rb'[^\n]{1,200}?"kind":"(?:message_added","agent":"root","role":"(?:user|assistant)|session_renamed)"')
T = TypeVar("T")
Vectors = Sequence[Vector]
Embed = Callable[[str, Sequence[str]], Awaitable[Vectors]]
"""Asks the server for vectors: the model's name and the texts; raises `ProviderError` or `UsageError`."""
Notes = Callable[[], Sequence[Note]]
"""Reads the notes that are remembered in a workspace.  Blocks."""
Paths = Callable[[], Awaitable[tuple[Sequence[str], bool]]]
"""Lists the files of a workspace that ignore rules do not leave out, and tells whether there are more."""


class Embedder:
    """Makes vectors with one model of the server in use; `problem` says why there are none at the moment."""

    def __init__(self, model: str, ask: Embed) -> None:
        self.model, self._ask = model, ask
        self.problem = ""
        self._query, self._document = next((both for key, both in _PREFIXES.items() if key in model.lower()), ("", ""))
        self._retry_s = 0.0

    async def of_query(self, text: str) -> Vector:
        """Return the vector of a question, an empty one where the server does not make it at once."""
        with contextlib.suppress(TimeoutError):  # it works on something else, or loads the model
            async with asyncio.timeout(_QUERY_S):
                return next(iter(await self._one_by_one([self._query + text])), ())
        return ()

    async def of_documents(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors of texts, none where the server fails; of a text that it refuses an empty one."""
        texts = [self._document + text for text in texts]
        return await self._asked(texts) or await self._one_by_one(texts)

    async def _one_by_one(self, texts: Sequence[str]) -> Vectors:
        """Ask for each text alone, or for its beginning if it is refused; rest if all are."""
        found = [(await self._asked([text]) or await self._asked([text[:_SHORT_CHARS]]) or [()])[0] for text in texts]
        if not any(found):
            self._retry_s = time.monotonic() + _RETRY_S
        return found if any(found) else ()

    async def _asked(self, texts: Sequence[str]) -> Vectors:
        """Ask the server, and let it rest where it fails, unless it may take other texts."""
        if time.monotonic() < self._retry_s:
            return ()
        try:
            found = await self._ask(self.model, texts)
        except LmtuiError as error:
            if (text := sanitize_line(str(error))) != self.problem:
                _log.warning("searching by words only until %s returns vectors: %s", self.model, text)
            self.problem = text
            if not (isinstance(error, ProviderError) and error.fault in _TOO_LONG):
                self._retry_s = time.monotonic() + _RETRY_S
            return ()
        self.problem = ""
        return found


class WorkspaceSearch:
    """The search of one workspace.

    Args:
        workspace: the folder.
        paths: see `Paths`.
        notes: see `Notes`.
        embedder: makes vectors, where the settings name a model for that.
    """

    def __init__(self, workspace: Path, paths: Paths, notes: Notes, embedder: Embedder | None = None) -> None:
        self._workspace, self._paths, self._notes, self.embedder = workspace, paths, notes, embedder
        self._index = SearchIndex(kept_dir("search", workspace) / "index.db")
        self._thread = ThreadPoolExecutor(1, "lmtui-search")
        self._rest, self._is_stopped, self._woken = _IDLE_REST, False, threading.Event()
        self._update: asyncio.Task[None] | None = None
        self._idle: asyncio.Task[None] | None = None
        self._embedding: asyncio.Task[None] | None = None
        self._updated_s = 0.0
        self._vector_size = 0  # of the last query: those of another size are dropped
        self.problem = ""

    async def search(
        self, query: str, limit: int = 5, sources: Sources = (), within_s: float = UPDATE_LIMIT_S
    ) -> Sequence[SearchHit]:
        """Return the best hits, best first, from these sources (none: all).

        Changes since the last search are indexed first, for at most `within_s`; the rest is done in
        the background.

        Raises:
            UsageError: the query has no words, or the index cannot be used.
        """
        if not re.search(r"\w", query):
            raise UsageError("the search needs words", "Type what to look for, such as a name.")
        await self.refresh(within_s)
        vector: Vector = ()
        if self.embedder is not None and (vector := await self.embedder.of_query(query)) and len(vector) != self._vector_size:
            await self._ask(partial(self._index.drop_vectors, self.embedder.model, len(vector)))
            self._vector_size = len(vector)
        return await self._ask(partial(self._index.search, query, limit, sources, vector))

    async def relevant_notes(self, words: str, notes: Sequence[Note]) -> Sequence[tuple[Note, float]]:
        """Return the notes that a message calls to mind, each with its relevance, the most relevant first.

        What is below `RELEVANT` is left out.
        """
        scores = await self._ask(partial(self._index.recall, words[:_MAX_MESSAGE_CHARS]))
        asked, found = _stems(words[:_MAX_MESSAGE_CHARS]), list[tuple[Note, float]]()
        for note in notes:
            stems = _stems(note.text)
            shared = len(asked & stems) / max(1, min(len(asked), len(stems)))  # of the shorter of the two
            found.append((note, scores.get(_item_of(note), 0.0) * (0.5 + shared)))
        return sorted((each for each in found if each[1] >= RELEVANT), key=lambda each: -each[1])

    async def refresh(self, within_s: float = UPDATE_LIMIT_S) -> None:
        """Bring the index up to date, for at most so long; the rest is done in the background."""
        is_idle = self._update is None or self._update.done()
        if is_idle and time.monotonic() - self._updated_s < _FRESH_S:
            return
        self._set_rest(0.0)
        task = self._begin_update()
        try:
            await asyncio.wait({task}, timeout=within_s)
        finally:  # whoever searches may have stopped waiting
            self._set_rest(_IDLE_REST if task.done() else _ASKED_REST)

    def start(self) -> None:
        """Index in the background from now on."""
        if self._idle is None:
            self._idle = asyncio.get_running_loop().create_task(self._keep_up())

    async def close(self) -> None:
        """Stop at once and let go of the index; idempotent."""
        self._is_stopped = True
        self._woken.set()
        for task in (self._idle, self._update, self._embedding):
            if task is not None:
                task.cancel()
                await asyncio.wait({task})
        await asyncio.to_thread(self._thread.shutdown)
        self._index.close()

    async def facts(self) -> str:
        """Return in a line what is indexed, empty where nothing is; no index is made for that."""
        if not self._index.exists():
            return ""
        try:
            counts = await self._ask(self._index.counts)
        except UsageError as error:
            return sanitize_line(str(error))
        chunks = f"{pluralize(counts['chunks'], 'chunk')}, {counts['vectors']:,} with vectors"
        problem = f"; {self.embedder.problem}" if self.embedder is not None and self.embedder.problem else ""
        return f"{pluralize(counts['items'], 'item')} in {chunks}, {counts['bytes'] / 1e6:.1f} MB{problem}"

    async def _ask(self, ask: Callable[[], T]) -> T:
        try:
            return await asyncio.to_thread(ask)
        except (JobsError, OSError) as error:
            hint = f"Check {self._index.path}, or delete it: it is rebuilt."
            raise UsageError(f"could not use the search index: {error}", hint) from error

    async def _keep_up(self) -> None:
        await asyncio.sleep(_START_S)
        while True:
            began_s = time.monotonic()
            await asyncio.wait({self._begin_update()})
            await asyncio.sleep(max(_PERIOD_S, time.monotonic() - began_s))

    def _begin_update(self) -> asyncio.Task[None]:
        if self._update is None or self._update.done():
            self._update = asyncio.get_running_loop().create_task(self._do_update())
        return self._update

    async def _do_update(self) -> None:
        """Index what changed; a failure is logged once, and tried again the next time."""
        loop = asyncio.get_running_loop()
        problem = ""
        try:
            await loop.run_in_executor(self._thread, self._index_own)
            paths, is_cut = await self._paths()
            await loop.run_in_executor(self._thread, self._index_files, paths, is_cut)
        except (OSError, LmtuiError) as error:
            problem = sanitize_line(str(error))
            if problem != self.problem:
                _log.warning("indexing for the search failed: %s", problem)
        if not problem and self.embedder is not None and (self._embedding is None or self._embedding.done()):
            self._embedding = loop.create_task(self._make_vectors(self.embedder))
        self.problem = problem
        self._updated_s = time.monotonic()

    async def _make_vectors(self, embedder: Embedder) -> None:
        """Give vectors to the chunks that have none; a failure is tried again after the next update."""
        with contextlib.suppress(UsageError):
            await self._ask(partial(self._index.drop_vectors, embedder.model))
            while todo := await self._ask(partial(self._index.without_vector, 20 * BATCH)):
                for part in (dict(todo[at : at + BATCH]) for at in range(0, len(todo), BATCH)):
                    began_s = time.monotonic()
                    vectors = await embedder.of_documents([*part.values()])
                    await self._ask(partial(self._index.put_vectors, embedder.model, dict(zip(part, vectors, strict=False))))
                    if len(vectors) < len(part):
                        return
                    await asyncio.sleep(time.monotonic() - began_s)  # the server rests as long as it worked

    def _index_own(self) -> None:
        """Index the notes, and the closed sessions that were made here."""
        notes = {_item_of(note): note.text for note in self._notes()}
        states = {name: (0, len(text)) for name, text in notes.items()}
        self._put_all(SearchSource.MEMORY, states, lambda name: [Chunk(1, 1, notes[name])])
        home, folder = self._workspace.resolve(), sessions_dir(self._workspace)
        ours = {name for name, known in known_sessions().items() if known == home}
        logs = [path.name for path in SessionStore(self._workspace).paths() if path.stem in ours and not is_in_use(path)]
        states = {name.removesuffix(".jsonl"): state for name, state in plain_states(folder, logs).items()}
        self._put_all(SearchSource.SESSION, states, lambda name: list(read_session(folder / f"{name}.jsonl")))

    def _index_files(self, paths: Sequence[str], is_cut: bool) -> None:
        for source in (SearchSource.DOC, SearchSource.CODE):
            names = [path for path in paths if source_of(path) is source and _is_searched(path)]
            states = {path: each for path, each in plain_states(self._workspace, names).items() if each[1] <= MAX_FILE_BYTES}
            self._put_all(source, states, self._read_file, is_whole=not is_cut)

    def _read_file(self, path: str) -> list[Chunk]:
        with contextlib.suppress(NotPlain):
            file = decode(read_plain(self._workspace, path, MAX_FILE_BYTES) or b"")
            return [] if file is None or is_generated(file.text) else cut(path, file.text)
        return []

    def _put_all(
        self, source: SearchSource, now: Mapping[str, State], read: Callable[[str], list[Chunk]], *, is_whole: bool = True
    ) -> None:
        """Index the items of a source that are not as they were; those that are gone are taken out."""
        before = self._index.states(source)
        gone = before.keys() - now.keys() if is_whole else ()
        for name in (*gone, *(name for name, state in now.items() if before.get(name) != state)):
            if self._is_stopped:
                return
            began_s, state = time.thread_time(), now.get(name)
            self._index.put(source, name, state, read(name) if state is not None else ())
            self._woken.clear()
            if not self._is_stopped:
                self._woken.wait((time.thread_time() - began_s) * self._rest)

    def _set_rest(self, rest: float) -> None:
        """Change for how many times as long as it worked the thread rests, now too."""
        self._rest = rest
        self._woken.set()


def open_search(workspace: Workspace, notes: Notes, embed: Embed) -> WorkspaceSearch:
    """Return the search of a workspace, which the caller closes; what rules hide is left out."""

    async def paths() -> tuple[Sequence[str], bool]:
        found, is_cut = await (await workspace.sandbox()).listing.paths(MAX_PATHS)
        denied = [each for each in workspace.rules() if each.effect is Effect.DENY and each.names("read")]
        if denied:
            found = await asyncio.to_thread(lambda: [path for path in found if not any(rule.is_about(path) for rule in denied)])
        return found, is_cut

    model = parse_roles(workspace.config.roles).get(ModelRole.EMBEDDER, RoleModel()).model
    return WorkspaceSearch(workspace.workspace, paths, notes, Embedder(model, embed) if model else None)


def _is_searched(path: str) -> bool:
    """Tell whether a file may be in the index: none with secrets, none of git's or ours, none whose name hides something."""
    return not (is_secret_path(path) or sanitize_path(path) != path or any(part in PROTECTED_NAMES for part in path.split("/")))


def read_session(path: Path) -> Iterator[Chunk]:
    """Yield what the user asked in each turn of a session, with the last answer; lines count the turns.  Blocks."""
    turns: list[list[str]] = []
    title = ""
    with open(path, "rb", opener=open_own) as file:
        left = MAX_LOG_BYTES
        while left > 0 and (line := file.readline(left)):
            left -= len(line)
            if _MESSAGE.match(line) is None:
                continue
            with contextlib.suppress(SessionFileError):
                match decode_event(line.decode("utf-8", "replace")).event:
                    case SessionRenamed(title=named):
                        title = sanitize_line(named)
                    case MessageAdded(role=Role.USER, text=text):
                        turns.append([text, ""])
                    case MessageAdded(text=text) if turns and text.strip():
                        turns[-1][1] = text
    for number, turn in enumerate(turns, 1):
        for text in filter(str.strip, turn):
            for at in range(0, min(len(text), 10 * MAX_CHUNK_CHARS), MAX_CHUNK_CHARS):
                yield Chunk(number, number, text[at : at + MAX_CHUNK_CHARS], title)


def _item_of(note: Note) -> str:
    """Return the name under which a note is in the index."""
    return f"{note.scope} {note.key}"


def _stems(text: str) -> set[str]:
    return {word[:_STEM_CHARS] for word in words_of(text)}
