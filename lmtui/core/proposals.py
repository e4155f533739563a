"""A plan that the model proposes and a person decides about: its value, what makes one valid, and what becomes of its steps."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lmtui.core.errors import ToolError
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
_NUMBER = re.compile(r"\A(?:\s*(?:step\s*)?\d+\s*[.):](?!\d)\s*)+", re.IGNORECASE)
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
    found = (each for each in objects_in(text, "steps") if isinstance(each, dict))
    value = next((each for each in found if first_of(_unwrapped(each), _STEPS) is not None), None)
    if value is None:
        raise ToolError("the plan in your answer is not a complete JSON object.", f"Give it as {FORM}")
    return read_proposal(value)


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
    """Return the steps of a list, an object or a text: JSON, or a line each.

    They are numbered as their ids say, where all are numbers that differ, else in their order.

    Raises:
        ToolError: an id is there twice, the JSON is not complete, or a step depends on what is not one.
    """
    if isinstance(given, str):
        try:
            given = read_loose_json(given) if given.lstrip()[:1] in ("[", "{", "`") else given.splitlines()
        except ValueError as error:
            raise ToolError("the steps are not a complete JSON list.", f"Give the plan as {FORM}") from error
    if isinstance(given, Mapping):
        given = list(given.values()) if all(isinstance(each, Mapping | str) for each in given.values()) else [given]
    if not isinstance(given, list):
        return ()
    raw = [each for each in given if each not in (None, {}) and (not isinstance(each, str) or each.strip())]
    ids = [first_of(each, ("id", "step_id", "number", "nr")) if isinstance(each, Mapping) else None for each in raw]
    keys = [_key(each) for each in ids if each is not None]
    twice = sorted({key for key in keys if keys.count(key) > 1})
    if twice:
        raise ToolError(f"the step ids {', '.join(twice)[:100]} occur more than once.", f"Give the plan as {FORM}")
    are_numbers = len(keys) == len(raw) and all(key.isdecimal() and len(key) < 5 and int(key) > 0 for key in keys)
    own = list(map(int, keys)) if are_numbers else list(range(1, len(raw) + 1))
    numbers = {str(number): number for number in own}
    numbers |= {_key(given): number for given, number in zip(ids, own, strict=True) if given is not None}
    return tuple(_read_step(each, number, numbers) for number, each in zip(own, raw, strict=True))


def _key(given: object) -> str:
    """Return an id in its one form: `Step 2`, `step_2` and 2 are the same."""
    text = str(int(given)) if isinstance(given, float) and given.is_integer() else str(given).strip().lower()
    found = re.fullmatch(r"(?:step|s|task|t)?[\s_#-]*(\d{1,9})", text, re.ASCII)
    return str(int(found[1])) if found else text


def _read_step(given: object, number: int, numbers: Mapping[str, int]) -> PlanStep:
    if not isinstance(given, Mapping):
        return PlanStep(number, _LIST_MARK.sub("", text_of(given)))
    after = first_of(given, _AFTER)
    wanted = after if isinstance(after, list) else [] if after in (None, "") else re.split(r"[,\s]+", str(after).strip())
    if unknown := [each for each in wanted if _key(each) not in numbers]:
        raise ToolError(f"a step depends on {str(unknown[0])[:40]!r}, which is not a step.", f"Give the plan as {FORM}")
    return PlanStep(
        number,
        _NUMBER.sub("", text_of(first_of(given, _TEXT))),
        depends_on=tuple(dict.fromkeys(numbers[_key(each)] for each in wanted)),
        verification=text_of(first_of(given, _CHECK)),
        risk=_LEVELS.get(str(first_of(given, ("risk", "risk_level")) or "low").strip().lower()[:1], "medium"),
        files=texts_of(first_of(given, _FILES)),
        commands=texts_of(first_of(given, _COMMANDS)),
    )
