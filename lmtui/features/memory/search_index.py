"""The search index of a workspace: one SQLite file at user level, which may be deleted at any time.

Full text (FTS5, bm25) over the words of `chunks.words_of`, and a vector for each chunk where a model makes some.  Both
lists are merged by their ranks.  A file that is broken, foreign or of another version is replaced by an empty one.
"""

from __future__ import annotations

import contextlib
import fcntl
import heapq
import json
import logging
import math
import os
import re
import sqlite3
import statistics
import threading
import time
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import mul
from pathlib import Path

from lmtui.core.memory_values import SearchSource
from lmtui.features.memory.chunks import Chunk, names_of, words_of

_log = logging.getLogger(__name__)
_APPLICATION, _VERSION = 0x6C6D7478, 1
_BUSY_S = 5.0
_RRF_K = 60  # Cormack, Clarke and Büttcher, "Reciprocal rank fusion", SIGIR 2009
_LEAST_CANDIDATES, _RESCORED = 50, 150
_MAX_QUERY_WORDS = 32
_ABOUT_CHARS = 400
_SAMPLE, _LEAST_SAMPLE = 300, 30
_BASE, _DEFINES = 0.3, 2.0
_MOST_OF_ITEM = 2
_WEIGHTS = {SearchSource.MEMORY: 1.5, SearchSource.SESSION: 1.3, SearchSource.DOC: 1.3, SearchSource.CODE: 1.0}
_TEST_WEIGHT = 0.6
_TESTS = re.compile(r"(?:^|/)(?:tests?|spec|__tests__)/|(?:^|/)test_|_test\.|\.(?:test|spec)\.")
_COMMON, _FEW = 0.25, 5_000
_SCHEMA = f"""
CREATE TABLE item (id INTEGER PRIMARY KEY, source TEXT NOT NULL, name TEXT NOT NULL, about TEXT NOT NULL,
  mtime_ns INTEGER NOT NULL, size INTEGER NOT NULL, read_ns INTEGER NOT NULL, UNIQUE (source, name));
CREATE TABLE chunk (id INTEGER PRIMARY KEY AUTOINCREMENT, item INTEGER NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,
  title TEXT NOT NULL, text TEXT NOT NULL);
CREATE INDEX chunk_item ON chunk (item);
CREATE VIRTUAL TABLE words USING fts5 (source, title, about, body, content='',
  tokenize="unicode61 remove_diacritics 0 tokenchars '_.'");
CREATE VIRTUAL TABLE vocabulary USING fts5vocab (words, 'row');
CREATE TABLE vector (seq INTEGER PRIMARY KEY AUTOINCREMENT, chunk INTEGER NOT NULL UNIQUE, model TEXT NOT NULL,
  signs BLOB NOT NULL, data BLOB NOT NULL);
PRAGMA application_id = {_APPLICATION};
PRAGMA user_version = {_VERSION};
"""

State = tuple[int, int]
"""When an item was changed last, in ns, and its size: one with the same is not read again."""


@dataclass(frozen=True, slots=True)
class Found:
    """A chunk that was found; `score` is the share of the query's words that it has, the rare ones counting more."""

    source: SearchSource
    name: str
    chunk: Chunk
    score: float


@dataclass(frozen=True, slots=True)
class IndexQuery:
    """What is looked for: the words, and where a model makes vectors the query's, with the model's name and size."""

    text: str
    vector: Sequence[float] = ()
    model: str = ""


