"""Processes that live on and exchange what the host looks at: every kind of instance, thing, moment and target in turn.

    python -m tests.sandbox.races [--backend docker|bubblewrap] [--most N] [--seconds S]

Prints what was tried, and exits 1 where something outside was shown or changed.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import os
import random
import stat
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

from lmtui.core.errors import SandboxError
from lmtui.core.permissions.rules import SETTINGS, Effect, mask_expressions, parse_rule
from lmtui.core.programs import Launch
from lmtui.sandbox.select import select_sandbox
from lmtui.sandbox.workspace_sandbox import WorkspaceSandbox
from tests.sandbox.conftest import fill, launcher_of

SECRET = "what-is-outside-4f1"
GUEST = "what-is-denied-8c2"

# In which instance the attacker lives; `command` is one that still runs when another ends.
LIVES_IN = ("server", "command", "detached")
# What is exchanged: a name that is set aside, protected, masked, or put back; and where it is.
THINGS = (
    "d/.git", "d/.vscode", "d/.mcp.json", ".envrc", "d/.env", "secrets", "secrets/k", "d", ".git/config", "d/AGENTS.md",
    ".idea/workspace.xml", "d/bare/HEAD",
)  # fmt: skip
# What it is exchanged for.
TARGETS = ("file", "folder", "parent", "root")
# What the host is made to do meanwhile.
MOMENTS = ("command", "read", "git", "checkpoint", "listing", "files", "reveal", "python")

ATTACKER = r"""
import ctypes, os, sys, time
thing, target, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
libc = ctypes.CDLL(None, use_errno=True)
def exchange(one, other):
    libc.renameat2(-100, one.encode(), -100, other.encode(), 2)
parent = os.path.dirname(thing) or "."
try:
    os.makedirs(parent, exist_ok=True)
    if not os.path.lexists(thing):
        if thing.endswith((".git", ".vscode")):
            os.makedirs(thing + "/hooks")
            for i in range(60):
                open(thing + "/hooks/%d" % i, "w").close()
        elif thing.endswith("HEAD"):
            os.makedirs(parent + "/objects", exist_ok=True); os.makedirs(parent + "/refs", exist_ok=True)
            open(thing, "w").write("ref: refs/heads/x\n")
        else:
            open(thing, "w").write("x")
except OSError:
    pass
held = []
for name in (thing, thing + "/hooks", parent):
    try:
        held.append(os.open(name, os.O_RDONLY | os.O_DIRECTORY))
    except OSError:
        pass
links = []
for i, place in enumerate((thing + ".l", "other-%d" % os.getpid())):
    try:
        os.symlink(target, place); links.append(place)
    except OSError:
        pass
for fd in held:
    for i in range(60):
        try:
            os.symlink(target, "l%d" % i, dir_fd=fd)
        except OSError:
            pass
print("up", flush=True)
end = time.monotonic() + seconds
while time.monotonic() < end:
    for place in links:
        exchange(thing, place)
    for fd in held:
        for i in range(60):
            libc.renameat2(fd, b"%d" % i, fd, b"l%d" % i, 2)
    for move in (("d", "d2"), ("d2", "d")):
        try:
            os.rename(*move)
        except OSError:
            pass
