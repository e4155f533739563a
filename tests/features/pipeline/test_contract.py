"""Which acceptance tests are taken as the contract of a task: what they say, and how real runs of them end."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from lmtui.core.pipeline import Contract, PipelineTask, TaskSpec, edited
from lmtui.core.workspace import ExecResult
from lmtui.features.pipeline.contract import modules_of, needs_contract, problem_of_run, problem_of_text, with_note

SPEC = TaskSpec("Add two", "It returns 2.", files=("kit.py",))
FUNCTION = "import kit\n\n\ndef test_two():\n    {line}\n"
CLASS = "import unittest\nimport kit\n\n\nclass Two(unittest.TestCase):\n    def test_two(self):\n        {line}\n"


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        (SPEC, True),
        (replace(SPEC, files=("kit.py", "src/other.py")), True),
        (replace(SPEC, files=()), False),
        (replace(SPEC, files=("kit.py", "README.md")), False),
        (replace(SPEC, files=("tests/kit.py",)), False),
        (replace(SPEC, files=("kit.py", "conftest.py")), False),
        (replace(SPEC, files=("test_kit.py",)), False),
        (replace(SPEC, title="Write tests for two"), False),
        (replace(SPEC, checks=("true",)), False),
    ],
)
def test_only_tasks_that_change_python_and_have_no_checks_get_a_contract(spec: TaskSpec, *, wanted: bool) -> None:
    assert needs_contract(PipelineTask(1, spec)) == wanted
    assert not needs_contract(PipelineTask(1, spec, contract=Contract(problem="the model wrote none")))


@pytest.mark.parametrize(
    ("text", "has_pytest", "problem"),
    [
        (FUNCTION.format(line="assert kit.two() == 2"), True, ""),
        (CLASS.format(line="self.assertEqual(kit.two(), 2)"), False, ""),
        (CLASS.format(line="self.assertEqual(kit.two(), 2)"), True, ""),
        (FUNCTION.format(line="assert kit.two() == 2"), False, "no test method"),
        ("def test_two(:\n", True, "does not parse"),
        ("import kit\n\nassert kit.two() == 2\n", True, "no test function"),
        (FUNCTION.format(line="kit.two()"), True, "asserts nothing"),
        (FUNCTION.format(line="assert False"), True, "asserts nothing"),
        (FUNCTION.format(line="assert 1 == 2"), True, "asserts nothing"),
        ("def test_two(two):\n    assert two == 2\n", True, "does not use kit"),
        (FUNCTION.format(line="assert kit.two() == 2") + "#" * 30_000, True, "too long"),
    ],
)
def test_a_test_asserts_something_about_the_files_of_the_task(text: str, problem: str, *, has_pytest: bool) -> None:
    found = problem_of_text(text, SPEC, has_pytest=has_pytest)
    assert problem in found
    assert bool(found) == bool(problem)


KIT = "import os\n\n\ndef one():\n    return 1\n\n\ndef bad():\n    return 1 / 0\n\n\ndef far():\n    import numpy_of_nobody\n"
WRONG = "for another reason than the missing work"


RIGHT = (
    "assert kit.one() == 2",
    "self.assertEqual(kit.one(), 2)",
    "assert kit.two() == 2",
    "from kit import two; assert two() == 2",
    "assert kit.one(by=2) == 2",
    "assert kit.bad() == 0",
    "self.assertRaises(ValueError, kit.one)",
)


@pytest.mark.parametrize("program", ["pytest", "unittest"])
def test_a_test_may_fail_in_all_ways_in_which_work_can_be_missing(tmp_path: Path, program: str) -> None:
    (tmp_path / "kit.py").write_text(KIT)
    text = CLASS.format(line=RIGHT[0]) + "".join(f"\n    def test_{n}(self):\n        {line}\n" for n, line in enumerate(RIGHT))
    assert problem_when_run(tmp_path, text, program, ("kit.py",)) == ""


@pytest.mark.parametrize(
    ("program", "line", "problem"),
    [
        ("unittest", "assert kit.one() == 1", "it passes before the work is done"),
        ("unittest", "assert two() == 2", f"{WRONG}: NameError"),
        ("pytest", "assert two() == 2", f"{WRONG}: NameError"),
        ("unittest", "import numpy_of_nobody; assert kit.one() == 2", f"{WRONG}: ModuleNotFoundError"),
        ("unittest", "kit.far(); assert kit.one() == 2", f"{WRONG}: ModuleNotFoundError"),
        ("pytest", "kit.far(); assert kit.one() == 2", f"{WRONG}: ModuleNotFoundError"),
        ("unittest", "import os; assert os.two() == kit.one()", f"{WRONG}: AttributeError"),
        ("unittest", "self.assertTwo(kit.one())", f"{WRONG}: AttributeError"),
        ("unittest", "assert kit.one() == {}['two']", f"{WRONG}: KeyError"),
        ("unittest", "assert kit.one() + 'a' == 2", f"{WRONG}: TypeError"),
        ("unittest", "assert eval('1 +') == kit.one()", f"{WRONG}: SyntaxError"),
        ("pytest", "assert eval('1 +') == kit.one()", f"{WRONG}: SyntaxError"),
        ("unittest", "import os; os._exit(kit.one())", "it ends with 1, not with a failed test"),
    ],
)
def test_a_test_has_to_fail_as_the_work_is_missing(tmp_path: Path, program: str, line: str, problem: str) -> None:
    (tmp_path / "kit.py").write_text(KIT)
    assert problem in problem_when_run(tmp_path, CLASS.format(line=line), program, ("kit.py",))


@pytest.mark.parametrize("program", ["pytest", "unittest"])
def test_an_import_of_what_is_to_be_made_has_to_work_once_the_file_is_there(tmp_path: Path, program: str) -> None:
    text, files = CLASS.format(line="self.assertEqual(kit.two(), 2)"), ("src/kit.py",)
    assert problem_when_run(tmp_path, text, program, files) == ""
    (tmp_path / "src").mkdir()
    (tmp_path / "src/kit.py").touch()
    assert "though the files exist: ModuleNotFoundError" in problem_when_run(tmp_path, text, program, files, are_empty=True)
    good = text.replace("import kit", "from src import kit")
    assert problem_when_run(tmp_path, good, program, files, are_empty=True) == ""
    weak = good.replace("kit.two(), 2", "bool(kit), True")
    assert problem_when_run(tmp_path, weak, program, files, are_empty=True) == "it passes if the files are empty"
    (tmp_path / "src/kit.py").write_text("def two(:\n")
    found = problem_when_run(tmp_path, good, program, files)
    assert f"{WRONG}: SyntaxError" in found or "not with a failed test" in found


@pytest.mark.parametrize("program", ["pytest", "unittest"])
def test_each_test_of_a_file_has_to_fail_for_the_right_reason_or_pass(tmp_path: Path, program: str) -> None:
    (tmp_path / "kit.py").write_text(KIT)
    text = CLASS.format(line="assert kit.two() == 2") + "\n    def test_one(self):\n        assert kit.one() == 1\n"
    assert problem_when_run(tmp_path, text, program, ("kit.py",)) == ""
    wrong = text + "\n    def test_last(self):\n        assert unknown == kit.one()\n"
    assert f"{WRONG}: NameError" in problem_when_run(tmp_path, wrong, program, ("kit.py",))
    chained = text + "\n    def test_two_in_turn(self):\n        try:\n            {}['a']\n        except KeyError:\n"
    assert problem_when_run(tmp_path, chained + "            assert kit.one() == 2\n", program, ("kit.py",)) == ""
    assert f"{WRONG}: OSError" in problem_when_run(tmp_path, chained + "            raise OSError\n", program, ("kit.py",))


def test_what_only_pytest_can_say(tmp_path: Path) -> None:
    (tmp_path / "kit.py").write_text(KIT)
    raises = "import pytest\n" + FUNCTION.format(line="with pytest.raises(ValueError):\n        kit.one()")
    assert problem_when_run(tmp_path, raises, "pytest", ("kit.py",)) == ""
    fixture = FUNCTION.format(line="assert kit.one() == 2").replace("test_two()", "test_two(nobodys)")
    assert f"{WRONG}: fixture 'nobodys' not found" in problem_when_run(tmp_path, fixture, "pytest", ("kit.py",))
    assert (
        problem_when_run(tmp_path, "import kit\n\n\ndef check():\n    assert 0\n", "pytest", ("kit.py",))
        == "no test of it runs"
    )
    assert (
        problem_when_run(tmp_path, "from kit import *\n\n\ndef test_two():\n    assert two() == 2\n", "pytest", ("kit.py",))
        == ""
    )


def problem_when_run(folder: Path, text: str, program: str, files: tuple[str, ...], *, are_empty: bool = False) -> str:
    (folder / "tests/acceptance").mkdir(parents=True, exist_ok=True)
    (folder / "tests/acceptance/test_plan_1.py").write_text(text)
    options = ["-q", "--tb=short", "-p", "no:cacheprovider"] if program == "pytest" else []
    quick = {"PYTHONDONTWRITEBYTECODE": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(
        [sys.executable, "-m", program, *options, "tests/acceptance/test_plan_1.py"],
        cwd=folder,
        env={key: value for key, value in os.environ.items() if not key.startswith("PYTEST")} | quick,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return problem_of_run(ExecResult(done.returncode, done.stdout, 0, 0), text, files, are_empty=are_empty)


def test_a_run_that_takes_too_long_is_no_failure() -> None:
    ended = ExecResult(124, "F\nE   AssertionError\n", 0, 0, is_timed_out=True)
    assert problem_of_run(ended, "", ("kit.py",)).startswith("it ends with 124, not with a failed test")


def test_a_file_can_be_imported_by_each_part_of_its_path() -> None:
    assert modules_of(["src/kit/one.py", "src/two/__init__.py"]) == {
        *("src", "src.kit", "src.kit.one", "kit", "kit.one", "one"), *("src.two", "two")
    }  # fmt: skip


CONTRACT = Contract("tests/acceptance/test_plan_1.py", "text", "python3 -m unittest tests/acceptance/test_plan_1.py")


def test_an_edit_drops_the_contract_of_what_the_task_was_about() -> None:
    task = PipelineTask(1, replace(SPEC, checks=(CONTRACT.command,)), contract=CONTRACT)
    assert edited(task, replace(task.spec, after=(2,), phase="late")).contract == CONTRACT
    other = edited(task, replace(task.spec, text="It returns two."))
    assert (other.contract, other.spec.checks, needs_contract(other)) == (None, (), True)
    removed = edited(task, replace(task.spec, checks=()))
    assert (removed.contract, removed.spec.checks) == (Contract(problem="an edit removed it"), ())
    refused = PipelineTask(1, SPEC, contract=Contract(problem="it passes"))
    assert edited(refused, replace(SPEC, text="It returns two.")).contract is None


def test_a_task_is_told_of_its_contract() -> None:
    note = with_note(PipelineTask(1, SPEC, contract=CONTRACT)).text
    assert note.startswith("The acceptance test of this task is tests/acceptance/test_plan_1.py.")
    assert note.endswith("\n\nIt returns 2.")
    assert with_note(PipelineTask(1, SPEC, contract=Contract(problem="none"))) == SPEC