class SearchIndex:
    """One connection to the index; safe to use from several threads and processes.  All methods block (disk).

    Args:
        path: the file; it and its folder are made when they are needed.
        on_rebuilt: called with a sentence when the file had to be replaced.

    Methods raise `sqlite3.Error` or `OSError` where the file cannot be used.
    """

    def __init__(self, path: Path, on_rebuilt: Callable[[str], object] = _log.warning) -> None:
        self.path = path
        self._on_rebuilt = on_rebuilt
        self._lock = threading.RLock()
        self._database: sqlite3.Connection | None = None
        self._inode = 0
        self._signs = _Signs()

    def states(self, source: SearchSource) -> dict[str, State]:
        """Return the items of a source by name."""
        with self._open() as database:
            rows = database.execute("SELECT name, mtime_ns, size FROM item WHERE source = ?", (source,))
            return {name: (mtime_ns, size) for name, mtime_ns, size in rows}

    def put(self, source: SearchSource, name: str, state: State, chunks: Sequence[Chunk], read_ns: int) -> None:
        """Put an item in the place of what it was; `read_ns` is when it was read: of two versions the one read later stays."""
        with self._writing() as database:
            before = _drop(database, source, name, read_ns)
            if before is None:
                return
            about = _storable(chunks[0].text[:_ABOUT_CHARS]) if len(chunks) > 1 else ""
            row = (source, name, about, *state, read_ns)
            item = database.execute(
                "INSERT INTO item (source, name, about, mtime_ns, size, read_ns) VALUES (?, ?, ?, ?, ?, ?)", row
            ).lastrowid
            for chunk in chunks:
                values = (item, chunk.first, chunk.last, _storable(chunk.title), _storable(chunk.text))
                number = database.execute("INSERT INTO chunk (item, first, last, title, text) VALUES (?, ?, ?, ?, ?)", values)
                if (vector := before.get(values[3:])) is not None:
                    database.execute(
                        "INSERT INTO vector (chunk, model, signs, data) VALUES (?, ?, ?, ?)", (number.lastrowid, *vector)
                    )
                words = (number.lastrowid, source, *_columns(name, values[3], about, values[4]))
                database.execute("INSERT INTO words (rowid, source, title, about, body) VALUES (?, ?, ?, ?, ?)", words)

    def remove(self, source: SearchSource, names: Iterable[str], read_ns: int) -> None:
        """Take out items that were gone at a time, as far as they were not put in since."""
        for name in names:
            with self._writing() as database:
                _drop(database, source, name, read_ns)

    def search(self, query: IndexQuery, limit: int, sources: Collection[SearchSource] = ()) -> list[Found]:
        """Return the best chunks, at most two of an item, the best first."""
        words = list(dict.fromkeys(words_of(query.text)))[:_MAX_QUERY_WORDS]
        most = max(2 * limit, _LEAST_CANDIDATES)
        named = names_of(query.text)
        with self._open() as database:
            total, counts = _frequencies(database, words)
            rarity = rarities(total, counts)
            by_words = _by_words(database, _telling(rarity, counts), 3 * most, sources)
            by_vector = self._signs.nearest(database, query, most, sources) if len(query.vector) else {}
            found = {each: _look_up(database, each, rarity) for each in by_words}
            weighed = {
                each: bm25
                * (_BASE + found[each].score)
                * _weight(found[each].source, found[each].name)
                * (_DEFINES if named and named & _names_in(found[each].chunk.title) else 1.0)
                for each, bm25 in by_words.items()
            }
            merged: dict[int, float] = {}
            for rank, each in enumerate(sorted(weighed, key=lambda each: -weighed[each])[:most], 1):
                sure = 2 * found[each].score ** 2 if by_vector else 1.0  # where few of the words are met, meaning counts more
                merged[each] = sure / (_RRF_K + rank)
            for rank, each in enumerate(by_vector, 1):
                merged[each] = merged.get(each, 0.0) + 1 / (_RRF_K + rank)
            best: list[Found] = []
            for each in sorted(merged, key=lambda each: -merged[each]):
                hit = found.get(each) or _look_up(database, each, rarity)
                if sum(other.name == hit.name for other in best) < _MOST_OF_ITEM:
                    best.append(replace(hit, score=max(hit.score, min(1.0, by_vector.get(each, 0.0)))))
                if len(best) == limit:
                    break
            return best

    def nearness(self, query: IndexQuery, source: SearchSource) -> dict[str, float]:
        """Return how much nearer the items of a source are to a query than what is indexed on the whole.

        It is counted in standard deviations, as each model has its own cosines for texts that have nothing in common.
        """
        with self._open() as database:
            wanted = quantise(query.vector)
            last = database.execute("SELECT max(seq) FROM vector").fetchone()[0] or 0
            sample = json.dumps([*range(1, last + 1, max(1, last // _SAMPLE))])
            sql = "SELECT data FROM vector WHERE seq IN (SELECT value FROM json_each(?)) AND model = ?"
            usual = [_cosine(wanted, data) for (data,) in database.execute(sql, (sample, query.model))]
            if len(usual) < _LEAST_SAMPLE:
                return {}
            mean, deviation = statistics.mean(usual), max(statistics.pstdev(usual), 0.01)
            rows = database.execute(
                "SELECT name, data FROM item JOIN chunk ON item = item.id JOIN vector ON chunk = chunk.id "
                "WHERE source = ? AND model = ?",
                (source, query.model),
            )
            return {name: (_cosine(wanted, data) - mean) / deviation for name, data in rows}

    def without_vector(self, model: str, most: int) -> list[tuple[int, str]]:
        """Return chunks that have no vector of this model (notes first), each with what is to be embedded."""
        with self._open() as database:
            rows = database.execute(
                "SELECT chunk.id, iif(source IN ('doc', 'code'), name, ''), title, substr(about, 1, 200), substr(text, 1, 400) "
                "FROM chunk JOIN item ON item.id = item "
                "WHERE NOT EXISTS (SELECT 1 FROM vector WHERE chunk = chunk.id AND model = ?) "
                "ORDER BY source = 'memory' DESC, source = 'session' DESC, chunk.id LIMIT ?",
                (model, most),
            )
            return [(number, "\n".join(filter(None, texts))) for number, *texts in rows]

    def newest_model(self, model: str) -> str:
        """Return the name with which vectors of a model were put in last, empty where there are none."""
        with self._open() as database:
            name = f"{model}/"
            row = database.execute(
                "SELECT model FROM vector WHERE substr(model, 1, ?) = ? ORDER BY seq DESC LIMIT 1", (len(name), name)
            ).fetchone()
            return str(row[0]) if row else ""

    def put_vectors(self, model: str, vectors: Mapping[int, Sequence[float]]) -> None:
        """Keep the vectors of chunks; those of another model, or of another size, give way."""
        with self._writing() as database:
            for number, vector in vectors.items():
                data = quantise(vector)
                row = (model, _signs_of(data), data.tobytes(), number)
                database.execute(
                    "INSERT OR REPLACE INTO vector (model, signs, data, chunk) SELECT ?, ?, ?, id FROM chunk WHERE id = ?", row
                )

    def counts(self) -> dict[str, int]:
        """Return how much is in it: items of each source, `chunks`, `vectors`, `bytes`."""
        with self._open() as database:
            found = dict(database.execute("SELECT source, count(*) FROM item GROUP BY source").fetchall())
            found["chunks"] = database.execute("SELECT count(*) FROM chunk").fetchone()[0]
            found["vectors"] = database.execute("SELECT count(*) FROM vector").fetchone()[0]
            return {**found, "bytes": self.path.stat().st_size}

    def frequencies(self, words: Iterable[str]) -> tuple[int, dict[str, int]]:
        """Return the number of chunks, and in how many of them each word is."""
        with self._open() as database:
            return _frequencies(database, words)

    def release(self) -> None:
        """Free the vectors in memory; they are read again when they are needed."""
        with self._lock:
            self._signs = _Signs()

    def close(self) -> None:
        """Let go of the file; idempotent."""
        with self._lock:
            self.release()
            if self._database is not None:
                self._database.close()
                self._database = None

    @contextlib.contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._open() as database, database:
            database.execute("BEGIN IMMEDIATE")
            yield database

    @contextlib.contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """Hold the database; one that turns out to be broken is replaced, and what was asked of it fails once."""
        with self._lock:
            if self._database is not None and _inode(self.path) != self._inode:
                self.close()  # it was deleted, or another lmtui replaced it
            if self._database is None:
                self._connect()
            assert self._database is not None
            try:
                yield self._database
            except sqlite3.DatabaseError as error:
                if _is_broken(error):
                    self._replace(str(error))
                raise

    def _connect(self) -> None:
        try:
            self._database = _connected(self.path)
        except sqlite3.DatabaseError as error:
            if not _is_broken(error):
                raise
            self._replace(str(error))
            self._database = _connected(self.path)
        self._inode = _inode(self.path)

    def _replace(self, why: str) -> None:
        """Delete the file, unless another lmtui did so since it was opened."""
        before = self._inode or _inode(self.path)
        self.close()
        with self.path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if _inode(self.path) != before:
                return
            for ending in ("", "-wal", "-shm", "-journal"):
                Path(f"{self.path}{ending}").unlink(missing_ok=True)
        self._inode = 0
        self._on_rebuilt(f"The search index {self.path} could not be used ({why}) and is being rebuilt.")


class _OtherFile(sqlite3.DatabaseError):
    """The file is another program's, or another version's."""


def _is_broken(error: sqlite3.DatabaseError) -> bool:
    """Tell whether an error says that the file is broken, and not that it is locked or the disk full."""
    name = getattr(error, "sqlite_errorname", "")
    is_shape = isinstance(error, sqlite3.OperationalError) and ("no such" in str(error) or "no column" in str(error))
    return isinstance(error, _OtherFile) or is_shape or name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_FORMAT"))


def _connected(path: Path) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    database = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
    with contextlib.ExitStack() as on_failure:
        on_failure.callback(database.close)
        end_s = time.monotonic() + _BUSY_S
        while True:
            try:
                for pragma in ("trusted_schema=OFF", "journal_mode=WAL", "synchronous=NORMAL"):
                    database.execute(f"PRAGMA {pragma}")
                break
            except sqlite3.OperationalError as error:  # SQLite does not wait for another process here
                if "locked" not in str(error) or time.monotonic() > end_s:
                    raise
                time.sleep(0.02)
        with database:
            database.execute("BEGIN IMMEDIATE")
            marks = tuple(database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version"))
            if marks == (0, 0) and not database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                for statement in filter(str.strip, _SCHEMA.split(";")):
                    database.execute(statement)
            elif marks != (_APPLICATION, _VERSION):
                raise _OtherFile(f"it is of another program or version: {marks}")
        on_failure.pop_all()
    return database


def _inode(path: Path) -> int:
    try:
        return path.stat().st_ino
    except OSError:
        return 0


def _storable(text: str) -> str:
    """Return a text without halves of characters, which SQLite does not take."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _columns(name: str, title: str, about: str, text: str) -> list[str]:
    return [" ".join(words_of(each)) for each in (f"{name} {title}", about, text)]


def _drop(
    database: sqlite3.Connection, source: SearchSource, name: str, read_ns: int
) -> dict[tuple[object, ...], tuple[object, ...]] | None:
    """Take an item out and return the vectors of its chunks by title and text; None where what is there was read later."""
    row = database.execute("SELECT id, read_ns, about FROM item WHERE source = ? AND name = ?", (source, name)).fetchone()
    if row is None:
        return {}
    if row[1] > read_ns:
        return None
    vectors: dict[tuple[object, ...], tuple[object, ...]] = {}
    for number, title, text in database.execute("SELECT id, title, text FROM chunk WHERE item = ?", (row[0],)).fetchall():
        words = (number, source, *_columns(name, title, row[2], text))
        database.execute("INSERT INTO words (words, rowid, source, title, about, body) VALUES ('delete', ?, ?, ?, ?, ?)", words)
        for vector in database.execute("DELETE FROM vector WHERE chunk = ? RETURNING model, signs, data", (number,)).fetchall():
            vectors[title, text] = vector
    database.execute("DELETE FROM chunk WHERE item = ?", (row[0],))
    database.execute("DELETE FROM item WHERE id = ?", (row[0],))
    return vectors


def _frequencies(database: sqlite3.Connection, words: Iterable[str]) -> tuple[int, dict[str, int]]:
    total = database.execute("SELECT count(*) FROM chunk").fetchone()[0]
    rows = [(word, database.execute("SELECT doc FROM vocabulary WHERE term = ?", (word,)).fetchone()) for word in words]
    return total, {word: row[0] if row else 0 for word, row in rows}


def rarities(total: int, frequencies: Mapping[str, int]) -> dict[str, float]:
    """Return how rare words are, from 0 (each chunk has it) to 1 (none has)."""
    scale = math.log(total + 2)
    return {word: math.log((total + 2) / (count + 1)) / scale for word, count in frequencies.items()}


def _telling(rarity: Mapping[str, float], counts: Mapping[str, int]) -> list[str]:
    """Return the words to look for: those that a large part of many chunks have tell nothing, and take most of the time."""
    by_rarity = sorted(rarity, key=lambda word: -rarity[word])
    return by_rarity[:2] + [word for word in by_rarity[2:] if rarity[word] > _COMMON or counts[word] < _FEW]


def _by_words(
    database: sqlite3.Connection, words: Iterable[str], most: int, sources: Collection[SearchSource]
) -> dict[int, float]:
    """Return the best chunks with any of the words, each with its bm25 (more is better)."""
    wanted = " OR ".join(f'"{word}"' for word in words)
    if not wanted:
        return {}
    match = f"{{title about body}} : ({wanted})"
    if sources:
        match = f"source : ({' OR '.join(sources)}) AND {match}"
    rows = database.execute(
        "SELECT rowid, -bm25(words, 0.0, 3.0, 1.0, 1.0) AS score FROM words WHERE words MATCH ? ORDER BY score DESC LIMIT ?",
        (match, most),
    )
    return dict(rows.fetchall())


def _look_up(database: sqlite3.Connection, number: int, rarity: Mapping[str, float]) -> Found:
    row = database.execute(
        "SELECT source, name, about, first, last, title, text FROM chunk JOIN item ON item.id = item WHERE chunk.id = ?",
        (number,),
    ).fetchone()
    source, name, about, first, last, title, text = row
    has = set(words_of(f"{name} {title} {about} {text}"))
    score = sum(weight for word, weight in rarity.items() if word in has) / (sum(rarity.values()) or 1.0)
    return Found(SearchSource(source), name, Chunk(first, last, text, title), score)


def _names_in(title: str) -> set[str]:
    """Return the names that a chunk defines, with what is around them and without."""
    return {each for name in title.split() for each in (name, name.rpartition(".")[2])}


def _weight(source: SearchSource, name: str) -> float:
    """Return what a chunk counts by what it is: what was written to be read counts most, tests least."""
    is_test = source is SearchSource.CODE and _TESTS.search(name) is not None
    return _WEIGHTS[source] * (_TEST_WEIGHT if is_test else 1.0)


def quantise(vector: Sequence[float]) -> array[int]:
    """Return a vector of length 127 with whole numbers; all 0 where it has no direction."""
    length = math.sqrt(math.fsum(each * each for each in vector))
    return array("b", (round(127 * each / length) for each in vector) if length else bytes(len(vector)))


def _signs_of(data: array[int]) -> bytes:
    """Return a bit for each number, set where it is above 0."""
    bits = 0
    for each in data:
        bits = bits << 1 | (each > 0)
    return bits.to_bytes((len(data) + 7) // 8, "big")


def _cosine(wanted: array[int], data: bytes) -> float:
    return float(sum(map(mul, wanted, array("b", data)))) / (127 * 127)


class _Signs:
    """The signs of all vectors of one model, in memory: the vectors that differ in the fewest are then compared as a whole.

    A vector of 768 numbers takes some 200 bytes.  Python counts the different bits of 100,000 of them in about 20 ms.
    """

    def __init__(self) -> None:
        self._model = ""
        self._last = 0
        self._groups: dict[tuple[str, float], tuple[list[int], list[int]]] = {}

    def nearest(
        self, database: sqlite3.Connection, query: IndexQuery, most: int, sources: Collection[SearchSource]
    ) -> dict[int, float]:
        """Return the chunks whose vectors are nearest to the query's with their cosines, the nearest first."""
        self._load(database, query.model)
        wanted = quantise(query.vector)
        signs = int.from_bytes(_signs_of(wanted), "big")
        near: list[tuple[float, float, int]] = []
        for (source, weight), (numbers, known) in self._groups.items():
            if not sources or source in sources:
                distances = [(signs ^ each).bit_count() for each in known]
                nearest = heapq.nsmallest(_RESCORED, zip(distances, numbers, strict=True))
                near += [(math.cos(math.pi * bits / len(wanted)) * weight, weight, number) for bits, number in nearest]
        weights = {number: weight for _, weight, number in heapq.nlargest(_RESCORED, near)}
        rows = database.execute(
            "SELECT chunk, data FROM vector WHERE chunk IN (SELECT value FROM json_each(?)) AND model = ?",
            (json.dumps([*weights]), query.model),
        )
        found = {number: _cosine(wanted, data) for number, data in rows}
        return {each: found[each] for each in heapq.nlargest(most, found, key=lambda each: found[each] * weights[each])}

    def _load(self, database: sqlite3.Connection, model: str) -> None:
        """Read the vectors that came since; those that went are left out when they are compared."""
        if model != self._model:
            self._model, self._last, self._groups = model, 0, {}
        rows = database.execute(
            "SELECT seq, chunk, signs, source, name FROM vector JOIN chunk ON chunk.id = chunk JOIN item ON item.id = item "
            "WHERE model = ? AND seq > ? ORDER BY seq",
            (model, self._last),
        )
        for seq, number, signs, source, name in rows:
            numbers, known = self._groups.setdefault((source, _weight(SearchSource(source), name)), ([], []))
            numbers.append(number)
            known.append(int.from_bytes(signs, "big"))
            self._last = seq
