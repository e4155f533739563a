from __future__ import annotations

import asyncio
import time

from lmtui.tui.path_index import PathIndex, PathSearch, with_folders
from tests.sets import for_each

FILES = [
    "src/lexer.py", "src/my_lexer.py", "src/relexer.py", "lexer/other.py", "src/deep/down/lexer_notes.md", "docs/a b.md",
    "README.md", "src/l_e_x.txt",
]  # fmt: skip


def search() -> PathSearch:
    return PathSearch(PathIndex.of(FILES))


def test_folders_are_known_by_what_is_in_them() -> None:
    assert with_folders(["a/b/c.py", "d.py"]) == ["a/", "a/b/", "a/b/c.py", "d.py"]


async def test_names_that_begin_so_come_first_then_words_then_the_rest() -> None:
    assert await search().find("lexer") == [
        "lexer/", "src/lexer.py", "src/deep/down/lexer_notes.md", "src/my_lexer.py", "src/relexer.py", "lexer/other.py",
    ]  # fmt: skip


async def test_what_was_used_lately_comes_first_in_its_rank() -> None:
    found = await search().find("md", {"src/deep/down/lexer_notes.md"})
    assert found[0] == "src/deep/down/lexer_notes.md"
    assert (await search().find("", ["src/lexer.py", "gone.py"]))[0] == "src/lexer.py"


async def test_a_folder_shows_what_is_directly_in_it_first_and_not_itself() -> None:
    found = await search().find("src/")
    assert found[0] == "src/deep/"
    assert "src/" not in found


async def test_a_query_that_grows_and_shrinks_finds_what_a_fresh_one_finds() -> None:
    used = search()
    for query in ("l", "le", "lex", "le", "src/le", "zzz", "r", "README"):
        assert await used.find(query) == await search().find(query)


@for_each("query", ["p", "zq"])
async def test_many_thousand_paths_never_hold_the_loop_for_long(query: str) -> None:
    files = [f"core/pkg{i % 97}/sub{i % 13}/module_{i}.py" for i in range(20_000)]
    used = PathSearch(PathIndex.of(files))
    blocks: list[float] = []
    is_done = False

    async def beat() -> None:
        while not is_done:
            started = time.thread_time()
            await asyncio.sleep(0)
            blocks.append(time.thread_time() - started)

    watcher = asyncio.create_task(beat())
    await used.find(query)
    is_done = True
    await watcher
    blocks.sort()
    assert blocks[len(blocks) * 9 // 10] < 0.05
