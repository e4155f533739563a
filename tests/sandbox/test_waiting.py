from __future__ import annotations

import asyncio

import pytest

from lmtui.sandbox.supervisor_client import to_the_end


async def test_work_is_done_however_often_it_is_cancelled() -> None:
    done: list[str] = []

    async def work() -> str:
        await asyncio.sleep(0.1)
        done.append("work")
        return "result"

    task = asyncio.create_task(to_the_end(work()))
    for _ in range(3):
        await asyncio.sleep(0.01)
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert done == ["work"]
