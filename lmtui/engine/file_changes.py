"""What a tool call changed, exactly: the workspace's state is kept before it and compared after it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TypeVar

from lmtui.core.errors import SandboxError
from lmtui.core.events import CheckpointCreated, FilesChanged, Level, Notice
from lmtui.core.permissions.decide import Access
from lmtui.core.ports import Snapshot, ToolResult
from lmtui.engine.agent import Agent

T = TypeVar("T")
CHANGERS = (Access.WRITE, Access.EXECUTE)
_PATIENCE_S = 15.0


async def snapshot_before(agent: Agent, call_id: str, access: Access) -> Snapshot | None:
    """Keep the state before a call that may change files; None without a need or no way, and the user is told once."""
    if access not in CHANGERS or agent.services.checkpoints is None:
        return None
    try:
        before = await agent.services.checkpoints.snapshot()
    except SandboxError as error:
        _tell_once(agent, f"What changes now cannot be undone: {error.full_text()}")
        return None
    agent.checkpoint_problem = ""
    agent.emit(
        CheckpointCreated(
            agent=agent.id,
            call_id=call_id,
            checkpoint=before.id,
            left_out=before.left_out,
            left_out_total=before.left_out_total,
        )
    )
    if before.dropped:
        text = f"{before.dropped} old checkpoints were dropped: the store is bounded in size and age."
        agent.emit(Notice(agent=agent.id, level=Level.INFO, text=text))
    return before


def _tell_once(agent: Agent, problem: str) -> None:
    """Say why no state can be kept; the next call tries again, and only what is new is said."""
    if problem != agent.checkpoint_problem:
        agent.checkpoint_problem = problem
        agent.emit(Notice(agent=agent.id, level=Level.WARNING, text=problem))


async def record_changes(
    agent: Agent, call_id: str, before: Snapshot | None, result: ToolResult, files: dict[str, None]
) -> tuple[str, ...]:
    """Report what a call changed, add it to `files` and return it: from comparing states, else from the tool."""
    changes, after_id = result.changes, ""
    if before is not None and agent.services.checkpoints is not None:
        try:
            after = await agent.services.checkpoints.snapshot()
            changes, after_id = await agent.services.checkpoints.changes(before.id, after.id, is_now=True), after.id
        except SandboxError as error:
            agent.emit(Notice(agent=agent.id, level=Level.WARNING, text=f"This step cannot be undone: {error.full_text()}"))
    paths = tuple(change.path for change in changes)
    if changes:
        ids = (before.id, after_id) if before is not None and after_id else ("", "")
        files.update(dict.fromkeys(paths))
        agent.emit(FilesChanged(agent=agent.id, call_id=call_id, files=paths, changes=changes, before=ids[0], after=ids[1]))
    return paths


async def to_the_end(work: Coroutine[object, object, T]) -> T:
    """Do the work though its caller is cancelled meanwhile, once or more: the cancel passes on after it.

    What takes more than 15 s after a cancel is given up.
    """
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            if cancelled is None:
                loop.call_later(_PATIENCE_S, task.cancel)
            cancelled = error
    if cancelled is not None:
        if not task.cancelled():
            task.exception()  # seen; the cancel is what the caller waits for
        raise cancelled
    return task.result()
