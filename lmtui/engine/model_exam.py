"""A probe of about ten seconds: a model is asked for one tool call in each form until one works.

It asks through the ports alone and runs no tool.
"""

from __future__ import annotations

import asyncio
import contextlib

from lmtui.core.errors import Fault, ProviderError, ToolError
from lmtui.core.messages import Completion, Message, ModelRequest, Priority, Role, ToolCallFormat, ToolSet
from lmtui.core.ports import Provider, Toolbox
from lmtui.core.servers import ModelProfile, ServedModel
from lmtui.engine.context import system_prompt
from lmtui.engine.tool_call_policy import ToolCallPolicy

_FATAL = (Fault.UNREACHABLE, Fault.KEY_REFUSED, Fault.UNKNOWN_MODEL, Fault.NOT_A_MODEL_SERVER, Fault.LOADING)
_TASK = "Make a file hello.txt that holds the word hello."
_ANSWER_LIMIT_S = 20.0
_ANSWER_TOKENS = 1_000  # one that thinks needs most of them


async def wake(provider: Provider, model: str) -> None:
    """Ask for a word; the server may load the model first, so this waits as long as that takes.

    Raises:
        ProviderError: the model does not answer.
    """
    talk = (Message(Role.USER, "Answer with the one word: ready"),)
    _ = await _ask(provider, ModelRequest(talk, (), model, max_tokens=16, urgency=Priority.SUBAGENT))


async def find_call_form(
    provider: Provider, toolbox: Toolbox, model: str, served: ServedModel | None
) -> tuple[ToolCallFormat | None, str]:
    """Return the first form in which a model calls a tool (None: it calls in none), and what became of each.

    Where a session would not begin natively by what the server told of the model, that is not tried.

    Raises:
        ProviderError: the server cannot be asked any more, or is too slow to tell.
    """
    change = ToolCallPolicy().begin(ModelProfile(), served)
    tried = [f"{ToolCallFormat.NATIVE}: {change.why}"] if change is not None else []
    for form in [each for each in ToolCallFormat if change is None or each is not ToolCallFormat.NATIVE]:
        why = await _problem(provider, toolbox, model, form)
        tried.append(f"{form}: {why or 'works'}")
        if not why:
            return form, "; ".join(tried)
    return None, "; ".join(tried)


async def _problem(provider: Provider, toolbox: Toolbox, model: str, form: ToolCallFormat) -> str:
    """Return why a model does not call in a form, asked as a session asks it; empty if it does."""
    request = ModelRequest(
        (Message(Role.SYSTEM, system_prompt("lean")), Message(Role.USER, _TASK)),
        toolbox.specs(ToolSet.LEAN),
        model,
        temperature=0.0,
        max_tokens=_ANSWER_TOKENS,
        call_form=form,
        shows_example=form is not ToolCallFormat.NATIVE,
        urgency=Priority.SUBAGENT,
        sees=False,
    )
    try:
        async with asyncio.timeout(_ANSWER_LIMIT_S):
            completion = await _ask(provider, request)
        calls = completion.message.tool_calls
        for call in calls:
            _ = toolbox.prepare(call.name, call.arguments)
    except TimeoutError as error:
        problem = f"no complete answer within {_ANSWER_LIMIT_S:.0f} s"
        raise ProviderError(Fault.TIMEOUT, problem, "A session finds the form out during work.") from error
    except ProviderError as error:
        if error.fault in _FATAL:
            raise
        return str(error)
    except ToolError as error:
        return str(error)
    if form is ToolCallFormat.NATIVE and any(call.form for call in calls):
        return "it writes its calls as text"
    return "" if calls else "its call could not be read" if completion.problem else "it made no call"


async def _ask(provider: Provider, request: ModelRequest) -> Completion:
    completion: Completion | None = None
    async with contextlib.aclosing(provider.stream(request)) as pieces:
        async for piece in pieces:
            completion = piece if isinstance(piece, Completion) else completion
    if completion is None:
        raise ProviderError(Fault.CUT, "the answer has no end")
    return completion
