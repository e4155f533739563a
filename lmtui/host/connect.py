"""From a client to a host: where its files are, starting one when there is none, and making a connection to it.

Here are also `lmtui host`, `lmtui attach` and `lmtui run --detach`, from arguments to exit code.

The token is never taken from an address and never written anywhere but into its file.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import fcntl
import getpass
import hashlib
import json
import os
import secrets
import socket as sockets
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect, unix_connect

from lmtui import __version__
from lmtui.app.key_protection import read_secret_file
from lmtui.app.process import ENVIRONMENT_SOCKET, environment_at_start
from lmtui.command_line import say
from lmtui.core.errors import ConfigError, HostError, LmtuiError, UsageError
from lmtui.core.hosts import is_loopback
from lmtui.core.messages import Image
from lmtui.core.sanitize import pluralize, sanitize_line
from lmtui.core.sessions import AgentRow, SessionSummary
from lmtui.host import rpc
from lmtui.host.remote import BROKEN, RemoteHost
from lmtui.paths import state_dir

ATTACH = "/v1/attach"
_FILE_NAME = "host.token"
STATUS = "/v1/host"
PAGES = "/v1/pages"
START_LIMIT_S = 20.0
LEAST_TOKEN_CHARS, _MOST_TOKEN_BYTES = 32, 4096
_CONNECT_LIMIT_S = 10.0
_MOST_PATH_BYTES = 100  # of a Unix socket (sockaddr_un has 108)


@dataclass(frozen=True, slots=True)
class HostInfo:
    """What a running host says of itself: `http` is its address, empty where it serves none; `started` is in UTC."""

    pid: int
    version: str
    started: str
    http: str = ""


def host_folder() -> Path:
    """Return the folder with the files of the user's host."""
    return state_dir() / "host"


def token_file() -> Path:
    """Return the file with the token that every client sends."""
    return host_folder() / _FILE_NAME


def ensure_token(folder: Path) -> str:
    """Return the token of this user's host, made on the first use: a file (0600) in a private folder (0700).

    Blocks (disk).

    Raises:
        ConfigError: the folder or the file cannot be made, belongs to another user, or can be read by others.
    """
    path = folder / _FILE_NAME
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _check_private(folder, folder.lstat(), is_folder=True)
        if not os.path.lexists(path):  # the host calls this, and only one runs
            draft = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
            draft.touch(0o600, exist_ok=False)
            _ = draft.write_text(f"{secrets.token_urlsafe(32)}\n", encoding="ascii")
            _ = draft.rename(path)
        return read_token(path)
    except OSError as error:
        raise ConfigError(f"{path} cannot be made: {error.strerror}", "Make its folder writable.") from error


def read_token(path: Path) -> str:
    """Return the token in a file.  Blocks (disk).

    Raises:
        ConfigError: it cannot be read, holds no token, belongs to another user, or can be read by others.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}", "Start the host: `lmtui host start`.") from error
    try:
        _check_private(path, os.fstat(descriptor), is_folder=False)
        token = os.read(descriptor, _MOST_TOKEN_BYTES).decode("ascii", "replace").strip()
    finally:
        os.close(descriptor)
    if len(token) < LEAST_TOKEN_CHARS or not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigError(f"{path} does not contain a token", "Delete it; the host makes a new one.")
    return token


def _check_private(path: Path, found: os.stat_result, *, is_folder: bool) -> None:
    is_kind = stat.S_ISDIR(found.st_mode) if is_folder else stat.S_ISREG(found.st_mode)
    if not is_kind:
        raise ConfigError(f"{path} is not a {'folder' if is_folder else 'regular file'}", "Remove it.")
    if found.st_uid != os.geteuid():
        raise ConfigError(f"{path} belongs to another user", "Remove it, or set LMTUI_HOME to a folder of your own.")
    if found.st_mode & 0o077:
        raise ConfigError(
            f"{path} can be read by other users", f"Run `chmod {'700' if is_folder else '600'} {path}`, then delete the token."
        )


def socket_file() -> Path:
    """Return the socket of the host; where the folder's path is too long for one, it is in a private temporary folder."""
    wanted = host_folder() / "socket"
    if len(os.fsencode(wanted)) <= _MOST_PATH_BYTES:
        return wanted
    name = hashlib.sha256(os.fsencode(wanted)).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"lmtui-{os.getuid()}" / f"{name}.sock"


