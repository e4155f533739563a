"""A plan that the model proposes and a person decides about: its value, what makes one valid, and what becomes of its steps."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from lmtui.core.errors import ToolError, UsageError
from lmtui.core.lenient_json import first_of, line_of, objects_in, read_loose_json, text_of, texts_of
from lmtui.core.plan import PlanStep, cycle_of, named, needs

MAX_STEPS = 30
MAX_NAMED = 50
MAX_TEXT_CHARS = 4_000
STEP_RISKS = ("low", "medium", "high")


@dataclass(frozen=True, slots=True)
class Proposal:
    """What is to be done, step by step; `risks` are what may go wrong with all of it."""

    title: str
    steps: tuple[PlanStep, ...]
    goal: str = ""
    risks: tuple[str, ...] = ()

    @property
    def files(self) -> tuple[str, ...]:
        """Return the files that the steps name, each once."""
        return tuple(dict.fromkeys(path for step in self.steps for path in step.files))

    @property
    def commands(self) -> tuple[str, ...]:
        """Return the commands that the steps name, each once."""
        return tuple(dict.fromkeys(command for step in self.steps for command in step.commands))


def check_proposal(proposal: Proposal) -> Proposal:
    """Return a proposal that can be carried out.

    Raises:
        ToolError: it cannot; the text names the steps by their ids.
    """
    problem = find_problem(proposal)
    if problem:
        raise ToolError(f"this plan cannot be: {problem}")
    return proposal


def find_problem(proposal: Proposal) -> str:
    """Return why a proposal cannot be carried out, empty where it can."""
    steps = proposal.steps
    if not proposal.title.strip():
        return "it has no title"
    if not 0 < len(steps) <= MAX_STEPS:
        return f"it has {len(steps)} steps, at most {MAX_STEPS} are allowed" if steps else "it has no steps"
    known = [step.id for step in steps]
    twice = sorted({each for each in known if known.count(each) > 1})
    if twice:
        return f"the step ids {named(twice)} occur more than once"
    for step in steps:
        if problem := _problem_of_step(step, known):
            return f"step {step.id} {problem}"
    circle = cycle_of(needs(steps))
    if circle:
        return f"steps {' → '.join(map(str, circle))} wait for each other"
    texts = (proposal.title, proposal.goal, *proposal.risks)
    return "a text in it is too long" if any(len(text) > MAX_TEXT_CHARS for text in texts) else ""


def _problem_of_step(step: PlanStep, known: Sequence[int]) -> str:
    if not step.text.strip():
        return "has no description"
    if step.id < 1:
        return "needs an id from 1 on"
    unknown = [each for each in step.depends_on if each not in known]
    if unknown:
        return f"depends on {named(unknown)}, which is not a step"
    if step.risk not in STEP_RISKS:
        return f"has the risk {step.risk[:20]!r}; it is one of {', '.join(STEP_RISKS)}"
    if max(len(step.files), len(step.commands)) > MAX_NAMED:
        return f"names more than {MAX_NAMED} files or commands"
    texts = (step.text, step.verification, *step.files, *step.commands)
    return f"holds a text of more than {MAX_TEXT_CHARS} characters" if any(len(t) > MAX_TEXT_CHARS for t in texts) else ""


FORM = (
    '{"title": "…", "goal": "…", "steps": [{"id": 1, "description": "…", "files": ["src/a.py"], "commands": ["pytest -q"], '
    '"verification": "how it is checked", "risk": "low", "depends_on": []}], "risks": ["…"]}'
)
_TITLE = ("title", "name", "plan_title", "task")
_GOAL = ("goal", "objective", "summary", "description", "rationale")
_STEPS = ("steps", "plan_steps", "tasks", "todos")
_RISKS = ("risks", "risk_areas", "concerns", "watch_out")
_TEXT = ("description", "text", "title", "task", "step", "content", "action", "name", "what")
_CHECK = ("verification", "verify", "check", "test", "acceptance", "how_to_verify")
_AFTER = ("depends_on", "dependencies", "after", "requires", "depends")
_FILES = ("files", "file_paths", "paths", "file", "path")
_COMMANDS = ("commands", "command", "shell", "run")
_WRAPPERS = ("plan", "proposal", "approved_plan", "arguments", "parameters")
_LEVELS = {"l": "low", "m": "medium", "h": "high"}
_NUMBER = re.compile(r"\A\s*(?:step\s*)?\d+\s*[.):](?!\d)\s*", re.IGNORECASE)
_LIST_MARK = re.compile(r"\A\s*(?:[-*•]|(?:step\s*)?\d+\s*[.):])\s+", re.IGNORECASE)


def read_proposal(given: Mapping[str, object]) -> Proposal:
    """Return the plan that a model gave as an object.

    Raises:
        ToolError: it is none, or cannot be carried out; the text shows the form.
    """
    given = _unwrapped(given)
    steps = _steps(first_of(given, _STEPS))
    if not steps:
        raise ToolError("the plan has no steps.", f"Give it as {FORM}")
    title = line_of(first_of(given, _TITLE)) or line_of(first_of(given, _GOAL)) or steps[0].text
    goal = text_of(first_of(given, _GOAL))
    try:
        return check_proposal(Proposal(title[:200], steps, "" if goal == title else goal, texts_of(first_of(given, _RISKS))))
    except ToolError as error:
        raise ToolError(f"{error}.", f"Give it as {FORM}") from error


def find_proposal(text: str) -> Proposal | None:
    """Return the plan that is as a JSON object in an answer, None where there is none.

    Raises:
        ToolError: one is meant, but cannot be read or carried out.
    """
    if "{" not in text or not re.search(r"""["']?(?:steps|plan_steps)["']?\s*:""", text):
        return None
    found = (each for each in objects_in(text, "steps") if isinstance(each, dict) and _has_steps(each))
    value = next(found, None)
    if value is None:
        raise ToolError("the plan in your answer is not a complete JSON object.", f"Give it as {FORM}")
    return read_proposal(value)


def _has_steps(value: Mapping[str, object]) -> bool:
    return first_of(_unwrapped(value), _STEPS) is not None


def _unwrapped(given: Mapping[str, object]) -> Mapping[str, object]:
    """Return the object that holds the steps: this one, or one inside it."""
    for _ in range(4):
        if first_of(given, _STEPS) is not None:
            break
        inner = first_of(given, _WRAPPERS)
        if isinstance(inner, str):
            try:
                inner = read_loose_json(inner)
            except ValueError:
                return {**given, "steps": inner}  # a line each
        if isinstance(inner, list):
            return {**given, "steps": inner}
        if not isinstance(inner, Mapping):
            break
        given = {str(key): value for key, value in inner.items()}
    return given


def _steps(given: object) -> tuple[PlanStep, ...]:
    if isinstance(given, str):
        given = _listed(given)
    if isinstance(given, Mapping):
        given = list(given.values()) if all(isinstance(each, Mapping | str) for each in given.values()) else [given]
    if not isinstance(given, list):
        return ()
    raw = [each for each in given if each not in (None, "", {})]
    numbers = _numbers(raw)
    return tuple(_read_step(each, number, numbers) for number, each in zip(numbers.own, raw, strict=True))


def _listed(text: str) -> object:
    """Return the steps of a text: JSON, or a line each."""
    try:
        return read_loose_json(text) if text.lstrip()[:1] in ("[", "{", "`") else _lines(text)
    except ValueError as error:
        raise ToolError("the steps are not a complete JSON list.", f"Give the plan as {FORM}") from error


def _lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip()]


