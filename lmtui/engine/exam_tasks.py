"""The tasks of the exam: what is asked, what calls give in a folder of paper, and whether they were right.  Pure."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lmtui.core.errors import Fault, ProviderError, ToolError
from lmtui.core.messages import Completion, Message, ModelRequest, Priority, Role, ToolCall, ToolCallFormat, ToolSet
from lmtui.core.ports import Provider, TokenCounter, Toolbox
from lmtui.core.window import bytes_by_four
from lmtui.engine.context import system_prompt
from lmtui.engine.context_budget import Budget

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


FILES: Mapping[str, str] = {"port.txt": "8123\n", "total.py": "def total(a, b):\n    return a - b\n"}
_FIXED = re.compile(r"return\s+a\s*\+\s*b")
_LOOKS = re.compile(r"\b(?:ls|find|tree|dir)\b")
_WRITES = re.compile(r">\s*\"?'?(?:\./)?hello\.txt")


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
    """One task.  `is_right` is asked after each answer, with all calls so far and the answer's words."""

    name: str
    ask: str
    is_right: Callable[[Sequence[CheckedCall], str], bool]


def result_of(call: CheckedCall) -> str:
    """Return what a call gives, in the words of the real tools."""
    match call.tool:
        case "ls" | "glob":
            return "\n".join(FILES)
        case "read":
            return _numbered(call.path)
        case "grep":
            return _found(call.text("pattern"))
        case "edit":
            return "ok" if call.text("search") in FILES.get(call.path, "") else "Error: the text is not in the file"
        case "shell":
            return _printed(call.text("command"))
        case _:
            return "ok"


def edits_exactly(call: CheckedCall) -> bool:
    """Tell whether an edit names text that is in the file just once."""
    return call.tool == "edit" and FILES.get(call.path, "").count(call.text("search") or "\0") == 1


def _numbered(path: str) -> str:
    if path not in FILES:
        return f"Error: no file {path!r}"
    return "\n".join(f"{number:5}  {line}" for number, line in enumerate(FILES[path].splitlines(), 1))


def _found(pattern: str) -> str:
    lines = (f"{name}:1: {line}" for name, text in FILES.items() for line in text.splitlines() if pattern in line)
    return "\n".join(lines) or "no match"


def _printed(command: str) -> str:
    named = next((name for name in FILES if name in command), "")
    if named and re.search(r"\b(?:cat|head|tail|less|more|grep)\b", command):
        return FILES[named].rstrip()
    return "\n".join(FILES) if _LOOKS.search(command) else "(no output)"


def _has_listed(calls: Sequence[CheckedCall], _: str) -> bool:
    return any(call.tool in ("ls", "glob") or (call.tool == "shell" and _LOOKS.search(call.text("command"))) for call in calls)


def _has_read(calls: Sequence[CheckedCall], answer: str) -> bool:
    return "8123" in answer and any("8123" in result_of(call) for call in calls)


def _has_written(calls: Sequence[CheckedCall], _: str) -> bool:
    return any(
        (call.tool == "write" and call.path == "hello.txt" and "hello" in call.text("content"))
        or (call.tool == "shell" and _WRITES.search(call.text("command")))
        for call in calls
    )


def _is_fixed(calls: Sequence[CheckedCall], _: str) -> bool:
    return any(_FIXED.search(_after(call)) for call in calls)


def _after(call: CheckedCall) -> str:
    """Return total.py as a call leaves it, empty where the call does not change it."""
    if call.path != "total.py":
        return ""
    if call.tool == "write":
        return call.text("content")
    return FILES["total.py"].replace(call.text("search"), call.text("replace")) if edits_exactly(call) else ""


LIST = ExamTask("list the files", "Which files are in this folder? Look.", _has_listed)
READ = ExamTask("read a number", "Which number is in the file port.txt?", _has_read)
WRITE = ExamTask("write a file", "Make a file hello.txt that holds the word hello.", _has_written)
EDIT = ExamTask(
    "edit a file",
    f"total.py should add, but it subtracts. It is:\n\n```python\n{FILES['total.py']}```\n\nCorrect it with the tool edit.",
    _is_fixed,
)
TASKS = (LIST, READ, WRITE, EDIT)
QUICK_TASKS = (LIST, WRITE, EDIT)


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
        self._budgets: dict[ToolCallFormat, Budget] = {}
        self.plain = Budget(parts.count)
        self.thinks = False
        self.is_cut = False

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

    async def ratio_of(self, text: str) -> float:
        """Return how many tokens the server counts in a text for each of ours, 0 where it does not tell; nothing is learned."""
        request = self._request([Message(Role.USER, text)], ToolCallFormat.NATIVE, 1)
        completion = await self._ask(request, _ANSWER_LIMIT_S)
        counted, raw = completion.usage.prompt_tokens if completion.usage else 0, self.plain.raw(request.messages, ())
        return counted / raw if counted >= max(_LEAST_COUNT, raw * _CUT_SHARE) else 0.0

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
        """Learn how the server counts; a count that is far too small says that it left out a part of a plain prompt."""
        counted = completion.usage.prompt_tokens if completion.usage else 0
        raw = budget.raw(request.messages, request.tools)
        if counted >= max(_LEAST_COUNT, raw * _CUT_SHARE):
            budget.learn_size(raw, counted)
        elif raw * _CUT_SHARE > counted > 0 and budget is self.plain:
            self.is_cut = True
