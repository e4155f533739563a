from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest
from aiohttp import web
from textual_serve.download_manager import DownloadManager

from lmtui.web.web_server import Tab

PROGRAM = """
import os, pathlib, sys
sys.path[:0] = sys.argv[2:]
from lmtui.app.process import receive_environment
begun = pathlib.Path("/proc/self/environ").read_text()
receive_environment()
pathlib.Path(sys.argv[1]).write_text(begun + "\\n-- then --\\n" + repr(dict(os.environ)))
"""


async def stopped(tab: Tab) -> None:
    """Stop a tab and wait until its process is gone with all its pipes: what is left open is told in a later test."""
    async with asyncio.timeout(20):
        await tab.stop()
        while not tab._process._transport.is_closing():  # type: ignore[union-attr]  # what the event loop keeps of it
            await asyncio.sleep(0.01)


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
async def test_a_tab_begins_without_a_key_and_gets_it_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LLM_API_KEY", "GITHUB_TOKEN", "LD_PRELOAD_NOTE", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "sk-0123456789")
    out = tmp_path / "out"
    tab = Tab([sys.executable, "-c", PROGRAM, str(out), *sys.path], web.WebSocketResponse(), DownloadManager())
    await tab.start(90, 30)
    async with asyncio.timeout(20):
        while not out.exists() or "-- then --" not in out.read_text():
            await asyncio.sleep(0.02)
    await stopped(tab)
    begun, _, then = out.read_text().partition("-- then --")
    assert "PATH=" in begun
    assert "0123456789" not in begun
    assert then.count("sk-0123456789") == 4
    assert "'COLUMNS': '90'" in then


async def test_a_tab_whose_process_ends_at_once_can_be_stopped() -> None:
    tab = Tab([sys.executable, "-c", ""], web.WebSocketResponse(), DownloadManager())
    await tab.start(80, 24)
    await stopped(tab)
