"""The stage on which an escape case plays: a workspace, secrets and listeners beside it, and a process with keys to steal.

A case is a shell command that runs inside and a check that runs outside afterwards; exit 0 of the check means that nothing got
out (or, for the category must-work, that it worked).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

from lmtui.core.ports import Sandbox

_CASES = Path(__file__).parent / "cases" / "escapes.jsonl"
_CHECK_S = 20
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
    command: str
    check: str
    timeout: int = 10
    setup: str = ""
    host_during: str = ""


@dataclass(frozen=True)
class Stage:
    """Where a case plays: `names` are the variables that commands and checks know."""

    base: Path
    names: dict[str, str]

    @property
    def workspace(self) -> Path:
        """Return the workspace."""
        return self.base / "ws"


def cases() -> list[Case]:
    """Return the cases of the file."""
    return [Case(**json.loads(line)) for line in _CASES.read_text().splitlines()]


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
    inside = {name: value for name, value in setting.names.items() if name not in ("TOKEN", "CANARY", "NETLOG")}
    exports = "".join(f"export {name}='{value}'\n" for name, value in inside.items())
    during = None
    if case.host_during:
        during = await asyncio.create_subprocess_exec("bash", "-c", case.host_during, env={**os.environ, **setting.names})
    result = await sandbox.run_command(exports + case.command, timeout_s=case.timeout)
    if during is not None:
        await during.wait()
    output, rendered = setting.base / "OUT", setting.base / "RENDER"
    output.write_text(result.output)
    rendered.write_text(result.output)
    (setting.base / "gitconfig").write_text("[safe]\n directory=*\n")
    names = {
        **os.environ, **setting.names, "OUT": str(output), "RENDER": str(rendered), "RC": str(result.exit_code),
        "ELAPSED": str(result.elapsed_ms / 1000), "GIT_CONFIG_GLOBAL": str(setting.base / "gitconfig"),
    }  # fmt: skip
    checked = await asyncio.to_thread(
        subprocess.run, ["bash", "-c", case.check], env=names, capture_output=True, timeout=_CHECK_S, check=False
    )
    return checked.returncode == 0, result.output[-1000:]


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
