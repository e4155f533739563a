"""The tool that finds files by what is in them: names, words, or what is meant."""

from __future__ import annotations

from lmtui.core.memory_values import MemoryReader, SearchHit, SearchSource
from lmtui.core.permissions.rules import Access, Verdict
from lmtui.core.ports import ToolContext, ToolResult
from lmtui.core.sanitize import pluralize, sanitize_line
from lmtui.features.memory.chunks import words_of
from lmtui.features.memory.tools import as_tool_error
from lmtui.tools.tool import Arguments, Told, Tool, always, argument

_SOURCES = (SearchSource.DOC, SearchSource.CODE)
_EXCERPT_LINES, _LINE_CHARS = 4, 160


class FindArguments(Arguments):
    """What to look for."""

    query: str = argument(also=("q", "text", "question", "search"), doc="words or names")
    top_k: int = argument(5, also=("k", "limit", "max_results", "n"), is_told=False, ge=1, le=20)
    workspace_path: str = argument("", also=("path", "target_directories"), is_told=False)


async def _find(arguments: FindArguments, context: ToolContext) -> ToolResult:
    with as_tool_error():
        hits = await context.features[MemoryReader].search(arguments.query, 2 * arguments.top_k, _SOURCES)
    shown = [hit for hit in hits if context.on_reading(hit.place.rpartition(":")[0]) is Verdict.ALLOW][: arguments.top_k]
    if not shown:
        return ToolResult("Nothing was found. Use grep for exact text, or other words.", "none")
    wanted = set(words_of(arguments.query))
    return ToolResult("\n".join(_hit_text(hit, wanted) for hit in shown), pluralize(len(shown), "place"))


def _hit_text(hit: SearchHit, wanted: set[str]) -> str:
    """Return a place with the lines around the one that has the most of the words."""
    lines = [line for line in hit.text.split("\n") if line.strip()]
    counts = [len(wanted.intersection(words_of(line))) for line in lines]
    first = max(0, counts.index(max(counts)) - 1) if counts else 0
    shown = (f"    {sanitize_line(line)[:_LINE_CHARS]}" for line in lines[first : first + _EXCERPT_LINES])
    return "\n".join((f"{hit.place}{hit.title and f'  {hit.title}'}", *shown))


FIND_RELEVANT_FILES = Tool(
    name="find_relevant_files",
    description="Find places in code and documents by words or meaning.",
    arguments=FindArguments,
    run=_find,
    access=always(Access.READ),
    subject=lambda _: ".",
    title=lambda arguments: arguments.query,
    aliases=("codebase_search", "search_chunks", "search_code", "semantic_search"),
    told=Told.SELDOM,
)
