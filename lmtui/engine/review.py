"""What models are asked outside the conversation: the reviewer for findings in a change, any model for its form of calls."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import fields, replace

from lmtui.core.errors import Fault, ProviderError, ToolError
from lmtui.core.lenient_json import objects_in
from lmtui.core.messages import Message, ModelRequest, Priority, Role, SchemaRequest, ToolCallFormat, ToolSet
from lmtui.core.ports import Provider, Toolbox
from lmtui.core.roles import ModelRole
from lmtui.core.servers import ModelProfile, ServedModel
from lmtui.core.verification import Finding, Gate, ReviewWritten, Severity
from lmtui.engine.accounting import answer_outside, completed
from lmtui.engine.agent import Agent
from lmtui.engine.context import system_prompt
from lmtui.engine.model_roles import for_role, role_request
from lmtui.engine.tool_call_policy import ToolCallPolicy

_MOST_ATTEMPTS = 3
_MOST_DIFF_CHARS = 24_000
_MOST_FINDINGS = 20
_MAX_TOKENS = 4_000
_WINDOW_TOKENS = 8_192
_SEVERITIES = " or ".join(f'"{each}"' for each in Severity)
_SYSTEM = (
    "You review a code change. You see only the task and the diff. Report only problems: bugs, missing cases, requirements of "
    "the task that are not met, data loss, security. Do not report style. Answer with JSON: "
    f'{{"verdict": "APPROVED" or "REJECTED", "findings": [{{"severity": {_SEVERITIES}, "file": "…", '
    '"line": 1, "class": "…", "confidence": 0.0 to 1.0, "message": "…"}], "summary": "…"}'
)
_IS_CUT = "[The diff is cut here. The rest exists, but is not shown.]"
_AGAIN = "That was not the requested JSON. Answer again with the JSON only."


def blocking_findings(written: ReviewWritten, gate: Gate) -> list[Finding]:
    """Return what blocks of a review: all that a strict gate rejects a change for, else what is critical."""
    is_whole = gate is Gate.STRICT and written.is_rejected
    return [each for each in written.findings if is_whole or (each.severity is Severity.CRITICAL and gate.blocks(each))]


class RoleRequests:
    """Asks the models of roles outside the conversation of an agent; what it costs is told as an event."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    async def window_tokens(self, role: ModelRole = ModelRole.PLANNER) -> int:
        """Return the size of the window of a role's model, as its server tells or the settings have it."""
        settings = for_role(self._agent.model.roles, role, self._agent.state.model.main)
        served = await self._agent.services.provider.served(settings.model)
        return (served.window_tokens if served is not None else 0) or self._agent.state.model.window_tokens or _WINDOW_TOKENS

    async def ask(
        self,
        role: ModelRole,
        work: str,
        question: tuple[str, str],
        *,
        schema: Mapping[str, object] | None = None,
        priority: Priority | None = None,
    ) -> str | None:
        """Return the answer of a role's model to a system prompt and a text, None where it fails.

        A server that refuses the schema is asked without it.  `priority` None is that of the agent.
        """
        request = await role_request(self._agent, role, *question, most_tokens=_MAX_TOKENS, priority=priority)
        held = SchemaRequest(**{each.name: getattr(request, each.name) for each in fields(request)}, answer_schema=schema or {})
        answer = await answer_outside(self._agent, work, held) if schema else None
        return answer if answer is not None else await answer_outside(self._agent, work, request)

    async def review(self, task: str, diff: str) -> ReviewWritten:
        """Have the reviewer look at a change and tell what it found; only the beginning of a long one is shown to it."""
        agent, cut = self._agent, f"\n{_IS_CUT}" if len(diff) > _MOST_DIFF_CHARS else ""
        text = f"The task:\n{task}\n\nThe diff:\n{diff[:_MOST_DIFF_CHARS]}{cut}"
        request = await role_request(agent, ModelRole.REVIEWER, _SYSTEM, text, most_tokens=_MAX_TOKENS)
        written = replace(await _ask(agent, request), agent=agent.id)
        agent.emit(written)
        return written


async def _ask(agent: Agent, request: ModelRequest) -> ReviewWritten:
    """Return a review; if the answer cannot be parsed, ask again, three times in all."""
    for _ in range(_MOST_ATTEMPTS):
        answer = await answer_outside(agent, "review", request)
        if answer is None:
            break
        if (written := read_review(answer)) is not None:
            return written
        again = (Message(Role.ASSISTANT, answer), Message(Role.USER, _AGAIN))
        request = replace(request, messages=(*request.messages, *again))
    return ReviewWritten(is_usable=False)


def read_review(answer: str) -> ReviewWritten | None:
    """Read an answer: JSON as it is, in a fence or inside prose; None where there is none.

    REJECTED without a critical or major finding counts as approved: there is nothing to fix.
    """
    text = answer.rpartition("</think>")[2].partition("<think>")[0]
    found = next((each for each in objects_in(text, "verdict") if isinstance(each, Mapping) and "verdict" in each), None)
    if found is None:
        return None
    given = found.get("findings")
    findings = tuple(filter(None, map(_finding, given if isinstance(given, list) else ())))[:_MOST_FINDINGS]
    is_rejected = str(found.get("verdict", "")).strip().upper().startswith("REJECT")
    has_blocking = any(each.severity is not Severity.MINOR for each in findings)
    return ReviewWritten(
        findings=findings, is_rejected=is_rejected and has_blocking, summary=str(found.get("summary", "")).strip()[:500]
    )


def _finding(given: object) -> Finding | None:
    if not isinstance(given, Mapping):
        return None
    message = str(given.get("message") or given.get("fix_hint") or "").strip()
    severity = str(given.get("severity", "")).strip().lower()
    line, confidence = given.get("line"), given.get("confidence")
    if not message:
        return None
    return Finding(
        Severity(severity) if severity in tuple(Severity) else Severity.MINOR,
        str(given.get("file") or given.get("file_path") or "").strip(),
        line if isinstance(line, int) and line > 0 else 0,
        message[:500],
        min(1.0, max(0.0, confidence)) if isinstance(confidence, int | float) else 1.0,
        str(given.get("class") or given.get("issue_class") or "").strip()[:50],
    )


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
    _ = await completed(provider, ModelRequest(talk, (), model, max_tokens=16, urgency=Priority.SUBAGENT))


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
            completion = await completed(provider, request)
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
