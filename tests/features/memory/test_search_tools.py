from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lmtui.core.errors import ToolError, UsageError
from lmtui.core.memory_values import NoMemory, SearchHit, SearchSource
from lmtui.core.permissions.rules import Verdict
from lmtui.core.plan import Plan
from lmtui.core.ports import FeatureServices, ToolContext, ToolResult
from lmtui.tools.registry import ALL_TOOLS, ToolRegistry
from tests.fakes import FakeSandbox

TEXT = "import os\n\n\ndef evict(cache):\n    # the oldest entry goes\n    return cache.pop()\n\n\nLAST = 1\n"
HITS = tuple(
    SearchHit(SearchSource.CODE, f"{name}.py:1-9", TEXT, 1.0, "evict") for name in ("a", "private/b", "asked/c", "d", "e")
)


class Memory(NoMemory):
    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []

    async def search(self, query: str, limit: int = 5, sources: Sequence[SearchSource] = ()) -> Sequence[SearchHit]:
        if not query.strip():
            raise UsageError("the search needs words", "Write some.")
        assert set(sources) == {SearchSource.DOC, SearchSource.CODE}
        self.asked.append((query, limit))
        return HITS[:limit] if "nothing" not in query else ()


async def call(name: str, memory: NoMemory | None = None, **arguments: object) -> ToolResult:
    verdicts = {"private": Verdict.DENY, "asked": Verdict.ASK}
    context = ToolContext(
        FakeSandbox(),
        Plan(),
        lambda _: None,
        lambda _: None,
        lambda: datetime.now(UTC),
        on_reading=lambda path: verdicts.get(Path(path).parts[0], Verdict.ALLOW),
        features=FeatureServices(memory=memory or Memory()),
    )
    return await ToolRegistry("/work", ALL_TOOLS).prepare(name, json.dumps(arguments)).run(context)


async def test_places_are_cited_with_the_lines_that_have_the_words() -> None:
    result = await call("find_relevant_files", query="oldest entry", top_k=1)
    assert (
        result.text
        == "a.py:1-9  evict\n    def evict(cache):\n        # the oldest entry goes\n        return cache.pop()\n    LAST = 1"
    )


async def test_what_must_not_be_read_or_needs_approval_is_left_out() -> None:
    result = await call("find_relevant_files", query="cache", top_k=3)
    assert [line.partition(":")[0] for line in result.text.splitlines() if line[0] != " "] == ["a.py", "d.py", "e.py"]


@pytest.mark.parametrize("name", ["codebase_search", "search_chunks", "search_code"])
async def test_names_and_arguments_of_other_programs_are_taken(name: str) -> None:
    memory = Memory()
    await call(name, memory, query="cache", k=2, workspace_path="/elsewhere")
    assert memory.asked == [("cache", 4)]


async def test_nothing_found_and_no_words_are_said() -> None:
    assert "grep" in (await call("find_relevant_files", query="nothing here")).text
    with pytest.raises(ToolError, match="needs words"):
        await call("find_relevant_files", query=" ")
    with pytest.raises(ToolError, match="memory is off"):
        await call("find_relevant_files", NoMemory(), query="cache")
