from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import urllib.request
from http.cookiejar import CookieJar
from pathlib import Path

import psutil
import pytest
from websockets.asyncio.client import connect

from tests.waiting import PATIENCE_S, until


def lmtui(folder: Path, *arguments: str) -> tuple[list[str], dict[str, str]]:
    environment = {**os.environ, "LMTUI_HOME": str(folder / "home"), "PYTHONPATH": os.pathsep.join(sys.path)}
    return [sys.executable, "-P", "-m", "lmtui", *arguments], environment


def stop(folder: Path, environment: dict[str, str]) -> None:
    subprocess.run(lmtui(folder, "host", "stop", "--now")[0], env=environment, check=True, capture_output=True)


@pytest.mark.full
async def test_a_tab_shows_the_app_until_it_is_closed_and_the_pages_end_with_the_command(tmp_path: Path) -> None:
    command, environment = lmtui(tmp_path, "serve", "--port", "0", str(tmp_path))
    environ = environment | {"LLM_API_KEY": "secret"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ) as served:  # noqa: ASYNC220  (it says little)
        assert served.stdout is not None
        try:
            _ = served.stdout.readline()
            link = served.stdout.readline().split()[-1]
            cookies = CookieJar()
            browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(cookies))
            with browser.open(link, timeout=20) as page:
                assert "textual-terminal" in page.read().decode()
            assert "For another browser" in served.stdout.readline()
            address = link.split("/")[2]
            headers = {"Cookie": "; ".join(f"{each.name}={each.value}" for each in cookies), "Origin": f"http://{address}"}
            async with connect(f"ws://{address}/ws?width=90&height=25", additional_headers=headers) as tab:
                got = b""
                async with asyncio.timeout(PATIENCE_S):
                    while b"send" not in got:
                        got += bytes(await tab.recv())  # type: ignore[arg-type]  # the app sends bytes alone
                running = [each for each in psutil.process_iter(["cmdline"]) if (each.info["cmdline"] or [])[1:] == command[1:]]
                (app,) = [each for each in running if each.pid != served.pid]
                assert b"secret" not in Path(f"/proc/{app.pid}/environ").read_bytes()
                await tab.send(json.dumps(["ping", 1]))
            await until(lambda: not app.is_running() or app.status() == psutil.STATUS_ZOMBIE)
        finally:
            served.terminate()
            served.wait()
            stop(tmp_path, environment)


@pytest.mark.full
@pytest.mark.parametrize("port", ["-1", "65536"])
def test_a_port_that_is_none_is_told_before_anything_is_said(port: str, tmp_path: Path) -> None:
    command, environment = lmtui(tmp_path, "serve", f"--port={port}", str(tmp_path))
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    stop(tmp_path, environment)
    assert (found.returncode, found.stdout) == (64, "")
    assert "HOST:PORT" in found.stderr
