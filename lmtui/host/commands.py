"""`lmtui host`, `lmtui attach` and `lmtui run --detach`, from arguments to exit code."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import getpass
import json
import sys
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import asdict
from pathlib import Path
from urllib.parse import urlsplit

from lmtui.app.key_protection import read_secret_file
from lmtui.command_line import say
from lmtui.core.errors import HostError, LmtuiError, UsageError
from lmtui.core.hosts import is_loopback
from lmtui.core.messages import Image
from lmtui.core.sanitize import pluralize, sanitize_line
from lmtui.core.sessions import AgentRow, SessionSummary
from lmtui.host import connect, rpc
from lmtui.host.connect import HostInfo, Target, ask_host, running_host
from lmtui.host.remote import RemoteHost

_STOP_LIMIT_S = 30.0
PIN_VARIABLE = "LMTUI_PIN"
_SESSIONS = "/v1/sessions?limit=100"


def host(arguments: argparse.Namespace) -> int:
    """Run `lmtui host` and return the exit code: 0, or 1 where no host runs or one that has work does not end."""
    match arguments.action:
        case "start":
            is_new = running_host() is None
            plain = ("--plain-http",) if arguments.plain_http else ()
            found = connect.ensure_host(("--http", arguments.http, *plain) if arguments.http else ())
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
    status = ask_host(connect.STATUS) | ask_host(_SESSIONS)
    if is_json:
        files = {"socket": str(connect.socket_file()), "token_file": str(connect.token_file())}
        print(json.dumps(asdict(found) | files | status, indent=2))
        return 0
    say(f"host      lmtui {found.version}, process {found.pid}, since {found.started}")
    say(f"http      {found.http or 'off (`lmtui host start --http 127.0.0.1:8765`, or the setting host_http)'}")
    say(f"token     {connect.token_file()}")
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
    busy: Sequence[str] = () if is_forced else ask_host(connect.STATUS)["busy"]
    if busy:
        works = pluralize(len(busy), "thing")
        raise LmtuiError(
            f"the host still has {works} to do: {sanitize_line(', '.join(busy))[:300]}",
            "Wait, or run `lmtui host stop --now`: work is saved, and sessions can be resumed.",
        )
    with contextlib.suppress(HostError):  # not by its process id, which can be another program's here
        ask_host(connect.STATUS, method="DELETE")
    if not connect.has_ended(_STOP_LIMIT_S):
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
    _ = connect.ensure_host()
    with connect.answer_of(connect.PAGES, method="POST", body=json.dumps(wanted).encode()) as lines:
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
        return connect.read_token(Path(file).expanduser())
    if given := environ.get("LMTUI_HOST_TOKEN", "").strip():
        return given
    if is_loopback(parts.hostname) and connect.token_file().exists():  # another machine is not sent this one's token
        return connect.read_token(connect.token_file())
    raise UsageError(f"the host at {sanitize_line(url)} needs its token", "Use --token-file FILE, or set LMTUI_HOST_TOKEN.")
