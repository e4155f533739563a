from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lmtui.core.errors import SandboxError, ToolError, UsageError
from lmtui.core.events import Envelope, MessageAdded, SessionOpened, SessionRenamed
from lmtui.core.messages import Role
from lmtui.core.permissions.rules import Verdict
from lmtui.core.plan import Plan
from lmtui.core.ports import ToolContext, ToolResult
from lmtui.features.memory.notes import MemoryScope, Note
from lmtui.features.memory.values import SearchHit, SearchSource, WorkspaceMemory
from lmtui.features.memory.workspace_search import RELEVANT, WorkspaceSearch
from lmtui.paths import kept_dir
from lmtui.store.session_logs import SessionStore, new_session_id
from lmtui.tools.registry import ALL_TOOLS, ToolRegistry
from tests.fakes import FakeSandbox, offers
from tests.sets import for_each


class Corpus:
    """A folder with a search; its listing is what `paths` says."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.paths: list[str] = []
        self.notes: list[Note] = []
        self.is_cut = False
        self.fault: Exception | None = None
        self.search = WorkspaceSearch(folder, self._paths, lambda: self.notes)

    def write(self, path: str, text: str | bytes) -> None:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode() if isinstance(text, str) else text)
        self.paths = sorted({*self.paths, path})

    async def find(self, query: str, *sources: SearchSource, limit: int = 5) -> Sequence[SearchHit]:
        self.search._updated_s = -9.0  # as if the last update was long ago
        return await self.search.search(query, limit, sources, within_s=30)

    async def _paths(self) -> tuple[Sequence[str], bool]:
        if self.fault is not None:
            raise self.fault
        return self.paths, self.is_cut


@pytest.fixture
async def corpus(tmp_path: Path) -> AsyncIterator[Corpus]:
    found = Corpus(tmp_path / "work")
    yield found
    await found.search.close()


def places(hits: Sequence[SearchHit]) -> list[str]:
    return [hit.place for hit in hits]


def write_session(folder: Path, title: str, *turns: tuple[str, str], is_closed: bool = True) -> str:
    store = SessionStore(folder)
    name = new_session_id(datetime.now(UTC))
    log = store.create(name)
    said = []
    for asked, answer in turns:
        said += [MessageAdded(role=Role.USER, text=asked), MessageAdded(role=Role.ASSISTANT, text="I look at it first.")]
        said += [MessageAdded(role=Role.ASSISTANT, text=answer)]
    for number, event in enumerate((SessionOpened(workspace="/", version="0"), SessionRenamed(title=title), *said), 1):
        log.append(Envelope(number, datetime.now(UTC), name, event))
    if is_closed:
        log.close()
    return name


async def test_files_notes_and_sessions_are_found_with_their_places(corpus: Corpus) -> None:
    corpus.write("src/cache.py", "import os\n\n\ndef evict_oldest(cache):\n    return cache.popitem()\n")
    corpus.write("docs/guide.md", "# Guide\n\n## Eviction\n\nThe oldest entry goes first.\n")
    corpus.notes = [Note("The cache holds 50 entries.", MemoryScope.USER)]
    name = write_session(corpus.folder, "Cache grows", ("Why does the cache grow?", "It was never emptied."))
    hits = await corpus.find("cache")
    assert {(hit.source, hit.place) for hit in hits} == {
        (SearchSource.CODE, "src/cache.py:1-5"), (SearchSource.MEMORY, "user"),
        (SearchSource.SESSION, name),
    }  # fmt: skip
    assert places(await corpus.find("evict_oldest"))[0] == "src/cache.py:1-5"
    guide = await corpus.find("oldest", SearchSource.DOC)
    assert [(hit.place, hit.title) for hit in guide] == [("docs/guide.md:3-5", "Eviction")]
    session = await corpus.find("never emptied", SearchSource.SESSION)
    assert [(hit.title, hit.text) for hit in session] == [("Cache grows", "It was never emptied.")]
    assert await corpus.find("look at it first", SearchSource.SESSION) == []


async def test_what_changed_or_is_gone_or_became_a_link_is_seen_by_the_next_search(corpus: Corpus, tmp_path: Path) -> None:
    corpus.write("a.py", "first = 1\n")
    corpus.write("b.py", "second = 2\n")
    corpus.notes = [Note("Third is a note.")]
    assert places(await corpus.find("first second third")) != []
    corpus.write("a.py", "altered = 100\n")
    corpus.paths.remove("b.py")
    corpus.notes = []
    assert places(await corpus.find("altered")) == ["a.py:1-1"]
    assert await corpus.find("first second third") == []
    corpus.write("a.py", "marker = 1\n")
    await corpus.find("marker")
    (tmp_path / "outside.py").write_text("marker = 1\n")
    (corpus.folder / "a.py").unlink()
    (corpus.folder / "a.py").symlink_to(tmp_path / "outside.py")
    assert await corpus.find("marker") == []


async def test_a_listing_that_is_cut_or_fails_takes_nothing_out(corpus: Corpus) -> None:
    corpus.write("a.py", "first = 1\n")
    await corpus.find("first")
    corpus.paths, corpus.is_cut = [], True
    assert places(await corpus.find("first")) == ["a.py:1-1"]
    corpus.fault = SandboxError("the sandbox is gone")
    assert places(await corpus.find("first")) == ["a.py:1-1"]
    assert corpus.search.problem == "the sandbox is gone"


async def test_secrets_links_binaries_and_giants_are_not_indexed(corpus: Corpus, tmp_path: Path) -> None:
    (tmp_path / "outside.py").write_text("marker = 1\n")
    (tmp_path / "away").mkdir()
    (tmp_path / "away" / "x.py").write_text("marker = 2\n")
    for path in (".env", "id_rsa", "conf/secrets.yaml", ".git/config.py", ".lmagent/notes.py", "na\x1bme.py", "a\u202eb.py"):
        corpus.write(path, "marker = 3\n")
    corpus.write("nul.py", b"marker\0")
    corpus.write("large.py", "marker = 4\n" * 100_000)
    corpus.write("one_line.js", "marker;" * 100_000)
    corpus.write("data.csv", "marker,1\n")
    (corpus.folder / "link.py").symlink_to(tmp_path / "outside.py")
    (corpus.folder / "folder").symlink_to(tmp_path / "away")
    os.mkfifo(corpus.folder / "pipe.py")
    corpus.paths += ["link.py", "folder/x.py", "pipe.py", "missing.py", "../outside.py", "half\udcff.py"]
    assert await corpus.find("marker") == []
    corpus.write("plain.py", "marker = 5\n")
    assert places(await corpus.find("marker")) == ["plain.py:1-1"]


async def test_another_folder_finds_nothing_of_this_one(corpus: Corpus, tmp_path: Path) -> None:
    corpus.write("a.py", "marker = 1\n")
    name = write_session(corpus.folder, "marker", ("marker", "marker"))
    await corpus.find("marker")
    other = Corpus(tmp_path / "other")
    (other.folder / ".lmagent").mkdir()
    (corpus.folder / ".lmagent" / "sessions").rename(other.folder / ".lmagent" / "sessions")
    assert (other.folder / ".lmagent" / "sessions" / f"{name}.jsonl").exists()
    assert await other.find("marker") == []
    await other.search.close()


async def test_sessions_of_others_and_open_ones_are_left_out(corpus: Corpus) -> None:
    ours = write_session(corpus.folder, "Marker", ("marker", "answered"))
    foreign = corpus.folder / ".lmagent" / "sessions" / "20260101_000000_abcdef.jsonl"
    foreign.write_bytes((corpus.folder / ".lmagent" / "sessions" / f"{ours}.jsonl").read_bytes())
    write_session(corpus.folder, "Marker", ("marker", "still open"), is_closed=False)
    assert set(places(await corpus.find("marker"))) == {ours}


async def test_a_log_with_broken_lines_gives_what_can_be_read_and_text_that_is_found_is_safe_to_show(corpus: Corpus) -> None:
    name = write_session(corpus.folder, "Broken", ("marker one", "fine"))
    head = b'{"seq":9,"time":"2026-01-01T00:00:00Z","session":"s",'
    with (corpus.folder / ".lmagent" / "sessions" / f"{name}.jsonl").open("ab") as log:
        log.write(head + b'"kind":"message_added","agent":"root","role":"user","text":[]}\n')
        log.write(head + b'"kind":"message_added","agent":"root","role":"user"\n' + b"[" * 100_000 + b"\n")
        log.write(head + b'"kind":"message_added","agent":"root","role":"user","text":"marker two"}\n')
    assert {hit.text for hit in await corpus.find("marker")} == {"marker one", "marker two"}
    corpus.write("a.py", "heron = '\x1b[31mred\x1b[0m \u202e'\n")
    (found,) = await corpus.find("heron")
    assert not {"\x1b", "\u202e"} & set(found.text)


@for_each("query", ["", "  ", "?!", "\x00"])
async def test_a_query_without_words_is_refused(corpus: Corpus, query: str) -> None:
    with pytest.raises(UsageError, match="needs words"):
        await corpus.search.search(query)


async def test_a_search_does_not_wait_longer_than_it_may(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    free = threading.Event()
    read = corpus.search._read_file
    monkeypatch.setattr(corpus.search, "_read_file", lambda path: free.wait(30) and read(path))
    corpus.write("a.py", "marker = 1\n")
    began_s = time.process_time()
    assert await corpus.search.search("marker", within_s=0.05) == []
    assert time.process_time() - began_s < 5
    free.set()
    assert places(await corpus.find("marker")) == ["a.py:1-1"]


async def test_an_index_that_cannot_be_used_is_said(corpus: Corpus) -> None:
    kept_dir("search", corpus.folder).parent.mkdir(parents=True)
    kept_dir("search", corpus.folder).write_text("in the way")
    with pytest.raises(UsageError, match="could not use"):
        await corpus.find("marker")
    assert corpus.search.problem


async def test_a_message_recalls_the_notes_that_it_is_about_and_no_others(corpus: Corpus) -> None:
    corpus.notes = [
        Note("When the database migration fails: drop orders_tmp first."),
        Note("Deployments go through the staging cluster."), Note("Run the tests with make check."),
    ]  # fmt: skip
    await corpus.search.refresh(30)

    async def recalled(message: str) -> list[str]:
        found = await corpus.search.relevant_notes(message, corpus.notes)
        assert all(score >= RELEVANT for _, score in found)
        return [note.text[:4] for note, _ in found]

    assert await recalled("the migrations are failing in the database again") == ["When"]
    assert await recalled("start the deployments to staging") == ["Depl"]
    for message in ("", "?", "write a function that reverses a string", "what does this test do", "hello", "go on"):
        assert await recalled(message) == []


TEXT = "import os\n\n\ndef evict(cache):\n    # the oldest entry goes\n    return cache.pop()\n\n\nLAST = 1\n"
HITS = tuple(SearchHit(SearchSource.CODE, f"{name}.py:1-9", TEXT, "evict") for name in ("a", "private/b", "asked/c", "d", "e"))


class Memory:
    def __init__(self) -> None:
        self.sources: set[SearchSource] = set()

    async def search(self, query: str, limit: int = 5, sources: Sequence[SearchSource] = ()) -> Sequence[SearchHit]:
        if not query.strip():
            raise UsageError("the search needs words", "Write some.")
        self.sources = {*sources}
        return HITS[:limit] if "nothing" not in query else ()


async def call(name: str, memory: Memory | None = None, **arguments: object) -> ToolResult:
    verdicts = {"private": Verdict.DENY, "asked": Verdict.ASK}
    context = ToolContext(
        FakeSandbox(), Plan(), lambda _: None, lambda _: None, lambda: datetime.now(UTC),
        on_reading=lambda path: verdicts.get(Path(path).parts[0], Verdict.ALLOW),
        features=offers({WorkspaceMemory: memory or Memory()}),
    )  # fmt: skip
    return await ToolRegistry("/work", ALL_TOOLS).prepare(name, json.dumps(arguments)).run(context)


async def test_places_are_cited_with_the_lines_that_have_the_words_and_what_must_not_be_read_is_left_out() -> None:
    result = await call("find_relevant_files", query="oldest entry", top_k=1)
    lines = "    def evict(cache):\n        # the oldest entry goes\n        return cache.pop()\n    LAST = 1"
    assert result.text == f"a.py:1-9  evict\n{lines}"
    result = await call("find_relevant_files", query="cache", top_k=3)
    assert [line.partition(":")[0] for line in result.text.splitlines() if line[0] != " "] == ["a.py", "d.py", "e.py"]
    assert "grep" in (await call("find_relevant_files", query="nothing here")).text
    with pytest.raises(ToolError, match="needs words"):
        await call("find_relevant_files", query=" ")


@for_each(("name", "sources"), [
    ("memory_search", {SearchSource.MEMORY, SearchSource.SESSION}), ("search_code", {SearchSource.DOC, SearchSource.CODE}),
])  # fmt: skip
async def test_notes_and_sessions_are_searched_by_one_tool_and_files_by_another(name: str, sources: set[SearchSource]) -> None:
    memory = Memory()
    await call(name, memory, query="oldest")
    assert memory.sources == sources
