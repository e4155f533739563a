from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from lmtui.core.errors import Fault, ProviderError
from lmtui.core.messages import Priority
from lmtui.features.memory.workspace_search import Embedder, WorkspaceSearch
from lmtui.models.openai_client import OpenAICompatible, read_vectors
from tests.models.conftest import serve
from tests.models.fake_server import FakeServer, Reply, Serve, failed, ok
from tests.sets import for_each

__all__ = ["serve"]
PATH = "/v1/embeddings"
# Each text is near to the words of its own line, whatever the words are.
FIELDS = (("fruit", "apples"), ("vehicle", "bicycles"), ("metal", "copper"))


def vector(text: str, size: int) -> list[float]:
    return [float(any(word in text for word in words)) + 0.01 for words in FIELDS] + [0.0] * (size - len(FIELDS))


def answer(size: int) -> Callable[[dict[str, Any]], Reply]:
    return lambda body: ok({"data": [{"index": at, "embedding": vector(text, size)} for at, text in enumerate(body["input"])]})


class Corpus:
    """A folder with three files, searched with the vectors of a server."""

    def __init__(self, folder: Path, server: FakeServer, model: str = "nomic-embed-text") -> None:
        folder.mkdir(exist_ok=True)
        for word in ("apples", "bicycles", "copper"):
            (folder / f"{word}.md").write_text(f"{word} are here\n")
        self.provider = OpenAICompatible(f"{server.url}/v1")
        self.embedder = Embedder(model, self.provider.embed)
        self.search = WorkspaceSearch(folder, self._paths, tuple, self.embedder)
        self.paths = ["apples.md", "bicycles.md", "copper.md"]

    async def _paths(self) -> tuple[Sequence[str], bool]:
        return self.paths, False

    async def embedded(self) -> int:
        """Index, wait for the vectors, and return how many there are."""
        self.search._updated_s = -9.0
        await self.search.refresh(30)
        if self.search._embedding is not None:
            await asyncio.wait({self.search._embedding}, timeout=30)
        return (await self.search._ask(self.search._index.counts))["vectors"]

    async def find(self, query: str) -> str:
        self.search._updated_s = time.monotonic()
        return next((hit.place for hit in await self.search.search(query)), "")


@pytest.fixture
async def make(serve: Serve, tmp_path: Path) -> AsyncIterator[Callable[..., Any]]:
    made: list[Corpus] = []

    async def start(reply: object, model: str = "nomic-embed-text") -> tuple[Corpus, FakeServer]:
        server = await serve({PATH: reply})
        made.append(Corpus(tmp_path / "work", server, model))
        return made[-1], server

    yield start
    for each in made:
        await each.search.close()
        await each.provider.close()


async def test_what_has_no_word_in_common_is_found_by_its_vector(make: Callable[..., Any]) -> None:
    corpus, server = await make(answer(3))
    assert (await corpus.embedded(), await corpus.find("fruit")) == (3, "apples.md:1-1")
    assert await corpus.find("vehicle") == "bicycles.md:1-1"
    asked = [text for _, body in server.posted for text in body["input"]]
    assert asked.count("search_query: fruit") == 1
    assert sum(text.startswith("search_document: ") for text in asked) == 3
    assert (await corpus.embedded(), len(server.posted)) == (3, 3)


async def test_a_server_that_changes_the_size_is_asked_for_all_again(make: Callable[..., Any]) -> None:
    corpus, server = await make(answer(3))
    await corpus.embedded()
    server.answers[PATH] = answer(8)
    assert await corpus.find("fruit") == ""  # a vector of 8 numbers is not compared with those of 3
    assert await corpus.embedded() == 3
    assert await corpus.find("fruit") == "apples.md:1-1"


async def test_after_a_failure_words_alone_are_searched_and_vectors_are_tried_again(make: Callable[..., Any]) -> None:
    corpus, server = await make(failed(503, "loading"))
    assert (await corpus.embedded(), await corpus.find("apples")) == (0, "apples.md:1-1")
    assert corpus.embedder.problem
    count = len(server.posted)
    server.answers[PATH] = answer(3)
    assert (await corpus.embedded(), len(server.posted)) == (0, count)  # it rests
    corpus.embedder._retry_s = 0.0
    assert (await corpus.embedded(), corpus.embedder.problem) == (3, "")
    server.answers[PATH] = failed(500, "out of memory")
    assert (await corpus.find("apples"), bool(corpus.embedder.problem)) == ("apples.md:1-1", True)


async def test_of_a_text_that_is_too_long_the_beginning_counts_or_nothing(make: Callable[..., Any]) -> None:
    def short_only(body: dict[str, Any]) -> Reply:
        is_long = any(len(text) > 250 for text in body["input"]) or any("copper" in text for text in body["input"])
        return failed(500, "input is too large to process") if is_long else answer(3)(body)

    corpus, _ = await make(short_only)
    (corpus.search._workspace / "apples.md").write_text("apples " + "and more words " * 60)
    assert (await corpus.embedded(), await corpus.find("fruit " + "pie " * 99)) == (3, "apples.md:1-1")
    assert await corpus.find("metal") != "copper.md:1-1"


@for_each("reply", [
    b"no json", b"[]", b'{"data": [{"index": 0, "embedding": [NaN, 1.0]}]}',
    b'{"data": [{"index": 0, "embedding": []}]}', b'{"data": [{"index": 0, "embedding": "AAAA"}]}',
    b'{"data": [{"index": 0, "embedding": [1.0]}, {"index": 1, "embedding": [1.0]}]}',
    b'{"data": ' + b"[" * 50_000, json.dumps({"data": [{"index": 0, "embedding": [1.0] * 20_000}]}).encode(),
])  # fmt: skip
def test_answers_that_are_no_vectors_are_refused_and_vectors_are_in_the_order_of_the_texts(reply: bytes) -> None:
    with pytest.raises(ProviderError) as caught:
        read_vectors("u", reply, 1)
    assert caught.value.fault is Fault.GARBAGE
    data = json.dumps({"data": [{"index": 1, "embedding": [2]}, {"index": 0, "embedding": [1]}]}).encode()
    assert [list(each) for each in read_vectors("u", data, 2)] == [[1.0], [2.0]]


async def test_vectors_wait_for_the_slot_and_a_session_comes_first(make: Callable[..., Any]) -> None:
    corpus, server = await make(answer(3))
    slots = corpus.provider.slots
    await corpus.provider.embed("m", ["warm"])
    order: list[str] = []

    async def session() -> None:
        async with slots.take(1, Priority.USER):
            order.append(f"session after {len(server.posted)}")

    async with asyncio.TaskGroup() as group, slots.take(2, Priority.USER):
        group.create_task(corpus.provider.embed("m", ["x"]))
        await asyncio.sleep(0.3)
        group.create_task(session())
        await asyncio.sleep(0)
    assert (order, len(server.posted)) == (["session after 1"], 2)


async def test_a_search_does_not_wait_for_a_server_that_hangs(make: Callable[..., Any]) -> None:
    corpus, _ = await make(None)
    corpus.search.embedder = None
    await corpus.embedded()
    corpus.search.embedder = corpus.embedder
    assert await corpus.find("apples") == "apples.md:1-1"
