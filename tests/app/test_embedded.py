from __future__ import annotations

from contextlib import aclosing
from pathlib import Path

import psutil
import pytest

from lmtui.app.model_servers import FILES_URL, Embedded
from lmtui.core.errors import ProviderError
from lmtui.core.servers import ServerKind
from lmtui.models.embedded.embedded_server import ModelFiles
from tests.waiting import PATIENCE_S

FILES = {"a-Q4_K_M": (Path("/models/x/a-Q4_K_M.gguf"), 4_700_000_000), "b": (Path("/models/x/b.gguf"), 2_000_000)}


def embedded(*, can_run: bool, files: ModelFiles = FILES) -> Embedded:
    return Embedded(lambda: files, lambda: can_run)


async def test_files_are_a_server_among_others_with_the_wheel() -> None:
    (server,) = await embedded(can_run=True).found()
    assert (server.kind, server.url, server.can_load) == (ServerKind.FILES, FILES_URL, True)
    assert [(model.name, model.size_bytes) for model in server.models] == [("a-Q4_K_M", 4_700_000_000), ("b", 2_000_000)]
    assert [model.is_loaded for model in server.models] == [False] * 2
    assert await embedded(can_run=True, files={}).found() == []
    assert await embedded(can_run=False).found() == []


async def test_a_file_that_is_gone_is_told() -> None:
    mine = embedded(can_run=True)
    _ = await mine.found()
    with pytest.raises(ProviderError, match=r"no model file /models/x/a-Q4_K_M\.gguf"):
        _ = [step async for step in mine.load("a-Q4_K_M")]
    assert (mine.url, mine.model, mine.key_for("http://127.0.0.1:5")) == ("", "", "")
    mine.stop()


async def test_of_two_loads_at_once_the_first_is_given_up(tmp_path: Path) -> None:
    path = tmp_path / "a.gguf"
    path.write_bytes(b"GGUF")
    mine = embedded(can_run=True)
    first, second = mine.load(str(path)), mine.load(str(path))
    async with aclosing(first), aclosing(second):
        _ = await anext(first)
        _ = await anext(second)
        with pytest.raises(ProviderError, match="does not run"):
            _ = [step async for step in first]
    mine.stop()
    left = [child for child in psutil.Process().children() if "child.py" in " ".join(child.cmdline())]
    assert not psutil.wait_procs(left, PATIENCE_S)[1]  # one that was begun meanwhile is ended by its thread
