"""What a durable event changes on the desk of an agent; live and on replay alike."""

from __future__ import annotations

from lmtui.core.events import Event, MessageAdded, ModeChanged, ModelChanged, PlanChanged, RuleRevoked, SandboxSelected
from lmtui.core.messages import Role, ToolCallFormat, ToolSet
from lmtui.core.model_events import CallFormChanged, ToolSetChanged, VisionChanged
from lmtui.core.permissions.decide import Effect, Mode
from lmtui.core.plan_mode import after
from lmtui.engine.agent_context import AgentContext


def apply_event(desk: AgentContext, event: Event) -> None:
    """Take up an event of a session: what holds for all agents of it, and what is about this one."""
    if event.agent == desk.agent:
        desk.planning = after(desk.planning, event)
        desk.waits.apply(event)
    match event:
        case ModeChanged(mode=mode) if mode in tuple(Mode):
            desk.mode = Mode(mode)
        case RuleRevoked(rule=rule, effect=Effect.ALLOW):  # of a log only what makes it stricter holds again
            desk.rules = tuple(each for each in desk.rules if str(each) != rule or each.effect is not Effect.ALLOW)
        case SandboxSelected():
            desk.sandbox_name, desk.sandbox_text = event.backend, event.text
            desk.asks_each_command = event.asks_each_command
        case _ if event.agent == desk.agent:
            _take_own(desk, event)
        case _:
            pass


def _take_own(desk: AgentContext, event: Event) -> None:
    desk.conversation.apply(event)
    for watch in (desk.loops, desk.gate, desk.note, desk.task_steps, desk.step, desk.scopes):
        watch.apply(event)
    match event:
        case PlanChanged(plan=plan):
            desk.plan = plan
        case ModelChanged():
            desk.take_model(event)
        case VisionChanged(sees=sees, by=by):
            desk.sees, desk.eyes = sees, by
            desk.window.budget.use_sight(sees=sees is not False)
        case ToolSetChanged(tools=tools, edits=edits) if tools in tuple(ToolSet):
            desk.tool_set, desk.edits = ToolSet(tools), edits
        case MessageAdded(role=Role.ASSISTANT):  # it was asked with these tools, and keeps them
            desk.window.chosen_for = desk.settings.model
        case CallFormChanged(form=form) if form in tuple(ToolCallFormat):
            desk.model.calling.take(ToolCallFormat(form), event.why, is_by_hand=event.is_by_hand, lets_go=event.lets_go)
            desk.window.budget.use_form(ToolCallFormat(form))
        case _:
            pass
