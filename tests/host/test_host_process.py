import argparse
import asyncio
import subprocess
from collections.abc import Iterator

import pytest
from starlette.requests import Request

from lmtui.config import Config
from lmtui.core.errors import LmtuiError, UsageError
from lmtui.host import connect
from lmtui.host.connect import HostInfo, running_host, write_info
from lmtui.host.endpoints import ApiError
from lmtui.host.host_process import HostProcess, host_lock, run_host
from lmtui.host.hub import SessionHub
from lmtui.host.web import pages
from tests.waiting import PATIENCE_S


@pytest.fixture
def other() -> Iterator[subprocess.Popen[bytes]]:
    """Return a program that has nothing to do with the host, but the process id that is written down for it."""
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


def _stop() -> int:
    return connect.host(argparse.Namespace(action="stop", now=False, json=False))


def test_an_address_without_start_is_refused_with_the_command_to_use() -> None:
    with pytest.raises(UsageError, match="--http goes with start") as caught:
        connect.host(argparse.Namespace(action="status", http="127.0.0.1:0", json=False))
    assert "`lmtui host start --http 127.0.0.1:0`" in caught.value.hint


async def test_a_host_of_another_pid_namespace_is_stopped_and_no_program_that_has_its_process_id(
    other: subprocess.Popen[bytes],
) -> None:
    with host_lock() as file:
        serving = asyncio.create_task(run_host(file, Config()))
        async with asyncio.timeout(PATIENCE_S):
            while (found := running_host()) is None:
                await asyncio.sleep(0.01)
            given = argparse.Namespace(action="start", http="127.0.0.1:1", plain_http=False, json=False)
            with pytest.raises(UsageError, match="without HTTP") as caught:
                await asyncio.to_thread(connect.host, given)
            assert "Run `lmtui host stop`, then this command again" in caught.value.hint
            write_info(file, HostInfo(other.pid, found.version, found.started))
            stopping = asyncio.create_task(asyncio.to_thread(_stop))
            await serving
    assert (await stopping, other.poll()) == (0, None)


async def test_a_host_on_any_free_port_says_which_it_is() -> None:
    with host_lock() as file:
        serving = asyncio.create_task(run_host(file, Config(), "127.0.0.1:0"))
        async with asyncio.timeout(PATIENCE_S):
            while (found := running_host()) is None:
                await asyncio.sleep(0.01)
        stopping = asyncio.create_task(asyncio.to_thread(_stop))
        await serving
    assert await stopping == 0
    assert int(found.http.removeprefix("http://127.0.0.1:")) > 0


def test_what_a_killed_host_left_stops_no_program(other: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect, "_STOP_LIMIT_S", 0.1)
    with host_lock() as file:
        write_info(file, HostInfo(other.pid, "1", "2026-01-01"))
        with pytest.raises(LmtuiError):
            _stop()
    assert (_stop(), other.poll()) == (0, None)


@pytest.mark.parametrize(("server", "is_stopped"), [(("/run/host.sock", None), True), (("127.0.0.1", 8765), False)])
async def test_only_a_client_of_this_machine_stops_it_or_serves_pages(server: tuple[str, int | None], is_stopped: bool) -> None:
    process = HostProcess(SessionHub(), 0)
    await process.status(Request({"type": "http", "method": "DELETE", "server": server}))
    assert process.stop.is_set() is is_stopped
    if not is_stopped:
        with pytest.raises(ApiError, match="network"):
            await pages(Request({"type": "http", "method": "POST", "server": server}), SessionHub())
