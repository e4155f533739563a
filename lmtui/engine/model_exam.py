"""The exam: a model is asked three small tasks as a session asks it, in each form of calls until one works.

It takes some ten seconds, asks through the ports alone and runs no tool.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lmtui.core.errors import ContextOverflow, Fault, ProviderError, ToolError
from lmtui.core.messages import Completion, Message, ModelRequest, Priority, Role, ToolCall, ToolCallFormat, ToolSet
from lmtui.core.ports import Provider, TokenCounter, Toolbox
from lmtui.core.sanitize import sanitize_line
from lmtui.core.servers import EXAM, ExamRow, ExamState, Grade, ModelProfile, OnStep, ServedModel, speed_words
from lmtui.core.window import bytes_by_four
from lmtui.engine.context import system_prompt
from lmtui.engine.context_budget import Budget
from lmtui.engine.tool_call_policy import ToolCallPolicy

FATAL = (Fault.UNREACHABLE, Fault.KEY_REFUSED, Fault.UNKNOWN_MODEL, Fault.NOT_A_MODEL_SERVER, Fault.LOADING)
_CLEARLY = 2  # so many tasks more


@dataclass(slots=True)
class FormCounts:
    """What was counted of one form.

    Answers are counted by what they held: a structured call of the server's own, one found in the text, one that could not be
    read, or only words.  `why_not` says why it was not tried to the end.
    """

    tasks: int = 0
    right: int = 0
    structured: int = 0
    recovered: int = 0
    malformed: int = 0
    words: int = 0
    edit_form: str = ""
    why_not: str = ""

    def see(self, completion: Completion) -> None:
        """Count one answer."""
        calls = completion.message.tool_calls
        if any(not call.form for call in calls):
            self.structured += 1
        elif calls:
            self.recovered += 1
        elif completion.problem:
            self.malformed += 1
        else:
            self.words += 1

    @property
    def is_perfect(self) -> bool:
        """Tell whether all tasks were done, with no call that could not be read."""
        return self.tasks > 0 and self.right == self.tasks and not self.malformed and not self.why_not

    @property
    def briefly(self) -> str:
        """Return how it went in a few words."""
        return f"{self.right} of {self.tasks}" + (f" ({self.why_not})" if self.why_not else "")

    def told(self, form: ToolCallFormat) -> str:
        """Return the counts in words."""
        kinds = [(self.structured, "structured")]
        kinds += [(self.recovered, "found in the text" if form is ToolCallFormat.NATIVE else "read")]
        kinds += [(self.malformed, "malformed")]
        counts = ", ".join(f"{count} {word}" for count, word in kinds if count) or "none made"
        said = f"{self.right} of {self.tasks} tasks right, calls: {counts}" if self.tasks else ""
        return "; ".join(part for part in (said, self.why_not) if part)


def works_natively(counts: FormCounts) -> bool:
    """Tell whether native calls are all that is needed: structured, none in the text, all right."""
    return counts.is_perfect and counts.structured > 0 and not counts.recovered


def chosen(found: Mapping[ToolCallFormat, FormCounts]) -> tuple[ToolCallFormat | None, str]:
    """Return the form to use (None: no task was done in any), and why, with the counts.

    Native where it works, else text, else a schema; a schema in place of text where it is clearly better, and native calls in
    place of both where those do not do more.
    """
    native, text, schema = (
        found.get(form, FormCounts()) for form in (ToolCallFormat.NATIVE, ToolCallFormat.TEXT, ToolCallFormat.SCHEMA)
    )
    is_native_usable = native.structured > native.recovered and not native.why_not
    held_is_better = schema.right >= text.right + _CLEARLY or (schema.right > text.right and (not text.right or text.malformed))
    if works_natively(native) or (is_native_usable and native.right > 0 and native.right >= max(text.right, schema.right)):
        form = ToolCallFormat.NATIVE
    elif held_is_better:
        form = ToolCallFormat.SCHEMA
    elif text.right:
        form = ToolCallFormat.TEXT
    else:
        return None, "in no form of calls was a task done"
    others = (f"{each} {counts.briefly}" for each, counts in found.items() if each is not form)
    return form, f"{form} {found[form].told(form)}" + "".join(f"; {other}" for other in others)


@dataclass(frozen=True, slots=True)
class CheckedCall:
    """A call whose arguments were checked: the tool's own name and its arguments."""

    tool: str
    arguments: Mapping[str, object] = field(default_factory=dict)

    def text(self, name: str) -> str:
        """Return an argument as text, empty where there is none."""
        value = self.arguments.get(name)
        return "" if value is None else str(value)

    @property
    def path(self) -> str:
        """Return the path that it is about, as the folder of paper names it."""
        return self.text("path").removeprefix("./").strip("/")


