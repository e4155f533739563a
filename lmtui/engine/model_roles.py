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


async def take_role(desk: AgentContext) -> None:
    """Let the next request go to the model whose work it is.

    A model that the server does not have is passed over, once said, until the user chooses a model again.
    """
    while True:
        role = _role_of_work(desk)
        wanted = for_role(desk.roles, role, desk.main)
        if wanted.model == desk.settings.model:
            break
        served = await desk.provider.served(wanted.model)
        is_told = served is not None or desk.model.served is None  # a server that tells of no model may have it all the same
        if is_told or role is ModelRole.CODER:
            name = "" if role is ModelRole.CODER else str(role)
            url, is_lent = desk.provider.url, desk.has_borrowed
            desk.emit(ModelChanged(agent=desk.agent, model=wanted.model, url=url, role=name, is_for_turn=is_lent))
            desk.model.forget()
            take_up(desk, served, desk.emit)
            break
        desk.missing_roles.add(role)
        desk.emit(Notice(agent=desk.agent, level=Level.WARNING, text=_missing(desk, role, wanted.model)))
    desk.settings = wanted


def take_up(desk: AgentContext, served: ServedModel | None, emit: Callable[[Event], None]) -> None:
    """Take up what the server tells of the model in use (None: nothing), and say what follows from it."""
    change = desk.model.learn(desk.provider.url, desk.settings.model, served)
    window_tokens = (served.window_tokens if served else 0) or desk.model.profile.window_tokens
    if window_tokens and window_tokens != desk.window_tokens:
        emit(desk.with_window(window_tokens))
    if change is not None:
        emit(CallFormChanged(agent=desk.agent, form=str(change.form), why=change.why, is_by_hand=change.is_by_hand))
    see_anew(desk, emit)


def see_anew(desk: AgentContext, emit: Callable[[Event], None]) -> None:
    """Say whether the model in use sees pictures, and who is asked in its place, where that is news."""
    sees, by = _sight(desk), _eyes(desk)
    if (sees, by) != (desk.sees, desk.eyes):
        emit(VisionChanged(agent=desk.agent, sees=sees, by=by))


def _role_of_work(desk: AgentContext) -> ModelRole:
    if _eyes(desk) and desk.conversation.has_new_pictures:
        return ModelRole.VISION
    is_planning = desk.mode is Mode.PLAN and not desk.is_narrow and ModelRole.PLANNER not in desk.missing_roles
    return ModelRole.PLANNER if is_planning else ModelRole.CODER


def _eyes(desk: AgentContext) -> str:
    """Return the model that looks at pictures, empty where none is named or the server does not have it."""
    return "" if ModelRole.VISION in desk.missing_roles else desk.roles.get(ModelRole.VISION, RoleModel()).model


def _sight(desk: AgentContext) -> bool | None:
    if desk.settings.model and desk.settings.model == _eyes(desk):
        return True
    if desk.vision is not None:
        return desk.vision
    return desk.model.served.has_vision if desk.model.served is not None else None


def _missing(desk: AgentContext, role: ModelRole, model: str) -> str:
    main = desk.main.model or "the server's own model"
    return f"{desk.provider.url} does not offer {model}, the model for the role {role}; {main} is asked in its place."


async def override_model(desk: AgentContext, name: str, who: str) -> None:
    """Ask another model until the turn ends, if its server has it; else say so."""
    if not name or name == desk.main.model:
        return
    served = await desk.provider.served(name)
    if served is None:
        text = f"{desk.provider.url} does not offer {name}, which {who} names; the model in use is asked."
        desk.emit(Notice(agent=desk.agent, level=Level.WARNING, text=text))
        return
    back = ModelChanged(agent=desk.agent, model=desk.main.model, url=desk.provider.url, window_tokens=desk.window_tokens)
    before = desk.borrowed if desk.has_borrowed else None
    desk.borrowed = replace(before, model=name) if before is not None else ModelOverride(back, desk.model, name)
    desk.model = desk.model.another()
    desk.emit(ModelChanged(agent=desk.agent, model=name, url=desk.provider.url, is_for_turn=True))
    desk.model.forget()
    take_up(desk, served, desk.emit)


def restore_model(desk: AgentContext) -> None:
    """Ask the session's own model again, unless the user chose one meanwhile."""
    borrowed, desk.borrowed = desk.borrowed, None
    if borrowed is not None and desk.main.model == borrowed.model:
        desk.emit(borrowed.back)
        desk.model = borrowed.known
