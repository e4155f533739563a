"""The ladder on real projects, in a real sandbox: what it runs, what it says, and what it does not hold against a change."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from lmtui.app.extensions import IdleWorkspace
from lmtui.config import Config
from lmtui.core.verification import MOST_LINES, CheckOutcome, Rung
from lmtui.features.checks.ladder import Ladder, failures, first_failure, read_project
from lmtui.features.checks.service import WorkspaceCheckRunner
from lmtui.features.checks.values import CommandEnded
from lmtui.sandbox.workspace_sandbox import WorkspaceSandbox
from tests.sets import few, for_each

CODE = "def add(a, b):\n    return a + b\n"
TEST = "import unittest\nfrom calc import add\n\nclass T(unittest.TestCase):\n    def test_add(self):\n"
GOOD, BAD = "        self.assertEqual(add(1, 2), 3)\n", "        self.assertEqual(add(1, 2), 4)\n"


class Runner(WorkspaceCheckRunner):
    """A workspace whose state before the change is known, as a session's checkpoint has it."""

    def __init__(self, sandbox: WorkspaceSandbox, folder: Path) -> None:
        super().__init__(sandbox)
        self.folder = folder
        self.old: dict[str, bytes | None] | None = None
        self.ran: list[str] = []

    async def run(self, command: str, *, limit_s: int, may_write: bool = True) -> CommandEnded:
        self.ran.append(command)
        return await super().run(command, limit_s=limit_s, may_write=may_write)

    async def before(self, paths: Sequence[str]) -> Mapping[str, bytes | None] | None:
        del paths
        return self.old


@pytest.fixture
async def runner(tmp_path: Path) -> AsyncIterator[Runner]:
    workspace = IdleWorkspace(tmp_path, replace(Config(), sandbox="bubblewrap"))
    yield Runner(await workspace.sandbox(), tmp_path)
    await workspace.aclose()


def project(folder: Path, test: str = GOOD, code: str = CODE) -> None:
    (folder / "calc.py").write_text(code)
    (folder / "test_calc.py").write_text(TEST + test)


def outcomes(runner: Runner) -> list[tuple[Rung, CheckOutcome]]:
    return [(check.rung, check.outcome) for check in runner.told]


async def test_a_change_that_is_right_is_green_by_the_projects_own_tests_and_a_failure_is_told_in_a_few_lines(
    runner: Runner, tmp_path: Path
) -> None:
    project(tmp_path)
    ladder = Ladder()
    await ladder.after_step(runner, ["calc.py"])
    decides = await ladder.at_end(runner, ["calc.py"], frozenset())
    assert outcomes(runner) == [(Rung.TESTS, CheckOutcome.PASSED), (Rung.SUITE, CheckOutcome.PASSED)]
    assert decides is not None
    assert decides.command == "python3 -m unittest discover -q"
    assert runner.told[0].command == "python3 -m unittest -q test_calc.py"
    project(tmp_path, BAD)
    await Ladder().after_step(runner, ["calc.py"])
    check = runner.told[-1]
    assert check.outcome is CheckOutcome.FAILED
    assert "test_add" in check.text
    assert "3 != 4" in check.text
    assert 'test_calc.py", line 6' in check.text
    assert len(check.text.splitlines()) <= MOST_LINES


@pytest.mark.full
async def test_a_test_that_was_red_before_the_change_is_not_held_against_it_and_one_that_it_breaks_is(
    runner: Runner, tmp_path: Path
) -> None:
    project(tmp_path, BAD, CODE + "# changed\n")
    runner.old = {"calc.py": CODE.encode()}
    _ = await Ladder().at_end(runner, ["calc.py"], frozenset())
    assert outcomes(runner) == [(Rung.SUITE, CheckOutcome.KNOWN)]
    old = "    def test_old(self):\n        self.assertEqual(1, 2)\n"
    project(tmp_path, GOOD + old, CODE.replace("+", "-"))
    _ = await Ladder().at_end(runner, ["calc.py"], frozenset())
    assert outcomes(runner)[1:] == [(Rung.SUITE, CheckOutcome.FAILED)]
    assert "test_add" in runner.told[1].text
    assert (tmp_path / "calc.py").read_text() == CODE.replace("+", "-")


@pytest.mark.full
async def test_a_test_that_passes_when_it_is_run_again_is_flaky(runner: Runner, tmp_path: Path) -> None:
    class SecondTime(Runner):
        async def run(self, command: str, *, limit_s: int, may_write: bool = True) -> CommandEnded:
            if self.ran:
                (tmp_path / "once").touch()
            return await super().run(command, limit_s=limit_s, may_write=may_write)

    project(tmp_path, "        import os\n        self.assertTrue(os.path.exists('once'))\n")
    runner = SecondTime(runner.sandbox, tmp_path)
    _ = await Ladder().at_end(runner, ["calc.py"], frozenset())
    assert outcomes(runner) == [(Rung.SUITE, CheckOutcome.FLAKY)]


