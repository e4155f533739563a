from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from lmtui.features.memory.subcommands import memory, memory_parser
from lmtui.features.memory.workspace_search import WorkspaceSearch, open_search
from lmtui.features.service import CommandCall
from tests.app.conftest import Open
from tests.models.conftest import serve
from tests.models.fake_server import Serve, ok

__all__ = ["serve"]


async def found(search: WorkspaceSearch, query: str) -> set[str]:
    hits = await search.search(query, 9, within_s=30)
    return {hit.place.partition(":")[0] for hit in hits}


async def test_what_is_ignored_or_forbidden_to_read_is_not_in_the_index(open_one: Open, workspace: Path) -> None:
    (workspace / "private").mkdir()
    for path in ("shown.py", "built.py", "private/plans.py", ".env"):
        (workspace / path).write_text("marker = 1\n")
    (workspace / ".gitignore").write_text("built.py\n")
    runtime = open_one(deny=("Read(private/**)",))
    search = open_search(runtime, tuple, runtime.servers.embed)
    assert await found(search, "marker") == {"shown.py"}
    assert search.embedder is None
    await search.close()


async def test_the_role_embedder_names_the_model(open_one: Open, workspace: Path) -> None:
    (workspace / "a.py").write_text("marker = 1\n")
    runtime = open_one("http://127.0.0.1:9", roles=("embedder: nomic-embed",))
    search = open_search(runtime, tuple, runtime.servers.embed)
    assert search.embedder is not None
    assert search.embedder.model == "nomic-embed"
    assert await found(search, "marker") == {"a.py"}
    assert search._embedding is not None
    await asyncio.wait({search._embedding}, timeout=30)
    assert "refused" in search.embedder.problem
    await search.close()


async def test_the_command_asks_the_embedder_too(open_one: Open, serve: Serve, workspace: Path) -> None:
    (workspace / "a.md").write_text("apples\n")
    server = await serve({"/v1/embeddings": lambda body: ok({"data": [{"index": 0, "embedding": [1.0]}]})})
    runtime: Any = open_one(f"{server.url}/v1", roles=("embedder: nomic-embed",))

    @asynccontextmanager
    async def host() -> AsyncIterator[Any]:
        yield runtime

    assert await memory(CommandCall(runtime, memory_parser().parse_args(["search", "apples"]), host)) == 0
    assert ["search_query: apples"] in [body["input"] for _, body in server.posted]
