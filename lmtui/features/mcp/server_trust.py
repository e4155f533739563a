"""Which servers wait for the user's yes: those that a folder names, and those that run outside the sandbox.  Blocks (disk).

A yes holds for an entry as it is, by its hash: with another command, address or reach it is asked for again.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from pydantic import TypeAdapter

from lmtui.core.errors import UsageError
from lmtui.core.sanitize import Redactor, escape_invisible_line, sanitize
from lmtui.core.tool_servers import Reach
from lmtui.core.trust import TrustItem
from lmtui.features.folder_consent import ALLOWED, BROUGHT_SERVERS, REFUSED, FolderConsent
from lmtui.features.mcp.mcp_config import ServerEntry, named_entry, read_servers, variables_in
from lmtui.features.mcp.tool_names import RawTool, plain, tools_digest
from lmtui.features.mcp.values import ServerState
from lmtui.paths import state_dir
from lmtui.store.state_files import write_whole

_log = logging.getLogger(__name__)
_MAX_BYTES = 16_777_216
_MAX_LOG_BYTES = 1_048_576


@dataclass(frozen=True, slots=True)
class ServerChoice:
    """Where the user lets a server run: for the entry that has the digest `of` and no other.  None leaves it to the entry."""

    of: str = ""
    on_host: bool | None = None
    hosts: tuple[str, ...] | None = None

    def applied(self, entry: ServerEntry) -> ServerEntry:
        """Return an entry of a file as the user chose it to run."""
        if not self.of or self.of != entry.digest:
            return entry
        on_host = entry.on_host if self.on_host is None else self.on_host
        hosts = entry.hosts if self.hosts is None else self.hosts
        chosen = {"sandbox": self.on_host is not None, "network": self.hosts is not None}
        return replace(entry, on_host=on_host, hosts=hosts, chosen=tuple(key for key, is_set in chosen.items() if is_set))


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a server.

    `tools_digest` is the hash of the tools that were accepted last, `tools_of` that of the entry that had them.
    `is_on` is the user's switch, None where they left it as the file has it.  `choice` is where the user lets it run, and
    `has_resources` whether it had any.
    """

    tools_digest: str = ""
    tools_of: str = ""
    tools: tuple[RawTool, ...] = ()
    is_on: bool | None = None
    choice: ServerChoice = ServerChoice()
    has_resources: bool = False


_KNOWN = TypeAdapter(Known)


class Memory:
    """The memory of one server.  `known` is read when it is made; what cannot be kept holds for this process.  Blocks.

    `written` is the entry as its file has it.

    Tools that another entry of the same name had are not known where an entry needs a yes: one that changed and was trusted
    again begins afresh.
    """

    def __init__(self, workspace: Path, entry: ServerEntry) -> None:
        self.written = entry
        self.consent = servers_consent(workspace, is_own=entry.is_own)
        scope = "" if entry.is_own else str(workspace)
        mark = hashlib.sha256(f"{scope}\0{entry.name}".encode("utf-8", "surrogatepass")).hexdigest()[:12]
        self._file = state_dir() / "mcp" / f"{plain(entry.name)[:40]}-{mark}.json"
        self.log = ServerLog(self._file.with_suffix(".log"))
        self.token_file = self._file.with_suffix(".login.json")
        self.known = self._read()

    @property
    def entry(self) -> ServerEntry:
        """Return the entry as it runs: as its file has it, but for what the user chose."""
        return self.known.choice.applied(self.written)

    @property
    def mark(self) -> str:
        """Return what a yes holds for: its name in this folder, and its entry as it runs."""
        return f"{self._file.stem}:{self.entry.digest}"

    @property
    def consent_state(self) -> ServerState | None:
        """Return what its entry waits for, whether it is turned on or not; None where it may start."""
        answer = self.consent.answers().get(self.mark)
        if not self.entry.needs_yes or answer == ALLOWED:
            return None
        return ServerState.REFUSED if answer == REFUSED else ServerState.WAITING

    @property
    def resting_state(self) -> ServerState | None:
        """Return why it does not start, None where it does."""
        is_off = self.known.is_on is False or (self.written.is_disabled and self.known.is_on is not True)
        return ServerState.OFF if is_off else self.consent_state

    def look_again(self) -> None:
        """Read again what another lmtui, or a question, may have written."""
        self.known = self._read()

    def keep(self, known: Known) -> None:
        """Take what is known from now on, and write it down; a choice that another lmtui kept meanwhile stays."""
        before, theirs = self.known, self._read()
        self.known = known = replace(known, tools_of=self.written.digest if known.tools_digest else "")
        choice = theirs.choice if known.choice == before.choice else known.choice
        try:
            write_whole(self._file, json.dumps(asdict(replace(known, choice=choice))))
        except OSError as error:
            _log.warning("%s cannot be written: %s", self._file, error)

    def accepts(self, tools: Sequence[RawTool]) -> bool:
        """Tell whether tools need no yes: they were accepted, or are the first that it has."""
        return self.known.tools_digest in ("", tools_digest(tools))

    def accept(self, tools: Sequence[RawTool]) -> None:
        """Keep the tools that it has, instead of those that were accepted before."""
        self.keep(replace(self.known, tools=tuple(tools), tools_digest=tools_digest(tools)))

    def _read(self) -> Known:
        known = _read(self._file)
        is_others = self.written.needs_yes and known.tools_of not in ("", self.written.digest)
        return replace(known, tools=(), tools_digest="", tools_of="") if is_others else known


