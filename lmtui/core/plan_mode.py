"""Plan mode as a value: which plan is open, where the mode goes back to, what the model does not know yet.

Pure.  Events change it (`after`), live and on replay alike; the functions below make the events of a transition.  Nothing that
a model does makes an event that ends the mode: `propose` is all it can.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Protocol

from lmtui.core.agent_events import PlanDecided, PlanOutcome, PlanProposed
from lmtui.core.errors import ToolError
from lmtui.core.events import Event, ModeChanged, PlanChanged, Rewound, TurnStarted
from lmtui.core.look_alikes import plan_warning
from lmtui.core.model_events import Compacted, Reminder
from lmtui.core.permissions.decide import decide
from lmtui.core.permissions.path_patterns import is_secret_path
from lmtui.core.permissions.rules import THIS_SESSION, Access, Effect, Mode, Rule, Verdict, exact_rule, parse_rule
from lmtui.core.permissions.shell_grammar import SimpleCommand, objection, parse
from lmtui.core.permissions.shell_review import NEVER_BROAD, is_interpreter, layers, reason_of, risks_of
from lmtui.core.permissions.suggested_rules import suggested_rules
from lmtui.core.plan import Plan, PlanStep, adopt_steps
from lmtui.core.proposals import STEP_RISKS, Proposal, check_proposal
from lmtui.core.remote_marks import open_to_network
from lmtui.core.sanitize import escape_invisible, escape_invisible_line, pluralize, sanitize_line

_PROTECTED = frozenset({".git", ".lmagent"})
_FOR_GOOD = frozenset(
    {"rm", "rmdir", "unlink", "shred", "dd", "truncate", "mkfs", "chmod", "chown", "kill", "pkill", "killall", "reboot"}
)
_OUTSIDE = frozenset({"curl", "wget", "ssh", "scp", "rsync", "nc", "ftp"})
_GIT_FOR_GOOD = frozenset({"push", "reset", "clean", "rebase", "filter-branch", "gc", "remote", "config"})


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Something that a plan names and that is not granted with it, and why."""

    name: str
    why: str


@dataclass(frozen=True, slots=True)
class Grants:
    """The rules that a plan would bring, and what of it is left out."""

    rules: tuple[str, ...] = ()
    left_out: tuple[LeftOut, ...] = ()


def grants_of(proposal: Proposal, rules: tuple[Rule, ...]) -> Grants:
    """Return what may be granted with a plan, next to the rules in force."""
    found: list[str] = []
    left_out: list[LeftOut] = []
    for path in proposal.files:
        why = _against_path(path, rules)
        left_out += [LeftOut(path, why)] if why else []
        found += [] if why else [str(exact_rule(tool, _normal(path), THIS_SESSION)) for tool in ("write", "edit")]
    for command in proposal.commands:
        why = _against_command(command, rules)
        left_out += [LeftOut(command, why)] if why else []
        found += [] if why else [suggested_rules("shell", Access.EXECUTE, (command,))[0]]
    return Grants(tuple(rule for rule in dict.fromkeys(found) if not _is_there(rule, rules)), tuple(left_out))


def _is_there(text: str, rules: tuple[Rule, ...]) -> bool:
    rule = parse_rule(text, Effect.ALLOW, THIS_SESSION)
    return any((each.effect, each.tool, each.pattern) == (rule.effect, rule.tool, rule.pattern) for each in rules)


def _normal(path: str) -> str:
    return posixpath.normpath(path.removeprefix("/workspace/"))


def _against_path(path: str, rules: tuple[Rule, ...]) -> str:
    """Return why a file is not granted, empty where it may be."""
    normal = _normal(path)
    if escape_invisible(path) != path or "\n" in path:
        return "it holds characters that cannot be seen"
    if normal.startswith(("/", "..", "~")) or normal == ".":
        return "it is not inside the folder"
    if path.endswith("/") or re.search(r"[*?\[]", path):
        return "it names more than one file"
    if _PROTECTED & set(normal.lower().split("/")):
        return "it is protected"
    if is_secret_path(normal):
        return "it may hold secrets"
    decisions = [decide(tool, Access.WRITE, normal, Mode.AUTO, rules) for tool in ("write", "edit")]
    return next((each.why for each in decisions if each.verdict is not Verdict.ALLOW), "")


def _against_command(command: str, rules: tuple[Rule, ...]) -> str:
    """Return why a command is not granted, empty where it may be."""
    problem = objection(command) or ("it is more than one line" if "\n" in command else "")
    parsed = parse(command)
    if problem or parsed.problem or not parsed.commands:
        return problem or parsed.problem or "it is not understood"
    for part in parsed.commands:
        if why := _danger(part):
            return why
    decision = decide("shell", Access.EXECUTE, command, Mode.AUTO, rules)
    return "" if decision.verdict is Verdict.ALLOW else decision.why


