from __future__ import annotations

import socket

import pytest
from starlette.types import Message

from lmtui.host.access import FAILURES_S
from lmtui.host.connect import PIN_VARIABLE, read_pin
from lmtui.host.web import MOST_TRIES, AccessControl, WebPages, linked_name
from tests.host.test_web_tab import wanted


def test_a_pin_of_the_environment_is_not_asked_for_and_not_handed_on() -> None:
    environ = {PIN_VARIABLE: "246810"}
    assert (read_pin(environ, "", asks=True), environ) == ("246810", {})


def test_the_link_opens_once_and_the_pin_and_the_token_as_often_as_they_are_given() -> None:
    door = AccessControl("246810", "t" * 40)
    token = door.token
    assert door.is_open_to(door.try_key(token))
    assert (door.try_key(token), door.try_key("t" * 39)) == ("", "")
    assert all(door.is_open_to(door.try_key(key)) for key in ("246810", "t" * 40) for _ in range(2))


def test_too_many_wrong_keys_lock_it_for_a_while() -> None:
    now = [0.0]
    door = AccessControl("246810", clock=lambda: now[0])
    for _ in range(MOST_TRIES):
        assert not door.try_key("wrong")
    assert (door.is_locked, door.try_key("246810")) == (True, "")
    now[0] += FAILURES_S
    assert door.try_key("246810")


def test_what_is_no_key_is_refused_whatever_it_is() -> None:
    door = AccessControl("246810")
    _ = door.try_key(door.token)
    for text in ("\udcff", "a\ud800", "\0", "ä" * 300, ""):
        assert (door.try_key(text), door.is_open_to(text), AccessControl().try_key(text)) == ("", False, ""), text


@pytest.mark.parametrize(
    ("host", "origin", "server", "status"),
    [
        ("127.0.0.1:8000", "", "127.0.0.1", 101), ("127.0.0.1:8000", "http://127.0.0.1:8000", "127.0.0.1", 200),
        ("localhost:8000", "http://LOCALHOST:8000", "127.0.0.1", 200), ("BOX:8000", "http://box:8000", "10.0.0.1", 200),
        ("10.0.0.1:8000", "http://10.0.0.1:8000", "10.0.0.1", 200), ("10.0.0.2:8000", "http://10.0.0.2:8000", "10.0.0.1", 403),
        ("evil.example:8000", "http://evil.example:8000", "127.0.0.1", 403),
        *(
            ("127.0.0.1:8000", origin, "127.0.0.1", 403)
            for origin in (
                "http://127.0.0.1:8001", "http://127.0.0.1:8000.evil.example", "http://127.0.0.1:8000@evil.example",
                "https://127.0.0.1:8000", "http://localhost:8000", "http://[", "null",
            )
        ),
    ],
)  # fmt: skip
async def test_only_pages_of_ours_at_names_of_ours_are_answered(host: str, origin: str, server: str, status: int) -> None:
    login = AccessControl()
    key = login.try_key(login.token)
    with socket.create_server(("0.0.0.0", 0)) as listener:
        assert linked_name("0.0.0.0", listener) not in ("0.0.0.0", "")
    app = WebPages(wanted(), login, "http://box:8000", lambda _: None).app()
    headers = {"host": host, "cookie": f"lmtui-key-8000={key}", **({"origin": origin} if origin else {})}
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "http.request"}

    kind = "websocket" if status == 101 else "http"
    scope = {
        "type": kind, "method": "GET", "path": "/ws" if status == 101 else "/", "query_string": b"", "server": (server, 8000),
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }  # fmt: skip
    await app(scope, receive, send)
    assert sent[0]["status"] == (403 if kind == "websocket" else status)  # a page's socket says where it comes from