def check_socket_folder() -> None:
    """Make sure that nobody else can put a socket where the host's is.

    Raises:
        LmtuiError: its folder is another user's, or others can write to it.
    """
    folder = socket_file().parent
    found = folder.lstat()
    if found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise LmtuiError(f"{folder} is open to other users", f"Run: chmod 700 {folder}")


def running_host() -> HostInfo | None:
    """Return the host that runs, None where none does: whoever runs holds the lock of its file."""
    try:
        with (host_folder() / "host.json").open(encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                return HostInfo(**json.load(file))
    except (OSError, ValueError, TypeError):
        return None
    return None


@contextlib.contextmanager
def _start_lock() -> Iterator[None]:
    try:
        host_folder().mkdir(parents=True, exist_ok=True, mode=0o700)
        file = (host_folder() / "start.lock").open("w")
    except OSError as error:
        hint = "A host needs a state folder that you may write: set LMTUI_HOME to one."
        raise ConfigError(f"{host_folder()} cannot be written: {error.strerror}", hint) from error
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def ensure_host(options: tuple[str, ...] = ()) -> HostInfo:
    """Return the running host, and start one first where none runs.  Blocks for up to 20 seconds.

    Raises:
        LmtuiError: it does not start.
    """
    if (found := running_host()) is not None:
        return found
    with _start_lock():  # of two that start one at once the second finds it
        if (found := running_host()) is not None:
            return found
        log = host_folder() / "start.log"
        process = _started(log, options)
        until = time.monotonic() + START_LIMIT_S
        while time.monotonic() < until:
            if (found := running_host()) is not None and found.pid == process.pid:
                process.returncode = 0  # it lives longer than this process, and nobody waits for it
                return found
            if process.poll() is not None:
                break
            time.sleep(0.02)
        text = sanitize_line("".join(log.read_text("utf-8", "replace").strip().splitlines()[-1:]))
        text = text.removeprefix("lmtui: ")
        raise LmtuiError(f"the host did not start: {text or 'no reason given'}", f"See {log}.")


def has_ended(limit_s: float) -> bool:
    """Wait for the end of this machine's host; tell whether it has ended.  Blocks."""
    until = time.monotonic() + limit_s
    while (runs := running_host() is not None) and time.monotonic() < until:
        time.sleep(0.02)
    return not runs


def _started(log: Path, options: tuple[str, ...]) -> subprocess.Popen[bytes]:
    """Start a host; the keys in the environment go to it once other processes cannot read them there."""
    here, there = sockets.socketpair()
    with log.open("wb") as output, here:
        with there:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "lmtui", "host", "run", *options],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                cwd="/",
                env={**environment_at_start(os.environ), ENVIRONMENT_SOCKET: str(there.fileno())},
                pass_fds=(there.fileno(),),
            )
        give_environment(here, os.environ)
    return process


def give_environment(here: sockets.socket, environ: Mapping[str, str]) -> None:
    """Send its environment to a process of lmtui at the other end (`app.process.receive_environment`).  Blocks."""
    here.settimeout(START_LIMIT_S)
    with contextlib.suppress(OSError):
        if here.recv(1):
            here.sendall(json.dumps(dict(environ)).encode())


