"""A plan that the model proposes and a person decides about: its value, what makes one valid, and what becomes of its steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lmtui.core.errors import ToolError
from lmtui.core.ordering import cycle_of, named, needs
from lmtui.core.plan import PlanStep

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
        return f"the step ids {named(twice)} stand there more than once"
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
        return f"depends on {named(unknown)}, which is no step"
    if step.risk not in STEP_RISKS:
        return f"has the risk {step.risk[:20]!r}; it is one of {', '.join(STEP_RISKS)}"
    if max(len(step.files), len(step.commands)) > MAX_NAMED:
        return f"names more than {MAX_NAMED} files or commands"
    texts = (step.text, step.verification, *step.files, *step.commands)
    return f"holds a text of more than {MAX_TEXT_CHARS} characters" if any(len(t) > MAX_TEXT_CHARS for t in texts) else ""
