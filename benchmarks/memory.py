"""Search and recall: how often the right place is among the first five, how fast a large index answers, what indexing costs.

The corpus is this repository (without the queries themselves), with notes and sessions of an invented shop.  Vectors are
measured where `LMTUI_BENCH_EMBEDDER` names a server and a model: `http://127.0.0.1:8080/v1 nomic-embed-text`.
"""

from __future__ import annotations

import asyncio
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import memory_corpus as corpus
from benchmarks.report import Figure
from lmtui.core.events import Envelope, MessageAdded, SessionOpened, SessionRenamed
from lmtui.core.messages import Role
from lmtui.features.memory.chunks import Chunk, cut, source_of
from lmtui.features.memory.notes import MemoryScope, Note
from lmtui.features.memory.search_index import SearchIndex
from lmtui.features.memory.values import SearchHit, SearchSource
from lmtui.features.memory.workspace_search import Embedder, WorkspaceSearch
from lmtui.models.openai_client import OpenAICompatible
from lmtui.store.session_logs import SessionStore, new_session_id

CHUNKS = 100_000
_NUMBERS = 768
_IDLE_S = 20.0
_ROOT = Path(__file__).parents[1]
_NOTES = [Note(text, MemoryScope.PROJECT, "you", "2026-01-01") for text in corpus.NOTES]
_OF_QUERIES = ("benchmarks/memory", "docs/benchmarks.md", "tests/features/memory")
_EXACT = {name: (place,) for name, place in corpus.HELD_OUT_NAMES.items()}


def figures() -> list[Figure]:
    """Measure and return every figure of this part."""
    with tempfile.TemporaryDirectory() as home, tempfile.TemporaryDirectory() as folder:
        os.environ["LMTUI_HOME"] = home
        return [*asyncio.run(quality(Path(folder))), *speed(Path(home) / "large.db")]


async def quality(folder: Path) -> list[Figure]:
    """Look for everything of the held-out set."""
    search = make_search(folder)
    idle = await idle_share(search)
    await search.refresh(600)
    recalled, wrong = await recall_of_notes(search, corpus.HELD_OUT_RECALL, corpus.HELD_OUT_IRRELEVANT)
    found = [
        *await _misses(search, "words alone", 25),
        Figure("messages that do not recall their note, of 18", 18 * (1 - recalled), ""),
        Figure("messages that recall a note for nothing, of 30", 30 * wrong, "", 0.5),
        Figure("indexing while idle, of a core", 100 * idle, "%", 2.0),
        Figure("hits from another folder", float(await _foreign(folder.parent / f"{folder.name}-other")), "", 0.5),
    ]
    if embedder := os.environ.get("LMTUI_BENCH_EMBEDDER", "").split():
        provider = OpenAICompatible(embedder[0])
        search.embedder = Embedder(embedder[1], provider.embed)
        await _embed_all(search)
        found += await _misses(search, f"vectors of {embedder[1]}", 10)
        recalled, wrong = await recall_of_notes(search, corpus.HELD_OUT_RECALL, corpus.HELD_OUT_IRRELEVANT)
        found.append(Figure("… messages that do not recall their note, of 18", 18 * (1 - recalled), ""))
        found.append(Figure("… messages that recall a note for nothing, of 30", 30 * wrong, "", 0.5))
        await provider.close()
    await search.close()
    return found


async def _misses(search: WorkspaceSearch, how: str, goal: float) -> list[Figure]:
    names = round(50 * (1 - await recall_at_5(search, _EXACT, is_exact=True)))
    words = round(50 * (1 - await recall_at_5(search, corpus.HELD_OUT_PARAPHRASES)))
    return [
        Figure(f"held-out queries without a right answer among the first five, of 100: {how}", names + words, "", goal),
        Figure("… of 50 names", names, ""),
        Figure("… of 50 paraphrases", words, ""),
    ]


async def _embed_all(search: WorkspaceSearch) -> None:
    while (counts := await asyncio.to_thread(search._index.counts))["vectors"] < counts["chunks"]:
        await search.refresh(600)
        await asyncio.sleep(2.5)


async def idle_share(search: WorkspaceSearch) -> float:
    """Return what share of a core the first indexing takes while nobody searches."""
    task = search._begin_update()
    await asyncio.sleep(1.0)
    began_s = time.process_time()
    await asyncio.sleep(_IDLE_S)
    assert not task.done()
    return (time.process_time() - began_s) / _IDLE_S


async def _foreign(folder: Path) -> int:
    """Return how many hits a folder with one file has for the queries about another."""
    write_file(folder / "own.py", b"nothing = 1\n")

    async def paths() -> tuple[Sequence[str], bool]:
        return ["own.py"], False

    search = WorkspaceSearch(folder, paths, tuple)
    hits = [hit for query in (*_EXACT, *corpus.HELD_OUT_PARAPHRASES) for hit in await search.search(query)]
    await search.close()
    return sum(not hit.place.startswith("own.py") for hit in hits)


