"""The search index of a workspace: one SQLite file at user level, which may be deleted at any time.

Full text (FTS5: porter, bm25), and a vector for each text where a model makes some.  Both lists are
merged by their ranks.  A file that is broken, foreign or of another version is replaced by an empty
one.
"""

from __future__ import annotations

import hashlib
import heapq
import json
import logging
import math
import re
import sqlite3
from array import array
from collections.abc import Collection, Mapping, Sequence
from operator import mul
from pathlib import Path
from typing import Any

from lmtui.core.sanitize import sanitize, sanitize_line
from lmtui.features.memory.chunks import Chunk, split_names, words_of
from lmtui.features.memory.values import SearchHit, SearchSource
from lmtui.store.index_file import IndexFile, transaction

_log = logging.getLogger(__name__)
_APPLICATION, _VERSION = 0x6C6D7478, 4
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
CREATE TABLE chunk (id INTEGER PRIMARY KEY, item INTEGER NOT NULL REFERENCES item ON DELETE CASCADE,
  first INTEGER NOT NULL, last INTEGER NOT NULL, text TEXT NOT NULL, title TEXT NOT NULL, digest TEXT NOT NULL)|
CREATE VIEW place AS SELECT chunk.id, item, source, name, first, last, text, title, digest
  FROM chunk JOIN item ON item.id = item|
CREATE INDEX chunk_item ON chunk (item)|
CREATE INDEX chunk_digest ON chunk (digest)|
CREATE VIRTUAL TABLE words USING fts5 (source, title, body, tokenize="porter unicode61 remove_diacritics 2")|
CREATE TABLE vector (id INTEGER PRIMARY KEY AUTOINCREMENT, digest TEXT NOT NULL UNIQUE, model TEXT NOT NULL,
  signs BLOB NOT NULL, data BLOB NOT NULL)
