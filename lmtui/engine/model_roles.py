"""Which model does the next piece of work: the session's own, or one that the settings name for a role."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from lmtui.core.events import Event, Level, ModelChanged, Notice
from lmtui.core.model_events import CallFormChanged, VisionChanged
from lmtui.core.permissions.decide import Mode
from lmtui.core.roles import ModelRole, RoleModel, Roles
from lmtui.core.servers import ServedModel
from lmtui.engine.agent_context import AgentContext
from lmtui.engine.context import ModelSettings
from lmtui.engine.tool_call_policy import ModelOverride


def for_role(roles: Roles, role: ModelRole, main: ModelSettings) -> ModelSettings:
    """Return what goes with the requests of a role: what the settings say of it, the rest as for the main model.

    The coder's model is the session's own, which begins as the settings name it and changes as the user says.
    """
    own = roles.get(role, RoleModel())
    names = ("temperature", "top_p", "seed", "repeat_penalty")
    given = {name: value for name in names if (value := getattr(own, name)) is not None}
    model = "" if role is ModelRole.CODER else own.model
    return replace(main, model=model or main.model, **given)


async def take_role(context: AgentContext) -> None:
    """Let the next request go to the model whose work it is.

    A model that the server does not have is passed over, once said, until the user chooses a model again.
    """
    while True:
        role = _role_of_work(context)
        wanted = for_role(context.roles, role, context.main)
        if wanted.model == context.settings.model:
            break
        served = await context.provider.served(wanted.model)
        is_told = served is not None or context.model.served is None  # a server that tells of no model may have it all the same
        if is_told or role is ModelRole.CODER:
            name = "" if role is ModelRole.CODER else str(role)
            url, is_lent = context.provider.url, context.has_borrowed
            context.emit(ModelChanged(agent=context.agent, model=wanted.model, url=url, role=name, is_for_turn=is_lent))
            context.model.forget()
            take_up(context, served, context.emit)
            break
        context.missing_roles.add(role)
        context.emit(Notice(agent=context.agent, level=Level.WARNING, text=_missing(context, role, wanted.model)))
    context.settings = wanted


def take_up(context: AgentContext, served: ServedModel | None, emit: Callable[[Event], None]) -> None:
    """Take up what the server tells of the model in use (None: nothing), and say what follows from it."""
    change = context.model.learn(context.provider.url, context.settings.model, served)
    window_tokens = (served.window_tokens if served else 0) or context.model.profile.window_tokens
    if window_tokens and window_tokens != context.window_tokens:
        emit(context.with_window(window_tokens))
    if change is not None:
        emit(CallFormChanged(agent=context.agent, form=str(change.form), why=change.why, is_by_hand=change.is_by_hand))
    see_anew(context, emit)


def see_anew(context: AgentContext, emit: Callable[[Event], None]) -> None:
    """Say whether the model in use sees pictures, and who is asked in its place, where that is news."""
    sees, by = _sight(context), _eyes(context)
    if (sees, by) != (context.sees, context.eyes):
        emit(VisionChanged(agent=context.agent, sees=sees, by=by))


def _role_of_work(context: AgentContext) -> ModelRole:
    if _eyes(context) and context.conversation.has_new_pictures:
        return ModelRole.VISION
    is_planning = context.mode is Mode.PLAN and not context.is_narrow and ModelRole.PLANNER not in context.missing_roles
    return ModelRole.PLANNER if is_planning else ModelRole.CODER


def _eyes(context: AgentContext) -> str:
    """Return the model that looks at pictures, empty where none is named or the server does not have it."""
    return "" if ModelRole.VISION in context.missing_roles else context.roles.get(ModelRole.VISION, RoleModel()).model


def _sight(context: AgentContext) -> bool | None:
    if context.settings.model and context.settings.model == _eyes(context):
        return True
    if context.vision is not None:
        return context.vision
    return context.model.served.has_vision if context.model.served is not None else None


def _missing(context: AgentContext, role: ModelRole, model: str) -> str:
    main = context.main.model or "the server's own model"
    return f"{context.provider.url} does not offer {model}, the model for the role {role}; {main} is asked in its place."


async def override_model(context: AgentContext, name: str, who: str) -> None:
    """Ask another model until the turn ends, if its server has it; else say so."""
    if not name or name == context.main.model:
        return
    served = await context.provider.served(name)
    if served is None:
        text = f"{context.provider.url} does not offer {name}, which {who} names; the model in use is asked."
        context.emit(Notice(agent=context.agent, level=Level.WARNING, text=text))
        return
    back = ModelChanged(
        agent=context.agent, model=context.main.model, url=context.provider.url, window_tokens=context.window_tokens
    )
    before = context.borrowed if context.has_borrowed else None
    context.borrowed = replace(before, model=name) if before is not None else ModelOverride(back, context.model, name)
    context.model = context.model.another()
    context.emit(ModelChanged(agent=context.agent, model=name, url=context.provider.url, is_for_turn=True))
    context.model.forget()
    take_up(context, served, context.emit)


def restore_model(context: AgentContext) -> None:
    """Ask the session's own model again, unless the user chose one meanwhile."""
    borrowed, context.borrowed = context.borrowed, None
    if borrowed is not None and context.main.model == borrowed.model:
        context.emit(borrowed.back)
        context.model = borrowed.known