class _Numbers:
    """The number of each step, and which number belongs to an id as the model wrote it."""

    def __init__(self, own: list[int], by_id: dict[str, int]) -> None:
        self.own, self.by_id = own, by_id

    def of(self, given: object) -> int:
        """Return the number of the step that a dependency names.

        Raises:
            ToolError: there is none.
        """
        key = _key(given)
        if key not in self.by_id:
            raise ToolError(f"a step depends on {str(given)[:40]!r}, which is not a step.", f"Give the plan as {FORM}")
        return self.by_id[key]


def _numbers(raw: list[object]) -> _Numbers:
    """Number the steps as their ids say, where all are numbers of their own, else in their order.

    Raises:
        ToolError: an id is there twice.
    """
    ids = [first_of(each, ("id", "step_id", "number", "nr")) if isinstance(each, Mapping) else None for each in raw]
    keys = [_key(each) for each in ids if each is not None]
    twice = sorted({key for key in keys if keys.count(key) > 1})
    if twice:
        raise ToolError(f"the step ids {', '.join(twice)[:100]} occur more than once.", f"Give the plan as {FORM}")
    are_numbers = len(keys) == len(raw) and all(key.isdecimal() and len(key) < 5 and int(key) > 0 for key in keys)
    own = [int(key) for key in keys] if are_numbers else list(range(1, len(raw) + 1))
    by_id = {str(number): number for number in own}
    by_id |= {_key(given): number for given, number in zip(ids, own, strict=True) if given is not None}
    return _Numbers(own, by_id)


