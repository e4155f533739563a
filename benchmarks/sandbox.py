"""What a sandbox costs beyond plain bash: a command, a file read, a start; medians of one run, with the limits that they have.

Run it as `python -m benchmarks.sandbox` or by its path.  A backend that does not work here is left out with its reason.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from lmtui.core.errors import SandboxUnavailable
from lmtui.core.ports import Sandbox
from lmtui.sandbox.select import select_sandbox

_ROUNDS = 60
_COMMAND = "echo hi; cat README.md; true"
_COMMAND_LIMIT_MS = {"docker": 15.0, "bubblewrap": 12.0}
_READ_LIMIT_MS = 1.5


async def main() -> int:
    """Measure, print the table, and return how many limits were missed."""
    missed = 0
    with tempfile.TemporaryDirectory(prefix="lmtui-bench-") as name:
        workspace = Path(name)
        (workspace / "README.md").write_text("x" * 4096)
        plain = _plain_ms(workspace)
        print("backend         start   command  beyond bash  ratio  limit  read 4 KB  limit")
        print(f"{'plain bash':<12}{'':>9}{plain:>7.1f} ms")
        for backend in ("docker", "bubblewrap", "process"):
            try:
                missed += await _measure(backend, workspace, plain)
            except SandboxUnavailable as reason:
                print(f"{backend:<12}not here: {reason}")
    return missed


async def _measure(backend: str, workspace: Path, plain: float) -> int:
    sandbox = await select_sandbox(workspace, backend=backend)
    started = time.perf_counter()
    try:
        await sandbox.status()
        start_ms = (time.perf_counter() - started) * 1000
        command = await _median_ms(lambda: sandbox.run_command(_COMMAND))
        read = await _median_ms(lambda: sandbox.read_file("README.md"))
        flood = await _flood_s(sandbox)
    finally:
        await sandbox.close()
    limit = _COMMAND_LIMIT_MS.get(backend)
    shown = f"{limit:>7.0f}" if limit else f"{'-':>7}"
    print(
        f"{backend:<12}{start_ms:>6.0f} ms{command:>7.1f} ms{command - plain:>10.1f} ms{command / plain:>7.1f}{shown}"
        f"{read:>8.2f} ms{_READ_LIMIT_MS:>7.1f}   1 GB of output in {flood:.1f} s"
    )
    return int(limit is not None and command - plain > limit) + int(read > _READ_LIMIT_MS)


async def _median_ms(call: Callable[[], Awaitable[object]]) -> float:
    times = []
    for _ in range(_ROUNDS):
        started = time.perf_counter()
        await call()
        times.append((time.perf_counter() - started) * 1000)
    return statistics.median(times)


async def _flood_s(sandbox: Sandbox) -> float:
    started = time.perf_counter()
    await sandbox.run_command("head -c 1000000000 /dev/zero", timeout_s=60)
    return time.perf_counter() - started


def _plain_ms(workspace: Path) -> float:
    times = []
    for _ in range(_ROUNDS):
        started = time.perf_counter()
        subprocess.run(["bash", "-c", _COMMAND], cwd=workspace, stdin=subprocess.DEVNULL, capture_output=True, check=True)
        times.append((time.perf_counter() - started) * 1000)
    return statistics.median(times)


if __name__ == "__main__":
    sys.exit(min(asyncio.run(main()), 1))
