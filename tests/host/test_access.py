from __future__ import annotations

import asyncio
import contextlib
import os
import re
import socket
from pathlib import Path

import httpx2
import pytest
from starlette.types import Message, Receive, Scope, Send

from lmtui.core.errors import ConfigError, UsageError
from lmtui.host.access import FAILURES_S, MOST_FAILURES, ApiAccess, Failures, parse_json
from lmtui.host.connect import ensure_token, read_token
from lmtui.host.host_process import ENDPOINTS
from lmtui.host.http_server import check_address, open_tcp
from tests.host.conftest import TOKEN, Host, Start
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
ID = "20260101_120000_abcdef"


def test_the_token_is_made_once_for_its_user_alone(tmp_path: Path) -> None:
    token = ensure_token(tmp_path / "host")
    path = tmp_path / "host" / "host.token"
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert ensure_token(tmp_path / "host") == token == read_token(path)
    assert [each.name for each in path.parent.iterdir()] == ["host.token"]
    assert len(token) >= 40


@pytest.mark.parametrize("what", ["file mode", "folder mode", "link", "short", "folder link", "owner", "missing"])
def test_a_token_that_others_may_know_is_refused(tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "host"
    _ = ensure_token(folder)
    path = folder / "host.token"
    match what:
        case "file mode":
            path.chmod(0o644)
        case "folder mode":
            folder.chmod(0o755)
        case "link":
            path.rename(tmp_path / "elsewhere")
            path.symlink_to(tmp_path / "elsewhere")
        case "short":
            path.write_text("abc")
        case "folder link":
            folder.rename(tmp_path / "real")
            folder.symlink_to(tmp_path / "real")
        case "owner":
            monkeypatch.setattr(os, "geteuid", lambda: 12_345)
        case _:
            with pytest.raises(ConfigError, match="cannot be read"):
                _ = read_token(tmp_path / "nothing")
            return
    with pytest.raises(ConfigError) as caught:
        _ = ensure_token(folder)
    assert caught.value.hint


def all_routes(host: Host) -> list[tuple[str, str]]:
    """Return the method and path of every route that the application has, and one that it has not."""
    found = [("GET", "/nowhere"), ("GET", "/"), ("DELETE", "/v1/status"), ("OPTIONS", "/v1/status"), ("GET", "/v1/ws")]
    for route in host.app.routes:
        path = re.sub(r"\{(\w+)\}", lambda each: ID if each[1] == "id" else "x", str(getattr(route, "path", "/")))
        found += [(method, path) for method in getattr(route, "methods", None) or ("GET",)]
    return found


async def test_every_route_without_a_token_answers_401(start: Start) -> None:
    host = await start()
    routes = all_routes(host)
    assert len(routes) > len(ENDPOINTS) + 5
    async with httpx2.AsyncClient(base_url=host.url) as client:
        for method, path in routes:
            for headers in ({}, {"Content-Type": "application/json"}):
                answer = await client.request(method, path, headers=headers)
                assert answer.status_code == 401, (method, path)
                assert answer.headers["www-authenticate"].startswith("Bearer")
                if method != "HEAD":
                    assert answer.json()["error"]["type"] == "unauthorized"


async def test_a_token_in_the_address_counts_for_nothing(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    host = await start()
    caplog.set_level("DEBUG")
    async with httpx2.AsyncClient(base_url=host.url) as client:
        for path in (f"/v1/status?token={TOKEN}", f"/v1/status?access_token={TOKEN}"):
            assert (await client.get(path)).status_code == 401
        assert (await client.get("/v1/status", headers={"Authorization": f"Basic {TOKEN}"})).status_code == 401
        assert (await client.get("/v1/status", headers={"Authorization": f"bearer {TOKEN}"})).status_code == 200
    assert TOKEN not in "".join(
        f"{each.name}{each.getMessage()}" for each in caplog.records if each.name.startswith(("lmtui", "uvicorn"))
    )


async def test_who_guesses_is_slowed_down_and_locks_nobody_out(start: Start) -> None:
    now = [1000.0]
    host = await start(failures=Failures(lambda: now[0]))
    async with httpx2.AsyncClient(base_url=host.url) as client:
        wrong = {"Authorization": "Bearer wrong"}
        codes = [(await client.get("/v1/status", headers=wrong)).status_code for _ in range(MOST_FAILURES + 2)]
        assert codes == [401] * MOST_FAILURES + [429] * 2
        assert (await client.get("/v1/status")).status_code == 401
        assert (await client.get("/v1/status", headers={"Authorization": f"Bearer {TOKEN}"})).status_code == 200
        limited = await client.get("/v1/status", headers=wrong)
        assert 1 <= int(limited.headers["retry-after"]) <= FAILURES_S + 1
        now[0] += FAILURES_S + 1
        assert (await client.get("/v1/status", headers=wrong)).status_code == 401


async def test_a_request_for_another_name_is_refused(start: Start) -> None:
    host = await start(access=ApiAccess(TOKEN, names=["Box.lan"]))
    fine = ("127.0.0.1", "localhost:1", "[::1]:8765", "LOCALHOST", "box.lan:8765")
    foreign = ("evil.example", "127.0.0.1.evil.example", "evil.example:127.0.0.1", "127.0.0.1@evil.example", "127.0.0.1:x", "")
    for name in (*fine, *foreign):
        answer = await host.client.get("/v1/status", headers={"Host": name})
        assert answer.status_code == (200 if name in fine else 403), name


async def test_web_pages_may_use_it_only_if_they_were_named(start: Start) -> None:
    host = await start(access=ApiAccess(TOKEN, origins=["https://chat.example/"]))
    fine = ("https://chat.example", "https://chat.example/")
    for origin in (*fine, "http://chat.example", "http://127.0.0.1", "null", "https://chat.example.evil.example"):
        answer = await host.client.get("/v1/status", headers={"Origin": origin})
        assert answer.status_code == (200 if origin in fine else 403), origin
        assert ("access-control-allow-origin" in answer.headers) == (origin in fine)
        preflight = {"Origin": origin, "Access-Control-Request-Method": "POST", "Authorization": ""}
        assert (await host.client.options("/v1/status", headers=preflight)).status_code == (204 if origin in fine else 403)


@pytest.mark.parametrize(
    ("host_header", "server", "status"),
    [
        ("192.168.1.2:8765", ("192.168.1.2", 8765), 401),
        ("[fe80::1]:8765", ("fe80::1", 8765), 401),
        ("192.168.1.3:8765", ("192.168.1.2", 8765), 403),
        ("box.lan", ("box.lan", 8765), 403),
        ("/run/socket", ("/run/socket", None), 403),
        ("localhost", None, 401),
    ],
)
async def test_the_address_that_a_request_came_in_at_is_a_name(host_header: str, server: object, status: int) -> None:
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request"}

    async def send(message: Message) -> None:
        sent.append(message)

    async def nothing(scope: Scope, receive: Receive, send: Send) -> None:
        raise AssertionError

    scope = {"type": "http", "method": "GET", "path": "/", "server": server, "headers": [(b"host", host_header.encode())]}
    await ApiAccess(TOKEN).guard(nothing)(scope, receive, send)
    assert sent[0]["status"] == status


async def test_two_headers_of_one_name_are_not_taken(start: Start) -> None:
    host = await start()
    request = f"GET /v1/status HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
    assert (await raw(host, request.encode())).startswith((b"HTTP/1.1 400", b"HTTP/1.1 403"))
    request = f"GET /v1/status HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer x\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
    assert (await raw(host, request.encode())).startswith(b"HTTP/1.1 401")


async def raw(host: Host, data: bytes) -> bytes:
    """Send bytes and return what comes back first."""
    reader, writer = await asyncio.open_connection("127.0.0.1", host.port)
    try:
        writer.write(data)
        async with asyncio.timeout(PATIENCE_S):
            return await reader.read(65_536)
    finally:
        writer.close()


def head(path: str, **headers: str) -> bytes:
    """Return the beginning of a request with the token."""
    told = {"Host": "127.0.0.1", "Authorization": f"Bearer {TOKEN}", **{k.replace("_", "-"): v for k, v in headers.items()}}
    lines = [f"POST {path} HTTP/1.1", *(f"{name}: {value}" for name, value in told.items())]
    return "".join(f"{line}\r\n" for line in (*lines, "")).encode()


async def test_a_body_of_a_gigabyte_is_refused_before_it_is_sent(start: Start) -> None:
    host = await start()
    for path in ("/v1/sessions", "/v1/uploads", "/v1/chat/completions", f"/v1/sessions/{ID}/messages"):
        answer = await raw(host, head(path, Content_Length="1073741824", Content_Type="application/json") + b"[" * 100)
        assert answer.startswith(b"HTTP/1.1 413"), path
        assert (b'"too_large"' in answer, b"connection: close" in answer.lower()) == (True, True)


async def test_a_body_without_an_end_is_read_no_further_than_allowed(start: Start) -> None:
    host = await start()
    reader, writer = await asyncio.open_connection("127.0.0.1", host.port)
    writer.write(head("/v1/sessions", Transfer_Encoding="chunked", Content_Type="application/json"))
    sent = 0
    answer = asyncio.ensure_future(reader.read(65_536))
    async with asyncio.timeout(PATIENCE_S):
        while not answer.done() and sent < 64:
            writer.write(b"10000\r\n" + b" " * 65_536 + b"\r\n")
            sent += 1
            try:
                await writer.drain()
            except ConnectionError:
                break
            await asyncio.sleep(0.001)
    assert (await answer).startswith(b"HTTP/1.1 413")
    assert sent < 64
    writer.close()


BODIES = (
    b"[" * 100_000, b'{"message": ' * 40 + b"1" + b"}" * 40, b'{"message": NaN}', b"\xff", b"{", b"[]", b'{"unknown": 1}',
    b'{"message": 1}', b'{"folder": "/etc"}', b'{"folder": "../.."}', b'{"folder": "/etc\\u0000"}',
)  # fmt: skip


async def test_bodies_that_cannot_be_are_refused_with_a_reason(start: Start) -> None:
    host = await start()
    json_bodies = [(content, "application/json", 422) for content in BODIES]
    others = [(b"{}", "text/plain", 415), (b"message=x", "application/x-www-form-urlencoded", 415)]
    for content, kind, status in (*json_bodies, *others):
        answer = await host.client.post("/v1/sessions", content=content, headers={"Content-Type": kind})
        assert (answer.status_code, bool(answer.json()["error"]["message"])) == (status, True), content[:50]
    assert not (await host.call("GET", "/v1/sessions"))["sessions"]


async def test_ids_that_are_none_find_nothing(start: Start) -> None:
    host = await start(mode="auto")
    _ = await host.new_session()
    for name in ("..%2f..%2fetc%2fpasswd", "%2e%2e", "20260101_120000_abcde", "20260101_120000_abcdef%00", "*"):
        for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/history"), ("GET", "/events"), ("POST", "/interrupt")):
            answer = await host.client.request(method, f"/v1/sessions/{name}{path}")
            assert answer.status_code in (404, 405), (name, method, path)
            assert answer.json()["error"]["message"] in ("no such session", "Not Found", "Method Not Allowed")
    assert len((await host.call("GET", "/v1/sessions"))["sessions"]) == 1


async def test_a_method_that_is_not_there_is_answered_with_those_that_are(start: Start) -> None:
    answer = await (await start()).client.delete("/v1/sessions")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD, POST")


async def test_files_outside_of_the_folder_are_out_of_reach(start: Start) -> None:
    host = await start()
    (host.folder / "link").symlink_to("/etc")
    for path in ("/etc/passwd", "../x", "a/../../x", "~/.ssh", "x%00", "link/passwd"):
        for route in ("/v1/files", "/v1/files/content", "/v1/serve"):
            status = (await host.client.get(f"{route}?path={path}")).status_code
            assert status == (404 if path.startswith("link") else 422), path


async def test_connections_that_say_nothing_go_and_harm_nobody(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lmtui.host.http_server.MOST_HALF_OPEN", 40)
    monkeypatch.setattr("lmtui.host.http_server._ACCEPTED_AT_ONCE", 8)
    host = await start()
    waiting: list[socket.socket] = []
    try:
        for _ in range(250):
            one = socket.socket()
            one.settimeout(0)
            _ = one.connect_ex(("127.0.0.1", host.port))
            waiting.append(one)
            if len(waiting) % 50 == 0:
                await asyncio.sleep(0.01)
        for one in waiting[::2]:
            try:
                _ = one.send(b"GET / HTTP/1.1\r\nHost: ")
            except OSError:
                continue
        for _ in range(5):
            async with httpx2.AsyncClient(base_url=host.url, headers=host.client.headers) as client:
                assert (await client.get("/v1/status")).status_code == 200
        await asyncio.sleep(0.1)
        assert sum(is_closed(one) for one in waiting) >= 200
    finally:
        for one in waiting:
            one.close()


def is_closed(one: socket.socket) -> bool:
    try:
        return one.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


async def test_a_connection_has_so_long_for_its_headers(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lmtui.host.http_server.HEADERS_TIMEOUT_S", 0.2)
    host = await start()
    for begun in (b"", b"GET", b"GET /v1/status HTTP/1.1\r\nHost: 127.0.0.1\r\n"):
        with contextlib.suppress(ConnectionError):
            assert await raw(host, begun) == b""


async def test_while_it_closes_nothing_is_taken_up(start: Start) -> None:
    access = ApiAccess(TOKEN)
    host = await start(access=access)
    access.is_closing = True
    answer = await host.client.get("/v1/status")
    assert (answer.status_code, answer.json()["error"]["type"]) == (503, "closing")


def test_other_machines_reach_it_only_encrypted_or_by_name() -> None:
    for host, certificate, plain in (
        ("127.0.0.1", False, False), ("localhost", False, False), ("::1", False, False), ("0.0.0.0", True, False),
        ("192.168.1.2", False, True),
    ):  # fmt: skip
        check_address(host, is_allowed=certificate or plain)
    for host in ("0.0.0.0", "192.168.1.2", "box.lan"):
        with pytest.raises(UsageError, match="other machines"):
            check_address(host, is_allowed=False)


def test_addresses_that_cannot_be_served_are_refused() -> None:
    for address in ("", "127.0.0.1", ":8765", "127.0.0.1:x", "127.0.0.1:99999", "0.0.0.0:1"):
        with pytest.raises(UsageError):
            open_tcp(address, is_allowed=False).close()


def test_json_that_is_nested_deeply_is_refused() -> None:
    assert parse_json(b"[" * 150 + b"]" * 150)
    with pytest.raises(ValueError, match="recursion limit"):
        parse_json(b"[" * 250 + b"]" * 250)