@pytest.mark.full
async def test_a_check_that_hangs_is_ended_and_not_begun_again(runner: Runner, tmp_path: Path) -> None:
    project(tmp_path, "        import time; time.sleep(60)\n")
    ladder = Ladder(limit_s=1)
    _ = await ladder.at_end(runner, ["calc.py"], frozenset())
    _ = await ladder.at_end(runner, [], frozenset())
    assert outcomes(runner) == [(Rung.SUITE, CheckOutcome.NOT_RUN), (Rung.SUITE, CheckOutcome.NOT_RUN)]
    assert len(runner.ran) == 1
    assert "longer than 1 s" in runner.told[1].text
    assert [(check.exit_code, check.elapsed_s >= 1) for check in runner.told[:2]] == [(124, True)] * 2


@pytest.mark.full
async def test_a_check_that_floods_asks_or_kills_itself_says_something_short(runner: Runner, tmp_path: Path) -> None:
    for command in ("yes flood | head -c 3000000; exit 1", "read answer; exit 1", "kill -9 $$"):
        _ = await Ladder(command=command, limit_s=20).at_end(runner, ["a.py"], frozenset())
    assert [check.outcome for check in runner.told] == [CheckOutcome.FAILED] * 3
    assert all(len(check.text) <= 2_100 for check in runner.told)


@for_each(("files", "command"), [
    ({"Makefile": "check: lint\n\ttrue\n"}, "make check"),
    ({"Makefile": "check := 1\ntest:\n\ttrue\n"}, "make test"),
    ({"pyproject.toml": "[tool.pytest.ini_options]\n"}, "python3 -m pytest -q -p no:cacheprovider"),
    ({"package.json": '{"scripts": {"test": "vitest"}}'}, "npm test --silent"),
    ({"package.json": '{"scripts": {"test": "echo \\"Error: no test specified\\" && exit 1"}}'}, None),
    ({"go.mod": "module x\n"}, "go build ./... && go vet ./... && go test ./..."),
    ({"test_a.py": "def test_a(): pass\n"}, "python3 -m pytest -q -p no:cacheprovider"),
    ({"pyproject.toml": "not [ toml", "package.json": "[1"}, None), ({"readme.txt": "x"}, None),
])  # fmt: skip
async def test_what_decides_is_inferred_from_the_files(runner: Runner, files: dict[str, str], command: str | None) -> None:
    for path in filter(Path.is_file, runner.folder.iterdir()):
        path.unlink()
    for name, text in files.items():
        (runner.folder / name).write_text(text)
    suite = Ladder().suite(await read_project(runner))
    assert (suite.command if suite else None) == command


@for_each(("output", "names"), [
    ("FAILED t/test_a.py::test_x - AssertionError: 1\nERROR t/test_b.py\n", ["t/test_a.py::test_x", "t/test_b.py"]),
    ("FAIL: test_add (test_calc.T.test_add)\n\nFAILED (failures=1)\n", ["test_add (test_calc.T.test_add)"]),
    ("--- FAIL: TestSum (0.00s)\nFAIL\n", ["TestSum"]), ("test tests::adds ... FAILED\n", ["tests::adds"]),
    ("not ok 1 - sums up\n", ["sums up"]), ("\x1b[31m✖ sums up (1.2ms)\x1b[39m\n", ["sums up"]),
    ("a.py:3:1: F401 `os` imported but unused\n", ["a.py: F401 `os` imported but unused"]), ("something else\n", []),
])  # fmt: skip
def test_what_failed_is_read_from_what_the_runners_say(output: str, names: list[str]) -> None:
    assert failures(output) == names
    assert first_failure("\n".join(f"line {number}" for number in range(50))).splitlines()[-1] == "line 49"


@for_each(("command", "outcome", "said"), [
    ("false", CheckOutcome.FAILED, "goal: false failed: exit code 1"),
    ("exit 127", CheckOutcome.FAILED, "goal: exit 127 failed: exit code 127"),
    ("nosuchcmd", CheckOutcome.NOT_RUN, "nosuchcmd: command not found"),
    ("sleep 60", CheckOutcome.NOT_RUN, "goal: sleep 60 did not finish in 1 s"),
])  # fmt: skip
async def test_a_goal_says_in_words_what_came_of_it(runner: Runner, command: str, outcome: CheckOutcome, said: str) -> None:
    check = await Ladder(limit_s=1).meets(runner, command)
    assert (check.outcome, said in check.words) == (outcome, True), check.words


MISSING = ("lmtui-has-no-such-linter .", "@sh -c 'lmtui-has-no-such-linter'", "$(MAKE) absent", "python3 -m lmtui_no_such")


@pytest.mark.full
@for_each("recipe", few(MISSING))
async def test_a_target_whose_program_is_missing_is_not_run_and_the_next_decides(runner: Runner, recipe: str) -> None:
    runner.told.clear()
    (runner.folder / "Makefile").write_text(f"check:\n\t{recipe}\ntest:\n\ttrue\n")
    ladder = Ladder()
    for _ in range(2):
        suite = await ladder.at_end(runner, ["a.py"], frozenset())
        assert suite is not None
        assert suite.command == "make test"
    assert outcomes(runner) == [(Rung.SUITE, CheckOutcome.NOT_RUN), *[(Rung.SUITE, CheckOutcome.PASSED)] * 2]