@dataclass(frozen=True, slots=True)
class ExamTask:
    """One task; `is_right` tells whether a call is what it asks for."""

    name: str
    ask: str
    is_right: Callable[[CheckedCall], bool]


_FILE = "def total(a, b):\n    return a - b\n"
_FIXED = re.compile(r"return\s+a\s*\+\s*b")
_LOOKS = re.compile(r"\b(?:ls|find|tree|dir)\b")
_WRITES = re.compile(r">\s*\"?'?(?:\./)?hello\.txt")


def edits_exactly(call: CheckedCall) -> bool:
    """Tell whether an edit names text that is in the file just once."""
    return call.tool == "edit" and call.path == "total.py" and _FILE.count(call.text("search") or "\0") == 1


def _has_listed(call: CheckedCall) -> bool:
    return call.tool in ("ls", "glob") or (call.tool == "shell" and bool(_LOOKS.search(call.text("command"))))


def _has_written(call: CheckedCall) -> bool:
    if call.tool == "shell":
        return bool(_WRITES.search(call.text("command")))
    return call.tool == "write" and call.path == "hello.txt" and "hello" in call.text("content")


def _is_fixed(call: CheckedCall) -> bool:
    after = call.text("content") if call.tool == "write" and call.path == "total.py" else ""
    if edits_exactly(call):
        after = _FILE.replace(call.text("search"), call.text("replace"))
    return bool(_FIXED.search(after))


TASKS = (
    ExamTask("list the files", "Which files are in this folder? Look.", _has_listed),
    ExamTask("write a file", "Make a file hello.txt that holds the word hello.", _has_written),
    ExamTask(
        "edit a file",
        f"total.py should add, but it subtracts. It is:\n\n```python\n{_FILE}```\n\nCorrect it with the tool edit.",
        _is_fixed,
    ),
)


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