"""

Sources = Collection[SearchSource]
Vector = Sequence[float]
State = tuple[int, int]
"""When an item was changed last, in ns, and its size: one with the same is not read again."""


class SearchIndex(IndexFile):
    """One connection to the index."""

    def __init__(self, path: Path) -> None:
        super().__init__(path.parent, path)
        self._signs: dict[int, int] = {}

    def prepare(self, database: sqlite3.Connection) -> None:
        for pragma in ("trusted_schema=OFF", "synchronous=NORMAL", "foreign_keys=ON"):
            database.execute(f"PRAGMA {pragma}")
        with transaction(database):
            if not database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                marks = f"PRAGMA application_id = {_APPLICATION}", f"PRAGMA user_version = {_VERSION}"
                for statement in (*_SCHEMA.split("|"), *marks):
                    database.execute(statement)
            self.check(database)

    def check(self, database: sqlite3.Connection) -> None:
        marks = tuple(database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version"))
        if marks != (_APPLICATION, _VERSION):
            raise sqlite3.DatabaseError(f"it is of another program or version: {marks}")

    def _connect(self) -> sqlite3.Connection:
        self.make_folder()
        return super()._connect()

    def _set_aside(self, inode: int) -> None:
        """Delete the file, unless another lmtui did so since it was opened."""
        if self.exists() and self.path.stat().st_ino == inode:
            for ending in ("", "-wal", "-shm", "-journal"):
                Path(f"{self.path}{ending}").unlink(missing_ok=True)
            _log.warning("The search index %s could not be used and is being rebuilt.", self.path)

    def states(self, source: SearchSource) -> dict[str, State]:
        """Return the items of a source by name."""
        with self.open() as database:
            rows = database.execute("SELECT name, mtime_ns, size FROM item WHERE source = ?", (source,))
            return {name: (mtime_ns, size) for name, mtime_ns, size in rows}

    def put(self, source: SearchSource, name: str, state: State | None, chunks: Sequence[Chunk] = ()) -> None:
        """Put an item in the place of what it was; without a state it is taken out."""
        with self.writing() as database:
            for row in database.execute("SELECT id FROM item WHERE source = ? AND name = ?", (source, name)).fetchall():
                database.execute("DELETE FROM words WHERE rowid IN (SELECT id FROM chunk WHERE item = ?)", row)
                database.execute("DELETE FROM item WHERE id = ?", row)
            if state is None:
                return
            sql = "INSERT INTO item (source, name, mtime_ns, size) VALUES (?, ?, ?, ?)"
            item = database.execute(sql, (source, name, *state)).lastrowid
            for chunk in chunks:
                title, text = (part.encode("utf-8", "replace").decode() for part in (chunk.title, chunk.text))
                digest = hashlib.sha256("\0".join((name, title, text)).encode("utf-8", "replace")).hexdigest()[:32]
                sql = "INSERT INTO chunk (item, first, last, text, title, digest) VALUES (?, ?, ?, ?, ?, ?)"
                number = database.execute(sql, (item, chunk.first, chunk.last, text, title, digest)).lastrowid
                row = number, source, split_names(f"{name} {title}"), split_names(text)
                database.execute("INSERT INTO words (rowid, source, title, body) VALUES (?, ?, ?, ?)", row)

    def search(self, query: str, limit: int, sources: Sources = (), vector: Vector = ()) -> list[SearchHit]:
        """Return the best chunks, at most two of an item, the best first; `vector` is the query's, where a model makes some."""
        with self.open() as database:
            ranked = [_by_words(database, query, sources), self._by_vector(database, vector, sources) if len(vector) else {}]
            sql = "SELECT id, item, source, name, first, last, text, title FROM place \
WHERE id IN (SELECT value FROM json_each(?))"
            rows = database.execute(sql, (json.dumps([number for scores in ranked for number in scores]),)).fetchall()
        found = {number: row for number, *row in rows}
        merged: dict[int, float] = {}
        for scores in ranked:
            weighed = {number: score * _weight(*found[number][1:3]) for number, score in scores.items()}
            for rank, number in enumerate(heapq.nlargest(_RANKED, weighed, key=weighed.__getitem__), 1):
                merged[number] = merged.get(number, 0.0) + 1 / (_RRF_K + rank)
        best: list[list[Any]] = []  # Any: columns
        for number in sorted(merged, key=merged.__getitem__, reverse=True):
            if len(best) < limit and sum(row[0] == found[number][0] for row in best) < _MOST_OF_ITEM:
                best.append(found[number])
        return [_hit(*row) for _, *row in best]

    def _by_vector(self, database: sqlite3.Connection, vector: Vector, sources: Sources) -> dict[int, float]:
        """Return the chunks whose vectors are nearest to the query's with their cosines.

        All signs are compared in memory (a vector of 768 numbers takes some 250 bytes there,
        100,000 of them about 20 ms), and the vectors that differ in the fewest as a whole.
        """
        sql = "SELECT id, signs FROM vector WHERE id > ? ORDER BY id"
        for number, signs in database.execute(sql, (next(reversed(self._signs), 0),)):
            self._signs[number] = int.from_bytes(signs, "big")
        wanted = _quantised(vector)
        bits = int.from_bytes(_signs_of(wanted), "big")
        known, among = self._signs, json.dumps([*(sources or SearchSource)])
        if sources:
            sql = "SELECT vector.id FROM place JOIN vector USING (digest) WHERE source IN (SELECT value FROM json_each(?))"
            known = {number: known[number] for (number,) in database.execute(sql, (among,)) if number in known}
        counts = [(bits ^ signs).bit_count() for signs in known.values()]
        near = json.dumps([number for _, number in heapq.nsmallest(_RESCORED, zip(counts, known, strict=True))])
        sql = "SELECT place.id, data FROM place JOIN vector USING (digest) \
WHERE vector.id IN (SELECT value FROM json_each(?)) AND source IN (SELECT value FROM json_each(?))"
        rows = database.execute(sql, (near, among))
        return {number: sum(map(mul, wanted, array("b", data))) for number, data in rows}

    def recall(self, text: str) -> dict[str, float]:
        """Return the notes that have words of a text, each with its bm25 as a share of the most that one word can give."""
        if not (wanted := _matching(text)):
            return {}
        with self.open() as database:
            total = database.execute("SELECT count(*) FROM chunk").fetchone()[0]
            sql = "SELECT name, -bm25(words, 0.0, 0.0, 1.0) FROM words JOIN place ON id = words.rowid WHERE words MATCH ?"
            rows = database.execute(sql, (f"source : memory AND body : ({wanted})",)).fetchall()
            return {name: score / math.log(total + 2) for name, score in rows}

    def without_vector(self, most: int) -> list[tuple[str, str]]:
        """Return the digests of texts that have no vector (notes first), each with what is to be embedded.

        Once all have one, those of texts that are gone are deleted.
        """
        with self.open() as database:
            sql = "SELECT digest, iif(source IN ('doc', 'code'), name, ''), title, substr(text, 1, 600) FROM place \
WHERE digest NOT IN (SELECT digest FROM vector) ORDER BY source = 'memory' DESC, source = 'session' DESC, id LIMIT ?"
            rows = database.execute(sql, (most,)).fetchall()
            if not rows:
                database.execute("DELETE FROM vector WHERE digest NOT IN (SELECT digest FROM chunk)")
            return [(digest, "\n".join(filter(None, texts))) for digest, *texts in rows]

    def put_vectors(self, model: str, vectors: Mapping[str, Vector]) -> None:
        """Keep vectors by the digests of their texts; a text that the server refused has an empty one."""
        with self.writing() as database:
            for digest, vector in vectors.items():
                data = _quantised(vector)
                sql = "INSERT OR REPLACE INTO vector (digest, model, signs, data) VALUES (?, ?, ?, ?)"
                database.execute(sql, (digest, model, _signs_of(data), data.tobytes()))

    def drop_vectors(self, model: str, size: int = 0) -> None:
        """Delete the vectors of other models and, where it is given, of another size."""
        with self.writing() as database:
            sql = "DELETE FROM vector WHERE model != ? OR (? AND length(data) NOT IN (0, ?))"
            if database.execute(sql, (model, size, size)).rowcount:
                self._signs = {}

    def counts(self) -> dict[str, int]:
        """Return how much is in it: `items`, `chunks`, `vectors`, `bytes`."""
        with self.open() as database:
            sql = "SELECT (SELECT count(*) FROM item), (SELECT count(*) FROM chunk), (SELECT count(*) FROM vector)"
            items, chunks, vectors = database.execute(sql).fetchone()
            return {"items": items, "chunks": chunks, "vectors": vectors, "bytes": self.path.stat().st_size}


