"""One model that is examined: it is asked as a session asks it, and what its server counts and how fast it is is taken down."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from lmtui.core.errors import Fault, ProviderError, ToolError
from lmtui.core.messages import CallForm, Completion, Message, ModelRequest, Role, ToolCall, ToolSet, Urgency
from lmtui.core.ports import Provider, TokenCounter, Toolbox
from lmtui.core.window import bytes_by_four
from lmtui.engine.budget import Budget
from lmtui.engine.context import system_prompt
from lmtui.engine.exam_tasks import CheckedCall

ANSWER_TOKENS, THINKING_TOKENS = 200, 1200
_ANSWER_LIMIT_S = 180.0
_CUT_SHARE, _LEAST_COUNT = 0.5, 128


@dataclass(frozen=True, slots=True)
class ExamParts:
    """What an exam needs.

    `salt` is a word that no exam before had, so that what begins with it is in no cache.
    """

    provider: Provider
    toolbox: Toolbox
    model: str
    salt: str
    count: TokenCounter = bytes_by_four
    monotonic: Callable[[], float] = time.monotonic
    is_quick: bool = False


class Examinee:
    """Asks one model.  `plain` knows the sizes and speeds of requests without tools, `budget(form)` those with tools.

    `thinks`: reasoning was seen.  `is_cut`: its server counted far less than it was sent.
    """

    def __init__(self, parts: ExamParts) -> None:
        self._parts = parts
        self._tools = parts.toolbox.specs(ToolSet.LEAN)
        self._system = Message(Role.SYSTEM, system_prompt("lean"))
        self._budgets: dict[CallForm, Budget] = {}
        self.plain = Budget(parts.count)
        self.thinks = False
        self.is_cut = False

    def budget(self, form: CallForm) -> Budget:
        """Return what is known of the sizes of requests in a form of calls."""
        return self._budgets.setdefault(form, Budget(self._parts.count, form))

    async def ask_words(self, text: str, max_tokens: int, *, is_patient: bool = False) -> Completion:
        """Ask something without tools; one that thinks gets room for it.

        Args:
            text: what is asked.
            max_tokens: what the answer may take.
            is_patient: there is no limit of time, for the server may load the model first.
        """
        room = THINKING_TOKENS // 2 if self.thinks else 0
        request = self._request([Message(Role.USER, text)], CallForm.NATIVE, max_tokens + room)
        completion = await self._ask(request, None if is_patient else _ANSWER_LIMIT_S)
        self._learn_size(self.plain, request, completion)
        return completion

    def task_request(self, talk: Sequence[Message], form: CallForm) -> ModelRequest:
        """Return a request as a session with the lean tools makes it."""
        most = THINKING_TOKENS if self.thinks else ANSWER_TOKENS
        return replace(self._request([self._system, *talk], form, most), tools=self._tools)

    async def ask_task(self, request: ModelRequest) -> Completion:
        """Ask one step of a task.

        Raises:
            ProviderError: there is no answer.
        """
        completion = await self._ask(request, _ANSWER_LIMIT_S)
        self._learn_size(self.budget(request.call_form), request, completion)
        return completion

    def checked(self, call: ToolCall) -> CheckedCall | ToolError:
        """Return a call as the tool would take it, or what would be told of it."""
        try:
            prepared = self._parts.toolbox.prepare(call.name, call.arguments)
        except ToolError as error:
            return error
        return CheckedCall(prepared.tool, prepared.arguments)

    def _request(self, talk: Sequence[Message], form: CallForm, max_tokens: int) -> ModelRequest:
        return ModelRequest(
            tuple(talk),
            (),
            self._parts.model,
            temperature=0.0,
            max_tokens=max_tokens,
            call_form=form,
            urgency=Urgency.CHILD,
            sees=False,
        )

    async def _ask(self, request: ModelRequest, limit_s: float | None) -> Completion:
        completion: Completion | None = None
        try:
            async with asyncio.timeout(limit_s), contextlib.aclosing(self._parts.provider.stream(request)) as pieces:
                async for piece in pieces:
                    completion = piece if isinstance(piece, Completion) else completion
        except TimeoutError as error:
            raise ProviderError(Fault.TIMEOUT, f"there was no whole answer within {limit_s:.0f} s") from error
        if completion is None:
            raise ProviderError(Fault.CUT, "the answer has no end")
        self.thinks = self.thinks or bool(completion.message.thinking)
        return completion

    def _learn_size(self, budget: Budget, request: ModelRequest, completion: Completion) -> None:
        """Learn how the server counts; a count that is far too small says that it left out a part of a plain prompt."""
        counted = completion.usage.prompt_tokens if completion.usage else 0
        raw = budget.raw(request.messages, request.tools)
        if counted >= max(_LEAST_COUNT, raw * _CUT_SHARE):
            budget.learn_size(raw, counted)
        elif raw * _CUT_SHARE > counted > 0 and budget is self.plain:
            self.is_cut = True