def _danger(part: SimpleCommand) -> str:
    found = layers(part)
    for each in found:
        name = each.program.rpartition("/")[2]
        if name in NEVER_BROAD:
            return f"{name} may run anything"
        if name in _FOR_GOOD:
            return f"{name} deletes or changes things for good"
        if name in _OUTSIDE:
            return f"{name} reaches other machines"
    inner = found[-1]
    words = inner.words
    if inner.program == "git" and _GIT_FOR_GOOD & set(words[1:]):
        return "it changes the repository for good"
    if is_interpreter(inner.program):
        is_module = len(words) > 2 and words[1] == "-m" and re.fullmatch(r"[A-Za-z_][\w.]*", words[2]) is not None
        is_file = len(words) > 1 and not words[1].startswith("-")
        return "" if is_module or is_file else f"{inner.program} runs code that no file holds"
    risks = risks_of(inner)
    return reason_of(inner, risks[0]) if risks else ""


class PlanApprovals(Protocol):
    """The plans of a session.  An answer to one that is not open any more is ignored.

    All answers raise `ToolError` where they cannot be: nothing is said, or an edited plan cannot be carried out.
    """

    @property
    @open_to_network
    def open(self) -> PlanProposed | None:
        """Return the plan that waits for an answer."""

    @open_to_network
    def grants(self, proposal: Proposal) -> Grants:
        """Return what a plan's own files and commands would be allowed with it."""

    @open_to_network
    def approve(
        self, proposal_id: str, edited: Proposal | None = None, *, rules: tuple[str, ...] = (), by: str = "user"
    ) -> None:
        """Approve the open plan, as it is or as it was edited, and have it carried out.

        Of `rules` those hold for this session that `grants` names for it.  `by` is user, or flag.
        """

    @open_to_network
    def revise(self, proposal_id: str, words: str) -> None:
        """Say what should be different; the model proposes again."""

    @open_to_network
    def reject(self, proposal_id: str, words: str = "") -> None:
        """Drop the open plan; plan mode stays as it is."""


TOPIC = "plan"


@dataclass(frozen=True, slots=True)
class PlanMode:
    """Where planning is.

    `before` is the mode to go back to, `asked` the proposal that waits for an answer, `count` how many there were.  `is_told`:
    the model knows that plan mode is on.  `decided` is an answer with its proposal that the model has not heard of, `later`
    are the turns since the proposal.
    """

    mode: Mode = Mode.NORMAL
    before: Mode = Mode.NORMAL
    asked: PlanProposed | None = None
    count: int = 0
    is_told: bool = False
    decided: PlanDecided | None = None
    proposal: Proposal | None = None
    later: tuple[str, ...] = ()

    @classmethod
    def starting(cls, mode: Mode) -> PlanMode:
        """Return the state of a session that begins in a mode."""
        return cls(mode, Mode.NORMAL if mode is Mode.PLAN else mode)

    def restarted(self, mode: Mode) -> PlanMode:
        """Return the state of a session whose log is somebody else's: its plan may be looked at, its modes do not hold."""
        return replace(PlanMode.starting(mode), asked=self.asked, proposal=self.proposal, count=self.count)

    @property
    def is_on(self) -> bool:
        """Tell whether plan mode holds."""
        return self.mode is Mode.PLAN


def after(state: PlanMode, event: Event) -> PlanMode:
    """Return the state once an event has happened."""
    match event:
        case ModeChanged(mode=mode) if mode in tuple(Mode):
            return replace(state, mode=Mode(mode), before=state.before if mode == Mode.PLAN else Mode(mode))
        case PlanProposed():
            return replace(state, asked=event, count=state.count + 1, decided=None, proposal=event.proposal, later=())
        case PlanDecided() if state.asked is not None and event.proposal_id == state.asked.proposal_id:
            decided = None if event.outcome is PlanOutcome.REPLACED else event
            return replace(state, asked=None, decided=decided, proposal=event.edited or state.proposal)
        case TurnStarted(turn_id=turn_id) if state.asked is not None:
            return replace(state, later=(*state.later, turn_id))
        case Rewound(turn_id=turn_id):
            asked = state.asked if turn_id in state.later else None
            return replace(state, asked=asked, is_told=False, decided=None)
        case Reminder(topic="plan"):
            return replace(state, is_told=state.is_on, decided=None)
        case Compacted(kept_from=kept_from) if kept_from:
            return replace(state, is_told=False)
        case _:
            return state


def propose(state: PlanMode, proposal: Proposal, *, turn_id: str) -> list[Event]:
    """Return the events of a proposal by the model; one that is open already is replaced.

    Raises:
        ToolError: it is not plan mode, or the plan cannot be carried out.
    """
    if not state.is_on:
        raise ToolError("plan mode is off, so no plan is asked for: do the task")
    check_proposal(proposal)
    events: list[Event] = []
    if state.asked is not None:
        events.append(PlanDecided(proposal_id=state.asked.proposal_id, outcome=PlanOutcome.REPLACED, by="model"))
    return [*events, PlanProposed(proposal_id=f"plan_{state.count + 1}", proposal=proposal, turn_id=turn_id)]


