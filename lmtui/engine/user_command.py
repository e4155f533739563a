"""A shell command of the user's own, as a turn with one call: it can be stopped, undone and rewound like any other."""

from __future__ import annotations

import asyncio
import contextlib
import json

from lmtui.core.errors import SessionFileError
from lmtui.core.events import TurnEnded, TurnReason, TurnStarted
from lmtui.core.messages import ToolCall
from lmtui.engine.completion import EXIT_CODES
from lmtui.engine.desk import Desk
from lmtui.engine.inbox import Said
from lmtui.engine.tool_runner import run_call
from lmtui.engine.turn import FAILED_INSIDE

_TIMEOUT_S = 120


async def run_user_command(desk: Desk, said: Said, turn_id: str) -> None:
    """Run one command, or one call, to its end; a cancel passes on."""
    started = desk.monotonic()
    reason, error_text = TurnReason.ERROR, FAILED_INSIDE
    arguments = said.text if said.tool else json.dumps({"command": said.text, "timeout": _TIMEOUT_S})
    desk.begin(turn_id)
    try:
        desk.emit(TurnStarted(agent=desk.agent, turn_id=turn_id))
        call = ToolCall(f"user_{turn_id}", said.tool or "shell", arguments)
        await run_call(desk, call, turn_id, desk.files, by="user" if said.is_told else "user_alone")
        reason, error_text = TurnReason.DONE, ""
    except asyncio.CancelledError:
        reason, error_text = TurnReason.INTERRUPTED, ""
        raise
    except SessionFileError as error:
        error_text = error.full_text()
    finally:
        with contextlib.suppress(SessionFileError):  # it was shown; the log's failure was told with what went before
            desk.emit(
                TurnEnded(
                    agent=desk.agent,
                    turn_id=turn_id,
                    reason=reason,
                    status=str(reason),
                    exit_code=EXIT_CODES[reason],
                    files_changed=tuple(desk.files),
                    elapsed_s=round(desk.monotonic() - started, 3),
                    sandbox=desk.sandbox_name,
                    error=error_text,
                )
            )