@dataclass(frozen=True, slots=True)
class Target:
    """Where a client goes: a folder of the host of this machine, or with a `url` one elsewhere.

    `flags` and `environment` are settings that it brings, for the host of this machine only.
    """

    folder: str
    session: str = ""
    url: str = ""
    token: str = ""
    flags: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)

    def open(self, *, may_start: bool = True) -> tuple[ClientConnection, str]:
        """Make a connection, and return its folder, too; the host of this machine is started if it `may_start`.

        Raises:
            LmtuiError: no host runs, or it refuses.
        """
        channel = self._connected(may_start=may_start)
        given = () if self.url else (dict(self.flags), dict(self.environment))
        hello = rpc.Hello(rpc.PROTOCOL, __version__, client_name(), self.folder, self.session, *given)
        try:
            channel.send(rpc.dumps([{"hello": rpc.encode(hello)}]))
            first = rpc.loads(channel.recv())[0]
        except (*BROKEN, IndexError) as error:
            raise LmtuiError("the host closed the connection", "See `lmtui host status` on its machine.") from error
        if "refused" in first:
            channel.close()
            raise rpc.decode_error(first["refused"])
        return channel, str((first.get("welcome") or {}).get("folder", ""))

    def _connected(self, *, may_start: bool) -> ClientConnection:
        try:
            if self.url:
                parts = urlsplit(self.url)
                scheme = {"http": "ws", "https": "wss"}.get(parts.scheme, parts.scheme)
                url = f"{scheme}://{parts.netloc}{parts.path.rstrip('/')}{ATTACH}"
                return _open(connect, url, self.token, proxy=None)
            if may_start:
                _ = ensure_host()
            check_socket_folder()
            return _open(partial(unix_connect, str(socket_file())), f"ws://localhost{ATTACH}", read_token(token_file()))
        except InvalidStatus as error:
            code = error.response.status_code
            raise LmtuiError(f"the host at {self.url or socket_file()} answers {code}", _hint(code)) from error
        except BROKEN as error:
            where = sanitize_line(self.url) or f"the socket {socket_file()}"
            raise HostError(
                f"no host answers at {where}: {error}",
                "Check that the host runs and, if you use one, that the ssh tunnel is open.",
            ) from error


def _open(make: Callable[..., ClientConnection], url: str, token: str, **more: Any) -> ClientConnection:
    headers = {"Authorization": f"Bearer {token}"}
    more |= {"open_timeout": _CONNECT_LIMIT_S, "max_size": None, "compression": None}
    return make(url, additional_headers=headers, **more).__enter__()  # it ends with `close`


def ask_host(path: str, url: str = "", token: str = "", method: str = "GET") -> Any:  # Any: JSON
    """Return what a host answers at a path: that of this machine, or the one at a URL.  Blocks.

    Raises:
        LmtuiError: it does not answer, or refuses.
    """
    with answer_of(path, url, token, method) as response:
        return json.loads(response.read())


@contextlib.contextmanager
def answer_of(path: str, url: str = "", token: str = "", method: str = "GET", body: bytes | None = None) -> Iterator[Any]:
    """Yield the response of a host, to be read as it comes.

    Raises:
        LmtuiError: it does not answer, or refuses.
    """
    parts, host = urlsplit(url), f"the host at {sanitize_line(url) or socket_file()}"
    make = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = make(parts.netloc or "localhost", timeout=_CONNECT_LIMIT_S)
    try:
        if not url:  # HTTP over the local socket (RFC 9112 says nothing against it)
            check_socket_folder()
            connection.sock = sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM)
            connection.sock.settimeout(_CONNECT_LIMIT_S)
            connection.sock.connect(str(socket_file()))
        connection.request(method, path, body, {"Authorization": f"Bearer {token or read_token(token_file())}"})
        connection.sock.settimeout(None if body else _CONNECT_LIMIT_S)
        response = connection.getresponse()
        if response.status == HTTPStatus.UNPROCESSABLE_ENTITY:
            told = json.loads(response.read())["error"]
            raise UsageError(told["message"], told["hint"])
        if response.status != HTTPStatus.OK:
            raise LmtuiError(f"{host} answers {response.status}", _hint(response.status))
        yield response
    except (OSError, HTTPException, ValueError) as error:
        raise HostError(f"{host} does not answer: {error}", "Is it running, and the tunnel open?") from error
    finally:
        connection.close()


def _hint(status: int) -> str:
    if status == HTTPStatus.UNAUTHORIZED:
        return "Give its token with --token-file, or in LMTUI_HOST_TOKEN."
    return "Is this the address of a host?" if status == HTTPStatus.NOT_FOUND else ""


def client_name() -> str:
    """Return who this client is, as others see it where it answers: user, machine and terminal."""
    with contextlib.suppress(OSError, KeyError):
        terminal = os.ttyname(0).removeprefix("/dev/") if os.isatty(0) else ""
        return f"{getpass.getuser()}@{sockets.gethostname()}{f' {terminal}' if terminal else ''}"
    return "a client"


