from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.mark.structures import ParameterSet

from tests.sandbox import battery
from tests.sandbox.conftest import ISOLATED, LIMITS, OpenSandbox

# These cover each kind of attack; `make battery` runs all.
QUICK = frozenset((
    "r-abs", "r-symlink-file", "r-proc-1-root", "r-proc-agent-fd", "r-inherited-fd", "r-find", "r-git-dir", "r-agent-mem",
    "w-abs", "w-hardlink-overwrite", "w-chown", "w-setuid-file", "w-symlink-race", "w-proc-sys", "p-git-hook",
    "p-git-config-raw", "p-git-mv-aside", "p-git-commondir", "p-lmagent-config", "p-lmagent-replace", "n-tcp-loopback",
    "n-http-python", "n-vsock", "n-packet", "e-env", "e-proc-agent-environ", "k-userns", "k-32bit-abi", "k-keyctl",
    "k-mount", "k-tiocsti", "p-caps", "p-nnp", "d-forkbomb", "d-forkbomb-real", "d-open-files", "l-daemon", "l-double-fork",
    "l-holds-stdout", "l-kill-agent", "l-kill-all", "t-osc52", "t-unterminated-osc", "p-mcp-json", "p-vscode-tasks",
    "tp-read-7", "tp-write-3", "tp-write-mcp", "tp-glob-follow", "g-commit-hook", "g-diff-external", "a-newline", "a-find-exec",
    "q-bidi", "s-lmtui-py", "v-git-nested", "v-git-bare-workspace", "v-git-gitdir-file", "v-git-hidden-by-mode",
    "v-git-then-timeout", "v-git-then-kill", "v-git-vendored-moved", "v-vscode-existing", "v-envrc-existing",
    "v-names-with-controls", "v-notable-told", "v-io-uring", "v-af-alg", "v-setuid-tmpfile", "v-kmsg", "v-memory-tree",
    "v-traps", "v-link-swap", "v-write-envrc-link",
))  # fmt: skip
_IS_FULL = os.environ.get("LMTUI_FULL_BATTERY") == "1"
_CASES = battery.cases()
_CONTROLS = [case for case in _CASES if case.category == "must-work"]
_ATTACKS = [
    case for case in _CASES if case.category not in ("must-work", *battery.NOT_APPLICABLE) and (_IS_FULL or case.id in QUICK)
]


def _in_overlays() -> Iterator[ParameterSet]:
    """Yield the attacks on overlays, on one of two backends each, so that each kind of overlay meets each attack."""
    attacks = [case for case in _ATTACKS if case.command and case.id not in battery.TOLD_WHEN_KEPT]
    for (place, case), stays in itertools.product(enumerate(attacks), (False, True)):
        for other, backend in enumerate(ISOLATED):
            if _IS_FULL or (place + stays + other) % 2 == 0:
                (name,) = backend.values
                kind = "session" if stays else "command"
                yield pytest.param(case, stays, name, marks=backend.marks, id=f"{kind}-{name}-{case.id}")


async def _play(case: battery.Case, backend: str, base: Path, open_sandbox: OpenSandbox) -> None:
    owner = 1000 if backend == "docker" and os.getuid() == 0 else None
    async with battery.stage(base, case.setup, owner) as setting:
        sandbox = await open_sandbox(backend, setting.workspace, limits=LIMITS)
        holds, output = await battery.contains(case, setting, sandbox)
        assert holds, output


@pytest.mark.parametrize("case", _CONTROLS, ids=lambda case: case.id)
@pytest.mark.parametrize("backend", ISOLATED)
async def test_what_must_work_works(case: battery.Case, backend: str, tmp_path: Path, open_sandbox: OpenSandbox) -> None:
    await _play(case, backend, tmp_path, open_sandbox)


@pytest.mark.parametrize("case", _ATTACKS, ids=lambda case: case.id)
@pytest.mark.parametrize("backend", ISOLATED)
async def test_attack_gets_nothing_out(case: battery.Case, backend: str, tmp_path: Path, open_sandbox: OpenSandbox) -> None:
    await _play(case, backend, tmp_path, open_sandbox)


@pytest.mark.full
@pytest.mark.parametrize(("case", "stays", "backend"), [*_in_overlays()])
async def test_attack_gets_nothing_out_of_an_overlay(
    case: battery.Case, backend: str, tmp_path: Path, open_sandbox: OpenSandbox, *, stays: bool
) -> None:
    async with battery.stage(tmp_path, case.setup, 1000 if backend == "docker" and os.getuid() == 0 else None) as setting:
        sandbox = await open_sandbox(backend, setting.workspace, limits=LIMITS)
        overlay = sandbox.overlay(stays=stays)
        try:
            holds, output = await battery.contains(case, setting, overlay.sandbox)
        finally:
            await overlay.close()
        assert holds, output
