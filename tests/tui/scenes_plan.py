"""A plan that waits for a person: the question, what it would be allowed, and what came of it."""

from __future__ import annotations

from lmtui.core.agent_events import PlanProposed
from lmtui.core.plan import PlanStep
from lmtui.core.proposals import Proposal
from lmtui.tui.modals.consent import ConsentDialog
from tests.tui.driving import Driver

PROPOSAL = Proposal(
    "Nested comments in the lexer",
    (
        PlanStep(
            1,
            "Count how deep a comment is nested, in `skip_comment`, and say where one is left open.",
            verification="pytest -q tests/test_lexer.py passes",
            risk="medium",
            files=("parser/lexer.py",),
            commands=("pytest -q tests/test_lexer.py",),
        ),
        PlanStep(
            2,
            "Test nesting, a comment that is left open, and one at the end of a file.",
            depends_on=(1,),
            verification="the new tests fail without step 1",
            files=("parser/tests/test_lexer.py",),
            commands=("pytest -q", "rm -rf .pytest_cache"),
        ),
        PlanStep(3, "Say in the README that comments nest.", depends_on=(1, 2), files=("README.md", ".env")),
    ),
    "Comments may stand in comments, as in the language that the parser is for.",
    ("Positions in error messages may move by a line.",),
)


def propose(driver: Driver, proposal: Proposal = PROPOSAL, number: int = 1) -> None:
    """Let a turn end with a plan."""
    session = driver.host.session
    session.begin_turn("Make the lexer accept nested comments.")
    session.start_call("c1", "read", "parser/lexer.py")
    session.finish_call("c1", "read", summary="212 lines")
    session.say("This is what I would do.")
    session.emit(PlanProposed(proposal_id=f"plan_{number}", proposal=proposal, turn_id=session.turn_id))
    session.end_turn()


async def plan_question(driver: Driver) -> None:
    """A plan waits for its answer."""
    await driver.type("/mode plan")
    propose(driver)
    await driver.until_screen("PlanQuestion")
    await driver.wake()


async def plan_read(driver: Driver) -> None:
    """The end of the plan was seen, so a yes counts."""
    await plan_question(driver)
    await driver.press("end")
    question = driver.app.screen
    assert isinstance(question, ConsentDialog)
    await driver.until(lambda: question.shows_live)


async def plan_grants(driver: Driver) -> None:
    """What the plan names is listed before it is allowed."""
    await plan_read(driver)
    await driver.press("a", to="PlanGrants")
    await driver.wake()


async def plan_waits(driver: Driver) -> None:
    """The question was left for later."""
    await plan_question(driver)
    await driver.press("escape", to="Workbench")


PLAN_SCENES = {"plan_question": plan_question, "plan_read": plan_read, "plan_grants": plan_grants, "plan_waits": plan_waits}