def write_info(file: Any, info: HostInfo) -> None:
    """Write what a running host says of itself."""
    file.seek(0)
    file.truncate()
    json.dump(asdict(info), file)
    file.flush()


_STOP_LIMIT_S = 30.0
PIN_VARIABLE = "LMTUI_PIN"
_SESSIONS = "/v1/sessions?limit=100"


def host(arguments: argparse.Namespace) -> int:
    """Run `lmtui host` and return the exit code: 0, or 1 where no host runs or one that has work does not end."""
    match arguments.action:
        case "start":
            is_new = running_host() is None
            plain = ("--plain-http",) if arguments.plain_http else ()
            found = ensure_host(("--http", arguments.http, *plain) if arguments.http else ())
            if arguments.http and not is_new and not found.http.endswith(f"//{arguments.http}"):
                where = f"at {found.http}" if found.http else "without HTTP"
                hint = "Run `lmtui host stop`, then this command again; host_http sets an address for good."
                raise UsageError(f"a host is already running {where}", hint)
            return _show(found, is_json=arguments.json)
        case "stop":
            return _stop(is_forced=arguments.now)
        case _ if arguments.http:
            raise UsageError("--http goes with start", f"Use `lmtui host start --http {sanitize_line(arguments.http)}`.")
        case _:
            return _show(running_host(), is_json=arguments.json)


def _show(found: HostInfo | None, *, is_json: bool) -> int:
    if found is None:
        print("null" if is_json else "No host is running. `lmtui host start` starts one.")
        return 1
    status = ask_host(STATUS) | ask_host(_SESSIONS)
    if is_json:
        files = {"socket": str(socket_file()), "token_file": str(token_file())}
        print(json.dumps(asdict(found) | files | status, indent=2))
        return 0
    say(f"host      lmtui {found.version}, process {found.pid}, since {found.started}")
    say(f"http      {found.http or 'off (`lmtui host start --http 127.0.0.1:8765`, or the setting host_http)'}")
    say(f"token     {token_file()}")
    say(f"clients   {status['clients']}")
    for row in status["sessions"]:
        print(f"session   {row['id']}  {row['state']:<11}  {sanitize_line(row['folder'])}  {sanitize_line(row['title'])}")
    for work in status["busy"]:
        print(f"busy      {sanitize_line(work)}")
    return 0


def _stop(*, is_forced: bool) -> int:
    found = running_host()
    if found is None:
        say("No host is running.")
        return 0
    busy: Sequence[str] = () if is_forced else ask_host(STATUS)["busy"]
    if busy:
        works = pluralize(len(busy), "thing")
        raise LmtuiError(
            f"the host still has {works} to do: {sanitize_line(', '.join(busy))[:300]}",
            "Wait, or run `lmtui host stop --now`: work is saved, and sessions can be resumed.",
        )
    with contextlib.suppress(HostError):  # not by its process id, which can be another program's here
        ask_host(STATUS, method="DELETE")
    if not has_ended(_STOP_LIMIT_S):
        raise LmtuiError("the host does not stop", f"It calls itself process {found.pid}: kill it where it runs.")
    say("The host has stopped.")
    return 0


def read_pin(environ: MutableMapping[str, str], file: str, *, asks: bool) -> str:
    """Return the PIN from a file that only its owner can read, from the environment or from a prompt, else an empty text.

    Remove it from the environment, so that neither apps nor commands get it.

    Raises:
        ConfigError: the file cannot be used.
        UsageError: nothing was typed.
    """
    found = environ.pop(PIN_VARIABLE, "").strip()
    if file or found or not asks:
        return read_secret_file(file) if file else found
    if typed := (getpass.getpass("PIN: ") if sys.stdin.isatty() else sys.stdin.readline()).strip():
        return typed
    raise UsageError("no PIN was entered", f"Type one at the prompt, use --pin-file, or set {PIN_VARIABLE}.")


