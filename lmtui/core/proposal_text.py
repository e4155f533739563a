"""A plan as text that a person reads and changes in an editor, and back, with nothing lost on the way."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from lmtui.core.errors import UsageError
from lmtui.core.plan import PlanStep
from lmtui.core.proposals import STEP_RISKS, Proposal, find_problem

HELP = """\
# The plan. Change, add, move or delete what you like; empty lines and lines that begin with # do not count.
# A step begins with "step" and its number; below it stand, each as often as needed:
#   file: a path    run: a command    check: how it is verified    risk: low, medium or high    after: 1, 2
# A text that goes on begins the next line with |
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
class _Draft:
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
    drafts: list[_Draft] = []
    for each in _fields(text):
        if each.name == "step":
            drafts.append(_Draft(each, _number(each, drafts)))
        elif drafts and each.name in _OF_STEP:
            drafts[-1].fields.append(each)
        elif not drafts and each.name in _HEAD:
            head.append(each)
        else:
            known = _OF_STEP if drafts else _HEAD
            raise UsageError(f"line {each.line}: {each.name!r} cannot stand here; there are {', '.join(known)} and step")
    used = {draft.number for draft in drafts}
    steps = tuple(_step(draft, used) for draft in drafts)
    return _checked(head, drafts, steps)


def _checked(head: list[_Field], drafts: list[_Draft], steps: tuple[PlanStep, ...]) -> Proposal:
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
                raise UsageError(f"line {number}: nothing stands before it that could go on")
            current.lines.append(more[1])
            continue
        if current is not None:
            yield current
        found = _FIELD.fullmatch(line)
        if found is None:
            raise UsageError(f"line {number}: {line.strip()[:40]!r} begins with none of the names; a text goes on with |")
        current = _Field(number, found[1].lower(), found[2], [found[3]])
    if current is not None:
        yield current


def _number(begun: _Field, drafts: list[_Draft]) -> int:
    known = {draft.number for draft in drafts}
    number = int(begun.number) if begun.number and len(begun.number) < 6 else max(known, default=0) + 1
    if number in known:
        raise UsageError(f"line {begun.line}: there is a step {number} already")
    return number


def _step(draft: _Draft, known: set[int]) -> PlanStep:
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
            raise UsageError(f"line {given.line}: after names {word[:20]!r}, which is no step")
    return [int(word) for word in words]
