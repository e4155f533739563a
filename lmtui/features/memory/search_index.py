"""The search index of a workspace: one SQLite file at user level, which may be deleted at any time.

Full text (FTS5: porter, bm25), and a vector for each text where a model makes some.  Both lists are merged by their
ranks.  A file that is broken, foreign or of another version is replaced by an empty one.
"""

from __future__ import annotations

import contextlib
import hashlib
import heapq
import json
import logging
import math
import re
import sqlite3
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import mul
from pathlib import Path

from lmtui.core.errors import JobsError
from lmtui.features.memory.chunks import Chunk, split_names, words_of
from lmtui.features.memory.values import SearchSource
from lmtui.store.index_file import IndexFile

_log = logging.getLogger(__name__)
_APPLICATION, _VERSION = 0x6C6D7478, 3
_RRF_K = 60  # Cormack, Clarke and Büttcher, "Reciprocal rank fusion", SIGIR 2009
_CANDIDATES, _RESCORED, _RANKED, _MOST_OF_ITEM = 150, 300, 50, 2
_MAX_QUERY_WORDS, _MAX_WORD_CHARS = 32, 100
_WEIGHTS = {SearchSource.MEMORY: 1.5, SearchSource.SESSION: 1.3, SearchSource.DOC: 1.3, SearchSource.CODE: 1.0}
_TEST_WEIGHT = 0.6
_TESTS = re.compile(r"(?:^|/)(?:tests?|spec|__tests__)/|(?:^|/)test_|_test\.|\.(?:test|spec)\.")
_NAME = re.compile(r"\w+(?:\.\w+)*")
_SCHEMA = """
CREATE TABLE item (id INTEGER PRIMARY KEY, source TEXT NOT NULL, name TEXT NOT NULL, mtime_ns INTEGER NOT NULL,
  size INTEGER NOT NULL, UNIQUE (source, name))|
CREATE TABLE chunk (id INTEGER PRIMARY KEY AUTOINCREMENT, item INTEGER NOT NULL REFERENCES item ON DELETE CASCADE,
  first INTEGER NOT NULL, last INTEGER NOT NULL, title TEXT NOT NULL, text TEXT NOT NULL, digest TEXT NOT NULL)|
CREATE VIEW place AS SELECT chunk.id, source, name, first, last, title, text, digest FROM chunk JOIN item ON item.id = item|
CREATE INDEX chunk_item ON chunk (item)|
CREATE INDEX chunk_digest ON chunk (digest)|
CREATE VIRTUAL TABLE words USING fts5 (source, title, body, tokenize="porter unicode61 remove_diacritics 2")|
CREATE TABLE vector (id INTEGER PRIMARY KEY AUTOINCREMENT, digest TEXT NOT NULL UNIQUE, model TEXT NOT NULL,
  signs BLOB NOT NULL, data BLOB NOT NULL)
"""

State = tuple[int, int]
"""When an item was changed last, in ns, and its size: one with the same is not read again."""


@dataclass(frozen=True, slots=True)
class Found:
    """A chunk that was found, and where."""

    source: SearchSource
    name: str
    chunk: Chunk


@dataclass(frozen=True, slots=True)
class IndexQuery:
    """What is looked for: the words, and where a model makes vectors the query's, with the model's name and size."""

    text: str
    vector: Sequence[float] = ()
    model: str = ""