_LAST_CHARS, _TAIL_CHARS = 200, 4_000
_HEAD = "--- "
# Lines that say what we did with it, and where npm keeps its own log.
_NO_NEWS = re.compile(rf"{_HEAD}|lmtui: it ended|npm (notice|(error|ERR!) +(A complete log|/))")


class ServerLog:
    """What a server says next to its answers, cleaned, bounded and without secrets.

    `last` is its last line, `tail` the last few of this start.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.redactor = Redactor(())
        self.last = self.tail = ""
        self._size_bytes = -1

    def begin(self, words: str) -> None:
        """Begin a start of the server; `words` say which."""
        self.add(f"{_HEAD}{words}\n".encode())
        self.last = self.tail = ""

    def add(self, data: bytes) -> None:
        """Put more behind it; what cannot be written is dropped."""
        text = sanitize(self.redactor.text(data.decode("utf-8", "replace")))
        own = [each for line in text.splitlines() if (each := line.strip()) and not _NO_NEWS.match(line)]
        self.last = own[-1][:_LAST_CHARS] if own else self.last
        self.tail = "\n".join((self.tail, *own))[-_TAIL_CHARS:]
        try:
            if self._size_bytes < 0:
                self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                self._size_bytes = self.path.stat().st_size if self.path.exists() else 0
            if self._size_bytes > _MAX_LOG_BYTES:
                self.path.replace(self.path.with_suffix(".old.log"))
                self._size_bytes = 0
            with self.path.open("a", encoding="utf-8", errors="replace") as file:
                self._size_bytes += file.write(text)
        except OSError as error:
            _log.info("%s cannot be written: %s", self.path, error)


def _read(file: Path) -> Known:
    """Return what a file keeps; nothing where it cannot be read."""
    try:
        with file.open("rb") as opened:
            return _KNOWN.validate_json(opened.read(_MAX_BYTES))
    except (OSError, ValueError):
        return Known()


def set_choice(
    workspace: Path, name: str, *, on_host: bool | None = None, hosts: tuple[str, ...] | None = None, is_reset: bool = False
) -> ServerEntry:
    """Keep where the user lets a server run, and return its entry as it runs now.  Blocks.

    None leaves what the user chose before, unless `is_reset` takes that back first.  A server that may start needs no other
    yes for a choice; the way back to what its entry says is asked about.

    Raises:
        UsageError: no such server, or it is not started here.
    """
    written = named_entry(name, workspace)
    if written.kind != "stdio":
        raise UsageError(f"the MCP server {name!r} has an address, so lmtui does not start it", "Its own machine runs it.")
    memory = Memory(workspace, written)
    known, may_start = memory.known, memory.consent_state is None
    before = ServerChoice() if is_reset or known.choice.of != written.digest else known.choice
    on_host, hosts = before.on_host if on_host is None else on_host, before.hosts if hosts is None else hosts
    is_chosen = on_host is not None or hosts is not None
    choice = ServerChoice(written.digest, on_host, hosts) if is_chosen else ServerChoice()
    memory.keep(replace(known, choice=choice))
    if is_chosen and may_start:
        memory.consent.keep([memory.mark])
    return memory.entry


def set_reach(workspace: Path, name: str, reach: Reach) -> ServerEntry:
    """Keep one of the choices that the question offers; see `set_choice`."""
    on_host = None if reach is Reach.ENTRY else reach is Reach.HOST
    hosts = ("*",) if reach is Reach.NETWORK else None
    return set_choice(workspace, name, on_host=on_host, hosts=hosts, is_reset=True)


def servers_consent(workspace: Path, *, is_own: bool, answered: Callable[[], object] = lambda: None) -> FolderConsent:
    """Return what a folder's servers wait for, or those of the user's own that run outside the sandbox."""

    def memories() -> list[Memory]:
        found = [Memory(workspace, entry) for entry in read_servers(workspace).entries if entry.is_own is is_own]
        return [memory for memory in found if memory.entry.needs_yes]

    def brought() -> list[TrustItem]:
        asked = [memory for memory in memories() if memory.resting_state is not ServerState.OFF or not memory.consent_state]
        return [_item(memory.entry, memory.mark) for memory in asked]

    def forget() -> None:
        for memory in memories():
            memory.keep(Known(is_on=memory.known.is_on))

    return FolderConsent(None if is_own else workspace, BROUGHT_SERVERS, brought, answered, forget)


def _item(entry: ServerEntry, mark: str) -> TrustItem:
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
    started = entry.name if entry.kind == "stdio" else ""
    return TrustItem("MCP server", entry.source, escape_invisible_line(words), mark, started)


def _variables(entry: ServerEntry) -> tuple[str, ...]:
    """Return the variables of the user's environment that an entry is given."""
    values = [value for pairs in (entry.env, entry.headers, entry.oauth) for _, value in pairs]
    found = [name for text in (*entry.command, entry.url, entry.cwd, *values) for name in variables_in(text)]
    return tuple(dict.fromkeys(found))