class Examinee:
    """Asks one model.  `plain` knows the sizes and speeds of requests without tools, `budget(form)` those with tools.

    `thinks`: reasoning was seen.
    """

    def __init__(self, parts: ExamParts) -> None:
        self._parts = parts
        self._tools = parts.toolbox.specs(ToolSet.LEAN)
        self._system = Message(Role.SYSTEM, system_prompt("lean"))
        self._budgets: dict[ToolCallFormat, Budget] = {}
        self.plain = Budget(parts.count)
        self.thinks = False

    def budget(self, form: ToolCallFormat) -> Budget:
        """Return what is known of the sizes of requests in a form of calls."""
        return self._budgets.setdefault(form, Budget(self._parts.count, form))

    async def ask_words(self, text: str, max_tokens: int, *, is_patient: bool = False) -> Completion:
        """Ask something without tools; one that thinks gets room for it.

        Args:
            text: what is asked.
            max_tokens: what the answer may take.
            is_patient: the time is not limited, for the server may load the model first.
        """
        room = THINKING_TOKENS // 2 if self.thinks else 0
        request = self._request([Message(Role.USER, text)], ToolCallFormat.NATIVE, max_tokens + room)
        completion = await self._ask(request, None if is_patient else _ANSWER_LIMIT_S)
        self._learn_size(self.plain, request, completion)
        return completion

    def task_request(self, talk: Sequence[Message], form: ToolCallFormat) -> ModelRequest:
        """Return a request as a session with the lean tools makes it."""
        most = THINKING_TOKENS if self.thinks else ANSWER_TOKENS
        return replace(self._request([self._system, *talk], form, most), tools=self._tools)

    async def ask_task(self, request: ModelRequest) -> Completion:
        """Ask one step of a task.

        Raises:
            ProviderError: the server does not answer.
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

    def _request(self, talk: Sequence[Message], form: ToolCallFormat, max_tokens: int) -> ModelRequest:
        return ModelRequest(
            tuple(talk),
            (),
            self._parts.model,
            temperature=0.0,
            max_tokens=max_tokens,
            call_form=form,
            urgency=Priority.SUBAGENT,
            sees=False,
        )

    async def _ask(self, request: ModelRequest, limit_s: float | None) -> Completion:
        completion: Completion | None = None
        try:
            async with asyncio.timeout(limit_s), contextlib.aclosing(self._parts.provider.stream(request)) as pieces:
                async for piece in pieces:
                    completion = piece if isinstance(piece, Completion) else completion
        except TimeoutError as error:
            raise ProviderError(Fault.TIMEOUT, f"no complete answer within {limit_s:.0f} s") from error
        if completion is None:
            raise ProviderError(Fault.CUT, "the answer has no end")
        self.thinks = self.thinks or bool(completion.message.thinking)
        return completion

    def _learn_size(self, budget: Budget, request: ModelRequest, completion: Completion) -> None:
        """Learn how the server counts, unless it left out a part."""
        counted = completion.usage.prompt_tokens if completion.usage else 0
        raw = budget.raw(request.messages, request.tools)
        if counted >= max(_LEAST_COUNT, raw * _CUT_SHARE):
            budget.learn_size(raw, counted)


class FormTrial:
    """Tries one form; `counts` is what was seen so far.

    A form is given up as a session gives it up: by what `ToolCallPolicy` makes of the answers and refusals.
    """

    def __init__(self, examinee: Examinee, form: ToolCallFormat) -> None:
        self._examinee = examinee
        self._form = form
        self._calling = ToolCallPolicy()
        self._calling.take(form)
        self.counts = FormCounts()

    async def run(self, tasks: Sequence[ExamTask], has_time: Callable[[], bool], say: Callable[[str], None]) -> None:
        """Try all tasks.

        Raises:
            ProviderError: the server cannot be asked any more.
        """
        for task in tasks:
            if not has_time():
                self.counts.why_not = "no time for the other tasks"
            if self.counts.why_not:
                return
            say(f"calls, {self._form}: {task.name}")
            self.counts.tasks += 1
            self.counts.right += await self._is_done(task)

    async def _is_done(self, task: ExamTask) -> bool:
        said = await self._step([Message(Role.USER, task.ask)])
        checked = [self._examinee.checked(call) for call in said.tool_calls] if said is not None else []
        calls = [each for each in checked if isinstance(each, CheckedCall)]
        self._note_edits(calls)
        return any(map(task.is_right, calls))

    async def _step(self, talk: Sequence[Message]) -> Message | None:
        """Return one answer, counted; None where the server refused it."""
        request = self._examinee.task_request(talk, self._form)
        try:
            completion = await self._examinee.ask_task(request)
        except ProviderError as error:
            if error.fault in FATAL:
                raise
            change = self._calling.refused(error, request)
            is_small = isinstance(error, ContextOverflow)
            self.counts.why_not = change.why if change else "its window is too small" if is_small else str(error)
            return None
        self.counts.see(completion)
        change = self._calling.see(request, completion)
        if change is not None and self._form is ToolCallFormat.NATIVE:
            self.counts.why_not = change.why
        return completion.message

    def _note_edits(self, calls: Sequence[CheckedCall]) -> None:
        """Take note whether it can quote a file that it was shown."""
        for call in calls:
            if call.tool == "edit" and self.counts.edit_form != "exact":
                self.counts.edit_form = "exact" if edits_exactly(call) else "whole"
            elif call.tool == "write" and call.path == "total.py":
                self.counts.edit_form = self.counts.edit_form or "whole"


def filler(tokens: int, count: TokenCounter) -> str:
    """Return text of about so many of our own tokens that says little and never the same twice."""
    lines: list[str] = []
    left = tokens
    number = 0
    while left > 0:
        number += 1
        line = f"Note {number}: the boat to island {number * 7 % 89} leaves at {number % 24}:{number * 13 % 60:02}."
        lines.append(line)
        left -= count(line) + 1
    return "\n".join(lines)


_FORMS_LIMIT_S = 60.0
_SPEED_TOKENS = 250
_EDITS = {
    "exact": (Grade.GOOD, "exact: it quotes the text that is to be replaced"),
    "whole": (Grade.WEAK, "whole: it cannot quote a file, so files are better rewritten"),
    "": (Grade.SKIPPED, "it did not try to edit"),
}


class ModelExam:
    """One exam of one model; `state` is what is known at any time, so that one that is stopped keeps what it has.

    Args:
        parts: the model and what it is asked through.
        on_step: is told about every step and result.
    """

    def __init__(self, parts: ExamParts, on_step: OnStep) -> None:
        self._parts = parts
        self._on_step = on_step
        self._begun = self._last_row = parts.monotonic()
        self._examinee = Examinee(parts)
        self._counts: dict[ToolCallFormat, FormCounts] = {}
        self.served: ServedModel | None = None
        self.state = ExamState(parts.provider.url, parts.model, profile=ModelProfile(source=EXAM))

    async def run(self) -> None:
        """Measure everything; what goes wrong with the model or its server becomes a row."""
        try:
            await self._greet()
            self.served = await self._parts.provider.served(self._parts.model)
            await self._try_speed()
            await self._try_forms()
            self._judge_thinking()
        except ProviderError as error:
            self._row("server" if self.state.rows else "answers", Grade.FAILED, str(error), error.hint)

    async def _try_speed(self) -> None:
        """Measure the speed; a fault that says nothing of the server as a whole is only its row."""
        try:
            await self._measure_speed()
        except ProviderError as error:
            if error.fault in FATAL:
                raise
            self._row("speed", Grade.WEAK, str(error), error.hint)

    # -- parts -----------------------------------------------------------------------------------------------------------

    async def _greet(self) -> None:
        self._say("asking for a first word; the server may have to load the model")
        said = (await self._examinee.ask_words("Answer with the one word: ready", 64, is_patient=True)).message
        text = said.text.strip() or said.thinking.strip()
        if not text and not said.tool_calls:
            raise ProviderError(Fault.EMPTY, "the model answers nothing", "Look at the server's log.")
        self._row("answers", Grade.GOOD, f"“{sanitize_line(text)[:40]}”")

    async def _measure_speed(self) -> None:
        """Let it read what is in no cache, and write some numbers."""
        size = _SPEED_TOKENS
        self._say(f"speed: reading about {size} tokens, writing some")
        text = f"{self._parts.salt}\n{filler(size, self._parts.count)}\nWrite the numbers from 1 to 30, separated by spaces."
        completion = await self._examinee.ask_words(text, 80)
        plain, words = self._examinee.plain, self._parts.count(completion.message.text + completion.message.thinking)
        plain.learn_speed(completion, completion.usage.prompt_tokens if completion.usage else size)
        if not plain.write_tokens_per_s and completion.decode_s > 0 and words > 1:
            plain.write_tokens_per_s = words / completion.decode_s
        read, wrote = round(plain.read_tokens_per_s, 1), round(plain.write_tokens_per_s, 1)
        self._know(read_tokens_per_s=read, write_tokens_per_s=wrote)
        text = speed_words(self.state.profile)
        self._row("speed", Grade.GOOD if text else Grade.WEAK, text or "could not be measured")

    async def _try_forms(self) -> None:
        """Try native calls, then, unless they work, text, then, unless that works, a schema; choose."""
        end = self._parts.monotonic() + _FORMS_LIMIT_S
        for form in ToolCallFormat:
            trial = FormTrial(self._examinee, form)
            if form is ToolCallFormat.NATIVE and self.served is not None and self.served.drops_tools:
                trial.counts.why_not = "its chat template has no place for tools"
            await trial.run(TASKS, lambda: self._parts.monotonic() < end, self._say)
            counts = self._counts[form] = trial.counts
            self._row(f"calls, {form}", Grade.GOOD if counts.is_perfect else Grade.WEAK, counts.told(form))
            if works_natively(counts) or (form is ToolCallFormat.TEXT and counts.is_perfect):
                break
        self._choose()

    def _choose(self) -> None:
        form, note = chosen(self._counts)
        if form is None:
            self._row("calls", Grade.FAILED, note, "Take a larger model, or one that was trained for tools.")
            return
        counts, budget = self._counts[form], self._examinee.budget(form)
        ratio = round(budget.token_ratio, 3) if budget.is_ratio_known else 0.0
        self._know(call_form=form, note=f"measured: {note}", edit_form=counts.edit_form, token_ratio=ratio)
        self._row("calls", Grade.GOOD if counts.is_perfect else Grade.WEAK, f"{form} is used")
        self._row("edits", *_EDITS[counts.edit_form])
        if ratio:
            self._row("tokens", Grade.GOOD, f"the server counts {ratio:.2f} where lmtui counts 1")

    def _judge_thinking(self) -> None:
        says = self.served is not None and bool(self.served.thinks)
        if self._examinee.thinks:
            self._know(thinks=True)
            self._row("thinking", Grade.GOOD, "it thinks before it answers")
        elif says:
            self._row("thinking", Grade.GOOD, "the server says that it can think; it did not here")
        else:
            self._know(thinks=False)
            self._row("thinking", Grade.GOOD, "none")

    # -- telling ---------------------------------------------------------------------------------------------------------

    def _say(self, text: str) -> None:
        """Tell what is worked on now."""
        self._change(doing=text)

    def _row(self, name: str, grade: Grade, text: str, hint: str = "") -> None:
        now = self._parts.monotonic()
        row = ExamRow(name, grade, sanitize_line(text), sanitize_line(hint), round(now - self._last_row, 1))
        self._last_row = now
        self._change(rows=(*self.state.rows, row), doing="")

    def _know(self, **found: Any) -> None:
        self._change(profile=replace(self.state.profile, **found))

    def _change(self, **changes: Any) -> None:
        elapsed_s = round(self._parts.monotonic() - self._begun, 1)
        self.state = replace(self.state, elapsed_s=elapsed_s, **changes)
        self._on_step(self.state)