def serve(wanted: Mapping[str, object], workspace: Path) -> int:
    """Have the host serve the app to browsers until a signal comes, and print each link.

    Args:
        wanted: see `web.PagesWanted`.
        workspace: where the sessions are.

    Raises:
        LmtuiError: the host does not start, refuses or ends.
    """
    _ = ensure_host()
    with answer_of(PAGES, method="POST", body=json.dumps(wanted).encode()) as lines:
        say(f"lmtui on {workspace}; ctrl+c stops it, and sessions keep running.", flush=True)
        others = "; without its token the page asks for the PIN" if wanted["pin"] else ""
        for number, link in enumerate(lines):
            words = "For another browser" if number else f"One link, for one browser{others}"
            say(f"{words}: {link.decode().strip()}", flush=True)
    raise HostError("the host has ended", "Run the command again.")


def check_detached(arguments: argparse.Namespace) -> None:
    """Reject options that the host cannot do, as nobody waits for the end there.

    Raises:
        UsageError: one is given.
    """
    others = ("resume", "output_schema", "output_last_message", "ephemeral", "attempts", "models", "keep", "gguf")
    given = [f"--{name.replace('_', '-')}" for name in others if getattr(arguments, name)]
    given += ["--continue"] * arguments.goes_on + [f"--output {arguments.output}"] * (arguments.output != "text")
    if given:
        raise UsageError(f"--detach does not work with {', '.join(given)}", "Leave it out, or run without --detach.")


def detach(target: Target, text: str, typed: str, images: Sequence[Image] = ()) -> int:
    """Begin a task in the host of this machine, print the session's id, and return the exit code."""

    async def begin() -> str:
        remote = await asyncio.to_thread(RemoteHost, target.open)
        try:
            if remote.setup_note:
                raise UsageError(remote.setup_note, "Name one with --url, or choose it in the app: lmtui")
            session = await remote.new_session()
            session.submit(text, typed=typed, images=images)
            if remote.has_waiting:
                raise HostError("the connection to the host broke before the task was there", "Run the command again.")
            return str(session.id)
        finally:
            await remote.close()

    say(asyncio.run(begin()))
    return 0


def agents(url: str = "", token: str = "") -> Sequence[AgentRow]:
    """Return the sessions of a host, none where none runs on this machine.  Blocks.

    Raises:
        LmtuiError: the host does not answer.
    """
    if not url and running_host() is None:
        return ()
    rows = sorted(ask_host(_SESSIONS, url, token)["sessions"], key=lambda row: row["is_open"], reverse=True)
    return [AgentRow(Path(row["folder"]), rpc.decode(SessionSummary, row), row["clients"]) for row in rows]


def newest_session(target: Target) -> str:
    """Return the session that a host has open in a folder (of any folder, without one) and that changed last, empty for none.

    Raises:
        LmtuiError: the host does not answer.
    """
    found = [row for row in agents(target.url, target.token) if row.session.is_open]
    here = [row.session for row in found if not target.folder or str(row.folder) == target.folder]
    return max(here, key=lambda each: each.updated).id if here else ""


def token_for(url: str, file: str, environ: Mapping[str, str], *, is_plain: bool = False) -> str:
    """Return the token for a host elsewhere: of the file, of LMTUI_HOST_TOKEN, or of this machine's host (loopback only).

    Raises:
        LmtuiError: there is none, or it would be sent over the network unencrypted, which only `is_plain` allows.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"{sanitize_line(url)[:80]} is not the address of a host", "Write it like http://127.0.0.1:8765.")
    if parts.scheme == "http" and not is_loopback(parts.hostname) and not is_plain:
        hint = "Use an ssh tunnel (docs/host.md), an https address, or --plain-http."
        raise UsageError(f"{sanitize_line(url)[:80]} would get the token without encryption", hint)
    if file:
        return read_token(Path(file).expanduser())
    if given := environ.get("LMTUI_HOST_TOKEN", "").strip():
        return given
    if is_loopback(parts.hostname) and token_file().exists():  # another machine is not sent this one's token
        return read_token(token_file())
    raise UsageError(f"the host at {sanitize_line(url)} needs its token", "Use --token-file FILE, or set LMTUI_HOST_TOKEN.")
