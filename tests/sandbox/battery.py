"""The stage on which an escape case plays: a workspace, secrets and listeners beside it, and a process with keys to steal.

A case is a shell command or a tool call and a check that runs outside afterwards; exit 0 of the check means that nothing got
out (or, for the category must-work, that it worked).  Tool calls go through a real session: registry, permissions, approval.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import string
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path

from lmtui.core.events import ApprovalRequested, Envelope, Event, Outcome, ToolCallFinished
from lmtui.core.permissions.rules import Effect, Mode, parse_rule
from lmtui.core.ports import Limits, Policy, Sandbox
from lmtui.core.sessions import Answer
from lmtui.engine.context import ModelSettings
from lmtui.engine.session import EngineSession, SessionParts
from lmtui.tools.registry import ToolRegistry
from lmtui.tui.modals.approval_text import notes
from tests.fakes import FakeProvider, MemoryLog, Ticking, answer
from tests.waiting import PATIENCE_S

_CASES = tuple(Path(__file__).parent / "cases" / name for name in ("escapes.jsonl", "variants.jsonl"))
NOT_APPLICABLE = {"mcp": "they are about words, not about a sandbox: tests/features/test_mcp_escapes.py plays them"}
TOLD_WHEN_KEPT = ("v-notable-told",)  # what an overlay did is told when it is kept
_CHECK_S = 40
_GIT = {
    "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@b",
}  # fmt: skip
_SETUP = """
mkdir -p "$OUTSIDE/home/.ssh" "$OUTSIDE/victim" "$OUTSIDE/repo" && touch "$OUTSIDE/victim/keep" "$OUTSIDE/home/.bashrc"
echo "$TOKEN" > "$SECRET" && chmod 600 "$SECRET" && cp "$SECRET" "$OUTSIDE/home/.ssh/id_rsa"
(cd "$OUTSIDE/repo" && git init -q . && cp "$SECRET" secret.txt && git add . && git commit -qm s)
cd "$WS" && git init -q . && mkdir -p .lmagent && echo "# ok" > .lmagent/config.toml && git add README.md && git commit -qm i
mkdir -p .git/hooks
"""


@dataclass(frozen=True)
class Case:
    """One case of the file."""

    id: str
    category: str
    check: str
    command: str = ""
    timeout: int = 10
    setup: str = ""
    host_during: str = ""
    tool: str = ""
    args: dict[str, object] = field(default_factory=dict)
    allow: tuple[str, ...] = ()

    @property
    def is_asked(self) -> bool:
        """Tell whether the case is about the question: it has to be asked, or to run where it can change nothing."""
        return self.category in ("approval-bypass", "prompt-spoofing")


@dataclass(frozen=True)
class Stage:
    """Where a case plays: `names` are the variables that commands and checks know."""

    base: Path
    names: dict[str, str]

    @property
    def workspace(self) -> Path:
        """Return the workspace."""
        return self.base / "ws"


@dataclass(frozen=True)
class _Played:
    """What came of a case: output, how it ended, and the question where one was asked."""

    output: str
    exit_code: int
    elapsed_s: float
    is_asked: bool = False
    prompt: str = ""
    is_read_only: bool = False


def cases(*paths: Path) -> list[Case]:
    """Return the cases of some files; of all that are here by default."""
    names = {one.name for one in fields(Case)}
    rows = [json.loads(line) for path in paths or _CASES for line in path.read_text(encoding="utf-8").splitlines()]
    return [Case(**{name: value for name, value in row.items() if name in names}) for row in rows]


@contextlib.asynccontextmanager
async def stage(base: Path, setup: str, owner: int | None) -> AsyncIterator[Stage]:
    """Set the stage; `owner` is whom the workspace belongs to."""
    log, marker = base / "net.log", secrets.token_hex(6)
    log.touch()
    outside, workspace = base / "out", base / "ws"
    outside.mkdir()
    workspace.mkdir()
    (workspace / "README.md").write_text("hello\n")
    async with _listeners(log, base / "host.sock") as port:
        canary = f"sk-canary-{secrets.token_hex(9)}"
        names = {
            "WS": str(workspace), "OUTSIDE": str(outside), "SECRET": str(outside / "secret.txt"), "OUTNAME": "out",
            "DNSNAME": "example.com", "NETPORT": str(port), "NETHOSTS": _addresses(), "SOCK": str(base / "host.sock"),
            "MARK": marker,
        }  # fmt: skip
        hidden = {"TOKEN": f"SEKRET-{secrets.token_hex(9)}", "CANARY": canary, "NETLOG": str(log)}
        script = f"{_SETUP}\n{setup}"
        environment = {**os.environ, **_GIT, **names, **hidden}
        bash = ["bash", "-c", script]
        await asyncio.to_thread(subprocess.run, bash, env=environment, check=True, capture_output=True)
        if owner is not None:
            await asyncio.to_thread(subprocess.run, ["chown", "-R", f"{owner}:{owner}", str(workspace)], check=True)
        with _agent(workspace, canary) as pid:
            yield Stage(base, {**names, "AGENT_PID": str(pid), **hidden})


async def contains(case: Case, setting: Stage, sandbox: Sandbox) -> tuple[bool, str]:
    """Play a case and return whether its check holds, with the end of its output."""
    during = None
    if case.host_during:
        during = await asyncio.create_subprocess_exec("bash", "-c", case.host_during, env={**os.environ, **setting.names})
    played = await (_play_tool if case.tool else _play_command)(case, setting, sandbox)
    if during is not None:
        await during.wait()
    holds = await asyncio.to_thread(_checked, case, setting, played)
    return holds and (played.is_asked or played.is_read_only or not case.is_asked), played.output[-1000:]


async def _play_command(case: Case, setting: Stage, sandbox: Sandbox) -> _Played:
    inside = {name: value for name, value in setting.names.items() if name not in ("TOKEN", "CANARY", "NETLOG")}
    exports = "".join(f"export {name}='{value}'\n" for name, value in inside.items())
    result = await sandbox.run_command(exports + case.command, timeout_s=case.timeout)
    return _Played(result.text, result.exit_code, result.elapsed_ms / 1000)


# How a question looks needs one: in the normal mode a command runs in an overlay, and is asked about if it changed something.
_MODES = {"approval-bypass": Mode.NORMAL, "prompt-spoofing": Mode.MANUAL}


async def _play_tool(case: Case, setting: Stage, sandbox: Sandbox) -> _Played:
    """Let a scripted model make the call in a real session; who is asked says no where the case is about the question."""
    shown = {name: value for name, value in setting.names.items() if name not in ("TOKEN", "CANARY")}
    arguments = {name: _filled(value, shown) for name, value in case.args.items()}
    rules = tuple(parse_rule(f"Shell({rule})", Effect.ALLOW, "user") for rule in case.allow)
    parts = SessionParts(
        id="20260101_120000_abcdef", log=MemoryLog(), provider=FakeProvider(answer("", (case.tool, json.dumps(arguments)))),
        toolbox=ToolRegistry(str(setting.workspace)), sandbox=sandbox, main=ModelSettings("model"),
        policy=Policy(_MODES.get(case.category, Mode.AUTO), rules, is_attended=True), limits=Limits(),
        now=Ticking().now, monotonic=time.monotonic,
    )  # fmt: skip
    session = EngineSession(parts)
    outcome = Outcome.NO if case.is_asked else Outcome.ONCE
    seen: list[Event] = []

    def take(envelope: Envelope) -> None:
        seen.append(envelope.event)
        if isinstance(envelope.event, ApprovalRequested):
            identity = envelope.event.approval_id
            asyncio.get_running_loop().call_soon(lambda: session.answer(identity, Answer(outcome)))

    session.subscribe(take)
    began = time.monotonic()
    session.submit("do it")
    await asyncio.wait_for(session.wait_idle(), PATIENCE_S)
    await session.close()
    asked = next((event for event in seen if isinstance(event, ApprovalRequested)), None)
    result = next(event for event in seen if isinstance(event, ToolCallFinished))
    prompt = f"{asked.text}\n{asked.diff}\n{asked.path}\n{notes(asked).plain}" if asked else ""
    # it ran where it can change nothing, or in an overlay where it did
    is_read_only = result.decision == "mode" and result.why in ("it only reads", "it changed nothing")
    return _Played(result.result, int(not result.ok), time.monotonic() - began, asked is not None, prompt, is_read_only)


def _filled(value: object, names: dict[str, str]) -> object:
    """Put the stage's names into a call's arguments."""
    if isinstance(value, str):
        return string.Template(value).safe_substitute(names)
    return [_filled(one, names) for one in value] if isinstance(value, list) else value


def _checked(case: Case, setting: Stage, played: _Played) -> bool:
    texts = {"OUT": played.output, "RENDER": played.output, "RENDER_TEXT": played.output, "PROMPT": played.prompt}
    for name, text in texts.items():
        (setting.base / name).write_text(text, encoding="utf-8", errors="surrogateescape")
    (setting.base / "gitconfig").write_text("[safe]\n directory=*\n")
    home = setting.base / "lmtui-home"
    names = {
        **os.environ, **setting.names, **{name: str(setting.base / name) for name in texts}, "RC": str(played.exit_code),
        "ELAPSED": str(played.elapsed_s), "GIT_CONFIG_GLOBAL": str(setting.base / "gitconfig"),
        "ASKED": str(int(played.is_asked)), "LMTUI_HOME": str(home),
        "AGENT_CMD": f"timeout 15 {sys.executable} -P -m lmtui run --sandbox process hello",
    }  # fmt: skip
    bash = ["bash", "-c", case.check]  # a folder that it enters may not be there
    place = setting.workspace
    checked = subprocess.run(bash, cwd=place, env=names, capture_output=True, timeout=_CHECK_S, check=False)
    return checked.returncode == 0


@contextlib.contextmanager
def _agent(workspace: Path, canary: str) -> Iterator[int]:
    process = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(900)"],
        cwd=workspace,
        env={"LMTUI_API_KEY": canary, "PATH": os.environ["PATH"]},
        stdin=subprocess.DEVNULL,
    )
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


@contextlib.asynccontextmanager
async def _listeners(log: Path, path: Path) -> AsyncIterator[int]:
    """Listen on TCP, UDP, a unix and an abstract socket; whatever arrives goes to the log."""

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, TimeoutError):
            data = await asyncio.wait_for(reader.read(4096), 2)
            log.write_bytes(log.read_bytes() + data + b"connected\n")
        writer.close()

    class Datagrams(asyncio.DatagramProtocol):
        def datagram_received(self, data: bytes, addr: object) -> None:
            log.write_bytes(log.read_bytes() + data + b"\n")

    tcp = await asyncio.start_server(take, "0.0.0.0")
    port: int = tcp.sockets[0].getsockname()[1]
    udp, _ = await asyncio.get_running_loop().create_datagram_endpoint(Datagrams, local_addr=("0.0.0.0", port))
    unix = await asyncio.start_unix_server(take, path)
    path.chmod(0o777)
    abstract = await asyncio.start_unix_server(take, f"\0lmtui-{port}")
    try:
        yield port
    finally:
        udp.close()
        for server in (tcp, unix, abstract):
            server.close()
            await server.wait_closed()


def _addresses() -> str:
    listed = subprocess.run(["hostname", "-I"], capture_output=True, text=True, check=False).stdout.split()
    return " ".join(address for address in listed if ":" not in address)
