"""What a tool is given to work with: this agent's sandbox, plan, pictures, children and clock."""

from __future__ import annotations

from datetime import datetime
from functools import partial

from lmtui.core.children import Report
from lmtui.core.events import ROOT, PlanChanged, ToolOutputDelta
from lmtui.core.messages import CallForm, ToolCall
from lmtui.core.permissions import Access, Verdict, decide_all
from lmtui.core.plan import Plan
from lmtui.core.ports import ToolContext, no_wait
from lmtui.engine.desk import Desk
from lmtui.engine.hosts import CommandGate
from lmtui.engine.planning import propose_plan
from lmtui.engine.skills import used_event


def context_of(desk: Desk, call: ToolCall) -> ToolContext:
    """Return what one call works with."""

    def set_plan(plan: Plan) -> None:
        desk.emit(PlanChanged(agent=desk.agent, plan=plan))

    def on_output(text: str) -> None:
        desk.emit(ToolOutputDelta(agent=desk.agent, call_id=call.id, text=text))

    def on_reading(path: str) -> Verdict:
        return decide_all("read", Access.READ, (path,), desk.mode, desk.all_rules()).verdict

    def report(given: Report) -> None:
        desk.report = given

    def wait(until: datetime, why: str) -> None:
        desk.waits.want(until, why, desk.now())

    return ToolContext(
        desk.reach,
        desk.plan,
        set_plan,
        on_output,
        desk.now,
        CommandGate(desk, call.id),
        on_reading=on_reading,
        sees=desk.can_show,
        knows=partial(_knows, desk),
        children=desk.children,
        report=report if desk.depth else None,
        propose=lambda proposal: propose_plan(desk, proposal, desk.turn_id),
        wait=wait if desk.agent == ROOT else no_wait,
        step_work=desk.step.work,
        interpreter=desk.interpreter,
        web=desk.web,
        skills=desk.skills,
        use_skill=lambda used: desk.emit(used_event(used, desk.agent)),
    )


def _knows(desk: Desk, path: str) -> bool:
    """Tell whether a file may be replaced whole: a model that calls in its text has to have met it in this conversation."""
    return desk.model.calling.form is CallForm.NATIVE or desk.conversation.has_met(path)