class SearchIndex(IndexFile):
    """One connection to the index; `on_rebuilt` is called with a sentence when the file had to be replaced."""

    def __init__(self, path: Path, on_rebuilt: Callable[[str], object] = _log.warning) -> None:
        super().__init__(path.parent, path)
        self._on_rebuilt = on_rebuilt
        self._signs: tuple[str, list[int], list[int]] = ("", [], [])

    def prepare(self, database: sqlite3.Connection) -> None:
        for pragma in ("trusted_schema=OFF", "synchronous=NORMAL", "foreign_keys=ON"):
            database.execute(f"PRAGMA {pragma}")
        with database:
            database.execute("BEGIN IMMEDIATE")
            if not database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                marks = f"PRAGMA application_id = {_APPLICATION}", f"PRAGMA user_version = {_VERSION}"
                for statement in (*_SCHEMA.split("|"), *marks):
                    database.execute(statement)
            self.check(database)

    def check(self, database: sqlite3.Connection) -> None:
        marks = tuple(database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version"))
        if marks != (_APPLICATION, _VERSION):
            raise sqlite3.DatabaseError(f"it is of another program or version: {marks}")

    @contextlib.contextmanager
    def open(self) -> Iterator[sqlite3.Connection]:
        """Hold the database; one that turns out to be broken is replaced, and what was asked of it fails once."""
        self.make_folder()
        try:
            with super().open() as database:
                yield database
        except JobsError as error:
            name = getattr(error.__cause__, "sqlite_errorname", "")
            if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_FORMAT")):
                self._set_aside(self._inode)
            raise

    def _set_aside(self, inode: int) -> None:
        """Delete the file, unless another lmtui did so since it was opened."""
        if self.exists() and self.path.stat().st_ino == inode:
            for ending in ("", "-wal", "-shm", "-journal"):
                Path(f"{self.path}{ending}").unlink(missing_ok=True)
            self._on_rebuilt(f"The search index {self.path} could not be used and is being rebuilt.")

    def states(self, source: SearchSource) -> dict[str, State]:
        """Return the items of a source by name."""
        with self.open() as database:
            rows = database.execute("SELECT name, mtime_ns, size FROM item WHERE source = ?", (source,))
            return {name: (mtime_ns, size) for name, mtime_ns, size in rows}

    def put(self, source: SearchSource, name: str, state: State, chunks: Sequence[Chunk]) -> None:
        """Put an item in the place of what it was."""
        with self.writing() as database:
            _drop(database, source, name)
            sql = "INSERT INTO item (source, name, mtime_ns, size) VALUES (?, ?, ?, ?)"
            item = database.execute(sql, (source, name, *state)).lastrowid
            for chunk in chunks:
                title, text = _storable(chunk.title), _storable(chunk.text)
                digest = hashlib.sha256("\0".join((name, title, text)).encode("utf-8", "replace")).hexdigest()[:32]
                sql = "INSERT INTO chunk (item, first, last, title, text, digest) VALUES (?, ?, ?, ?, ?, ?)"
                number = database.execute(sql, (item, chunk.first, chunk.last, title, text, digest)).lastrowid
                row = number, source, split_names(f"{name} {title}"), split_names(text)
                database.execute("INSERT INTO words (rowid, source, title, body) VALUES (?, ?, ?, ?)", row)

    def remove(self, source: SearchSource, name: str) -> None:
        with self.writing() as database:
            _drop(database, source, name)

    def search(self, query: IndexQuery, limit: int, sources: Collection[SearchSource] = ()) -> list[Found]:
        """Return the best chunks, at most two of an item, the best first."""
        with self.open() as database:
            by_words = _by_words(database, query.text, sources)
            by_vector = self._by_vector(database, query, sources) if len(query.vector) else {}
            found = _look_up(database, {*by_words, *by_vector})
        merged: dict[int, float] = {}
        for scores in (by_words, by_vector):
            weighed = {number: score * _weight(found[number]) for number, score in scores.items()}
            for rank, number in enumerate(heapq.nlargest(_RANKED, weighed, key=weighed.__getitem__), 1):
                merged[number] = merged.get(number, 0.0) + 1 / (_RRF_K + rank)
        best: list[Found] = []
        for number in sorted(merged, key=merged.__getitem__, reverse=True):
            if len(best) < limit and sum(other.name == found[number].name for other in best) < _MOST_OF_ITEM:
                best.append(found[number])
        return best

    def _by_vector(
        self, database: sqlite3.Connection, query: IndexQuery, sources: Collection[SearchSource]
    ) -> dict[int, float]:
        """Return the chunks whose vectors are nearest to the query's with their cosines.

        All signs are compared in memory (a vector of 768 numbers takes some 200 bytes there, 100,000 of them about 20 ms), and
        the vectors that differ in the fewest as a whole.
        """
        model, numbers, known = self._signs if self._signs[0] == query.model else (query.model, [], [])
        self._signs = model, numbers, known
        sql = "SELECT id, signs FROM vector WHERE model = ? AND id > ? ORDER BY id"
        for number, signs in database.execute(sql, (model, numbers[-1] if numbers else 0)):
            numbers.append(number)
            known.append(int.from_bytes(signs, "big"))
        wanted = quantise(query.vector)
        bits = int.from_bytes(_signs_of(wanted), "big")
        distances: Iterable[tuple[int, int]] = zip([(bits ^ each).bit_count() for each in known], numbers, strict=True)
        if sources:
            sql = "SELECT vector.id FROM place JOIN vector USING (digest) WHERE source IN (SELECT value FROM json_each(?))"
            allowed = {number for (number,) in database.execute(sql, (json.dumps([*sources]),))}
            distances = (pair for pair in distances if pair[1] in allowed)
        near = heapq.nsmallest(_RESCORED, distances)
        sql = "SELECT place.id, source, data FROM place JOIN vector USING (digest) \
WHERE vector.id IN (SELECT value FROM json_each(?))"
        rows = database.execute(sql, (json.dumps([number for _, number in near]),))
        return {number: _cosine(wanted, data) for number, source, data in rows if not sources or source in sources}

    def recall(self, text: str) -> dict[str, float]:
        """Return the notes that have words of a text, each with its bm25 as a share of the most that one word can give."""
        if not (wanted := _matching(text)):
            return {}
        with self.open() as database:
            total = database.execute("SELECT count(*) FROM chunk").fetchone()[0]
            sql = "SELECT name, -bm25(words, 0.0, 0.0, 1.0) FROM words JOIN place ON id = words.rowid WHERE words MATCH ?"
            rows = database.execute(sql, (f"source : memory AND body : ({wanted})",)).fetchall()
            return {name: score / math.log(total + 2) for name, score in rows}

    def without_vector(self, model: str, most: int) -> list[tuple[int, str]]:
        """Return chunks that have no vector of this model (notes first), each with what is to be embedded.

        Once all have one, those of texts that are gone are deleted.
        """
        with self.open() as database:
            sql = "SELECT id, iif(source IN ('doc', 'code'), name, ''), title, substr(text, 1, 600) FROM place \
WHERE NOT EXISTS (SELECT 1 FROM vector WHERE digest = place.digest AND model = ?) \
ORDER BY source = 'memory' DESC, source = 'session' DESC, id LIMIT ?"
            rows = database.execute(sql, (model, most)).fetchall()
            if not rows:
                database.execute("DELETE FROM vector WHERE digest NOT IN (SELECT digest FROM chunk)")
            return [(number, "\n".join(filter(None, texts))) for number, *texts in rows]

    def newest_model(self, model: str) -> str:
        """Return the name with which vectors of a model were put in last, empty where there are none."""
        with self.open() as database:
            sql = "SELECT model FROM vector WHERE substr(model, 1, ?) = ? ORDER BY id DESC LIMIT 1"
            row = database.execute(sql, (len(model) + 1, f"{model}/")).fetchone()
            return str(row[0]) if row else ""

    def put_vectors(self, model: str, vectors: Mapping[int, Sequence[float]]) -> None:
        """Keep the vectors of chunks; those of another model, or of another size, give way."""
        sql = "INSERT OR REPLACE INTO vector (model, signs, data, digest) SELECT ?, ?, ?, digest FROM chunk WHERE id = ?"
        with self.writing() as database:
            for number, vector in vectors.items():
                data = quantise(vector)
                database.execute(sql, (model, _signs_of(data), data.tobytes(), number))

    def counts(self) -> dict[str, int]:
        """Return how much is in it: items of each source, `chunks`, `vectors`, `bytes`."""
        with self.open() as database:
            found = dict(database.execute("SELECT source, count(*) FROM item GROUP BY source").fetchall())
            found |= database.execute(
                "SELECT 'chunks', count(*) FROM chunk UNION SELECT 'vectors', count(*) FROM vector"
            ).fetchall()
            return {**found, "bytes": self.path.stat().st_size}

    def release(self) -> None:
        """Free the vectors in memory; they are read again when they are needed."""
        self._signs = ("", [], [])

    def close(self) -> None:
        self.release()
        super().close()


def _matching(text: str) -> str:
    """Return what FTS5 looks for: any of the words, and a name as a whole too."""
    phrases: dict[str, None] = {}
    for name in _NAME.findall(text)[:_MAX_QUERY_WORDS]:
        words = words_of(name[:_MAX_WORD_CHARS])
        phrases |= dict.fromkeys([split_names(name[:_MAX_WORD_CHARS]), *words] if len(words) > 1 else words)
    return " OR ".join(f'"{phrase}"' for phrase in phrases)


def _storable(text: str) -> str:
    """Return a text without halves of characters, which SQLite does not take."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _drop(database: sqlite3.Connection, source: SearchSource, name: str) -> None:
    for row in database.execute("SELECT id FROM item WHERE source = ? AND name = ?", (source, name)).fetchall():
        database.execute("DELETE FROM words WHERE rowid IN (SELECT id FROM chunk WHERE item = ?)", row)
        database.execute("DELETE FROM item WHERE id = ?", row)


def _by_words(database: sqlite3.Connection, text: str, sources: Collection[SearchSource]) -> dict[int, float]:
    """Return the best chunks with any of the words, each with its bm25 (more is better)."""
    if not (wanted := _matching(text)):
        return {}
    among = f"source : ({' OR '.join(sources)}) AND " if sources else ""
    sql = "SELECT rowid, -bm25(words, 0.0, 3.0, 1.0) AS score FROM words WHERE words MATCH ? ORDER BY score DESC LIMIT ?"
    return dict(database.execute(sql, (f"{among}{{title body}} : ({wanted})", _CANDIDATES)).fetchall())


def _look_up(database: sqlite3.Connection, numbers: Collection[int]) -> dict[int, Found]:
    sql = "SELECT id, source, name, first, last, text, title FROM place WHERE id IN (SELECT value FROM json_each(?))"
    rows = database.execute(sql, (json.dumps([*numbers]),))
    return {number: Found(SearchSource(source), name, Chunk(*chunk)) for number, source, name, *chunk in rows}


def _weight(found: Found) -> float:
    """Return what a chunk counts by what it is: what was written to be read counts most, tests least."""
    is_test = found.source is SearchSource.CODE and _TESTS.search(found.name) is not None
    return _WEIGHTS[found.source] * (_TEST_WEIGHT if is_test else 1.0)


def quantise(vector: Sequence[float]) -> array[int]:
    """Return a vector of length 127 with whole numbers; all 0 where it has no direction."""
    length = math.sqrt(math.fsum(each * each for each in vector))
    return array("b", (round(127 * each / length) for each in vector) if length else bytes(len(vector)))


def _signs_of(data: array[int]) -> bytes:
    """Return a bit for each number, set where it is above 0."""
    bits = int("".join("1" if each > 0 else "0" for each in data) or "0", 2)
    return bits.to_bytes((len(data) + 7) // 8, "big")


def _cosine(wanted: array[int], data: bytes) -> float:
    return float(sum(map(mul, wanted, array("b", data)))) / (127 * 127)