def approve(
    state: PlanMode, plan: Plan, *, edited: Proposal | None = None, rules: tuple[str, ...] = (), by: str = "user"
) -> list[Event]:
    """Return the events of a yes; the decision is the last, so that a crash before it leaves the question open.

    Raises:
        ToolError: no plan is open, or the edited one cannot be carried out.
    """
    asked = _open(state)
    chosen = check_proposal(edited or asked.proposal)
    events: list[Event] = [PlanChanged(plan=adopt_steps(plan, chosen.steps))]
    if state.is_on:
        events.append(ModeChanged(mode=str(state.before)))
    changed = edited if edited is not None and edited != asked.proposal else None
    events.append(PlanDecided(proposal_id=asked.proposal_id, outcome=PlanOutcome.APPROVED, by=by, edited=changed, rules=rules))
    return events


def revise(state: PlanMode, words: str) -> list[Event]:
    """Return the events of “change it”; plan mode continues, or holds again.

    Raises:
        ToolError: no plan is open, or nothing is said about it.
    """
    asked = _open(state)
    if not words.strip():
        raise ToolError("say what should be different")
    decided = PlanDecided(proposal_id=asked.proposal_id, outcome=PlanOutcome.REVISED, feedback=words.strip())
    return [decided] if state.is_on else [decided, ModeChanged(mode=str(Mode.PLAN))]


def reject(state: PlanMode, words: str = "") -> list[Event]:
    """Return the events of a no; the mode stays as it is.

    Raises:
        ToolError: no plan is open.
    """
    asked = _open(state)
    return [PlanDecided(proposal_id=asked.proposal_id, outcome=PlanOutcome.REJECTED, feedback=words.strip())]


def _open(state: PlanMode) -> PlanProposed:
    if state.asked is None:
        raise ToolError("no plan waits for an answer")
    return state.asked


_OUTCOMES = {
    PlanOutcome.APPROVED: "the plan was approved",
    PlanOutcome.REVISED: "the plan is to be changed",
    PlanOutcome.REJECTED: "the plan was rejected",
    PlanOutcome.REPLACED: "the model proposes another plan",
}


def plan_event_words(event: Event) -> str:
    """Return what happened to a plan in a line, empty for any other event."""
    match event:
        case PlanProposed(proposal=proposal):
            return f"a plan was proposed: {sanitize_line(proposal.title)}, {pluralize(len(proposal.steps), 'step')}"
        case PlanDecided():
            return _decided(event)
        case Reminder(topic=topic, text=text) if topic == TOPIC:
            return sanitize_line(text).lstrip("[").partition(":")[0].partition(",")[0].replace("Plan mode is", "Plan mode")
        case _:
            return ""


def _decided(event: PlanDecided) -> str:
    text = _OUTCOMES[event.outcome]
    if event.by == "flag":
        text += " by --approve"
    if event.edited is not None:
        text += " as you changed it"
    if event.rules:
        text += f"; allowed in this session: {pluralize(len(event.rules), 'rule')}"
    if event.feedback and event.outcome is PlanOutcome.REJECTED:
        text += f": {sanitize_line(event.feedback)}"
    return text


def proposal_lines(proposal: Proposal) -> Iterator[str]:
    """Yield a plan line by line, with hidden characters named: everything in it is a model's words."""
    yield f"plan: {escape_invisible_line(proposal.title)}"
    if proposal.goal:
        yield f"goal: {escape_invisible_line(proposal.goal)}"
    for step in proposal.steps:
        yield from step_lines(step)
    for risk in proposal.risks:
        yield f"watch out: {escape_invisible_line(risk)}"
    if found := plan_warning(proposal):
        yield found


def step_lines(step: PlanStep) -> Iterator[str]:
    """Yield a step, what it names and how it is checked."""
    more = [f"risk {step.risk}"] if step.risk != STEP_RISKS[0] else []
    more += [f"after {', '.join(map(str, step.depends_on))}"] if step.depends_on else []
    yield f"{step.id}. {escape_invisible_line(step.text)}" + (f" ({', '.join(more)})" if more else "")
    if step.files:
        yield f"   files: {', '.join(map(escape_invisible_line, step.files))}"
    yield from (f"   runs: {escape_invisible_line(command)}" for command in step.commands)
    if step.verification:
        yield f"   check: {escape_invisible_line(step.verification)}"


def grant_lines(grants: Grants) -> Iterator[str]:
    """Yield what a plan would be allowed, and what of it would not."""
    yield from (f"allow {escape_invisible_line(rule)}" for rule in grants.rules)
    yield from (f"not allowed: {escape_invisible_line(each.name)} ({each.why})" for each in grants.left_out)
