"""A plan in the words of a model: a call's arguments, or a JSON object in its answer.  What is safe is mended.

Mended: fences, words around the object, trailing commas, steps as JSON text or as plain sentences, other names for a field, ids
of any kind.  Never mended: a dependency on a step that is not there, or a text that is cut.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping

from lmtui.core.errors import ToolError
from lmtui.core.loose_json import objects_in, read_loose_json
from lmtui.core.plan import PlanStep
from lmtui.core.proposals import Proposal, check_proposal

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
    steps = _steps(_first(given, _STEPS))
    if not steps:
        raise ToolError("the plan has no steps.", f"Give it as {FORM}")
    title = _line(_first(given, _TITLE)) or _line(_first(given, _GOAL)) or steps[0].text
    goal = _words(_first(given, _GOAL))
    try:
        return check_proposal(Proposal(title[:200], steps, "" if goal == title else goal, _texts(_first(given, _RISKS))))
    except ToolError as error:
        raise ToolError(f"{error}.", f"Give it as {FORM}") from error


def find_proposal(text: str) -> Proposal | None:
    """Return the plan that stands as a JSON object in an answer, None where there is none.

    Raises:
        ToolError: one is meant, but cannot be read or carried out.
    """
    if "{" not in text or not re.search(r"""["']?(?:steps|plan_steps)["']?\s*:""", text):
        return None
    found = (each for each in objects_in(text, "steps") if isinstance(each, dict) and _has_steps(each))
    value = next(found, None)
    if value is None:
        raise ToolError("the plan in your answer is no whole JSON object.", f"Give it as {FORM}")
    return read_proposal(value)


def _has_steps(value: Mapping[str, object]) -> bool:
    return _first(_unwrapped(value), _STEPS) is not None


def _unwrapped(given: Mapping[str, object]) -> Mapping[str, object]:
    """Return the object that holds the steps: this one, or one inside it."""
    for _ in range(4):
        if _first(given, _STEPS) is not None:
            break
        inner = _first(given, _WRAPPERS)
        if isinstance(inner, str):
            try:
                inner = read_loose_json(inner)
            except ValueError:
                break
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
    return tuple(_step(each, number, numbers) for number, each in zip(numbers.own, raw, strict=True))


def _listed(text: str) -> object:
    """Return the steps of a text: JSON, or a line each."""
    try:
        return read_loose_json(text) if text.lstrip()[:1] in ("[", "{", "`") else _lines(text)
    except ValueError as error:
        raise ToolError("the steps are no whole JSON list.", f"Give the plan as {FORM}") from error


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
            raise ToolError(f"a step depends on {str(given)[:40]!r}, which is no step.", f"Give the plan as {FORM}")
        return self.by_id[key]


def _numbers(raw: list[object]) -> _Numbers:
    """Number the steps as their ids say, where all are numbers of their own, else in their order.

    Raises:
        ToolError: an id stands there twice.
    """
    ids = [_first(each, ("id", "step_id", "number", "nr")) if isinstance(each, Mapping) else None for each in raw]
    keys = [_key(each) for each in ids if each is not None]
    twice = sorted({key for key in keys if keys.count(key) > 1})
    if twice:
        raise ToolError(f"the step ids {', '.join(twice)[:100]} stand there more than once.", f"Give the plan as {FORM}")
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


def _step(given: object, number: int, numbers: _Numbers) -> PlanStep:
    if not isinstance(given, Mapping):
        return PlanStep(number, _LIST_MARK.sub("", _words(given)))
    after = _first(given, _AFTER)
    wanted = after if isinstance(after, list) else [] if after in (None, "") else re.split(r"[,\s]+", str(after).strip())
    return PlanStep(
        number,
        _NUMBER.sub("", _words(_first(given, _TEXT))),
        depends_on=tuple(dict.fromkeys(numbers.of(each) for each in wanted)),
        verification=_words(_first(given, _CHECK)),
        risk=_level(_first(given, ("risk", "risk_level"))),
        files=_texts(_first(given, _FILES)),
        commands=_texts(_first(given, _COMMANDS)),
    )


def _level(given: object) -> str:
    return _LEVELS.get(str(given or "low").strip().lower()[:1], "medium")


def _first(given: Mapping[str, object], names: Iterable[str]) -> object:
    lowered = {str(key).lower(): value for key, value in given.items()}
    return next((lowered[name] for name in names if lowered.get(name) not in (None, "")), None)


def _texts(given: object) -> tuple[str, ...]:
    if given is None or given == "":
        return ()
    each = given if isinstance(given, list) else [given]
    return tuple(dict.fromkeys(text for one in each if (text := _words(one))))


def _words(given: object) -> str:
    """Return a value as text that any editor and any log can hold."""
    if given is None:
        return ""
    text = json.dumps(given, ensure_ascii=False, default=str) if isinstance(given, Mapping | list) else str(given)
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text.replace("\r\n", "\n").replace("\r", "\n").strip()


def _line(given: object) -> str:
    return " ".join(_words(given).split())
