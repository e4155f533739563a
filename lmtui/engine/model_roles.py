"""Which model does the next piece of work: the session's own, or one that the settings name for a role."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing
from dataclasses import asdict, replace

from lmtui.core.errors import ProviderError
from lmtui.core.events import Event, ModelChanged
from lmtui.core.messages import Message, ModelRequest, Priority, Role
from lmtui.core.model_events import CallFormChanged, ModelLoaded, ModelLoading, VisionChanged
from lmtui.core.permissions.rules import Mode
from lmtui.core.roles import ModelRole, RoleModel, Roles
from lmtui.core.servers import ServedModel, window_fix
from lmtui.engine.agent import Agent
from lmtui.engine.context import ModelSettings
from lmtui.engine.tool_call_policy import ModelOverride


def for_role(roles: Roles, role: ModelRole, main: ModelSettings) -> ModelSettings:
    """Return what goes with the requests of a role: what the settings say of it, the rest as for the main model.

    The coder's model is the session's own, which begins as the settings name it and changes as the user says.
    """
    own = roles.get(role, RoleModel())
    names = ("temperature", "top_p", "seed", "repeat_penalty")
    given = {name: value for name in names if (value := getattr(own, name)) is not None}
    given |= {"max_tokens": own.max_completion} if own.max_completion is not None else {}
    model = "" if role is ModelRole.CODER else own.model
    return replace(main, model=model or main.model, **given)


async def role_request(
    agent: Agent, role: ModelRole, system: str, text: str, *, most_tokens: int, priority: Priority | None = None
) -> ModelRequest:
    """Return a question outside the conversation for the model of a role, which is loaded then.

    `most_tokens` may be answered where the settings do not say.
    """
    settings = for_role(agent.model.roles, role, agent.state.model.main)
    priority = agent.priority if priority is None else priority
    if not await has_model(agent, role):
        settings = replace(settings, model=agent.state.model.main.model)
    await ensure_loaded(agent, role, settings.model, priority)
    settings = replace(settings, max_tokens=agent.model.roles.get(role, RoleModel()).max_completion or most_tokens)
    messages = (Message(Role.SYSTEM, system), Message(Role.USER, text))
    return ModelRequest(messages, (), **asdict(settings), urgency=priority, is_attended=False)


async def has_model(agent: Agent, role: ModelRole) -> bool:
    """Tell whether the server has the model that the settings name for a role; where it does not, say so once."""
    model = agent.model.roles.get(role, RoleModel()).model
    if role in agent.model.missing_roles:
        return False
    is_sure = not model or model == agent.state.model.main.model or agent.model.known.served is None
    if is_sure or await agent.services.provider.served(model) is not None:
        return True
    agent.model.missing_roles.add(role)
    agent.notify(_missing(agent, role, model))
    return False


async def ensure_loaded(agent: Agent, role: ModelRole, model: str, priority: Priority) -> bool:
    """Have a model loaded before a request of a role goes to it; tell whether it had to be.

    Where that fails the user is told, and the request goes out all the same: the server may load the model for it.
    """
    if agent.model.loader is None:
        return False
    started, unloaded, url = agent.services.monotonic(), [], agent.services.provider.url
    is_begun, problem = False, None
    own, coder = (agent.model.roles.get(each, RoleModel()).context_length for each in (role, ModelRole.CODER))
    wanted_tokens = own or (coder if model == agent.state.model.main.model else 0) or 0
    try:
        async with aclosing(agent.model.loader(url, model, wanted_tokens, priority)) as steps:
            async for step in steps:
                is_begun = True
                unloaded += [step.unloads] if step.unloads else []
                agent.emit(ModelLoading(agent=agent.id, model=model, text=step.text, ratio=step.ratio))
    except ProviderError as error:
        problem = error
        instead = f"If the request fails, load {model} in the server or name another model for the role {role}."
        agent.notify(f"{error.full_text()} The request is sent anyway, and the server may load it. {instead}")
    if is_begun or problem is not None:
        elapsed_s = round(agent.services.monotonic() - started, 1)
        ended = ModelLoaded(
            agent=agent.id, model=model, role=role, ok=problem is None, unloaded=tuple(unloaded), elapsed_s=elapsed_s
        )
        agent.emit(ended)
    if not is_begun or problem is not None:
        return False
    served = await agent.services.provider.served(model)
    if served is not None and 0 < served.window_tokens < wanted_tokens:
        text = (
            f"{url} loaded {model} with a window of {served.window_tokens:,} tokens; the role {role} needs {wanted_tokens:,}."
        )
        agent.notify(f"{text} {window_fix(served.server)}")
    return True


async def take_role(agent: Agent) -> None:
    """Let the next request go to the model whose work it is.

    A model that the server does not have is passed over, once said, until the user chooses a model again.
    """
    while True:
        role = _role_of_work(agent)
        wanted = for_role(agent.model.roles, role, agent.state.model.main)
        has_loaded = await ensure_loaded(agent, role, wanted.model, agent.priority)
        if wanted.model == agent.state.model.settings.model:
            if has_loaded:
                take_up(agent, await agent.services.provider.served(wanted.model), agent.emit)
            break
        served = await agent.services.provider.served(wanted.model)
        # a server that tells of no model may have it all the same
        if served is not None or agent.model.known.served is None or role is ModelRole.CODER:
            name = "" if role is ModelRole.CODER else str(role)
            url, is_lent = agent.services.provider.url, agent.has_model_override
            agent.emit(ModelChanged(agent=agent.id, model=wanted.model, url=url, role=name, is_for_turn=is_lent))
            agent.model.known.forget()
            take_up(agent, served, agent.emit)
            break
        agent.model.missing_roles.add(role)
        agent.notify(_missing(agent, role, wanted.model))
    agent.state = replace(agent.state, model=replace(agent.state.model, settings=wanted))


def take_up(agent: Agent, served: ServedModel | None, emit: Callable[[Event], None]) -> None:
    """Take up what the server tells of the model in use (None: nothing), and say what follows from it and is news."""
    change = agent.model.known.learn(agent.services.provider.url, agent.state.model.settings.model, served)
    window_tokens = (served.window_tokens if served else 0) or agent.model.known.profile.window_tokens
    names_default = served is not None and bool(served.name) and not agent.state.model.settings.model
    if names_default or (window_tokens and window_tokens != agent.state.model.window_tokens):
        emit(agent.with_window(window_tokens))
    if change is not None:
        emit(CallFormChanged(agent=agent.id, form=str(change.form), why=change.why, is_by_hand=change.is_by_hand))
    sees, by = _sight(agent), _eyes(agent)
    if (sees, by) != (agent.state.model.sees, agent.state.model.vision_model):
        emit(VisionChanged(agent=agent.id, sees=sees, by=by))


def _role_of_work(agent: Agent) -> ModelRole:
    if _eyes(agent) and agent.conversation.has_new_pictures:
        return ModelRole.VISION
    is_planning = (
        agent.state.mode is Mode.PLAN and not agent.state.is_narrow and ModelRole.PLANNER not in agent.model.missing_roles
    )
    has_analyst = ModelRole.ANALYST in agent.model.roles and ModelRole.ANALYST not in agent.model.missing_roles
    if agent.state.is_narrow and has_analyst and not agent.has_model_override:
        return ModelRole.ANALYST
    return ModelRole.PLANNER if is_planning else ModelRole.CODER


def _eyes(agent: Agent) -> str:
    """Return the model that looks at pictures, empty where there is none."""
    return "" if ModelRole.VISION in agent.model.missing_roles else agent.model.roles.get(ModelRole.VISION, RoleModel()).model


def _sight(agent: Agent) -> bool | None:
    if agent.state.model.settings.model and agent.state.model.settings.model == _eyes(agent):
        return True
    if agent.model.vision is not None:
        return agent.model.vision
    return agent.model.known.served.has_vision if agent.model.known.served is not None else None


def _missing(agent: Agent, role: ModelRole, model: str) -> str:
    main = agent.state.model.main.model or "the server's own model"
    return f"{agent.services.provider.url} does not offer {model}, the model for the role {role}; {main} is asked in its place."


async def override_model(agent: Agent, name: str, who: str) -> None:
    """Ask another model until the turn ends, if its server has it; else say so."""
    if not name or name == agent.state.model.main.model:
        return
    served = await agent.services.provider.served(name)
    if served is None:
        text = f"{agent.services.provider.url} does not offer {name}, which {who} names; the model in use is asked."
        agent.notify(text)
        return
    back = ModelChanged(
        agent=agent.id,
        model=agent.state.model.main.model,
        url=agent.services.provider.url,
        window_tokens=agent.state.model.window_tokens,
    )
    before = agent.model.override if agent.has_model_override else None
    agent.model.override = replace(before, model=name) if before is not None else ModelOverride(back, agent.model.known, name)
    agent.model.known = agent.model.known.another()
    agent.emit(ModelChanged(agent=agent.id, model=name, url=agent.services.provider.url, is_for_turn=True))
    agent.model.known.forget()
    take_up(agent, served, agent.emit)


def restore_model(agent: Agent) -> None:
    """Ask the session's own model again, unless the user chose one meanwhile."""
    borrowed, agent.model.override = agent.model.override, None
    if borrowed is not None and agent.state.model.main.model == borrowed.model:
        agent.emit(borrowed.back)
        agent.model.known = borrowed.known
