from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmtui.core.errors import ToolError
from lmtui.core.plan import CommandRun, PlanStep, StepWork, evidence, is_run_of, programs_of
from tests.sets import for_each


def step(check: str, *commands: str) -> PlanStep:
    return PlanStep(1, "do it", verification=check, commands=commands)


@for_each(("check", "commands", "named"), [
    ("pytest -q tests/test_lexer.py passes", (), {"pytest"}), ("`make check` is green", (), {"make"}),
    ("make sure it works", (), set()), ("`def greet(name)` is there", (), set()),
    ("./scripts/verify.sh says ok", ("./scripts/verify.sh --all",), {"verify.sh"}),
    ("python3 -m py_compile words.py says nothing", ("python3 -m py_compile words.py",), {"python3", "py_compile"}),
    ("the test passes", ("python3 -m unittest",), set()), ("go through it and look", (), set()), ("", ("pytest",), set()),
])  # fmt: skip
def test_the_programs_that_a_check_names(check: str, commands: tuple[str, ...], named: set[str]) -> None:
    assert programs_of(step(check, *commands)) == named


@for_each("command", [
    "pytest -q", "cd lib && pytest", "python -m pytest tests", "/usr/bin/pytest x", "A=1 pytest", "pytest 'it' \"unclosed",
])  # fmt: skip
def test_a_program_is_found_wherever_a_command_runs_it(command: str) -> None:
    assert is_run_of(frozenset({"pytest"}), command)
    assert not is_run_of(frozenset({"pytest"}), command.replace("pytest", "pytests"))


@pytest.mark.parametrize(("work", "doubt", "kept"), [
    (StepWork(), "pytest was not run; the check of step 1 is: pytest -q", "not run: pytest"),
    (StepWork(has_changed=True, has_looked=True), "pytest was not run since the last change", "not run: pytest"),
    (StepWork((CommandRun("pytest -q", "exit 1"),)), "`pytest -q` ended with: exit 1", "`pytest -q`: exit 1"),
    (StepWork((CommandRun("pytest"), CommandRun("pytest -x", "timed out"))), "timed out", "`pytest -x`: timed out"),
])  # fmt: skip
def test_a_check_that_was_not_run_or_failed_is_doubted_once_and_kept_as_it_was(work: StepWork, doubt: str, kept: str) -> None:
    with pytest.raises(ToolError, match=doubt):
        evidence(step("pytest -q"), work)
    assert evidence(step("pytest -q"), StepWork(work.runs, work.has_changed, work.has_looked, is_doubted=True)) == kept


def test_what_was_run_well_or_refused_by_the_user_is_kept_without_a_word() -> None:
    failed = CommandRun("pytest", "exit 1")
    assert evidence(step("pytest"), StepWork((failed, CommandRun("pytest  -q\n")))) == "`pytest -q`: exit 0"
    assert evidence(step("pytest"), StepWork((CommandRun("pytest", "refused"),))) == "`pytest`: refused"


def test_a_check_in_words_wants_a_look_after_a_change() -> None:
    words = step("the heading is right")
    with pytest.raises(ToolError, match="nothing was read or run since the last change"):
        evidence(words, StepWork(has_changed=True))
    assert evidence(words, StepWork(has_changed=True, is_doubted=True)) == "nothing was read or run since the last change"
    assert (evidence(words, StepWork(has_changed=True, has_looked=True)), evidence(words, StepWork())) == ("", "")
    assert evidence(step(""), StepWork(has_changed=True)) == ""


@given(st.text(max_size=80), st.lists(st.text(max_size=40), max_size=3), st.sampled_from([(0, 0), (0, 1), (1, 0), (1, 1)]))
def test_nothing_is_doubted_twice(check: str, commands: list[str], done: tuple[int, int]) -> None:
    runs = tuple(CommandRun(each, "exit 2") for each in commands)
    work = StepWork(runs, has_changed=bool(done[0]), has_looked=bool(done[1]), is_doubted=True)
    assert isinstance(evidence(step(check, *commands), work), str)
