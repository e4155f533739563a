"""What decides in a workspace by its settings: profiles, the gate, and what is told of them."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lmtui.app.extensions import IdleWorkspace
from lmtui.config import Config
from lmtui.core.errors import UsageError
from lmtui.core.offers import Offers
from lmtui.core.permissions.rules import Effect, parse_rule
from lmtui.core.verification import CheckOutcome, Rung, WorkspaceChecks
from lmtui.core.workspace import ExecResult
from lmtui.features.checks.commands import list_checks, run_checks
from lmtui.features.checks.service import ChecksService, WorkspaceCheckRunner
from lmtui.features.checks.values import check_lines
from lmtui.features.service import FeatureHost, SessionServices
from tests.sets import for_each

PROFILES = ("quick: make lint", "full build: make", "full: make test", "full lint: ruff {files}")
Make = Callable[..., ChecksService]


@pytest.fixture
async def make(tmp_path: Path) -> AsyncIterator[Make]:
    opened: list[IdleWorkspace] = []

    def open_checks(folder: Path = tmp_path, **settings: Any) -> ChecksService:
        opened.append(IdleWorkspace(folder, replace(Config(), sandbox="bubblewrap", **settings)))
        return ChecksService(cast("FeatureHost", opened[-1]), Offers())

    yield open_checks
    for each in opened:
        await each.aclose()


async def listed(checks: ChecksService) -> list[tuple[str, str, str]]:
    return [(check.rung, check.command, check.source) for check in await checks.listed()]


@for_each("verify", ["full", "profile: full"])
async def test_a_profile_is_chosen_by_its_name(make: Make, verify: str) -> None:
    checks = make(verify=verify, check_profiles=PROFILES)
    assert await listed(checks) == [
        ("lint", "ruff FILES.py FILES.js", "profile full"),
        ("suite", "make && make test", "profile full"),
    ]
    assert checks.rules()[0] == ("profile", "full  (switch with /checks NAME: quick)")


async def test_a_profile_that_is_chosen_holds_in_open_sessions_until_the_settings_do_again(make: Make) -> None:
    checks = make(verify="off", check_profiles=PROFILES)
    session = SessionServices("s", checks.host.config, Offers())
    checks.equip(session, cast("Any", None))
    ladder = cast("Any", session.points.turn_end[0]).__self__.ladder
    assert not ladder().is_on
    checks.choose("full")
    assert (ladder().is_on, ladder().command, ladder().lint) == (True, "make && make test", "ruff {files}")
    checks.choose("quick")
    assert (ladder().command, ladder().lint) == ("make lint", "")
    with pytest.raises(UsageError, match="'other'"):
        checks.choose("other")
    checks.choose("auto")
    assert (ladder().is_on, ladder().command) == (False, "")


@pytest.mark.full
async def test_the_users_own_edits_are_looked_at_too(make: Make, tmp_path: Path) -> None:
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@b")
    (tmp_path / "a.py").write_text("def f():\n    return 1\n")
    for words in (("init", "-q"), ("add", "."), ("commit", "-qm", "x")):
        subprocess.run([*git, *words], cwd=tmp_path, check=True)
    (tmp_path / "a.py").write_text("def f():\n    raise NotImplementedError\n")
    for gate, outcome in (("standard", CheckOutcome.FAILED), ("off", CheckOutcome.PASSED)):
        (ran,) = await make(gate=gate).run()
        assert ran.outcome is outcome
        assert "major: a.py:2: not implemented" in check_lines([ran])[-1]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"  # overlays are kept in the home, which is in the test's folder
    folder.mkdir()
    return folder


async def test_what_a_check_writes_is_written_in_an_overlay_and_dropped_and_a_failure_says_so_too(
    make: Make, project: Path
) -> None:
    (project / "README.md").write_text("mine\n")
    (ran,) = await make(project, verify="echo hi > made.txt; rm README.md").run()
    assert ran.outcome is CheckOutcome.PASSED
    assert check_lines([ran])[0].endswith("passed: it ran in an overlay; what it wrote was dropped")
    assert ((project / "README.md").exists(), (project / "made.txt").exists()) == (True, False)
    (ran,) = await make(project, verify="echo hi > made.txt && echo 'ValueError: no' && exit 3").run()
    assert ran.outcome is CheckOutcome.FAILED
    assert ran.text.splitlines() == ["ValueError: no", "it ran in an overlay; what it wrote was dropped"]
    assert not (project / "made.txt").exists()


class WithoutOverlays(SimpleNamespace):
    """A sandbox that has neither a read-only instance nor overlays."""

    async def status(self) -> SimpleNamespace:
        return SimpleNamespace(has_read_only=False, has_overlays=False)

    def fresh(self) -> WithoutOverlays:
        return self

    async def run_command(self, command: str, *, timeout_s: int) -> ExecResult:
        return ExecResult(exit_code=0, output=command, total_bytes=0, elapsed_ms=1, is_timed_out=False)


async def test_without_overlays_a_check_runs_only_where_a_rule_allows_it() -> None:
    sandbox = cast("Any", WithoutOverlays())
    ended = await WorkspaceCheckRunner(sandbox).run("make test", limit_s=5)
    assert "no overlays" in ended.why_not
    assert "--allow 'Shell(make test)'" in ended.why_not
    allowed = (parse_rule("Shell(make *)", Effect.ALLOW, "settings"),)
    assert (await WorkspaceCheckRunner(sandbox, allowed).run("make test", limit_s=5)).output == "make test"


def context_of(checks: ChecksService, said: list[str]) -> Any:
    extensions = {WorkspaceChecks: checks}
    return cast("Any", SimpleNamespace(host=SimpleNamespace(extensions=extensions), say=said.append))


async def test_changed_files_that_do_not_parse_are_red_where_no_test_reads_them(make: Make, tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    (tmp_path / "b.json").write_text('{"a": }')
    (ran,) = await make().run()
    assert (ran.rung, ran.outcome) == (Rung.PARSE, CheckOutcome.FAILED)
    assert "b.json does not parse: line 1" in ran.text
    said: list[str] = []
    lines = (await run_checks(context_of(make(), said), "")).lines
    assert "b.json" in lines[0]
    assert "no test command was found" in lines[-1]


async def test_checks_that_are_off_neither_run_nor_are_listed_and_a_rule_that_denies_one_holds(
    make: Make, tmp_path: Path
) -> None:
    (tmp_path / "Makefile").write_text("test:\n\tfalse\n")
    checks = make(verify="off")
    assert (await checks.run(), await checks.listed()) == ((), ())
    for answers in (run_checks, list_checks):
        assert "verify is off" in (await answers(context_of(checks, []), "")).lines[0]
    (ran,) = await make(deny=("Shell(make *)",)).run()
    assert ran.outcome is CheckOutcome.NOT_RUN
    assert "your rule Shell(make *) forbids it" in ran.text


async def test_the_user_sees_what_runs_and_the_command_again_stops_it(make: Make) -> None:
    said: list[str] = []
    context = context_of(make(verify="sleep 60"), said)
    running = asyncio.create_task(run_checks(context, ""))
    while not said:
        await asyncio.sleep(0.01)
    assert said[0].startswith("… sleep 60")
    assert (await run_checks(context, "")).lines == ("The checks are stopped.",)
    async with asyncio.timeout(20):
        assert (await running).title == ""


async def test_a_profile_of_an_untrusted_folder_is_said_to_be_one(make: Make, tmp_path: Path) -> None:
    (tmp_path / ".lmagent").mkdir()
    (tmp_path / ".lmagent" / "config.toml").write_text('check_profiles = ["full: make test"]\n')
    with pytest.raises(UsageError, match="not trusted"):
        make(verify="full").require_profile()
    with pytest.raises(UsageError, match="known: quick, full"):
        make(verify="profile:other", check_profiles=PROFILES).require_profile()
    make(verify="make test").require_profile()
    make(verify="full", check_profiles=PROFILES).require_profile()
