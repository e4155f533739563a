"""The exam: a model is asked small tasks as a session asks it, and what it does is measured.

It asks through the ports alone and runs no tool.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from lmtui.core.clean import clean_line
from lmtui.core.errors import Fault, ProviderError
from lmtui.core.exams import EXAM, ExamRow, ExamState, Grade, OnStep
from lmtui.core.messages import CallForm
from lmtui.core.profile_words import speed_words
from lmtui.core.profiles import ModelProfile
from lmtui.core.servers import ServedModel
from lmtui.engine.exam_asking import Examinee, ExamParts
from lmtui.engine.exam_calls import FATAL, FormTrial
from lmtui.engine.exam_forms import FormCounts, chosen, works_natively
from lmtui.engine.exam_tasks import QUICK_TASKS, TASKS
from lmtui.engine.exam_window import WindowProbe, filler

_FORMS_LIMIT_S = 240.0
_SPEED_TOKENS, _QUICK_SPEED_TOKENS = 500, 250
_EDITS = {
    "exact": (Grade.GOOD, "exact: it quotes the text that is to be replaced"),
    "whole": (Grade.WEAK, "whole: it cannot quote a file, so files are better written anew"),
    "": (Grade.SKIPPED, "it did not try to edit"),
}


class ModelExam:
    """One exam of one model; `state` is what is known at any time, so that one that is stopped keeps what it has.

    Args:
        parts: the model and what it is asked through.
        on_step: is told of every step and result.
    """

    def __init__(self, parts: ExamParts, on_step: OnStep) -> None:
        self._parts = parts
        self._on_step = on_step
        self._begun = self._last_row = parts.monotonic()
        self._examinee = Examinee(parts)
        self._counts: dict[CallForm, FormCounts] = {}
        self.served: ServedModel | None = None
        self.state = ExamState(parts.provider.url, parts.model, profile=ModelProfile(source=EXAM))

    async def run(self) -> None:
        """Measure everything; what goes wrong with the model or its server becomes a row."""
        try:
            await self._greet()
            self.served = await self._parts.provider.served(self._parts.model)
            await self._attempt("speed", self._measure_speed)
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
        self._row("answers", Grade.GOOD, f"“{clean_line(text)[:40]}”")

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

    async def _try_forms(self) -> None:
        """Try native calls, then, unless they work, text, then, unless that works, a schema; choose."""
        end = self._parts.monotonic() + _FORMS_LIMIT_S
        tasks = QUICK_TASKS if self._parts.is_quick else TASKS
        for form in CallForm:
            trial = FormTrial(self._examinee, form)
            if form is CallForm.NATIVE and self.served is not None and self.served.drops_tools:
                trial.counts.why_not = "its chat template has no place for tools"
            await trial.run(tasks, lambda: self._parts.monotonic() < end, self._say)
            counts = self._counts[form] = trial.counts
            self._row(f"calls, {form}", Grade.GOOD if counts.is_perfect else Grade.WEAK, counts.told(form))
            if works_natively(counts) or (form is CallForm.TEXT and counts.is_perfect):
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
        row = ExamRow(name, grade, clean_line(text), clean_line(hint), round(now - self._last_row, 1))
        self._last_row = now
        self._change(rows=(*self.state.rows, row), doing="")

    def _know(self, **found: Any) -> None:
        self._change(profile=replace(self.state.profile, **found))

    def _change(self, **changes: Any) -> None:
        elapsed_s = round(self._parts.monotonic() - self._begun, 1)
        self.state = replace(self.state, elapsed_s=elapsed_s, **changes)
        self._on_step(self.state)
