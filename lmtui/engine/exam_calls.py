"""The part of the exam that tries one form of calls: small tasks, each for a few requests, with results that are made up."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lmtui.core.errors import ContextOverflow, Fault, ProviderError, ToolError
from lmtui.core.messages import CallForm, Message, Role, ToolCall
from lmtui.engine.calling import Calling
from lmtui.engine.exam_asking import Examinee
from lmtui.engine.exam_forms import FormCounts
from lmtui.engine.exam_tasks import CheckedCall, ExamTask, edits_exactly, result_of

FATAL = (Fault.UNREACHABLE, Fault.KEY_REFUSED, Fault.UNKNOWN_MODEL, Fault.NOT_A_MODEL_SERVER, Fault.LOADING)
_MOST_REQUESTS = 3


class FormTrial:
    """Tries one form; `counts` is what was seen so far.

    A form is given up as a session gives it up: by what `Calling` makes of the answers and refusals.
    """

    def __init__(self, examinee: Examinee, form: CallForm) -> None:
        self._examinee = examinee
        self._form = form
        self._calling = Calling()
        self._calling.take(form)
        self.counts = FormCounts()

    async def run(self, tasks: Sequence[ExamTask], has_time: Callable[[], bool], say: Callable[[str], None]) -> None:
        """Try all tasks.

        Raises:
            ProviderError: the server cannot be asked any more.
        """
        for task in tasks:
            if not has_time():
                self.counts.why_not = "there was no time for the other tasks"
            if self.counts.why_not:
                return
            say(f"calls, {self._form}: {task.name}")
            self.counts.tasks += 1
            self.counts.right += await self._is_done(task)

    async def _is_done(self, task: ExamTask) -> bool:
        talk = [Message(Role.USER, task.ask)]
        made: list[CheckedCall] = []
        for _ in range(_MOST_REQUESTS):
            said = await self._step(talk)
            if said is None:
                return False
            checked = [(call, self._examinee.checked(call)) for call in said.tool_calls]
            now = [each for _, each in checked if isinstance(each, CheckedCall)]
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
        if change is not None and self._form is CallForm.NATIVE:
            self.counts.why_not = change.why
        return completion.message

    def _note_edits(self, calls: Sequence[CheckedCall]) -> None:
        """Take note whether it can quote a file that it was shown."""
        for call in calls:
            if call.tool == "edit" and self.counts.edit_form != "exact":
                self.counts.edit_form = "exact" if edits_exactly(call) else "whole"
            elif call.tool == "write" and call.path == "total.py":
                self.counts.edit_form = self.counts.edit_form or "whole"


def _result(call: ToolCall, checked: CheckedCall | ToolError) -> Message:
    text = result_of(checked) if isinstance(checked, CheckedCall) else f"Error: {checked.full_text()}"
    return Message(Role.TOOL, text, call_id=call.id)
