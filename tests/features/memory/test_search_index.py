from __future__ import annotations

import re
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmtui.core.errors import JobsError
from lmtui.features.memory.chunks import MAX_CHUNK_CHARS, Chunk, cut
from lmtui.features.memory.search_index import SearchIndex
from lmtui.features.memory.values import SearchSource
from lmtui.tools.text import lines_of
from tests.sets import for_each

CODE, DOC, MEMORY = SearchSource.CODE, SearchSource.DOC, SearchSource.MEMORY


def make(tmp_path: Path) -> SearchIndex:
    return SearchIndex(tmp_path / "search" / "index.db")


@pytest.fixture
def index(tmp_path: Path) -> Iterator[SearchIndex]:
    with closing(make(tmp_path)) as found:
        yield found


def put(index: SearchIndex, name: str, text: str, source: SearchSource = CODE) -> None:
    index.put(source, name, (1, len(text)), [Chunk(1, 1, text)])


def names(index: SearchIndex, text: str, limit: int = 5) -> list[str]:
    return [hit.place.partition(":")[0] for hit in index.search(text, limit)]


def test_an_item_is_found_by_what_it_is_now_and_by_its_names_whole_and_in_parts(index: SearchIndex) -> None:
    put(index, "a.py", "older text")
    put(index, "a.py", "newer words of read_plain")
    put(index, "b.py", "readPlain(path)  # 東京都")
    assert (names(index, "newer"), names(index, "older")) == (["a.py"], [])
    for query in ("read_plain", "readPlain", "plain reading", "core.read_plain"):
        assert set(names(index, query)) == {"a.py", "b.py"}, query
    assert names(index, "京都") == ["b.py"]
    index.put(CODE, "a.py", None)
    assert (names(index, "newer"), [*index.states(CODE)]) == ([], ["b.py"])


def test_one_item_has_at_most_two_hits_half_a_character_is_kept_without_it_and_the_file_is_its_owners_alone(
    index: SearchIndex,
) -> None:
    index.put(DOC, "a.md", (1, 1), [Chunk(at, at, "cache of prompts") for at in range(9)])
    put(index, "b.py", "cache = {}")
    put(index, "project cache", "the cache is warm", MEMORY)
    assert names(index, "cache").count("a.md") == 2
    assert [each.source for each in index.search("cache", 5, [MEMORY])] == [MEMORY]
    put(index, "a.py", "word \udcff word")
    assert index.search("word", 1)[0].text == "word ? word"
    put(index, "a.py", "words")
    assert stat.S_IMODE(index.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(index.path.parent.stat().st_mode) == 0o700


@given(st.text() | st.sampled_from(['"', "a AND b", "NEAR(a b)", "title:x", "a*", "'; DROP TABLE item", "^a", "a - b", "\0"]))
def test_no_query_is_an_error_or_finds_what_is_not_there(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    index = SearchIndex(tmp_path_factory.getbasetemp() / "any" / "index.db")
    put(index, "a.py", text)
    found = names(index, text)
    index.close()
    assert {*found} <= {"a.py"}


def test_a_note_is_found_by_its_vector_although_more_code_is_nearer(index: SearchIndex) -> None:
    index.put(CODE, "a.py", (1, 1), [Chunk(at, at, f"line {at}") for at in range(400)])
    put(index, "project note", "a note", MEMORY)
    vectors = {digest: [1.0, 0.2 * (text == "a note")] for digest, text in index.without_vector(500)}
    assert [*vectors.values()].count([1.0, 0.2]) == 1
    index.put_vectors("m", vectors)
    found = index.search("", 5, [MEMORY], [1.0, -0.1])
    assert [(hit.place, hit.text) for hit in found] == [("project", "a note")]


@for_each(("content", "script"), [
    (b"no database" * 1_000, ""), (b"", "CREATE TABLE item (x)"), (None, "PRAGMA user_version = 999"),
])  # fmt: skip
def test_a_file_that_is_not_ours_is_made_anew_and_that_is_said_once(
    tmp_path: Path, content: bytes | None, script: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.clear()
    index = make(tmp_path)
    put(index, "a.py", "words")
    index.close()
    if content is not None:
        index.path.write_bytes(content)
    if script:
        with closing(sqlite3.connect(index.path)) as database:
            database.executescript(script)
    index = SearchIndex(index.path)
    assert names(index, "words") == []
    put(index, "a.py", "words")
    assert (names(index, "words"), len(caplog.messages)) == (["a.py"], 1)
    assert str(index.path) in caplog.messages[0]
    index.close()


def test_a_file_that_breaks_while_it_is_open_is_an_error_that_names_it(tmp_path: Path) -> None:
    index = make(tmp_path)
    for number in range(200):
        put(index, f"{number}.py", f"words {number} " * 50)
    data = bytearray(index.path.read_bytes())
    index.close()
    index.path.write_bytes(data[:8_192] + b"\xff" * len(data))
    with pytest.raises(JobsError, match=re.escape(str(index.path))):
        index.search("words", 5)
    index.path.unlink()
    assert names(index, "words") == []
    index.close()


LINES = st.lists(
    st.sampled_from(
        ["", "    ", "# Top", "## Below", "```", "class A:", "    def run(self):", "        return 1", "@cached", "x = 2", "}"]
    )
    | st.text(max_size=30)
    | st.integers(1, 4_000).map(lambda count: "z" * count)
    | st.integers(0, 40).map(lambda indent: " " * indent + "word"),
    max_size=60,
)
TEXTS = st.builds(lambda lines, end: end.join(lines), LINES, st.sampled_from(["\n", "\r\n"]))


@given(st.sampled_from(["a.py", "a.md", "a.rs", "a.txt"]), TEXTS)
def test_each_line_that_is_not_blank_is_in_one_chunk_and_a_long_one_in_several(path: str, text: str) -> None:
    lines = lines_of(text)
    found, seen = cut(path, text), 0
    for at, chunk in enumerate(found):
        assert len(chunk.text) <= MAX_CHUNK_CHARS
        if at and (chunk.first, chunk.last) == (found[at - 1].first, found[at - 1].last):
            continue
        assert not "".join(lines[seen : chunk.first - 1]).strip()
        same = [each.text for each in found if (each.first, each.last) == (chunk.first, chunk.last)]
        assert "".join(same) == "".join(lines[chunk.first - 1 : chunk.last])
        assert len(same) == 1 or chunk.first == chunk.last
        seen = chunk.last
    assert not "".join(lines[seen:]).strip()
