"""Moments of checks: one that fails, one that could not run, and a turn that ends red."""

from __future__ import annotations

from lmtui.core.events import CheckSummary, TurnEnded, TurnReason
from lmtui.core.project_checks import CheckOutcome, CheckRan, Finding, ReviewWritten, Rung, Severity
from tests.tui.driving import Driver
from tests.tui.fakes import FakeSession, play_work

_PYTEST = "python3 -m pytest -q -p no:cacheprovider"
_RED = "FAILED tests/test_comments.py::test_nested\ntests/test_comments.py:12: AssertionError\nE  assert 3 == 4"


def _ran(session: FakeSession, rung: Rung, outcome: CheckOutcome, command: str, text: str = "", seconds: float = 0.4) -> None:
    code = {CheckOutcome.PASSED: 0, CheckOutcome.NOT_RUN: -1}.get(outcome, 1)
    session.emit(
        CheckRan(
            rung=rung,
            outcome=outcome,
            command=command,
            exit_code=code,
            text=text,
            elapsed_s=seconds,
            decides=rung is Rung.SUITE,
        )
    )


async def checks_red(driver: Driver) -> None:
    """A linter is not there, a test fails, and the turn ends so."""
    session = driver.host.session
    play_work(session)
    _ran(session, Rung.LINT, CheckOutcome.NOT_RUN, "ruff check --no-cache parser/lexer.py", "ruff: command not found")
    _ran(session, Rung.TESTS, CheckOutcome.PASSED, f"{_PYTEST} tests/test_lexer.py", seconds=1.2)
    _ran(session, Rung.SUITE, CheckOutcome.FAILED, _PYTEST, _RED, 3.4)
    session.emit(
        TurnEnded(
            turn_id=session.turn_id,
            reason=TurnReason.UNFINISHED,
            error=f"not finished: the check `{_PYTEST}` fails: FAILED tests/test_comments.py::test_nested",
            verified="red",
            checks=(CheckSummary(_PYTEST, 1, 3.4),),
        )
    )
    await driver.settle()


async def checks_green(driver: Driver) -> None:
    """A test was red before the change too, and nothing else is."""
    session = driver.host.session
    play_work(session)
    _ran(session, Rung.SUITE, CheckOutcome.KNOWN, _PYTEST, _RED, 2.1)
    _ran(session, Rung.SUITE, CheckOutcome.PASSED, "make check", "", 61.0)
    session.emit(TurnEnded(turn_id=session.turn_id, reason=TurnReason.DONE, verified="green"))
    await driver.settle()


async def checks_findings(driver: Driver) -> None:
    """The validators hold a turn up, a reviewer has a note, and a second one could not be read."""
    session = driver.host.session
    play_work(session)
    _ran(session, Rung.SUITE, CheckOutcome.PASSED, _PYTEST, seconds=1.2)
    stub = Finding(Severity.MAJOR, "parser/lexer.py", 51, "not implemented: pass  # TODO", 0.8, "stub")
    lost = Finding(Severity.CRITICAL, "parser/tree.py", 3, "peek is imported from parser/lexer.py, which no longer has it")
    session.emit(ReviewWritten(findings=(lost, stub), is_rejected=True, by="validators"))
    minor = Finding(Severity.MINOR, "parser/lexer.py", 44, "depth is not reset at the end of the file", 0.7, "bug")
    session.emit(ReviewWritten(findings=(minor,), summary="The nesting is counted correctly."))
    session.emit(ReviewWritten(is_usable=False))
    session.emit(
        TurnEnded(turn_id=session.turn_id, reason=TurnReason.UNFINISHED, error=f"not finished: {stub}", verified="green")
    )
    await driver.settle()


CHECK_SCENES = (("checks_red", checks_red), ("checks_green", checks_green), ("checks_findings", checks_findings))
