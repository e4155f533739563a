from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.mark.structures import ParameterSet

from tests.sandbox import battery
from tests.sandbox.conftest import ISOLATED, LIMITS, OpenSandbox

# These cover each kind of attack; `make battery` runs all.  Those that only look play on one stage, one after another.
_LOOKS = frozenset((
    "r-abs", "r-symlink-file", "r-proc-1-root", "r-proc-agent-fd", "r-inherited-fd", "r-find", "r-git-dir", "r-agent-mem",
    "w-abs", "w-hardlink-overwrite", "w-chown", "w-setuid-file", "w-proc-sys", "n-tcp-loopback", "n-http-python", "n-vsock",
    "n-packet", "e-env", "e-proc-agent-environ", "k-userns", "k-32bit-abi", "k-keyctl", "k-mount", "k-tiocsti", "p-caps",
    "p-nnp", "d-open-files", "l-kill-agent", "l-kill-all", "t-osc52", "t-unterminated-osc", "v-io-uring", "v-af-alg",
    "v-setuid-tmpfile", "v-kmsg",
))  # fmt: skip
_ALONE = frozenset((
    "p-git-hook", "p-git-mv-aside", "p-git-commondir", "p-lmagent-config",
    "tp-read-7", "tp-write-mcp", "g-commit-hook", "g-diff-external", "s-lmtui-py",
    "v-git-bare-workspace", "v-git-gitdir-file", "v-git-vendored-moved",
    "v-names-with-controls", "v-write-envrc-link",
))  # fmt: skip
# Cheaper tests fail for the same faults: of survivors, commands, races, quarantine, writable folders, and the core's.
_ONLY_IN_FULL = frozenset((
    "w-symlink-race", "d-forkbomb", "d-forkbomb-real", "l-daemon", "l-double-fork", "l-holds-stdout", "tp-write-3",
    "tp-glob-follow", "a-newline", "a-find-exec", "q-bidi", "v-git-nested", "v-git-then-timeout", "v-envrc-existing",
    "v-memory-tree", "v-traps", "v-link-swap", "p-git-config-raw", "p-lmagent-replace", "p-mcp-json", "p-vscode-tasks",
    "v-git-hidden-by-mode", "v-vscode-existing", "v-notable-told", "v-git-then-kill",
))  # fmt: skip
_IS_FULL = os.environ.get("LMTUI_FULL_BATTERY") == "1"
_CASES = battery.cases()
_CONTROLS = [case for case in _CASES if case.category == "must-work"]
_ATTACKS = [
    case
    for case in _CASES
    if case.category not in ("must-work", *battery.NOT_APPLICABLE) and (_IS_FULL or case.id in _LOOKS | _ALONE | _ONLY_IN_FULL)
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


def _owner(backend: str) -> int | None:
    return 1000 if backend == "docker" and os.getuid() == 0 else None


@pytest.mark.parametrize("backend", ISOLATED)
async def test_what_must_work_works_and_looks_get_nothing_out(backend: str, tmp_path: Path, open_sandbox: OpenSandbox) -> None:
    async with battery.stage(tmp_path, "", _owner(backend)) as setting:
        sandbox = await open_sandbox(backend, setting.workspace, limits=LIMITS)
        cases = [*_CONTROLS, *(case for case in _ATTACKS if case.id in _LOOKS)]
        played = {case.id: await battery.contains(case, setting, sandbox) for case in cases}
    assert {name: output for name, (holds, output) in played.items() if not holds} == {}
    assert len(played) == len(_CONTROLS) + len(_LOOKS)


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=[] if case.id in _ALONE else pytest.mark.full, id=case.id) for case in _ATTACKS]
)
@pytest.mark.parametrize("backend", ISOLATED)
async def test_attack_gets_nothing_out(case: battery.Case, backend: str, tmp_path: Path, open_sandbox: OpenSandbox) -> None:
    async with battery.stage(tmp_path, case.setup, _owner(backend)) as setting:
        sandbox = await open_sandbox(backend, setting.workspace, limits=LIMITS)
        holds, output = await battery.contains(case, setting, sandbox)
        assert holds, output


@pytest.mark.full
@pytest.mark.parametrize(("case", "stays", "backend"), [*_in_overlays()])
async def test_attack_gets_nothing_out_of_an_overlay(
    case: battery.Case, backend: str, tmp_path: Path, open_sandbox: OpenSandbox, *, stays: bool
) -> None:
    async with battery.stage(tmp_path, case.setup, _owner(backend)) as setting:
        sandbox = await open_sandbox(backend, setting.workspace, limits=LIMITS)
        overlay = sandbox.overlay(stays=stays)
        try:
            holds, output = await battery.contains(case, setting, overlay.sandbox)
        finally:
            await overlay.close()
        assert holds, output
