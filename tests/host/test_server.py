from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from lmtui.host.access import ApiAccess
from lmtui.host.host_process import build_app
from lmtui.host.http_server import serve
from lmtui.host.hub import SessionHub
from tests.host.conftest import TOKEN

HEADERS = {"Authorization": f"Bearer {TOKEN}"}
CERTIFICATE = """\
-----BEGIN CERTIFICATE-----
MIIBmzCCAUGgAwIBAgIUZD1ctaMQULJ4bbpHlxrp7gOCG6AwCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJbG9jYWxob3N0MCAXDTI2MTEyNjE1MTM1NVoYDzIwODEwODI5
MTUxMzU1WjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAARPpGMv2HDfCISvKLMTS0P2SfYtdS+gEGV3HgQBuyC7/M7pm6W8wLO5
FoFF0Z9FckFlP7uGkgRdTJpWqUZa+/tjo28wbTAdBgNVHQ4EFgQUn6XaRYYL48pc
CUmRXSEC0tyoMjgwHwYDVR0jBBgwFoAUn6XaRYYL48pcCUmRXSEC0tyoMjgwDwYD
VR0TAQH/BAUwAwEB/zAaBgNVHREEEzARgglsb2NhbGhvc3SHBH8AAAEwCgYIKoZI
zj0EAwIDSAAwRQIgT7f1dYHUYx8rdobyq7JnquzMG4oyIvdMqm1rh+m5u6YCIQDi
OKNdehZAbs3exMJFGd2NkmVMXz+yUPXlANeMhDw2Jw==
-----END CERTIFICATE-----
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgbcXdtUdTni5y7ek6
A84KkSJ/uybmxDR9r+dqQQ9DrRqhRANCAARPpGMv2HDfCISvKLMTS0P2SfYtdS+g
EGV3HgQBuyC7/M7pm6W8wLO5FoFF0Z9FckFlP7uGkgRdTJpWqUZa+/tj
-----END PRIVATE KEY-----
"""


@contextlib.asynccontextmanager
async def serving(*listeners: socket.socket, **more: Any) -> AsyncIterator[int]:
    """Serve, by default on a free port, and return the port of the last listener; it ends well within five seconds."""
    own = listeners or (socket.create_server(("127.0.0.1", 0)),)
    stop = asyncio.Event()
    task = asyncio.ensure_future(serve(build_app(SessionHub(), ApiAccess(TOKEN)), [*own], stop=stop, **more))
    await asyncio.sleep(0.1)
    yield own[-1].getsockname()[1]
    stop.set()
    async with asyncio.timeout(5):
        await task


def local_socket(folder: Path) -> socket.socket:
    local = socket.socket(socket.AF_UNIX)
    local.bind(str(folder / "s"))
    local.listen()
    return local


async def test_it_serves_a_unix_socket_and_encrypted_tcp_at_once_and_ends_within_two_seconds(tmp_path: Path) -> None:
    (tmp_path / "cert.pem").write_text(CERTIFICATE)
    context = ssl.create_default_context(cafile=str(tmp_path / "cert.pem"))
    transport = httpx2.AsyncHTTPTransport(uds=str(tmp_path / "s"))
    remote = socket.create_server(("127.0.0.1", 0))
    async with (
        serving(local_socket(tmp_path), remote, certificate=tmp_path / "cert.pem") as port,
        httpx2.AsyncClient(base_url="http://localhost", transport=transport, headers=HEADERS) as one,
        httpx2.AsyncClient(base_url=f"https://localhost:{port}", verify=context, headers=HEADERS) as other,
    ):
        for client in (one, other):
            assert (await client.get("/v1/status")).status_code == 200
            assert (await client.get("/v1/status", headers={"Authorization": ""})).status_code == 401


async def test_who_begins_an_encrypted_connection_has_so_long_to_finish_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lmtui.host.http_server.HEADERS_TIMEOUT_S", 0.2)
    (tmp_path / "cert.pem").write_text(CERTIFICATE)
    async with serving(certificate=tmp_path / "cert.pem") as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(5):
                assert await reader.read(10) == b""
        writer.close()


async def test_wrong_tokens_on_the_socket_are_counted_too(tmp_path: Path) -> None:
    transport = httpx2.AsyncHTTPTransport(uds=str(tmp_path / "s"))
    wrong = {"Authorization": "Bearer wrong"}
    async with serving(local_socket(tmp_path)), httpx2.AsyncClient(base_url="http://localhost", transport=transport) as client:
        codes = [(await client.get("/v1/status", headers=wrong)).status_code for _ in range(12)]
        assert codes == [401] * 10 + [429] * 2
        assert (await client.get("/v1/status", headers=HEADERS)).status_code == 200


async def test_requests_that_come_at_once_are_answered_in_order_and_no_log_has_their_parameters(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    head = f"GET /v1/status?secret={TOKEN} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode()
    async with serving() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(head + head.replace(f"?secret={TOKEN}".encode(), b""))  # pipelined
        async with asyncio.timeout(10):
            first = await reader.readuntil(b"\r\n\r\n")
            size = int(first.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            assert json.loads(await reader.readexactly(size))["error"]["type"] == "invalid_request"
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
        writer.close()
    lines = [each.getMessage() for each in caplog.records if each.name.startswith("lmtui")]
    assert not any(TOKEN in line for line in lines)