"""


@dataclass(frozen=True)
class Attempt:
    """One race."""

    lives_in: str
    thing: str
    target: str
    moment: str


def attempts() -> list[Attempt]:
    """Return all of them, in an order that is always the same and mixes the kinds."""
    found = [Attempt(*each) for each in itertools.product(LIVES_IN, THINGS, TARGETS, MOMENTS)]
    random.Random(14).shuffle(found)
    return found


@dataclass(frozen=True)
class Place:
    """A workspace, and what is outside of it with its state."""

    workspace: Path
    outside: Path
    before: dict[str, object]


@contextlib.contextmanager
def place(base: Path, owner: int = -1) -> Iterator[Place]:
    """Make a workspace and something to steal beside it."""
    with tempfile.TemporaryDirectory(dir=base) as folder:
        workspace, outside = Path(folder) / "ws", Path(folder) / "outside"
        for name in ("ws/secrets", "ws/d", "outside/hooks", "outside/.git"):
            (Path(folder) / name).mkdir(parents=True)
        for name in ("secret", "hooks/1", ".git/config", "HEAD"):
            (outside / name).write_text(f"{SECRET}\n")
            (outside / name).chmod(0o640)
        fill(workspace, {"secrets/k": f"{GUEST}\n", ".env": f"{GUEST}\n", "a.txt": "hello\n"})
        for path in (Path(folder), *Path(folder).rglob("*")):
            if owner >= 0:
                os.chown(path, owner, owner)
        yield Place(workspace, outside, _state(outside))


def _state(folder: Path) -> dict[str, object]:
    """Return names, modes, times and contents below a folder."""
    found: dict[str, object] = {}
    for path in (folder, *sorted(folder.rglob("*"))):
        facts = path.lstat()
        content = path.read_bytes() if stat.S_ISREG(facts.st_mode) else b""
        found[str(path.relative_to(folder))] = (facts.st_mode, facts.st_uid, facts.st_mtime_ns, facts.st_nlink, content)
    return found


async def play(attempt: Attempt, backend: str, where: Place, seconds: float) -> str:
    """Play one race; return what got out, or an empty text."""
    target = {"file": where.outside / "secret", "folder": where.outside, "parent": where.outside.parent, "root": Path("/")}
    sandbox = await select_sandbox(where.workspace, backend=backend)
    sandbox.mask(1, mask_expressions((parse_rule("Read(secrets/**)", Effect.DENY, SETTINGS),)))
    said: list[str] = []
    try:
        await sandbox.run_command("true")
        arguments = ("python3", "-c", ATTACKER, attempt.thing, str(target[attempt.target]), str(seconds * 3))
        async with _living(attempt.lives_in, sandbox, arguments):
            end = asyncio.get_running_loop().time() + seconds
            while asyncio.get_running_loop().time() < end:
                with contextlib.suppress(SandboxError):
                    said.append(await _do(attempt.moment, sandbox))
    finally:
        await sandbox.close()
    return _verdict(where, "\n".join(said))


@contextlib.asynccontextmanager
async def _living(kind: str, sandbox: WorkspaceSandbox, arguments: tuple[str, ...]) -> AsyncIterator[None]:
    """Let the attacker live in an instance."""
    if kind == "server":
        served = await launcher_of(sandbox).open(Launch(arguments), lambda _: None)
        if (said := await served.read()) != b"up\n":
            raise SystemExit(f"the attacker does not run: {said!r}")
        try:
            yield
        finally:
            await served.close()
        return
    words = " ".join(f"'{each}'" if i != 2 else '"$A"' for i, each in enumerate(arguments))
    quiet = f"setsid {words} & sleep 30" if kind == "detached" else words
    command = f"A=$(cat <<'END'\n{ATTACKER}\nEND\n)\n{quiet}"
    running = asyncio.create_task(sandbox.run_command(command, timeout_s=60))
    await asyncio.sleep(0.3)
    try:
        yield
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def _do(moment: str, sandbox: WorkspaceSandbox) -> str:
    """Make the host do something with the folder, and return what it showed."""
    match moment:
        case "command":
            return (
                await sandbox.run_command("mkdir -p n; git init -q n/x 2>&1; touch n/.mcp.json; cat secrets/k .env d/*; true")
            ).output
        case "read":
            return (await sandbox.read_only().run_command("cat secrets/k .env; grep -rs what- . ; ls -laR d")).output
        case "git":
            await sandbox.run_git(["init", "-q"], writes=True)
            await sandbox.run_git(["add", "a.txt"], writes=True)
            return (await sandbox.run_git(["status", "--short"])).output
        case "checkpoint":
            kept = await sandbox.checkpoints.snapshot()
            await sandbox.run_command("echo x > a.txt")
            await sandbox.checkpoints.restore(kept.id, ["a.txt"], expected=(await sandbox.checkpoints.snapshot()).id)
            return str(await sandbox.checkpoints.read(kept.id, "d/AGENTS.md"))
        case "listing":
            found = [await sandbox.listing.folder(name) for name in ("", "d")]
            return f"{found} {await sandbox.listing.paths(1000)} {await sandbox.listing.git_status()}"
        case "files":
            shown = [str(await sandbox.grep("what-")), str(await sandbox.glob("**/*"))]
            for name in ("d/AGENTS.md", "d/.mcp.json", ".envrc", "secrets/k"):
                with contextlib.suppress(SandboxError):
                    shown.append((await sandbox.read_file(name)).data.decode("utf-8", "replace"))
                with contextlib.suppress(SandboxError):
                    await sandbox.write_file(name, b"written\n")
            return "".join(shown)
        case "reveal":
            return (await sandbox.revealing([".env"]).run_command("cat secrets/k; grep -rs outside .")).output
        case _:
            async with launcher_of(sandbox).guarded() as notes:
                served = await launcher_of(sandbox).open(
                    Launch(("bash", "-c", "cat secrets/k .env; grep -rs what- .")), lambda _: None
                )
                said = b""
                while piece := await served.read():
                    said += piece
                await served.close()
            return said.decode("utf-8", "replace") + "\n".join(notes)


def _verdict(where: Place, said: str) -> str:
    """Return what got out: shown by an answer, kept anywhere in the workspace, or changed outside."""
    if SECRET in said or GUEST in said:
        return f"shown: {SECRET if SECRET in said else GUEST}"
    for path in where.workspace.rglob("*"):
        try:
            is_file = stat.S_ISREG(path.lstat().st_mode)
            if is_file and SECRET.encode() in path.read_bytes():
                return f"kept in {path.relative_to(where.workspace)}"
        except OSError:
            continue
    after = _state(where.outside)
    return (
        ""
        if after == where.before
        else f"changed outside: {set(map(str, after.items())) ^ set(map(str, where.before.items()))}"
    )


async def _main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", default="bubblewrap")
    parser.add_argument("--most", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=1.0)
    arguments = parser.parse_args()
    escaped = 0
    base = Path(tempfile.mkdtemp(prefix="lmtui-races-"))
    base.chmod(0o755)
    for number, attempt in enumerate(attempts()[: arguments.most], 1):
        with place(base) as where:
            got_out = await play(attempt, arguments.backend, where, arguments.seconds)
        escaped += bool(got_out)
        if got_out:
            print(f"{number}: {attempt}: {got_out}", flush=True)
    print(f"{arguments.backend}: {arguments.most} races, {escaped} escaped")
    return 1 if escaped else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(_main()))
