"""What is likely wrong with a server that did not start, in one line: mostly that it wants a network and has none."""

from __future__ import annotations

import shlex
from pathlib import PurePath

from lmtui.core.serving import FETCHERS
from lmtui.extensions.mcp_config import ServerEntry

_NO_NETWORK = (
    "eai_again", "enotfound", "enetunreach", "econnrefused", "getaddrinfo", "name resolution", "resolve host", "dns error",
    "network is unreachable", "network request", "failed to fetch", "client error (connect)", "no route to host",
)  # fmt: skip
_GIVE = "run `lmtui mcp set {name} --network on` (or name the hosts that it needs)"


def on_host_hint(entry: ServerEntry) -> str:
    """Return how a server that no sandbox here can hold is let run all the same."""
    return f"`lmtui mcp set {shlex.quote(entry.name)} --where host` lets it run on this machine without one."


def advice(entry: ServerEntry, said: str, place: str = "") -> str:
    """Return what to try for an entry that failed and said this; empty where nothing is known.

    Args:
        entry: the server.
        said: why it failed and what it said last.
        place: what is around it, in words.
    """
    if entry.kind != "stdio" or entry.on_host or "*" in entry.hosts or "not isolated" in place:
        return ""
    program = PurePath(entry.command[0]).name if entry.command else ""
    low, give = said.lower(), _GIVE.format(name=shlex.quote(entry.name))
    if f"the program {program} is not there".lower() in low or "cannot be started: no such file" in low:
        return f"Its sandbox cannot run the program. {on_host_hint(entry)}"
    if program in FETCHERS and "no such file" not in low and "not found" not in low:
        has = "reaches only the hosts of its entry" if entry.hosts else "has no network in its sandbox"
        return f"It {has}, and {program} fetches packages when it starts: {give}, or install the package."
    if any(sign in low for sign in _NO_NETWORK):
        has = f"It may reach only {', '.join(entry.hosts)}" if entry.hosts else "It has no network in its sandbox"
        return f"{has}: {give}."
    return ""
