"""Fix until green: the place is found without a model, and only drafts that make more tests pass are kept."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from lmtui.app.extensions import IdleWorkspace
from lmtui.config import Config
from lmtui.features.checks.fixing import MOST_DRAWS, Code, FixingLadder, draft_of, locate
from lmtui.features.checks.service import WorkspaceCheckRunner
from tests.sets import for_each

CODE = '''"""Numbers."""


def total(values):
    """Return the sum."""
    return sum(values)


class Stats:
    @staticmethod
    def middle(values):
        return sorted(values)[0]


def mean(values):
    return total(values) / (len(values) + 1)
'''
TEST = """import unittest
from pkg.numbers import Stats, mean


class T(unittest.TestCase):
    def test_mean(self):
        self.assertEqual(mean([1, 2, 3]), 2)

    def test_middle(self):
        self.assertEqual(Stats.middle([3, 1, 2]), 2)
"""
COMMAND = "python3 -m unittest -q tests.test_numbers"
MEAN = "Here it is:\n```python\ndef mean(values):\n    return total(values) / len(values)\n```\n"
MIDDLE = "```\n@staticmethod\ndef middle(values):\n    return sorted(values)[len(values) // 2]\n```"


@pytest.fixture
async def runner(tmp_path: Path) -> AsyncIterator[WorkspaceCheckRunner]:
    for folder, name, text in (("pkg", "numbers.py", CODE), ("tests", "test_numbers.py", TEST)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "__init__.py").touch()
        (tmp_path / folder / name).write_text(text)
    workspace = IdleWorkspace(tmp_path, replace(Config(), sandbox="bubblewrap"))
    yield WorkspaceCheckRunner(await workspace.sandbox())
    await workspace.aclose()


async def run(runner: WorkspaceCheckRunner, answer: Callable[[str], str]) -> tuple[list[str], list[str]]:
    """Return the names of what was edited, and the questions."""
    questions: list[str] = []

    async def ask(question: str) -> str:
        questions.append(question)
        return answer(question)

    edits = [edit async for edit in FixingLadder().fixes(runner, COMMAND, ask)]
    return [candidate.name for candidate, _ in edits], questions


def code() -> Code:
    found = Code()
    found.put("pkg/numbers.py", CODE)
    found.put("tests/test_numbers.py", TEST)
    return found


async def test_each_broken_definition_is_asked_about_alone_and_the_files_stay_as_they_were(
    runner: WorkspaceCheckRunner, tmp_path: Path
) -> None:
    names, questions = await run(
        runner, lambda question: MEAN if "def mean" in question.rpartition("may be wrong")[2] else MIDDLE
    )
    assert sorted(names) == ["mean", "middle"]
    assert all(question.count("```python") == 2 for question in questions)
    assert "test_mean" in "".join(questions)
    assert (tmp_path / "pkg/numbers.py").read_text() == CODE


@pytest.mark.full
async def test_drafts_that_help_nothing_or_break_another_test_are_not_kept(runner: WorkspaceCheckRunner) -> None:
    names, questions = await run(runner, lambda _: "I do not know.")
    assert (names, len(questions)) == ([], MOST_DRAWS)
    wrong = "```python\ndef mean(values):\n    raise SystemExit\n```"
    assert (await run(runner, lambda _: wrong))[0] == []


def test_the_functions_of_the_traceback_come_first_then_what_the_test_names_then_what_those_call() -> None:
    output = 'File "/work/x/tests/test_numbers.py", line 7, in test_mean\nFAIL: test_mean (tests.test_numbers.T.test_mean)\n'
    test, found = locate(code(), output)
    assert "def test_mean" in test
    assert [each.name for each in found] == ["mean", "total"]
    inner = output + 'File "/work/x/pkg/numbers.py", line 6, in total\n'
    assert [each.name for each in locate(code(), inner)[1]] == ["total", "mean"]


@for_each(("answer", "draft"), [
    (MIDDLE, "    @staticmethod\n    def middle(values):\n        return sorted(values)[len(values) // 2]\n"),
    ("def middle(values):\n    return 1", "    def middle(values):\n        return 1\n"),
    (
        "```python\nclass Stats:\n    def middle(values):\n        return 1\n```",
        "    def middle(values):\n        return 1\n",
    ),
    ("```python\n@staticmethod\ndef middle(values):\n    return sorted( values )[0]\n```", ""),  # the same again
    ("```python\ndef other(): ...\n```", ""), ("```python\ndef middle(values:\n```", ""), ("", ""),
])  # fmt: skip
def test_a_definition_is_taken_out_of_an_answer_and_put_at_its_depth(answer: str, draft: str) -> None:
    candidate = next(each for each in code().definitions() if each.name == "middle")
    assert draft_of(answer, candidate) == draft
