"""Which servers wait for the user's yes: those that a folder names, and those that run outside the sandbox.  Blocks (disk).

A yes holds for an entry as it is, by its hash: with another command, address or reach it is asked for again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from lmtui.core.clean import reveal_line
from lmtui.core.errors import UsageError
from lmtui.core.mcp import Reach, ServerState
from lmtui.core.trust import TrustItem, check_shown
from lmtui.extensions.mcp_config import ServerEntry, read_servers, variables_in
from lmtui.extensions.mcp_memory import Choice, Known, Memory, forget_folder

KIND = "MCP server"


def resting_state(entry: ServerEntry, known: Known) -> ServerState | None:
    """Return why a server does not start, None where it does."""
    if known.is_on is False or (entry.is_disabled and known.is_on is not True):
        return ServerState.OFF
    if entry.needs_yes and known.allowed != entry.digest:
        return ServerState.REFUSED if known.refused == entry.digest else ServerState.WAITING
    return None


def answered(entry: ServerEntry, known: Known, *, is_trusted: bool) -> Known:
    """Return what is known of a server once the user has answered."""
    allowed, refused = (entry.digest, "") if is_trusted else ("", entry.digest)
    return replace(known, allowed=allowed, refused=refused)


def set_choice(
    workspace: Path, name: str, *, on_host: bool | None = None, hosts: tuple[str, ...] | None = None, is_reset: bool = False
) -> ServerEntry:
    """Keep where the user lets a server run, and return its entry as it runs now.  Blocks.

    None leaves what the user chose before, unless `is_reset` takes that back first.  A server that may start needs no other
    yes for a choice; the way back to what its entry says is asked about.

    Raises:
        UsageError: there is no such server, or it is not started here.
    """
    written = next((entry for entry in read_servers(workspace).entries if entry.name == name), None)
    if written is None:
        raise UsageError(f"there is no MCP server {name!r}", "`lmtui mcp list` names them.")
    if written.kind != "stdio":
        raise UsageError(f"the MCP server {name!r} has an address, so lmtui does not start it", "Its own machine runs it.")
    memory = Memory(workspace, written)
    known, may_start = memory.known, resting_state(memory.entry, replace(memory.known, is_on=True)) is None
    before = Choice() if is_reset or known.choice.of != written.digest else known.choice
    on_host, hosts = before.on_host if on_host is None else on_host, before.hosts if hosts is None else hosts
    is_chosen = on_host is not None or hosts is not None
    choice = Choice(written.digest, on_host, hosts) if is_chosen else Choice()
    allowed = choice.applied(written).digest if is_chosen and may_start else known.allowed
    memory.keep(replace(known, choice=choice, allowed=allowed))
    return memory.entry


def set_reach(workspace: Path, name: str, reach: Reach) -> ServerEntry:
    """Keep one of the choices that the question offers; see `set_choice`."""
    on_host = None if reach is Reach.ENTRY else reach is Reach.HOST
    hosts = ("*",) if reach is Reach.NETWORK else None
    return set_choice(workspace, name, on_host=on_host, hosts=hosts, is_reset=True)


class ServersTrust:
    """What a folder's servers wait for; implements `core.trust.Trust`.

    Args:
        workspace: the folder.
        on_answer: called after an answer was kept.
    """

    def __init__(self, workspace: Path, on_answer: Callable[[], None]) -> None:
        self._workspace = workspace
        self._on_answer = on_answer

    def waiting(self) -> Sequence[TrustItem]:
        """Return the servers that were not asked about yet, as they are now."""
        return [_item(entry) for entry, _ in self._in_state(ServerState.WAITING)]

    def refused(self) -> Sequence[TrustItem]:
        """Return those that were answered with no and are the same since."""
        return [_item(entry) for entry, _ in self._in_state(ServerState.REFUSED)]

    def trusted(self) -> Sequence[TrustItem]:
        """Return those that were answered with yes and are the same since."""
        return [_item(entry) for entry, memory in self._asked_about() if memory.known.allowed == entry.digest]

    def revoke(self) -> None:
        """Forget every answer, and the tools that were accepted; servers that run end."""
        for _, memory in self._asked_about():
            if memory.known.allowed or memory.known.refused:
                memory.keep(Known(is_on=memory.known.is_on))
        forget_folder(str(self._workspace))
        self._on_answer()

    def answered_elsewhere(self) -> bool | None:
        """Take up what another lmtui was answered; None where there is nothing of it."""
        states = [resting_state(entry, memory.known) for entry, memory in self._asked_about()]
        if not states or ServerState.WAITING in states:
            return None
        self._on_answer()
        return ServerState.REFUSED not in states

    def answer(self, shown: Sequence[TrustItem], *, is_trusted: bool) -> None:
        """Keep the answer for what was shown of what waits, or else of what was refused.

        Raises:
            ConfigError: it is another by now.
        """
        open_ones = self._in_state(ServerState.WAITING) or self._in_state(ServerState.REFUSED)
        check_shown([_item(entry) for entry, _ in open_ones], shown)
        for entry, memory in open_ones:
            memory.keep(answered(entry, memory.known, is_trusted=is_trusted))
        self._on_answer()

    def _in_state(self, state: ServerState) -> list[tuple[ServerEntry, Memory]]:
        return [(entry, memory) for entry, memory in self._asked_about() if resting_state(entry, memory.known) is state]

    def _asked_about(self) -> list[tuple[ServerEntry, Memory]]:
        memories = [Memory(self._workspace, entry) for entry in read_servers(self._workspace).entries]
        return [(memory.entry, memory) for memory in memories if memory.entry.needs_yes]


def _item(entry: ServerEntry) -> TrustItem:
    place = "outside the sandbox, " if entry.on_host else ""
    choice = ", as you chose" if entry.chosen else ""
    hosts = "every host" if "*" in entry.hosts else ", ".join(entry.hosts)
    reach = f", may reach {hosts}" if hosts else ""
    variables = f", with {', '.join(name for name, _ in entry.env)}" if entry.env else ""
    sends = f", sending {', '.join(name for name, _ in entry.headers)}" if entry.headers else ""
    folders = f", reading {', '.join(entry.toolchains)}" if entry.toolchains else ""
    begins = f", in {entry.cwd}" if entry.cwd else ""
    login = f", logging in with {', '.join(name for name, _ in entry.oauth)}" if entry.oauth else ""
    given = f", given your {', '.join(f'${name}' for name in _variables(entry))}" if _variables(entry) else ""
    reads = "" if entry.can_write or entry.url else ", workspace read-only"
    words = f"{entry.name}: {place}{entry.words}{begins}{variables}{sends}{login}{given}{folders}{reach}{reads}{choice}"
    return TrustItem(KIND, entry.source, reveal_line(words), entry.digest, entry.name if entry.kind == "stdio" else "")


def _variables(entry: ServerEntry) -> tuple[str, ...]:
    """Return the variables of the user's environment that an entry is given."""
    values = [value for pairs in (entry.env, entry.headers, entry.oauth) for _, value in pairs]
    found = [name for text in (*entry.command, entry.url, entry.cwd, *values) for name in variables_in(text)]
    return tuple(dict.fromkeys(found))
