"""The exam: a model is asked small tasks as a session asks it, and what it does is measured.

It asks through the ports alone and runs no tool.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lmtui.core.errors import ContextOverflow, Fault, ProviderError, ToolError
from lmtui.core.messages import Completion, Message, Role, ToolCall, ToolCallFormat
from lmtui.core.ports import TokenCounter
from lmtui.core.sanitize import sanitize_line
from lmtui.core.servers import EXAM, ExamRow, ExamState, Grade, ModelProfile, OnStep, ServedModel, speed_words
from lmtui.core.window import ASSUMED_WINDOW_TOKENS
from lmtui.engine import exam_tasks
from lmtui.engine.tool_call_policy import ToolCallPolicy

FATAL = (Fault.UNREACHABLE, Fault.KEY_REFUSED, Fault.UNKNOWN_MODEL, Fault.NOT_A_MODEL_SERVER, Fault.LOADING)
_MOST_REQUESTS = 3


class FormTrial:
    """Tries one form; `counts` is what was seen so far.

    A form is given up as a session gives it up: by what `ToolCallPolicy` makes of the answers and refusals.
    """

    def __init__(self, examinee: exam_tasks.Examinee, form: ToolCallFormat) -> None:
        self._examinee = examinee
        self._form = form
        self._calling = ToolCallPolicy()
        self._calling.take(form)
        self.counts = exam_tasks.FormCounts()

    async def run(self, tasks: Sequence[exam_tasks.ExamTask], has_time: Callable[[], bool], say: Callable[[str], None]) -> None:
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

    async def _is_done(self, task: exam_tasks.ExamTask) -> bool:
        talk = [Message(Role.USER, task.ask)]
        made: list[exam_tasks.CheckedCall] = []
        for _ in range(_MOST_REQUESTS):
            said = await self._step(talk)
            if said is None:
                return False
            checked = [(call, self._examinee.checked(call)) for call in said.tool_calls]
            now = [each for _, each in checked if isinstance(each, exam_tasks.CheckedCall)]
            is_stuck = any(each in made for each in now)
            self._note_edits(now)
            made += now
            if task.is_right(made, said.text):
                return True
            if self.counts.why_not or not said.tool_calls or is_stuck:
                return False
            talk += [said, *(_result(call, each) for call, each in checked)]
        return False

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

    def _note_edits(self, calls: Sequence[exam_tasks.CheckedCall]) -> None:
        """Take note whether it can quote a file that it was shown."""
        for call in calls:
            if call.tool == "edit" and self.counts.edit_form != "exact":
                self.counts.edit_form = "exact" if exam_tasks.edits_exactly(call) else "whole"
            elif call.tool == "write" and call.path == "total.py":
                self.counts.edit_form = self.counts.edit_form or "whole"


def _result(call: ToolCall, checked: exam_tasks.CheckedCall | ToolError) -> Message:
    text = exam_tasks.result_of(checked) if isinstance(checked, exam_tasks.CheckedCall) else f"Error: {checked.full_text()}"
    return Message(Role.TOOL, text, call_id=call.id)


_FIRST_TOKENS, _MOST_TOKENS = 2048, 131_072
_FILLED_SHARE = 0.95
_WHOLE_SHARE = 0.75
_BUDGET_S = 30.0
_GRACE_S = 5.0
_MOST_PROMPTS = 14
_ANSWER_TOKENS = 16
_FINE_SHARE = 0.1
_TOO_SLOW = f"unknown: it reads too slowly to probe it within {_BUDGET_S:.0f} s"
_COLOURS = ("amber", "indigo", "olive", "crimson", "ivory", "teal", "violet", "copper")


@dataclass(frozen=True, slots=True)
class WindowFound:
    """What a probe found: `tokens` is the window to work with (0: none was found), `is_exact`: hardly more is served."""

    tokens: int
    text: str
    is_exact: bool = False


@dataclass(slots=True)
class _Bounds:
    """The largest prompt that was read whole, and the smallest that was not (0: none yet)."""

    whole: int = 0
    too_large: int = 0
    told: int = 0

    @property
    def is_fine(self) -> bool:
        """Tell whether nothing more is to be learned."""
        return bool(self.told) or (0 < self.too_large <= self.whole * (1 + _FINE_SHARE))

    def next_size(self, most: int) -> int:
        """Return the size to try now: twice the last, later the middle."""
        if self.too_large:
            return (self.whole + self.too_large) // 2
        return int(min(most, max(_FIRST_TOKENS, _doubled(self.whole))) * _FILLED_SHARE)


class WindowProbe:
    """Probes one model.

    Args:
        examinee: the model; the speed at which it reads should be known already.
        count: our own way of counting.
        monotonic: the clock.
        salt: a word that no probe before had.
    """

    def __init__(self, examinee: exam_tasks.Examinee, count: TokenCounter, monotonic: Callable[[], float], salt: str) -> None:
        self._examinee = examinee
        self._count = count
        self._now = monotonic
        self._salt = salt

    async def run(self, most_tokens: int, say: Callable[[str], None]) -> WindowFound:
        """Probe for half a minute at most; `most_tokens` is what the model could do at all, 0 where that is unknown.

        Raises:
            ProviderError: the very first prompt failed for another reason than its size.
        """
        begun, bounds, most = self._now(), _Bounds(), most_tokens or _MOST_TOKENS
        for _ in range(_MOST_PROMPTS):
            if bounds.is_fine or bounds.whole >= most * _FILLED_SHARE * _FILLED_SHARE:
                break
            size = bounds.next_size(most)
            left_s = _BUDGET_S - (self._now() - begun)
            if self._examinee.plain.read_s(size) > left_s:
                break
            say(f"window: a prompt of about {size:,} tokens")
            try:
                async with asyncio.timeout(left_s + _GRACE_S):
                    await self._measure(size, bounds)
            except TimeoutError:
                break
        if most_tokens and bounds.whole >= most_tokens * _FILLED_SHARE * _FILLED_SHARE:
            return WindowFound(most_tokens, f"{most_tokens:,} tokens: all that the model could do", is_exact=True)
        return _found(bounds)

    async def _measure(self, size: int, bounds: _Bounds) -> None:
        """Learn from one prompt."""
        try:
            read = await self._try(size)
        except ContextOverflow as error:
            bounds.too_large, bounds.told = size, error.window_tokens
        except ProviderError:
            if not bounds.whole:
                raise
            bounds.too_large = size
        else:
            bounds.whole = max(bounds.whole, read)
            bounds.too_large = bounds.too_large if read else size

    async def _try(self, size: int) -> int:
        """Send a prompt of about a size; return how many tokens of it were read if all were, else 0."""
        word = f"{_COLOURS[size % len(_COLOURS)]}-{size % 97}"
        head = f"{self._salt} {size}. The secret word is {word}. Remember it.\n"
        tail = "\nWhat is the secret word? Answer with that word alone."
        plain = self._examinee.plain
        wanted = int(size / plain.token_ratio) - self._count(head + tail)
        text = head + filler(max(1, wanted), self._count) + tail
        expected = plain.scaled(self._count(text))
        completion = await self._examinee.ask_words(text, _ANSWER_TOKENS)
        return read_whole(completion, expected, word)


def _doubled(whole: int) -> int:
    """Return the power of two above twice what was read whole."""
    return 1 << (2 * whole).bit_length() if whole else 0


def read_whole(completion: Completion, expected: int, word: str) -> int:
    """Return how many tokens were read if that was the whole prompt, else 0.

    The server's count decides; where it counts nothing, or as much as if a part were missing, the word does.
    """
    counted = completion.usage.prompt_tokens if completion.usage else 0
    if counted >= expected * _WHOLE_SHARE:
        return counted
    said = completion.message.text + completion.message.thinking
    return expected if word.lower() in said.lower() else 0


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


def work_text(tokens: int, count: TokenCounter) -> str:
    """Return about so many of our own tokens of code, numbered as `read` shows it."""
    lines: list[str] = []
    source = inspect.getsource(exam_tasks.Examinee).splitlines()
    for number, line in enumerate(source, 1):
        lines.append(f"{number:>5}  {line}")
        tokens -= count(lines[-1]) + 1
        if tokens <= 0:
            break
    return "\n".join(lines)


def _found(bounds: _Bounds) -> WindowFound:
    if bounds.told:
        return WindowFound(
            bounds.told, f"{bounds.told:,} tokens, as the server said when a prompt was too large", is_exact=True
        )
    if not bounds.whole:
        text = f"unknown: not even {bounds.too_large:,} tokens were read whole" if bounds.too_large else _TOO_SLOW
        return WindowFound(0, text)
    if not bounds.too_large:  # a bound that the time set is worth keeping only where it is more than is assumed
        tokens = bounds.whole if bounds.whole > ASSUMED_WINDOW_TOKENS else 0
        return WindowFound(tokens, f"at least {bounds.whole:,} tokens; no time was left to try more")
    text = f"{bounds.whole:,} tokens were read whole, {bounds.too_large:,} were not"
    return WindowFound(bounds.whole, text, is_exact=bounds.is_fine)


_FORMS_LIMIT_S = 240.0
_SPEED_TOKENS, _QUICK_SPEED_TOKENS = 500, 250
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

    def __init__(self, parts: exam_tasks.ExamParts, on_step: OnStep) -> None:
        self._parts = parts
        self._on_step = on_step
        self._begun = self._last_row = parts.monotonic()
        self._examinee = exam_tasks.Examinee(parts)
        self._counts: dict[ToolCallFormat, exam_tasks.FormCounts] = {}
        self._work_ratio = 0.0
        self.served: ServedModel | None = None
        self.state = ExamState(parts.provider.url, parts.model, profile=ModelProfile(source=EXAM))

    async def run(self) -> None:
        """Measure everything; what goes wrong with the model or its server becomes a row."""
        try:
            await self._greet()
            self.served = await self._parts.provider.served(self._parts.model)
            await self._attempt("speed", self._measure_speed)
            await self._attempt("tokens", self._measure_tokens)
            await self._try_forms()
            self._judge_thinking()
            if not self._parts.is_quick:
                await self._attempt("window", self._find_window)
        except ProviderError as error:
            self._row("server" if self.state.rows else "answers", Grade.FAILED, str(error), error.hint)

    async def _attempt(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        """Do a part that the others do not need; a fault that says nothing of the server as a whole is only its row."""
        try:
            await work()
        except ProviderError as error:
            if error.fault in FATAL:
                raise
            self._row(name, Grade.WEAK, str(error), error.hint)

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
        size = _QUICK_SPEED_TOKENS if self._parts.is_quick else _SPEED_TOKENS
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

    async def _measure_tokens(self) -> None:
        """Let the server count text like that of real work: the plain words of the tasks have fewer tokens than code."""
        self._say("tokens: counting some code")
        code = work_text(_QUICK_SPEED_TOKENS if self._parts.is_quick else _SPEED_TOKENS, self._parts.count)
        self._work_ratio = await self._examinee.ratio_of(f"{code}\nAnswer with the one word: ready")

    async def _try_forms(self) -> None:
        """Try native calls, then, unless they work, text, then, unless that works, a schema; choose."""
        end = self._parts.monotonic() + _FORMS_LIMIT_S
        tasks = exam_tasks.QUICK_TASKS if self._parts.is_quick else exam_tasks.TASKS
        for form in ToolCallFormat:
            trial = FormTrial(self._examinee, form)
            if form is ToolCallFormat.NATIVE and self.served is not None and self.served.drops_tools:
                trial.counts.why_not = "its chat template has no place for tools"
            await trial.run(tasks, lambda: self._parts.monotonic() < end, self._say)
            counts = self._counts[form] = trial.counts
            self._row(f"calls, {form}", Grade.GOOD if counts.is_perfect else Grade.WEAK, counts.told(form))
            if exam_tasks.works_natively(counts) or (form is ToolCallFormat.TEXT and counts.is_perfect):
                break
        self._choose()

    def _choose(self) -> None:
        form, note = exam_tasks.chosen(self._counts)
        if form is None:
            self._row("calls", Grade.FAILED, note, "Take a larger model, or one that was trained for tools.")
            return
        counts, budget = self._counts[form], self._examinee.budget(form)
        ratio = round(max(budget.token_ratio if budget.is_ratio_known else 0.0, self._work_ratio), 3)
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

    async def _find_window(self) -> None:
        """Take the window that is told, unless what was counted speaks against it; else probe."""
        served = self.served or ServedModel("")
        if served.window_tokens and not self._examinee.is_cut:
            self._row("window", Grade.GOOD, f"{served.window_tokens:,} tokens, as the server tells")
            return
        probe = WindowProbe(self._examinee, self._parts.count, self._parts.monotonic, self._parts.salt)
        found = await probe.run(served.max_window_tokens or served.window_tokens, self._say)
        self._know(window_tokens=found.tokens)
        self._row("window", Grade.GOOD if found.is_exact else Grade.WEAK, found.text)

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
