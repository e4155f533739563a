"""One browser tab: an app process that is started without a shell and gets its environment over a socket.

Keys are in the environment.  The process's own start-up block would show them to every process of the same user, so it holds
only what Python needs to start; the rest is sent once that process cannot be read from outside.
"""

from __future__ import annotations

import asyncio
import json
import socket
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable, Sequence

from aiohttp import web
from textual_serve.app_service import AppService
from textual_serve.download_manager import DownloadManager

from lmtui.app.process import ENVIRONMENT_SOCKET, environment_at_start


class Tab(AppService):
    """The app of one websocket; `command` is a list of arguments."""

    def __init__(self, command: Sequence[str], websocket: web.WebSocketResponse, downloads: DownloadManager) -> None:
        super().__init__(
            "",
            write_bytes=websocket.send_bytes,
            write_str=websocket.send_str,
            close=_closer(websocket),
            download_manager=downloads,
        )
        self._arguments = command
        self._sending: asyncio.Task[None] | None = None  # it ends with the process at the latest

    async def _open_app_process(self, width: int = 80, height: int = 24) -> Process:
        environment = self._build_environment(width, height)
        here, there = socket.socketpair()
        with there:
            begun = {**environment_at_start(environment), ENVIRONMENT_SOCKET: str(there.fileno())}
            self._process = await asyncio.create_subprocess_exec(
                *self._arguments, stdin=PIPE, stdout=PIPE, stderr=PIPE, env=begun, pass_fds=(there.fileno(),)
            )
        self._stdin = self._process.stdin
        self._sending = asyncio.create_task(_send_when_ready(here, json.dumps(environment).encode()))
        return self._process


async def _send_when_ready(process: socket.socket, data: bytes) -> None:
    """Send data once the other end sends a byte; send nothing if it ends first."""
    with process:
        process.settimeout(0)
        loop = asyncio.get_running_loop()
        if await loop.sock_recv(process, 1):
            await loop.sock_sendall(process, data)


def _closer(websocket: web.WebSocketResponse) -> Callable[[], Awaitable[None]]:
    async def close() -> None:
        await websocket.close()

    return close