def _key(given: object) -> str:
    """Return an id in its one form: `Step 2`, `step_2` and 2 are the same."""
    text = str(int(given)) if isinstance(given, float) and given.is_integer() else str(given).strip().lower()
    found = re.fullmatch(r"(?:step|s|task|t)?[\s_#-]*(\d{1,9})", text, re.ASCII)
    return str(int(found[1])) if found else text


def _read_step(given: object, number: int, numbers: _Numbers) -> PlanStep:
    if not isinstance(given, Mapping):
        return PlanStep(number, _LIST_MARK.sub("", text_of(given)))
    after = first_of(given, _AFTER)
    wanted = after if isinstance(after, list) else [] if after in (None, "") else re.split(r"[,\s]+", str(after).strip())
    return PlanStep(
        number,
        _NUMBER.sub("", text_of(first_of(given, _TEXT))),
        depends_on=tuple(dict.fromkeys(numbers.of(each) for each in wanted)),
        verification=text_of(first_of(given, _CHECK)),
        risk=_level(first_of(given, ("risk", "risk_level"))),
        files=texts_of(first_of(given, _FILES)),
        commands=texts_of(first_of(given, _COMMANDS)),
    )


def _level(given: object) -> str:
    return _LEVELS.get(str(given or "low").strip().lower()[:1], "medium")


HELP = """\
# The plan. Change, add, move or delete what you like; empty lines and lines that begin with # do not count.
# A step begins with "step" and its number; below it come, each as often as needed:
#   file: a path    run: a command    check: how it is verified    risk: low, medium or high    after: 1, 2
# A text that continues begins the next line with |
"""
_HEAD = ("title", "goal", "risk")
_OF_STEP = ("file", "run", "check", "risk", "after")
_FIELD = re.compile(r"\s*([A-Za-z]+)\s*([0-9]*)\s*:[ \t]?(.*)", re.DOTALL)
_MORE = re.compile(r"\s*\|[ \t]?(.*)", re.DOTALL)


def to_text(proposal: Proposal, *, with_help: bool = True) -> str:
    """Return a plan as text."""
    lines = [*_field("title", proposal.title)]
    lines += _field("goal", proposal.goal) if proposal.goal else []
    lines += [line for risk in proposal.risks for line in _field("risk", risk)]
    for step in proposal.steps:
        lines += ["", *_step_lines(step)]
    return f"{HELP}\n" * with_help + "\n".join(lines) + "\n"


def _step_lines(step: PlanStep) -> Iterator[str]:
    yield from _field(f"step {step.id}", step.text)
    for name, values in (("file", step.files), ("run", step.commands), ("check", (step.verification,))):
        for value in values:
            yield from _field(f"  {name}", value) if value else ()
    if step.risk != STEP_RISKS[0]:
        yield f"  risk: {step.risk}"
    if step.depends_on:
        yield f"  after: {', '.join(map(str, step.depends_on))}"


def _field(name: str, value: str) -> Iterator[str]:
    first, *rest = value.split("\n")
    yield f"{name}: {first}"
    indent = "    " if name.startswith(" ") else "  "
    yield from (f"{indent}| {line}" for line in rest)


