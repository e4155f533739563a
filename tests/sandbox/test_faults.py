from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from lmtui.core.errors import SandboxError, SandboxUnavailable, UsageError
from lmtui.sandbox.backend import ProcessBackend
from lmtui.sandbox.docker import DockerBackend
from lmtui.sandbox.images import find_socket
from lmtui.sandbox.select import choose, select_sandbox
from tests.sandbox.conftest import BUBBLEWRAP, DOCKER, LANDLOCK, OpenSandbox, unavailable
from tests.sets import depth
from tests.waiting import PATIENCE_S

# Takes a system call with one value of one argument away from this process and all of its children, then selects.
_WITHOUT = """
import asyncio, ctypes, json, os, struct, sys
from pathlib import Path
from lmtui.core.errors import SandboxUnavailable
from lmtui.sandbox.guest import linux
from lmtui.sandbox.select import select_sandbox

def step(code, value, yes=0, no=0):
    return struct.pack("=HBBI", code, yes, no, value)

rules = json.loads(sys.argv[3])
program = [step(0x20, 0)]
for number, argument, bits in rules:
    check = [step(0x20, 16 + 8 * argument), step(0x45, bits, 0, 1), step(0x06, 0x00050001), step(0x06, 0x7FFF0000)]
    program += [step(0x15, number, 0, len(check)), *check]
program.append(step(0x06, 0x7FFF0000))
linux.set_process(linux.PR_SET_NO_NEW_PRIVS, 1)
linux.install_filter(b"".join(program))

async def main():
    sandbox = await select_sandbox(Path(sys.argv[1]), backend=sys.argv[2])
    try:
        status = await sandbox.status()
        print(json.dumps([status.backend, status.is_weaker, status.reason, status.text]))
    except SandboxUnavailable as reason:
        print(json.dumps(["refused", True, reason.full_text(), ""]))
    await sandbox.close()

asyncio.run(main())
"""
_UNSHARE, _CLONE, _PRCTL = (97, 220, 167) if os.uname().machine == "aarch64" else (272, 56, 157)
_NEW_USER = 0x10000000
_NO_NAMESPACES = [[_UNSHARE, 0, _NEW_USER], [_CLONE, 0, _NEW_USER]]
_NO_FILTERS = [[_PRCTL, 1, 0x2]]  # SECCOMP_MODE_FILTER; other calls of prctl with this bit fail as well


async def _select_without(workspace: Path, backend: str, rules: list[list[int]]) -> tuple[str, bool, str, str]:
    environment = {**os.environ, "DOCKER_HOST": "tcp://192.0.2.1:2375", "XDG_RUNTIME_DIR": str(workspace)}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _WITHOUT, str(workspace), backend, json.dumps(rules), env=environment,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    output, errors = await asyncio.wait_for(process.communicate(), PATIENCE_S)
    assert process.returncode == 0, errors.decode()
    name, is_weaker, reason, text = json.loads(output)
    return name, is_weaker, reason, text


