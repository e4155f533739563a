"""Searches the notes, earlier sessions, documents and code of a workspace, and keeps their index up to date.

All reading and indexing is done in one thread, which takes at most a fiftieth of a core while nobody searches.  It
is not "nice": at a lower priority it might be stopped while it holds Python's lock, and every other thread would wait for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import math
import re
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

from lmtui.core.errors import Fault, JobsError, LmtuiError, ProviderError, UsageError
from lmtui.core.permissions.path_patterns import is_secret_path
from lmtui.core.permissions.rules import Effect
from lmtui.core.roles import ModelRole, RoleModel, parse_roles
from lmtui.core.sanitize import pluralize, sanitize, sanitize_line, sanitize_path
from lmtui.core.workspace import MAX_PATHS
from lmtui.features.memory.chunks import MAX_CHUNK_CHARS, Chunk, cut, is_generated, source_of, words_of
from lmtui.features.memory.search_index import Found, IndexQuery, SearchIndex, State, rarities
from lmtui.features.memory.values import Note, SearchHit, SearchSource
from lmtui.features.service import Workspace
from lmtui.paths import PROTECTED_NAMES, kept_dir, sessions_dir
from lmtui.plain_files import NotPlain, open_own, plain_states, read_plain
from lmtui.store.session_logs import SessionStore, is_in_use, known_sessions
from lmtui.tools.text import decode

_log = logging.getLogger(__name__)
BATCH = 10
_QUERY_S = 1.5
_FIRST_RETRY_S, _LAST_RETRY_S = 30.0, 600.0
_LEAST_CHARS = 200
# What the models were trained with: their cards on Hugging Face say so (nomic-embed-text-v1.5, multilingual-e5-large).
_PREFIXES = {"nomic": ("search_query: ", "search_document: "), "e5-": ("query: ", "passage: ")}
_TOO_LONG = (Fault.REJECTED, Fault.OVERFLOW, Fault.SERVER_ERROR)

Embed = Callable[[str, Sequence[str]], Awaitable[Sequence[Sequence[float]]]]
"""Asks the server for vectors: the model's name and the texts; raises `ProviderError` or `UsageError`."""