@dataclass(slots=True)
class _Field:
    """One field as it was written: in which line it begins, its name, its number, its text."""

    line: int
    name: str
    number: str
    lines: list[str]

    @property
    def value(self) -> str:
        """Return its text."""
        return "\n".join(self.lines).strip()


@dataclass(slots=True)
class _DraftStep:
    """A step while its fields come."""

    begun: _Field
    number: int
    fields: list[_Field] = field(default_factory=list)

    def texts(self, name: str) -> tuple[str, ...]:
        """Return the texts of one kind of field."""
        return tuple(dict.fromkeys(each.value for each in self.fields if each.name == name and each.value))


def from_text(text: str) -> Proposal:
    """Return the plan that a text holds.

    Raises:
        UsageError: it holds none, or one that cannot be carried out; the message names the line.
    """
    head: list[_Field] = []
    drafts: list[_DraftStep] = []
    for each in _fields(text):
        if each.name == "step":
            drafts.append(_DraftStep(each, _number(each, drafts)))
        elif drafts and each.name in _OF_STEP:
            drafts[-1].fields.append(each)
        elif not drafts and each.name in _HEAD:
            head.append(each)
        else:
            known = _OF_STEP if drafts else _HEAD
            raise UsageError(f"line {each.line}: {each.name!r} is not allowed here; use one of {', '.join(known)} and step")
    used = {draft.number for draft in drafts}
    steps = tuple(_step(draft, used) for draft in drafts)
    return _checked(head, drafts, steps)


def _checked(head: list[_Field], drafts: list[_DraftStep], steps: tuple[PlanStep, ...]) -> Proposal:
    title, goal = (" ".join(each.value for each in head if each.name == name) for name in ("title", "goal"))
    proposal = Proposal(title, steps, goal, tuple(dict.fromkeys(each.value for each in head if each.name == "risk")))
    problem = find_problem(proposal)
    if problem:
        found = re.search(r"steps? (\d+)", problem)
        line = next((draft.begun.line for draft in drafts if found and draft.number == int(found[1])), 1)
        raise UsageError(f"line {line}: {problem}")
    return proposal


def _fields(text: str) -> Iterator[_Field]:
    current: _Field | None = None
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.rstrip("\r")
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if more := _MORE.fullmatch(line):
            if current is None:
                raise UsageError(f"line {number}: nothing before it could continue")
            current.lines.append(more[1])
            continue
        if current is not None:
            yield current
        found = _FIELD.fullmatch(line)
        if found is None:
            raise UsageError(f"line {number}: {line.strip()[:40]!r} begins with none of the names; a text continues with |")
        current = _Field(number, found[1].lower(), found[2], [found[3]])
    if current is not None:
        yield current


def _number(begun: _Field, drafts: list[_DraftStep]) -> int:
    known = {draft.number for draft in drafts}
    number = int(begun.number) if begun.number and len(begun.number) < 6 else max(known, default=0) + 1
    if number in known:
        raise UsageError(f"line {begun.line}: there is a step {number} already")
    return number


def _step(draft: _DraftStep, known: set[int]) -> PlanStep:
    risks = [each for each in draft.fields if each.name == "risk"]
    for each in risks:
        if each.value.lower() not in STEP_RISKS:
            raise UsageError(f"line {each.line}: a risk is one of {', '.join(STEP_RISKS)}")
    after: list[int] = []
    for each in draft.fields:
        if each.name == "after":
            after += _ids(each, known)
    return PlanStep(
        draft.number,
        draft.begun.value,
        depends_on=tuple(dict.fromkeys(after)),
        verification="\n".join(draft.texts("check")),
        risk=risks[-1].value.lower() if risks else STEP_RISKS[0],
        files=draft.texts("file"),
        commands=draft.texts("run"),
    )


def _ids(given: _Field, known: set[int]) -> list[int]:
    words = [word for word in re.split(r"[,\s]+", given.value) if word]
    for word in words:
        if not word.isdecimal() or len(word) > 5 or int(word) not in known:
            raise UsageError(f"line {given.line}: after names {word[:20]!r}, which is not a step")
    return [int(word) for word in words]
