from __future__ import annotations

from typing import Any

import pytest

from lmtui.features.mcp.mcp_config import ServerEntry
from lmtui.features.mcp.server_connection import advice


def an_entry(*command: str, name: str = "a", **more: Any) -> ServerEntry:
    return ServerEntry(name, "f", is_own=True, command=command, **more)


LATE = "it was not ready within 30 s"


@pytest.mark.parametrize(
    ("entry", "said", "words"),
    [
        (an_entry("npx", "-y", "x"), LATE, "It has no network in its sandbox, and npx fetches packages when it starts"),
        (an_entry("/usr/bin/uvx", "x"), LATE, "run `lmtui mcp set a --network on`"),
        (an_entry("npx", "x", hosts=("a.example",)), LATE, "reaches only the hosts of its entry"),
        (an_entry("python3", "x"), "it said last: getaddrinfo EAI_AGAIN a.example", "It has no network in its sandbox:"),
        (an_entry("x", hosts=("a.example",)), "Could not resolve host: b.example", "It may reach only a.example"),
        (an_entry("npx", "x"), "the program npx is not there", "`lmtui mcp set a --where host` lets it run on this machine"),
        (an_entry("/srv/x"), "the program /srv/x is not there", "Its sandbox cannot run the program."),
        (an_entry("/tmp/x"), "/tmp/x exists, but the sandbox does not see /tmp of this machine", "Move it to another folder."),
        (an_entry("x"), "/opt/x: cannot be started: No such file or directory", "Its sandbox cannot run the program."),
        (an_entry("npx", name="a b"), LATE, "`lmtui mcp set 'a b' --network on`"),
    ],
)  # fmt: skip
def test_what_wants_a_network_and_has_none_is_told_how_to_get_it(entry: ServerEntry, said: str, words: str) -> None:
    assert words in advice(entry, said)


@pytest.mark.parametrize(("entry", "said"), [
    (an_entry("python3", "x"), LATE), (an_entry("npx", "x", hosts=("*",)), LATE),
    (an_entry("npx", "x", on_host=True), LATE), (an_entry("npx", "x"), "npx: command not found"),
    (an_entry(kind="http", url="https://x.example"), "getaddrinfo failed"),
])  # fmt: skip
def test_where_a_network_would_not_help_none_is_advised(entry: ServerEntry, said: str) -> None:
    assert advice(entry, said) == ""


def test_where_nothing_is_around_it_no_network_is_missing() -> None:
    assert advice(an_entry("npx", "x"), LATE, "process, not isolated") == ""