class Embedder:
    """Makes vectors with one model of the server in use.

    `name` is that of the model with the size of its vectors, by which those in the index are told apart; it is empty until
    that is known.  `problem` says why there are none at the moment.
    """

    def __init__(self, model: str, ask: Embed) -> None:
        self.model, self._ask = model, ask
        self.name = self.problem = ""
        self._query, self._document = next((each for key, each in _PREFIXES.items() if key in model.lower()), ("", ""))
        self._retry_s, self._rest_s = 0.0, _FIRST_RETRY_S

    @property
    def size(self) -> int:
        """Return how many numbers its vectors have, 0 where that is not known."""
        return int(self.name.rpartition("/")[2] or 0)

    @property
    def is_resting(self) -> bool:
        """Tell whether the server failed a moment ago."""
        return time.monotonic() < self._retry_s

    async def of_query(self, text: str) -> Sequence[float]:
        """Return the vector of a question, an empty one where the server does not make it at once."""
        if self.is_resting:
            return ()
        try:
            async with asyncio.timeout(_QUERY_S):
                return (await self._vectors([self._query + text]))[0]
        except TimeoutError:
            return ()  # it works on something else, or loads the model
        except LmtuiError as error:
            self._failed(error)
            return ()

    async def of_documents(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return the vectors of texts, none where the server fails; of a text that it refuses one without direction."""
        if self.is_resting:
            return ()
        try:
            return await self._of_all([self._document + text for text in texts])
        except LmtuiError as error:
            self._failed(error)
            return ()

    async def _of_all(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        try:
            return await self._vectors(texts)
        except ProviderError as error:
            if error.fault not in _TOO_LONG or (len(texts[0]) <= _LEAST_CHARS and not self.name):
                raise
        if len(texts) > 1:
            return [vector for text in texts for vector in await self._of_all([text])]
        if len(texts[0]) > _LEAST_CHARS:
            return await self._of_all([texts[0][: len(texts[0]) // 2]])
        return [[0.0] * self.size]

    async def _vectors(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        found = await self._ask(self.model, texts)
        self.name = f"{self.model}/{len(found[0])}"
        self.problem, self._rest_s = "", _FIRST_RETRY_S
        return found

    def _failed(self, error: LmtuiError) -> None:
        text = sanitize_line(str(error))
        if text != self.problem:
            _log.warning("searching by words only until %s returns vectors: %s", self.model, text)
        self.problem = text
        self._retry_s = time.monotonic() + self._rest_s
        self._rest_s = min(2 * self._rest_s, _LAST_RETRY_S)


_log = logging.getLogger(__name__)
MAX_FILE_BYTES = 1_000_000
MAX_LOG_BYTES = 64_000_000
UPDATE_LIMIT_S = 2.0
RELEVANT = 0.5  # found on the tuning set of `benchmarks.memory`
_SURE_DEVIATIONS = 12.0
_MAX_MESSAGE_CHARS, _SHORT = 2_000, 4
_LEAST_CHUNKS = 2_000
_FRESH_S = 2.0
_MOST_SIZES = 3
_START_S, _PERIOD_S, _IDLE_S = 10.0, 60.0, 600.0
_IDLE_REST, _ASKED_REST = 60.0, 3.0  # seconds of rest for one of work: 1.6 % of a core while idle, 25 % once asked
_BROKEN = (ValueError, AttributeError, TypeError, KeyError, OverflowError, RecursionError)  # what a line of a log may lead to
_MESSAGE = re.compile(rb'[^\n]{1,200}?"kind":"(message_added","agent":"root","role":"(?:user|assistant)|session_renamed)"')

_ITEM_NAMES = {
    SearchSource.MEMORY: "note",
    SearchSource.SESSION: "session",
    SearchSource.DOC: "document",
    SearchSource.CODE: "code file",
}
T = TypeVar("T")
Paths = Callable[[], Awaitable[tuple[Sequence[str], bool]]]
"""Lists the files of a workspace that ignore rules do not leave out, and tells whether there are more."""


class WorkspaceSearch:
    """The search of one workspace.

    Args:
        workspace: the folder.
        paths: see `Paths`.
        notes: reads the notes that are remembered here.
        on_notice: called with a sentence for the user.
        embedder: makes vectors, where the settings name a model for that.
    """

    def __init__(
        self,
        workspace: Path,
        paths: Paths,
        notes: Callable[[], Awaitable[Sequence[Note]]],
        on_notice: Callable[[str], object] = _log.warning,
        embedder: Embedder | None = None,
    ) -> None:
        self._workspace = workspace
        self._paths, self._notes = paths, notes
        file = kept_dir("search", workspace) / "index.db"
        self._writer, self._reader = SearchIndex(file, on_notice), SearchIndex(file, on_notice)
        self._thread = ThreadPoolExecutor(1, "lmtui-search")
        self._pace = _Pace()
        self._update: asyncio.Task[None] | None = None
        self._idle: asyncio.Task[None] | None = None
        self.embedder = embedder
        self._embedding: asyncio.Task[None] | None = None
        self._updated_s = self._searched_s = 0.0
        self.problem = ""

    async def search(
        self, query: str, limit: int = 5, sources: Collection[SearchSource] = (), within_s: float = UPDATE_LIMIT_S
    ) -> Sequence[SearchHit]:
        """Return the best hits, best first, from these sources (none: all).

        Changes since the last search are indexed first, for at most `within_s`; the rest is done in the background.

        Raises:
            UsageError: the query has no words, or the index cannot be used.
        """
        if not re.search(r"\w", query):
            raise UsageError("the search needs words", "Type what to look for, such as a name.")
        await self.refresh(within_s)
        self._searched_s = time.monotonic()
        asked = await self._query(query)
        return [_hit(each) for each in await self._ask(partial(self._reader.search, asked, limit, sources))]

    async def relevant_notes(self, words: str, notes: Sequence[Note]) -> Sequence[tuple[Note, float]]:
        """Return the notes that a message calls to mind, each with its relevance (0 to 1), the most relevant first.

        What is below `RELEVANT` is left out.
        """
        query = await self._query(words[:_MAX_MESSAGE_CHARS])
        return await self._ask(partial(self._relevant, query, notes))

    def _relevant(self, query: IndexQuery, notes: Sequence[Note]) -> Sequence[tuple[Note, float]]:
        asked = set(words_of(query.text))
        known = {note: set(words_of(note.text)) for note in notes}
        total, counts = self._reader.frequencies(asked.union(*known.values()))
        weights = _note_weights(total, counts, known.values())
        near = self._reader.nearness(query, SearchSource.MEMORY) if len(query.vector) else {}
        found = []
        for note, has in known.items():
            by_words = _relevance(asked, has, weights)
            found.append((note, max(by_words, min(1.0, near.get(_item_of(note), 0.0) / _SURE_DEVIATIONS))))
        return sorted((each for each in found if each[1] >= RELEVANT), key=lambda each: -each[1])

    async def refresh(self, within_s: float = UPDATE_LIMIT_S) -> None:
        """Bring the index up to date, for at most so long; the rest is done in the background."""
        is_idle = self._update is None or self._update.done()
        if is_idle and time.monotonic() - self._updated_s < _FRESH_S:
            return
        self._pace.set(0.0)
        task = self._begin_update()
        try:
            await asyncio.wait({task}, timeout=within_s)
        finally:  # whoever searches may have stopped waiting
            self._pace.set(_IDLE_REST if task.done() else _ASKED_REST)

    def start(self) -> None:
        """Index in the background from now on."""
        if self._idle is None:
            self._idle = asyncio.get_running_loop().create_task(self._keep_up())

    async def close(self) -> None:
        """Stop at once and let go of the index; idempotent."""
        self._pace.stop()
        for task in (self._idle, self._update, self._embedding):
            if task is not None:
                task.cancel()
                await asyncio.wait({task})
        await asyncio.to_thread(self._thread.shutdown)
        self._writer.close()
        self._reader.close()

    async def about(self) -> Mapping[str, int]:
        """Return how much is indexed; see `SearchIndex.counts`.  Raises `UsageError` where the index cannot be used."""
        return await self._ask(self._reader.counts)

    async def facts(self) -> str:
        """Return in a line what is indexed, empty where nothing is; no index is made for that."""
        if not self._reader.exists():
            return ""
        try:
            counts = await self.about()
        except UsageError as error:
            return sanitize_line(str(error))
        items = ", ".join(pluralize(counts[source], name) for source, name in _ITEM_NAMES.items() if counts.get(source))
        vectors = f", {counts['vectors']:,} with vectors" if self.embedder is not None or counts["vectors"] else ""
        problem = f"; {self.embedder.problem}" if self.embedder is not None and self.embedder.problem else ""
        chunks = pluralize(counts["chunks"], "chunk")
        return f"{items or 'nothing'} in {chunks}{vectors}, {counts['bytes'] / 1e6:.1f} MB{problem}"

    async def _ask(self, ask: Callable[[], T]) -> T:
        """Ask the index in a thread, once more where it was broken and is a new one now."""
        try:
            with contextlib.suppress(JobsError):
                return await asyncio.to_thread(ask)
            return await asyncio.to_thread(ask)
        except (JobsError, OSError) as error:
            hint = f"Check {self._reader.path}, or delete it: it is rebuilt."
            raise UsageError(f"could not use the search index: {error}", hint) from error

    async def _query(self, text: str) -> IndexQuery:
        """Return a query with its vector, where one is made at once."""
        vector = await self.embedder.of_query(text) if self.embedder is not None else ()
        return IndexQuery(text, vector, self.embedder.name if self.embedder is not None else "")

    async def _keep_up(self) -> None:
        await asyncio.sleep(_START_S)
        while True:
            began_s = time.monotonic()
            await asyncio.wait({self._begin_update()})
            if time.monotonic() - self._searched_s > _IDLE_S:
                self._reader.release()
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
            notes = await self._notes()
            await loop.run_in_executor(self._thread, self._index_notes, notes)
            await loop.run_in_executor(self._thread, self._index_sessions)
            paths, is_cut = await self._paths()
            await loop.run_in_executor(self._thread, self._index_files, paths, is_cut)
        except (OSError, LmtuiError) as error:
            problem = sanitize_line(str(error))
        if problem and problem != self.problem:
            _log.warning("indexing for the search failed: %s", problem)
        if not problem and self.embedder is not None and (self._embedding is None or self._embedding.done()):
            self._embedding = loop.create_task(self._make_vectors(self.embedder))
        self.problem = problem
        self._updated_s = time.monotonic()

    async def _make_vectors(self, embedder: Embedder) -> None:
        """Give vectors to the chunks that have none of this model and size; a failure is tried again after the next update."""
        sizes: set[str] = set()
        try:
            embedder.name = embedder.name or await self._ask(lambda: self._writer.newest_model(embedder.model))
            while len(sizes) < _MOST_SIZES:  # a server that answers with ever other sizes is left alone for a while
                name = embedder.name
                todo = await self._ask(partial(self._writer.without_vector, name, 20 * BATCH))
                for part in (todo[at : at + BATCH] for at in range(0, len(todo), BATCH)):
                    began_s = time.monotonic()
                    vectors = await embedder.of_documents([text for _, text in part])
                    found = zip(part, vectors, strict=False)
                    made = {number: vector for (number, _), vector in found if len(vector) == embedder.size}
                    await self._ask(partial(self._writer.put_vectors, embedder.name, made))
                    if embedder.name != name:
                        sizes.add(embedder.name)
                        break
                    if len(made) < len(part):
                        return
                    await asyncio.sleep(time.monotonic() - began_s)  # the server rests as long as it worked
                if not todo:
                    return
        except LmtuiError as error:
            self.problem = sanitize_line(str(error))

    def _index_notes(self, notes: Sequence[Note]) -> None:
        now = {_item_of(note): note.text for note in notes}
        states = {name: (0, len(text)) for name, text in now.items()}
        self._index(SearchSource.MEMORY, states, lambda name: [Chunk(1, 1, now[name])])

    def _index_sessions(self) -> None:
        store, home = SessionStore(self._workspace), self._workspace.resolve()
        ours = {name for name, known in known_sessions().items() if known == home}
        states: dict[str, State] = {}
        for path in store.paths():
            if path.stem in ours and not is_in_use(path):
                with contextlib.suppress(OSError):
                    state = path.lstat()
                    states[path.stem] = state.st_mtime_ns, state.st_size
        folder = sessions_dir(self._workspace)
        self._index(SearchSource.SESSION, states, lambda name: list(read_session(folder / f"{name}.jsonl")))

    def _index_files(self, paths: Sequence[str], is_cut: bool) -> None:
        wanted: dict[SearchSource, list[str]] = {SearchSource.DOC: [], SearchSource.CODE: []}
        for path in paths:
            if (source := source_of(path)) is not None and is_searched(path):
                wanted[source].append(path)
        for source, names in wanted.items():
            states = {path: each for path, each in plain_states(self._workspace, names).items() if each[1] <= MAX_FILE_BYTES}
            self._index(source, states, self._read_file, is_whole=not is_cut)

    def _read_file(self, path: str) -> list[Chunk]:
        try:
            data = read_plain(self._workspace, path, MAX_FILE_BYTES + 1) or b""
        except NotPlain:
            return []
        file = decode(data) if len(data) <= MAX_FILE_BYTES else None
        return [] if file is None or is_generated(file.text) else cut(path, file.text)

    def _index(
        self, source: SearchSource, now: Mapping[str, State], read: Callable[[str], list[Chunk]], *, is_whole: bool = True
    ) -> None:
        """Index the items of a source that are not as they were; those that are gone are taken out."""
        began_ns = time.time_ns()
        before = self._writer.states(source)
        gone = before.keys() - now.keys() if is_whole else ()
        for name in (*gone, *(name for name, state in now.items() if before.get(name) != state)):
            if self._pace.is_stopped:
                return
            with self._pace.work():
                if name in now:
                    read_ns = time.time_ns()
                    self._writer.put(source, name, now[name], read(name), read_ns)
                else:
                    self._writer.remove(source, name, began_ns)


def open_search(
    workspace: Workspace, notes: Callable[[], Awaitable[Sequence[Note]]], embed: Embed | None = None
) -> WorkspaceSearch:
    """Return the search of a workspace, which the caller closes.

    With `embed` the model of the role `embedder` makes vectors, where the settings name one.  Files that a rule forbids to read
    are not indexed.
    """

    async def paths() -> tuple[Sequence[str], bool]:
        found, is_cut = await (await workspace.sandbox()).listing.paths(MAX_PATHS)
        denied = [each for each in workspace.rules() if each.effect is Effect.DENY and each.names("read")]
        if denied:
            found = await asyncio.to_thread(lambda: [path for path in found if not any(rule.is_about(path) for rule in denied)])
        return found, is_cut

    model = parse_roles(workspace.config.roles).get(ModelRole.EMBEDDER, RoleModel()).model
    embedder = Embedder(model, embed) if model and embed is not None else None
    return WorkspaceSearch(workspace.workspace, paths, notes, embedder=embedder)


class _Pace:
    """Lets a thread rest for so many times as long as it worked."""

    def __init__(self) -> None:
        self._rest = _IDLE_REST
        self._changed = threading.Event()
        self.is_stopped = False

    def set(self, rest: float) -> None:
        """Change how long to rest, now too."""
        self._rest = rest
        self._changed.set()

    def stop(self) -> None:
        """End all rest; the work ends with the item under way."""
        self.is_stopped = True
        self._changed.set()

    @contextlib.contextmanager
    def work(self) -> Iterator[None]:
        """Rest behind a piece of work, by the processor time that it took."""
        began_s = time.thread_time()
        yield
        worked_s = time.thread_time() - began_s
        if self._rest and not self.is_stopped:
            self._changed.clear()
            self._changed.wait(worked_s * self._rest)


def is_searched(path: str) -> bool:
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
            if (head := _MESSAGE.match(line)) is None:
                continue
            try:
                event = json.loads(line)
                if head[1] == b"session_renamed":
                    title = sanitize_line(str(event["title"]))
                elif event["role"] == "user":
                    turns.append([str(event["text"]), ""])
                elif turns and str(event["text"]).strip():
                    turns[-1][1] = str(event["text"])
            except _BROKEN:
                continue
    for number, turn in enumerate(turns, 1):
        for text in filter(str.strip, turn):
            for at in range(0, min(len(text), 10 * MAX_CHUNK_CHARS), MAX_CHUNK_CHARS):
                yield Chunk(number, number, text[at : at + MAX_CHUNK_CHARS], title)


def _item_of(note: Note) -> str:
    """Return the name under which a note is in the index."""
    return f"{note.scope} {note.key}"


def _note_weights(total: int, counts: Mapping[str, int], notes: Collection[set[str]]) -> dict[str, float]:
    """Return what each word says: little where the workspace or the other notes are full of it."""
    least = max(total, _LEAST_CHUNKS)
    rare = rarities(least, counts)
    shared = Counter(word for has in notes for word in has)
    return {word: weight / math.sqrt(max(1, shared[word])) for word, weight in rare.items()}


def _relevance(asked: set[str], has: set[str], weights: Mapping[str, float]) -> float:
    """Return how much the words that a message and a note share say, the more where they are most of the one or the other."""
    strength = sum(weights[word] for word in asked & has)
    share = max(_share(asked & has, asked, weights), _share(asked & has, has, weights))
    is_telling = len(asked & has) > 1 or any(len(word) > _SHORT for word in asked & has)  # "go on" is about no note
    return min(1.0, strength * (0.5 + share)) if is_telling else 0.0


def _share(part: set[str], whole: set[str], weights: Mapping[str, float]) -> float:
    return sum(weights[word] for word in part) / (sum(weights[word] for word in whole) or 1.0)


def _hit(found: Found) -> SearchHit:
    place = f"{found.name}:{found.chunk.first}-{found.chunk.last}"
    if found.source in (SearchSource.MEMORY, SearchSource.SESSION):
        place = found.name.partition(" ")[0]
    return SearchHit(found.source, place, sanitize(found.chunk.text), round(found.score, 3), sanitize_line(found.chunk.title))