@contextlib.asynccontextmanager
async def _cut_able_engine(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[asyncio.Event]:
    """Put a socket before the engine's that goes dead, with every connection, when the event is set."""
    cut = asyncio.Event()
    real = find_socket()
    writers: list[asyncio.StreamWriter] = []

    async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while piece := await reader.read(65_536):
                writer.write(piece)
                await writer.drain()
            writer.write_eof()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if cut.is_set():
            writer.close()
            return
        inner, outer = await asyncio.open_unix_connection(real)
        writers.extend((writer, outer))
        await asyncio.gather(pipe(reader, outer), pipe(inner, writer))
        outer.close()
        writer.close()

    async def cutter() -> None:
        await cut.wait()
        for writer in writers:
            writer.transport.abort()

    with tempfile.TemporaryDirectory() as name:
        monkeypatch.setenv("DOCKER_HOST", f"unix://{name}/engine.sock")
        server = await asyncio.start_unix_server(serve, f"{name}/engine.sock")
        task = asyncio.create_task(cutter())
        try:
            yield cut
        finally:
            cut.set()
            await task
            server.close()
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("backend", [DOCKER])
async def test_an_engine_that_dies_while_a_command_runs_is_told_and_never_replaced(
    backend: str, workspace: Path, open_sandbox: OpenSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    await (await open_sandbox(backend)).close()  # skips where it cannot work
    async with _cut_able_engine(monkeypatch) as cut:
        sandbox = await select_sandbox(workspace, backend=backend)
        await sandbox.status()
        running = asyncio.create_task(sandbox.run_command("sleep 20"))
        await asyncio.sleep(0.5)
        cut.set()
        with pytest.raises(SandboxError, match=r"ended unexpectedly|broke|does not answer"):
            await running
        with pytest.raises(SandboxUnavailable, match="Docker engine"):
            await sandbox.run_command("echo no")
        await sandbox.close()


async def test_an_image_that_is_missing_leads_to_the_next_tier_by_name(workspace: Path) -> None:
    sandbox = await select_sandbox(workspace, image="lmtui-no-such-image:1")
    try:
        status = await sandbox.status()
        assert status.backend != "docker"
        assert "lmtui-no-such-image" in status.reason or "Docker" in status.reason
    finally:
        await sandbox.close()


async def test_where_nothing_isolates_auto_takes_nothing_and_says_why(workspace: Path) -> None:
    name, _, reason, _ = await _select_without(workspace, "auto", _NO_FILTERS)
    assert name == "refused"
    assert "bubblewrap" in reason
    assert "landlock" in reason.lower()


@pytest.mark.parametrize("backend", depth([BUBBLEWRAP], ["auto", BUBBLEWRAP]))
async def test_without_user_namespaces_the_reduced_tier_is_named_or_it_is_refused(backend: str, workspace: Path) -> None:
    name, is_weaker, reason, text = await _select_without(workspace, backend, _NO_NAMESPACES)
    assert is_weaker
    assert "bubblewrap" in reason
    if backend == "auto":
        assert name == "landlock"
        assert "reduced" in text
    else:
        assert name == "refused"


class _Stranger(DockerBackend):
    """Containers whose files belong to somebody else."""

    def _user(self, engine: object) -> str:
        del engine
        return "4242:4242"


@pytest.mark.parametrize("backend", [DOCKER])
async def test_files_of_the_wrong_owner_are_refused(backend: str, workspace: Path, open_sandbox: OpenSandbox) -> None:
    await (await open_sandbox(backend)).close()  # skips where it cannot work
    workspace.chmod(0o777)
    with pytest.raises(SandboxUnavailable, match="belong to uid 4242"):
        await choose([_Stranger(workspace)], workspace)


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Path]:
    """Return a workspace on a file system of one megabyte."""
    if os.getuid() != 0:
        pytest.skip("only root mounts a small file system")
    folder = tmp_path / "small"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], check=False).returncode != 0:
        pytest.skip("mounting is not allowed here")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.mark.parametrize("backend", [BUBBLEWRAP, LANDLOCK, "process"])
async def test_a_full_disk_is_told_and_leaves_the_file_as_it_was(
    backend: str, mounted: Path, open_sandbox: OpenSandbox
) -> None:
    (mounted / "kept").write_bytes(b"before")
    sandbox = await open_sandbox(backend, mounted)
    with pytest.raises(SandboxError, match="no space left"):
        await sandbox.write_file("kept", bytes(2 << 20))
    assert (await sandbox.read_file("kept")).data == b"before"
    result = await sandbox.run_command("head -c 2M /dev/zero > big; echo $?")
    assert "No space left" in result.output
    await sandbox.close()
    with pytest.raises(SandboxUnavailable, match="cannot write"):  # the probe of a new start does not fit any more
        await choose([ProcessBackend(mounted)], mounted)


async def test_a_workspace_that_is_read_only_is_refused_at_once(mounted: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(mounted)], check=True)
    with pytest.raises(UsageError, match="cannot be written"):
        await select_sandbox(mounted)


_OTHER = """
import asyncio, sys
from pathlib import Path
from lmtui.sandbox.select import select_sandbox

async def main():
    sandbox = await select_sandbox(Path(sys.argv[1]), backend=sys.argv[2])
    print((await sandbox.run_command("echo ready")).output.strip(), flush=True)
    sys.stdin.readline()
    print((await sandbox.run_command("echo second > other.txt; cat first.txt")).output.strip(), flush=True)
    await sandbox.close()

asyncio.run(main())
"""


@pytest.mark.full
@pytest.mark.parametrize("backend", [DOCKER, BUBBLEWRAP, LANDLOCK])
async def test_two_hosts_on_one_workspace_leave_each_other_alone(
    backend: str, workspace: Path, open_sandbox: OpenSandbox
) -> None:
    await (await open_sandbox(backend)).close()  # skips where it cannot work
    other = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _OTHER, str(workspace), backend, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert other.stdin is not None
    assert other.stdout is not None
    assert await asyncio.wait_for(other.stdout.readline(), PATIENCE_S) == b"ready\n"
    sandbox = await select_sandbox(workspace, backend=backend)
    try:
        await sandbox.run_command("echo first > first.txt")
        other.stdin.write(b"go\n")
        assert await asyncio.wait_for(other.stdout.readline(), PATIENCE_S) == b"first\n"
        assert await other.wait() == 0
        assert (await sandbox.run_command("cat other.txt")).output == "second\n"
    except SandboxUnavailable as reason:
        unavailable(reason)
    finally:
        await sandbox.close()
