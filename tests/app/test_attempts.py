"""The choice among attempts, their settings, and patches of what they did."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lmtui.app.attempts import Attempt, Attempts, choose, config_of, patch_of
from lmtui.config import Config
from lmtui.core.errors import SandboxError
from lmtui.core.events import CheckSummary, TurnEnded, TurnReason
from lmtui.core.permissions.decide import Mode
from lmtui.core.sessions import Session
from lmtui.core.workspace import CommandEffect, FileChange, FileChangeKind
from lmtui.sandbox.overlays import WorkspaceOverlay
from lmtui.sandbox.workspace_sandbox import WorkspaceSandbox
from tests.app.conftest import DONE, WRITE, Open, Serve


def attempt(
    number: int, *, verified: str, failing: int = 0, lines: int | None = 1, code: int = 0, has_checks: bool = False
) -> Attempt:
    check = CheckSummary("make test", -1, 0.0)
    end = TurnEnded(
        turn_id="t", reason=TurnReason.DONE, exit_code=code, verified=verified, checks=(check,) if has_checks else ()
    )
    changes = (FileChange("a", FileChangeKind.MODIFIED, lines, 0, ""),) if lines else ()
    effect = None if lines is None else CommandEffect("b", "a", changes)
    session, overlay = cast("Session", None), cast("WorkspaceOverlay[WorkspaceSandbox]", None)
    return Attempt(number, session, overlay, end, failing, effect)


@pytest.mark.parametrize(
    ("attempts", "best", "is_green", "is_good"),
    [
        ([attempt(1, verified="red", failing=1, code=2), attempt(2, verified="green", lines=90)], 2, True, True),
        ([attempt(1, verified="green", lines=9), attempt(2, verified="green", lines=3)], 2, True, True),
        (
            [attempt(1, verified="red", failing=3, code=2), attempt(2, verified="red", failing=2, lines=99, code=2)],
            2,
            False,
            False,
        ),
        ([attempt(1, verified="none", lines=0), attempt(2, verified="unverified", lines=40)], 2, False, True),
        ([attempt(1, verified="unverified", has_checks=True), attempt(2, verified="unverified", lines=7)], 2, False, True),
        ([attempt(1, verified="unverified", has_checks=True), attempt(2, verified="green", lines=None)], 1, False, False),
        ([attempt(2, verified="green"), attempt(1, verified="green")], 1, True, True),
    ],
)
def test_green_wins_then_the_fewest_failing_then_the_smallest(
    attempts: list[Attempt], best: int, *, is_green: bool, is_good: bool
) -> None:
    chosen = choose(attempts)
    assert (chosen.number, chosen.is_green, chosen.is_good) == (best, is_green, is_good)


def test_the_first_is_as_configured_and_each_other_has_a_seed_of_its_own() -> None:
    drawn = [config_of(Config(temperature=0.2), number) for number in (1, 2, 3)]
    assert [(each.temperature, each.seed, each.mode) for each in drawn] == [
        (0.2, -1, "auto"),
        (0.7, 2, "auto"),
        (0.7, 3, "auto"),
    ]
    assert config_of(Config(temperature=0.9, seed=40), 3).seed == 42
    assert config_of(Config(temperature=0.9, seed=40), 3).temperature == 0.9


CONTENT = st.none() | st.lists(st.sampled_from([b"a", b"b\n", b"\n", b"\r\n", b"\xff", "é".encode()])).map(b"".join)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(before=CONTENT, after=CONTENT, name=st.sampled_from(["a.txt", "with space.txt", "sub/é.py"]))
def test_a_patch_applied_gives_the_file(tmp_path: Path, before: bytes | None, after: bytes | None, name: str) -> None:
    file, patch = tmp_path / "tree" / name, tmp_path / "x.patch"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.unlink(missing_ok=True)
    if before is not None:
        file.write_bytes(before)
    data = patch_of(name, before, after)
    assert bool(data) == (before != after)
    if data:
        patch.write_bytes(data)
        subprocess.run(["git", "apply", str(patch)], cwd=tmp_path / "tree", check=True, env={"GIT_DIR": "/nonexistent"})
    assert (file.read_bytes() if file.exists() else None) == after


def test_what_is_not_text_is_in_no_patch() -> None:
    assert patch_of("a.bin", b"\0", b"1") == b""


async def test_a_kept_attempt_can_be_undone_and_a_change_of_the_users_is_not_overwritten(
    workspace: Path, open_one: Open, serve: Serve
) -> None:
    (workspace / "a.txt").write_text("zero\n")
    server = await serve(WRITE, DONE)
    runtime = open_one(server.url, sandbox="bubblewrap", verify="off")
    attempts = Attempts(runtime, 2, "write it", lambda session: session.submit("write it"), lambda _: None)
    chosen = await attempts.run()
    assert (len(attempts.ended), (workspace / "a.txt").read_text()) == (2, "zero\n")
    (workspace / "a.txt").write_text("mine\n")
    with pytest.raises(SandboxError, match=r"a\.txt"):
        await attempts.keep(chosen)
    assert (workspace / "a.txt").read_text() == "mine\n"
    (workspace / "a.txt").write_text("zero\n")
    await attempts.keep(chosen)
    await attempts.close()
    assert (workspace / "a.txt").read_text() == "one\n"
    session = await runtime.open_session(chosen.session.id)
    assert session.mode is Mode.NORMAL
    assert session.changes is not None
    await session.changes.apply(await session.changes.plan_undo())
    assert (workspace / "a.txt").read_text() == "zero\n"