def speed(path: Path) -> list[Figure]:
    """Measure searches of a large index: this repository's chunks several times over, with vectors of no meaning."""
    index = SearchIndex(path)
    chunks = [Chunk(at, at, text, title) for at, (text, title) in enumerate(_texts())]
    for copy in range(-(-CHUNKS // len(chunks))):
        for at in range(0, len(chunks), 20):
            index.put(SearchSource.CODE, f"copy{copy}/{at}.py", (1, 1), chunks[at : at + 20])
    queries = [*_EXACT, *corpus.HELD_OUT_PARAPHRASES]
    by_words = [_ms(index, query) for query in queries]
    noise = random.Random(7)
    vectors = [[noise.gauss(0, 1) for _ in range(_NUMBERS)] for _ in range(200)]
    while todo := index.without_vector(2_000):
        index.put_vectors("noise", {digest: vectors[at % len(vectors)] for at, (digest, _) in enumerate(todo)})
    first_ms = _ms(index, "x", vectors[0])
    with_vectors = [_ms(index, query, noise.choice(vectors)) for query in queries]
    index.close()
    return [
        Figure("search of 100,000 chunks by words, median CPU", statistics.median(by_words), "ms", 50),
        Figure("… slowest of 100", max(by_words), "ms", 50),
        Figure(
            "search of 100,000 chunks by words and vectors of 768 numbers, median CPU",
            statistics.median(with_vectors),
            "ms",
            50,
        ),
        Figure("… slowest of 100", max(with_vectors), "ms"),
        Figure("… the first, which reads the vectors", first_ms, "ms"),
    ]


def _ms(index: SearchIndex, query: str, vector: Sequence[float] = ()) -> float:
    began_s = time.thread_time()
    index.search(query, 5, vector=vector)
    return 1000 * (time.thread_time() - began_s)


def _texts() -> list[tuple[str, str]]:
    files = [path for path in _paths() if source_of(path) is not None and path.endswith((".py", ".md"))]
    return [(each.text, each.title) for path in files for each in cut(path, (_ROOT / path).read_text())]


def _paths() -> list[str]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=_ROOT, capture_output=True, check=True).stdout.decode().split("\0")
    shown = (path for path in listed if path and not path.startswith(_OF_QUERIES))
    return [path for path in shown if (_ROOT / path).is_file() and not (_ROOT / path).is_symlink()]


def write_file(path: Path, data: bytes) -> None:
    """Write a file and make its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def make_search(folder: Path) -> WorkspaceSearch:
    """Return the search of a folder with the corpus."""
    paths = _paths()
    for path in paths:
        write_file(folder / path, (_ROOT / path).read_bytes())
    store = SessionStore(folder)
    for title, asked, answer in corpus.SESSIONS:
        _write_session(store, title, asked, answer)

    async def list_paths() -> tuple[Sequence[str], bool]:
        return paths, False

    return WorkspaceSearch(folder, list_paths, lambda: _NOTES)


def _write_session(store: SessionStore, title: str, asked: str, answer: str) -> None:
    """Write a session of one turn."""
    now = datetime.now(UTC)
    name = new_session_id(now)
    log = store.create(name)
    events = (
        SessionOpened(workspace="/", version="0"),
        SessionRenamed(title=title),
        MessageAdded(role=Role.USER, text=asked),
        MessageAdded(role=Role.ASSISTANT, text=answer),
    )
    for number, event in enumerate(events, 1):
        log.append(Envelope(number, now, name, event))
    log.close()


async def recall_at_5(
    search: WorkspaceSearch, queries: Mapping[str, Sequence[str]], *, is_exact: bool = False, is_told: bool = False
) -> float:
    """Return the share of queries with a right answer among the first five hits."""
    right = 0
    for query, answers in queries.items():
        hits = await search.search(query, 5)
        is_right = any(_is_answer(hit, answers, query.rpartition(".")[2] if is_exact else "") for hit in hits)
        right += is_right
        if is_told and not is_right:
            print(f"missed: {query}\n" + "\n".join(f"    {hit.place} {hit.title[:50]}" for hit in hits))
    return right / len(queries)


def _is_answer(hit: SearchHit, answers: Sequence[str], name: str) -> bool:
    """Tell whether a hit is right; one for a name has to contain it."""
    shown = {SearchSource.MEMORY: hit.text, SearchSource.SESSION: hit.title}.get(hit.source, hit.place)
    return shown.startswith(tuple(answers)) and name in hit.text


async def recall_of_notes(
    search: WorkspaceSearch, relevant: Mapping[str, Sequence[str]], irrelevant: Sequence[str], *, is_told: bool = False
) -> tuple[float, float]:
    """Return the share of messages that recall a right note among three, and of irrelevant ones that recall any."""
    right = wrong = 0
    for message, answers in (*relevant.items(), *((each, ()) for each in irrelevant)):
        found = (await search.relevant_notes(message, _NOTES))[:3]
        is_right = any(note.text.startswith(tuple(answers)) for note, _ in found)
        right += is_right
        wrong += bool(not answers and found)
        if is_told and (is_right != bool(answers) or (not answers and found)):
            print(f"{message}: {[(note.text[:40], round(score, 2)) for note, score in found]}")
    return right / len(relevant), wrong / len(irrelevant)


async def tune() -> None:
    """Print what the tuning set gives, and what it misses."""
    with tempfile.TemporaryDirectory() as home, tempfile.TemporaryDirectory() as folder:
        os.environ["LMTUI_HOME"] = home
        search = make_search(Path(folder))
        await search.refresh(600)
        names = {name: (place,) for name, place in corpus.TUNING_NAMES.items()}
        print("names", await recall_at_5(search, names, is_exact=True, is_told=True))
        print("paraphrases", await recall_at_5(search, corpus.TUNING_PARAPHRASES, is_told=True))
        print("notes", await recall_of_notes(search, corpus.TUNING_RECALL, corpus.TUNING_IRRELEVANT, is_told=True))
        await search.close()


if __name__ == "__main__":
    asyncio.run(tune()) if "tune" in sys.argv else [print(figure) for figure in figures()]
