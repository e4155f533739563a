"""Language servers in a real sandbox: a small fake one always, real ones where they are installed."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from lmtui.app.extensions import IdleWorkspace
from lmtui.app.host import Runtime
from lmtui.config import Config
from lmtui.core.events import ApprovalRequested, Envelope, Event, FilesChanged, Outcome, ToolCallFinished, TurnEnded
from lmtui.core.model_events import Reminder
from lmtui.core.project_checks import CheckOutcome, CheckRan, Rung
from lmtui.core.sessions import Answer
from lmtui.engine.session import EngineSession
from lmtui.features.checks.language_servers import LanguageServers
from lmtui.models.demo_scripts import Scenario, ScriptedCall, ScriptedTurn
from lmtui.models.scripted_server import ScriptedServer
from tests.features.checks.test_ladder import Runner

FAKE = Path(__file__).with_name("fake_language_server.py")
AUTO = Config(mode="auto")
CODE = 'def add(a, b):\n    return a + b\n\n\nprint("é𝄞", add(1, 2))\n'


def install(folder: Path, source: str = "") -> None:
    """Put a language server into the workspace, as a project has its own."""
    (folder / ".venv/bin").mkdir(parents=True)
    server = folder / ".venv/bin/basedpyright-langserver"
    server.write_text(source or f"#!/usr/bin/env python3\n{FAKE.read_text()}")
    server.chmod(0o755)


@pytest.fixture
async def runner(tmp_path: Path) -> AsyncIterator[Runner]:
    (tmp_path / "work").mkdir()
    workspace = IdleWorkspace(tmp_path / "work", replace(Config(), sandbox="bubblewrap"))
    yield Runner(await workspace.sandbox())
    await workspace.aclose()


@pytest.fixture
def folder(tmp_path: Path, runner: Runner) -> Path:
    del runner
    return tmp_path / "work"


async def test_only_errors_that_the_change_brought_are_told_with_their_place(runner: Runner, folder: Path) -> None:
    install(folder)
    (folder / "a.py").write_text("# moved\n# ERROR\n\nx = 'ERROR'\n")
    (folder / "new.py").write_text("# ERROR\n")
    runner.old = {"a.py": b"# ERROR\n", "new.py": None}
    servers = LanguageServers()
    assert not await servers.check(runner, ["a.py", "new.py", "c.md"], 30)
    (check,) = runner.told
    assert (check.rung, check.outcome, check.command) == (Rung.LINT, CheckOutcome.FAILED, "basedpyright-langserver")
    assert check.text == "a.py:4: there is an ERROR\nnew.py:1: there is an ERROR"
    assert await servers.check(runner, ["a.py", "new.py"], 30)  # in the same state it is not asked again
    assert len(runner.ran) == 1


async def test_a_change_without_a_new_error_passes(runner: Runner, folder: Path) -> None:
    install(folder)
    (folder / "a.py").write_text("# ERROR, as before\n")
    runner.old = {"a.py": b"# ERROR\n"}
    assert await LanguageServers().check(runner, ["a.py"], 30)
    assert [check.outcome for check in runner.told] == [CheckOutcome.PASSED]


@pytest.mark.parametrize("word", ["CRASH", "HANG"])
async def test_a_server_that_dies_or_hangs_is_told_once_and_holds_nothing_up(runner: Runner, folder: Path, word: str) -> None:
    install(folder)
    servers, began = LanguageServers(), time.monotonic()
    for number in range(3):
        (folder / "a.py").write_text(f"# {word} {number}\n")
        runner.old = {"a.py": b""}
        assert await servers.check(runner, ["a.py"], 2)
    assert time.monotonic() - began < 15
    assert [check.outcome for check in runner.told] == [CheckOutcome.NOT_RUN]
    assert len(runner.ran) == 1


async def test_where_no_server_is_installed_nothing_is_said_and_nobody_asks_again(runner: Runner, folder: Path) -> None:
    servers = LanguageServers()
    for number in range(2):
        (folder / "a.go").write_text(f"package a // {number}\n")
        runner.old = {"a.go": b""}
        assert await servers.check(runner, ["a.go"], 30)
    assert runner.told == []
    assert len(runner.ran) == (shutil.which("gopls") is None) or len(runner.told) == 2


@pytest.mark.parametrize("answer", ["[]", "{", "[" * 9000], ids=["list", "cut", "deep"])
async def test_a_server_that_does_not_speak_the_protocol_is_told(runner: Runner, folder: Path, answer: str) -> None:
    install(folder, f"#!/bin/sh\nprintf 'Content-Length: {len(answer)}\\r\\n\\r\\n{answer}'\nexec cat >/dev/null\n")
    (folder / "a.py").write_text("x = 1\n")
    runner.old = {"a.py": b""}
    assert await LanguageServers().check(runner, ["a.py"], 5)
    (check,) = runner.told
    assert check.outcome is CheckOutcome.NOT_RUN
    assert "too long" not in check.text


async def test_it_is_asked_where_nothing_can_be_changed(runner: Runner, folder: Path) -> None:
    install(folder, "#!/bin/sh\ntouch written || exit 7\n")
    (folder / "a.py").write_text("x = 1\n")
    runner.old = {"a.py": b""}
    assert await LanguageServers().check(runner, ["a.py"], 30)
    assert "it ended" in runner.told[0].text
    assert not (folder / "written").exists()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    install(tmp_path / "work")
    return tmp_path / "work"


@asynccontextmanager
async def playing(folder: Path, *turns: ScriptedTurn, settings: Config = AUTO) -> AsyncIterator[EngineSession]:
    """Yield a session that plays a script to its end; the user says yes to whatever is asked."""
    async with ScriptedServer(Scenario(turns)) as server:
        config = replace(settings, url=server.url, sandbox="bubblewrap")
        runtime = Runtime(folder, config, is_attended=True)
        try:
            session = await runtime.new_session()
            loop = asyncio.get_running_loop()

            def approve(envelope: Envelope) -> None:
                if isinstance(envelope.event, ApprovalRequested):
                    loop.call_soon(session.answer, envelope.event.approval_id, Answer(Outcome.ONCE))

            session.subscribe(approve)
            session.submit("Do it.")
            await session.wait_idle()
            yield session
        finally:
            await runtime.close()


async def play(folder: Path, *turns: ScriptedTurn, settings: Config = AUTO) -> list[Event]:
    async with playing(folder, *turns, settings=settings) as session:
        return [each.event for each in session.history()]


def call(tool: str, **arguments: object) -> ScriptedTurn:
    return ScriptedTurn("I work.", calls=(ScriptedCall(tool, arguments),))


async def test_a_turn_is_told_of_a_new_error_once_and_repairs_it(place: Path) -> None:
    (place / "a.py").write_text("x = 1\n")
    turns = (
        call("edit", path="a.py", search="1", replace="'ERROR'"),
        ScriptedTurn("Done."),
        call("edit", path="a.py", search="'ERROR'", replace="2"),
        ScriptedTurn("Done now."),
    )
    events = await play(place, *turns)
    (told,) = [event.text for event in events if isinstance(event, Reminder)]
    assert "a.py:1: there is an ERROR" in told
    checks = [event.outcome for event in events if isinstance(event, CheckRan)]
    assert checks == [CheckOutcome.FAILED, CheckOutcome.PASSED]
    (end,) = [event for event in events if isinstance(event, TurnEnded)]
    assert (end.reason, end.verified) == ("done", "unverified")


async def test_an_error_that_the_model_leaves_holds_nothing_up_where_the_tests_pass(place: Path) -> None:
    (place / "a.py").write_text("x = 1\n")
    (place / "test_a.py").write_text("import unittest\n\nclass T(unittest.TestCase):\n    def test(self): ...\n")
    change = call("edit", path="a.py", search="1", replace="'ERROR'")
    events = await play(place, change, ScriptedTurn("Done."), ScriptedTurn("The server is wrong."))
    assert len([event for event in events if isinstance(event, Reminder)]) == 1
    (end,) = [event for event in events if isinstance(event, TurnEnded)]
    assert (end.reason, end.verified) == ("done", "green")


async def test_the_users_own_check_shows_what_servers_find_and_runs_the_tests_all_the_same(place: Path) -> None:
    (place / "a.py").write_text("x = 1\n")
    (place / "test_a.py").write_text("import unittest\n\nclass T(unittest.TestCase):\n    def test(self): ...\n")
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@b")
    for words in (("init", "-q"), ("add", "a.py", "test_a.py"), ("commit", "-qm", "x")):
        subprocess.run([*git, *words], cwd=place, check=True)
    (place / "a.py").write_text("x = 'ERROR'\n")
    runtime = Runtime(place, Config(sandbox="bubblewrap"), is_attended=False)
    try:
        ran = await runtime.extensions.checks.run()
    finally:
        await runtime.close()
    assert [(check.rung, check.outcome) for check in ran] == [
        (Rung.LINT, CheckOutcome.FAILED),
        (Rung.SUITE, CheckOutcome.PASSED),
    ]


async def test_with_the_setting_off_no_server_is_asked(place: Path) -> None:
    (place / "a.py").write_text("x = 1\n")
    turns = (call("edit", path="a.py", search="1", replace="'ERROR'"), ScriptedTurn("Done."))
    events = await play(place, *turns, settings=Config(mode="auto", language_servers="off"))
    assert not [event for event in events if isinstance(event, CheckRan)]


async def test_references_are_shown_by_file_and_line(place: Path) -> None:
    (place / "a.py").write_text(CODE)
    (place / "b.py").write_text("from a import add\n")
    events = await play(place, call("references", path="a.py", line=5, name="add"), ScriptedTurn("Three places."))
    (end,) = [event for event in events if isinstance(event, ToolCallFinished)]
    assert end.result.splitlines() == [
        "a.py:1: def add(a, b):",
        'a.py:5: print("é𝄞", add(1, 2))',
        "b.py:1: from a import add",
    ]


async def test_where_a_rule_denies_commands_no_server_is_asked(place: Path) -> None:
    (place / "a.py").write_text(CODE)
    asks = call("references", path="a.py", line=5, name="add")
    events = await play(place, asks, ScriptedTurn("I may not."), settings=Config(mode="auto", deny=("shell",)))
    (end,) = [event for event in events if isinstance(event, ToolCallFinished)]
    assert not end.ok
    assert "a rule denies" in end.result


@pytest.mark.parametrize("mode", ["auto", "normal"])
async def test_a_rename_changes_all_files_in_one_step_is_shown_before_and_undo_takes_it_back(place: Path, mode: str) -> None:
    old = CODE.replace("\n", "\r\n").encode()
    (place / "a.py").write_bytes(old)
    (place / "b.py").write_text("from a import add\n")
    rename = call("rename_symbol", path="a.py", line=5, name="add", new_name="plus")
    async with playing(place, rename, ScriptedTurn("It is plus."), settings=Config(mode=mode)) as session:
        events = [each.event for each in session.history()]
        assert (place / "a.py").read_bytes() == old.replace(b"add", b"plus")
        assert (place / "b.py").read_text() == "from a import plus\n"
        (change,) = [event for event in events if isinstance(event, FilesChanged)]
        assert set(change.files) == {"a.py", "b.py"}
        asked = [event for event in events if isinstance(event, ApprovalRequested)]
        assert len(asked) == (mode == "normal")
        assert all("+from a import plus" in each.diff and "+def plus(a, b):" in each.diff for each in asked)
        assert session.changes is not None
        await session.changes.apply(await session.changes.plan_undo())
    assert (place / "a.py").read_bytes() == old
    assert (place / "b.py").read_text() == "from a import add\n"


@pytest.mark.parametrize("rule", ["Edit(b.py)", "Write(b.py)", "rename_symbol(b.py)"])
async def test_a_rename_that_would_change_a_forbidden_file_changes_none(place: Path, rule: str) -> None:
    (place / "a.py").write_text(CODE)
    (place / "b.py").write_text("from a import add\n")
    rename = call("rename_symbol", path="a.py", line=1, name="add", new_name="plus")
    events = await play(place, rename, ScriptedTurn("It is forbidden."), settings=Config(mode="auto", deny=(rule,)))
    (end,) = [event for event in events if isinstance(event, ToolCallFinished)]
    assert not end.ok
    assert "nothing was renamed" in end.result
    assert (place / "a.py").read_text() == CODE


@pytest.mark.parametrize(
    ("server", "words"), [("ty", "add"), ("basedpyright-langserver", "add"), ("pyright-langserver", "add")]
)
async def test_a_real_server_tells_new_errors_of_python(runner: Runner, folder: Path, server: str, words: str) -> None:
    program = shutil.which(server, path=str(Path(sys.executable).parent)) or shutil.which(server)
    if program is None:
        pytest.skip(f"{server} is not installed")
    (folder / ".venv/bin").mkdir(parents=True)
    shutil.copy(program, folder / ".venv/bin" / server)
    (folder / "a.py").write_text("def add(a: int) -> int:\n    return a\n\n\nx: int = 'old'\nadd('new')\n")
    runner.old = {"a.py": b"def add(a: int) -> int:\n    return a\n\n\nx: int = 'old'\n"}
    assert not await LanguageServers().check(runner, ["a.py"], 30)
    (check,) = runner.told
    assert len(check.text.splitlines()) == 1, check.text
    assert check.text.startswith("a.py:6: ")
    assert words in check.text


async def test_in_two_languages_too_each_state_is_asked_about_once(runner: Runner, folder: Path) -> None:
    install(folder)
    (folder / "node_modules/.bin").mkdir(parents=True)
    shutil.copy(folder / ".venv/bin/basedpyright-langserver", folder / "node_modules/.bin/typescript-language-server")
    runner.old = {}
    for name in ("a.py", "a.ts"):
        (folder / name).write_text("x = 'ERROR'\n")
        runner.old[name] = b""
    servers = LanguageServers()
    assert not await servers.check(runner, ["a.py", "a.ts"], 30)
    assert await servers.check(runner, ["a.py", "a.ts"], 30)
    assert len(runner.ran) == 2


async def test_of_very_many_errors_the_first_are_told(runner: Runner, folder: Path) -> None:
    install(folder)
    (folder / "a.py").write_text("x = 'ERROR'\n" * 20_000)
    runner.old = {"a.py": b""}
    assert not await LanguageServers().check(runner, ["a.py"], 30)
    assert runner.told[0].text.startswith("a.py:1: there is an ERROR")


async def test_of_very_many_references_the_first_are_shown(place: Path) -> None:
    (place / "a.py").write_text(f"add = 1  # {'é' * 300}\n" * 300)
    events = await play(place, call("references", path="a.py", line=1, name="add"), ScriptedTurn("Many."))
    (end,) = [event for event in events if isinstance(event, ToolCallFinished)]
    assert end.ok, end.result
    assert end.result.startswith("a.py:1: add = 1  # é")


async def test_a_rename_that_differs_from_what_was_approved_changes_nothing(place: Path) -> None:
    server = place / ".venv/bin/basedpyright-langserver"
    server.write_text(server.read_text().replace('params["newName"]', 'f"plus_{time.monotonic_ns()}"'))
    (place / "a.py").write_text(CODE)
    rename = call("rename_symbol", path="a.py", line=1, name="add", new_name="plus")
    events = await play(place, rename, ScriptedTurn("No."), settings=Config(mode="normal"))
    (end,) = [event for event in events if isinstance(event, ToolCallFinished)]
    assert not end.ok
    assert "nothing was renamed" in end.result
    assert (place / "a.py").read_text() == CODE
