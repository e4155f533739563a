from __future__ import annotations

from typing import Any

import pytest

from lmtui.features.mcp.mcp_config import ServerEntry
from lmtui.features.mcp.server import secrets_of

KEY = "hk-4f9a81c2d7e6b5a09384"
ENVIRON = {"ISSUES_TOKEN": KEY, "GIT_AUTHOR_NAME": "Ada Lovelace of London", "DB": f"postgres://ada:{KEY}@db.example/x"}


def an_entry(**more: Any) -> ServerEntry:
    return ServerEntry("a", "f", is_own=True, **more)


@pytest.mark.parametrize("entry", [
    an_entry(env=(("API_KEY", KEY),)), an_entry(env=(("SOMETHING", KEY),)),
    an_entry(env=(("SOMETHING", "${ISSUES_TOKEN}"),)), an_entry(env=(("URL", "${DB}"),)),
    an_entry(env=(("URL", ENVIRON["DB"]),)),
    an_entry(headers=(("Authorization", "Bearer ${ISSUES_TOKEN}"),)),
    an_entry(headers=(("Authorization", f"Bearer {KEY}"),)),
    an_entry(command=("x", "--api-key", KEY)), an_entry(command=("x", f"--token={KEY}")),
    an_entry(oauth=(("client_secret", KEY),)),
    an_entry(kind="http", url=f"https://x.example/mcp?api_key={KEY}"),
    an_entry(kind="http", url="https://x.example/mcp?k=${ISSUES_TOKEN}"),
])  # fmt: skip
def test_a_key_is_found_wherever_it_stands(entry: ServerEntry) -> None:
    assert KEY in secrets_of(entry, ENVIRON)


@pytest.mark.parametrize("entry", [
    an_entry(env=(("HOME_FOLDER", "/home/ada/.venvs/a-long-name-of-2026"),)),
    an_entry(env=(("SSH_AUTH_SOCK", "/run/user/1000/keyring/ssh"),)),
    an_entry(env=(("AUTH_URL", "https://login.example/path"),)),
    an_entry(env=(("REPORT", "report-2026-07-28-of-the-week.csv"),)),
    an_entry(env=(("NAME", "${GIT_AUTHOR_NAME}"), ("ZONE", "America/Argentina/Buenos_Aires"))),
    an_entry(command=("mcp-server-time", "--local-timezone", "America/Argentina/Buenos_Aires")),
    an_entry(kind="http", url="https://issues.example/mcp"),
    an_entry(env=(("TOKEN", "${NOT_SET}"),)), an_entry(kind="http", url="http://[broken"),
])  # fmt: skip
def test_names_places_and_words_are_no_secrets(entry: ServerEntry) -> None:
    assert [value for value in secrets_of(entry, ENVIRON) if len(value) >= 16] == []
