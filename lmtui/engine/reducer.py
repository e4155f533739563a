"""What a durable event changes on the context of an agent; live and on replay alike."""

from __future__ import annotations

from lmtui.core.events import Event, MessageAdded, ModeChanged, ModelChanged, PlanChanged, RuleRevoked, SandboxSelected
from lmtui.core.messages import Role, ToolCallFormat, ToolSet
from lmtui.core.model_events import CallFormChanged, ToolSetChanged, VisionChanged
from lmtui.core.permissions.decide import Effect, Mode
from lmtui.core.plan_mode import after
from lmtui.engine.agent_context import AgentContext


def apply_event(context: AgentContext, event: Event) -> None:
    """Take up an event of a session: what holds for all agents of it, and what is about this one."""
    if event.agent == context.agent:
        context.planning = after(context.planning, event)
        context.waits.apply(event)
    match event:
        case ModeChanged(mode=mode) if mode in tuple(Mode):
            context.mode = Mode(mode)
        case RuleRevoked(rule=rule, effect=Effect.ALLOW):  # of a log only what makes it stricter holds again
            context.rules = tuple(each for each in context.rules if str(each) != rule or each.effect is not Effect.ALLOW)
        case SandboxSelected():
            context.sandbox_name, context.sandbox_text = event.backend, event.text
            context.asks_each_command = event.asks_each_command
        case _ if event.agent == context.agent:
            _take_own(context, event)
        case _:
            pass


def _take_own(context: AgentContext, event: Event) -> None:
    context.conversation.apply(event)
    for watch in (context.loops, context.gate, context.note, context.task_steps, context.step, context.scopes):
        watch.apply(event)
    match event:
        case PlanChanged(plan=plan):
            context.plan = plan
        case ModelChanged():
            context.take_model(event)
        case VisionChanged(sees=sees, by=by):
            context.sees, context.eyes = sees, by
            context.window.budget.use_sight(sees=sees is not False)
        case ToolSetChanged(tools=tools, edits=edits) if tools in tuple(ToolSet):
            context.tool_set, context.edits = ToolSet(tools), edits
        case MessageAdded(role=Role.ASSISTANT):  # it was asked with these tools, and keeps them
            context.window.chosen_for = context.settings.model
        case CallFormChanged(form=form) if form in tuple(ToolCallFormat):
            context.model.calling.take(ToolCallFormat(form), event.why, is_by_hand=event.is_by_hand, lets_go=event.lets_go)
            context.window.budget.use_form(ToolCallFormat(form))
        case _:
            pass