def _matching(text: str) -> str:
    """Return what FTS5 looks for: any of the words, and a name as a whole too."""
    phrases: dict[str, None] = {}
    for name in _NAME.findall(text)[:_MAX_QUERY_WORDS]:
        words = words_of(name[:_MAX_WORD_CHARS])
        phrases |= dict.fromkeys([split_names(name[:_MAX_WORD_CHARS]), *words] if len(words) > 1 else words)
    return " OR ".join(f'"{phrase}"' for phrase in phrases)


def _by_words(database: sqlite3.Connection, text: str, sources: Sources) -> dict[int, float]:
    """Return the best chunks with any of the words, each with its bm25 (more is better)."""
    if not (wanted := _matching(text)):
        return {}
    sql = "SELECT rowid, -bm25(words, 0.0, 3.0, 1.0) AS score FROM words WHERE words MATCH ? ORDER BY score DESC LIMIT ?"
    among = f"source : ({' OR '.join(sources)}) AND " if sources else ""
    return dict(database.execute(sql, (f"{among}{{title body}} : ({wanted})", _CANDIDATES)).fetchall())


def _weight(source: str, name: str) -> float:
    """Return what a chunk counts by what it is: what was written to be read counts most, tests least."""
    is_test = source == SearchSource.CODE and _TESTS.search(name) is not None
    return _WEIGHTS[SearchSource(source)] * (_TEST_WEIGHT if is_test else 1.0)


def _hit(source: str, name: str, *chunk: Any) -> SearchHit:  # Any: columns
    first, last, text, title = chunk
    is_file = source in (SearchSource.DOC, SearchSource.CODE)
    place = f"{name}:{first}-{last}" if is_file else name.partition(" ")[0]
    return SearchHit(SearchSource(source), place, sanitize(text), sanitize_line(title))


def _quantised(vector: Vector) -> array[int]:
    """Return a vector of length 127 with whole numbers; all 0 where it has no direction."""
    length = math.hypot(*vector)
    return array("b", (round(127 * number / length) for number in vector) if length else bytes(len(vector)))


def _signs_of(data: array[int]) -> bytes:
    """Return a bit for each number, set where it is above 0."""
    bits = int("".join("1" if number > 0 else "0" for number in data) or "0", 2)
    return bits.to_bytes((len(data) + 7) // 8, "big")
