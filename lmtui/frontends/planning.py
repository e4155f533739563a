"""Plan mode without a screen: the plan is printed, and runs only where the command line says so."""

from __future__ import annotations

from dataclasses import asdict
from typing import TextIO

from lmtui.core.plan_events import PlanProposed
from lmtui.core.proposal_words import grant_lines, proposal_lines
from lmtui.core.sessions import Session

EXIT_NEEDS_APPROVAL = 3
NO_PLAN = "no plan came: the model only answered in words, and nothing was changed; ask again, or try another model"


def approve_open(session: Session, *, allows_named: bool, err: TextIO) -> bool:
    """Approve the plan that waits, as the command line said; False where none does.

    With `allows_named` the files and commands that it names may be used without asking, as far as that is safe; what is left
    out is said.
    """
    asked = session.plans.open
    if asked is None:
        return False
    for line in proposal_lines(asked.proposal):
        print(line, file=err)
    grants = session.plans.grants(asked.proposal)
    for line in grant_lines(grants) if allows_named else ():
        print(line, file=err)
    session.plans.approve(asked.proposal_id, rules=grants.rules if allows_named else (), by="flag")
    return True


def has_planned(session: Session) -> bool:
    """Tell whether the model proposed a plan."""
    return any(isinstance(each.event, PlanProposed) for each in session.history())


def show_open(session: Session, asked: PlanProposed, out: TextIO, err: TextIO) -> int:
    """Print the plan that waits for a person and how to answer it, and return the exit code."""
    for line in proposal_lines(asked.proposal):
        print(line, file=out)
    print(f"lmtui: the plan waits for your word: lmtui resume {session.id} (on a terminal), or with --approve", file=err)
    return EXIT_NEEDS_APPROVAL


def plan_object(asked: PlanProposed) -> dict[str, object]:
    """Return a plan as `--output json` has it."""
    return {"id": asked.proposal_id, **asdict(asked.proposal)}
