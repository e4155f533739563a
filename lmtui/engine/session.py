"""A session: an inbox, one task that runs the turns, and state that only events change.  Replay goes through the same code."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from lmtui.core import events
from lmtui.core.agent_events import AgentStarted
from lmtui.core.budgets import BudgetSet, SessionBudget
from lmtui.core.errors import SessionFileError
from lmtui.core.messages import Image, Message, Role, ToolCallFormat
from lmtui.core.model_events import BroughtBack, CallFormChanged, Compacted, Pinned
from lmtui.core.offers import Offers
from lmtui.core.permissions.rules import Mode, Rule
from lmtui.core.plan_mode import PlanMode
from lmtui.core.ports import (
    Checkpoints,
    Images,
    Limits,
    Policy,
    Provider,
    Sandbox,
    SessionLog,
    Toolbox,
)
from lmtui.core.programs import Interpreter
from lmtui.core.sanitize import Redactor, pluralize
from lmtui.core.servers import BY_HAND, LEARNED
from lmtui.core.sessions import BETWEEN_TURNS, AgentRunner, Answer, CallsInUse, Subscriber
from lmtui.core.verification import GoalChanged, GoalState
from lmtui.core.window import WindowItem, WindowPart
from lmtui.core.workspace import BackgroundCommands, Changes
from lmtui.engine.agent import Agent, AgentServices, AgentState, Journal, ModelAccess, ModelInUse, TurnPoints
from lmtui.engine.approvals import Approvals
from lmtui.engine.call_permissions import mask_files
from lmtui.engine.context import RECALLED, Conversation, ModelSettings
from lmtui.engine.context_budget import CALL_TOKENS
from lmtui.engine.entries import Entry
from lmtui.engine.file_changes import SessionChanges
from lmtui.engine.inbox import Inbox, UserInput, left_waiting
from lmtui.engine.planning import SessionPlans
from lmtui.engine.review import RoleRequests
from lmtui.engine.spending import Spending
from lmtui.engine.stop_policy import SessionSleep
from lmtui.engine.subagent_runs import SubAgents, Team, TeamParts
from lmtui.engine.trial import SessionWorkspace
from lmtui.engine.turn_outcome import ends_for_open_work, offered_again
from lmtui.engine.turn_runner import Background, OutsideCalls, TurnRunner

_SET_BY_USER = "you set it"


class SessionGoals:
    """Implements `core.verification.Goals` for a session.

    Args:
        agent: the root agent.
        emit: takes the events by which goals change; must not raise.
    """

    def __init__(self, agent: Agent, emit: Callable[[events.Event], None]) -> None:
        self._agent, self._emit = agent, emit

    def listed(self) -> Sequence[tuple[str, GoalState]]:
        return self._agent.state.verification.goals

    def set(self, command: str) -> None:
        self._emit(GoalChanged(command=command))

    def pause(self) -> None:
        if goal := self._agent.state.verification.goal:
            self._emit(GoalChanged(command=goal, state=GoalState.PAUSED))

    def resume(self) -> None:
        paused = [command for command, state in self.listed() if state is GoalState.PAUSED]
        if paused:
            self._emit(GoalChanged(command=paused[0]))

    def clear(self) -> None:
        self._emit(GoalChanged(command=""))


_SYSTEM, _TOOLS, _YOU = "system prompt", "tools", "your messages"
_PICTURES, _ANSWERS, _CALLS = "pictures", "answers", "tool calls"
_SUMMARY, _BROUGHT, _MEMORY = "summary of the beginning", "instructions", "notes from memory"
_TITLE_CHARS = 80


class RequestParts:
    """Implements `core.window.WindowUse` over what the next request of an agent would be made of.

    Args:
        agent: the agent.
        emit: takes the events by which something is folded, left out, brought back or pinned; must not raise.
    """

    def __init__(self, agent: Agent, emit: Callable[[events.Event], None]) -> None:
        self._agent = agent
        self._emit = emit

    def parts(self) -> Sequence[WindowPart]:
        agent = self._agent
        talk, budget = agent.conversation, agent.model.window.budget
        found: dict[str, list[WindowItem]] = {
            name: [] for name in (_SYSTEM, _BROUGHT, _TOOLS, _YOU, _MEMORY, _PICTURES, _ANSWERS, _CALLS, _SUMMARY)
        }
        found[_TOOLS] = [WindowItem("", tool.name, budget.scaled(budget.tools_size([tool]))) for tool in agent.specs()]
        kept_from, pinned = talk.folding.kept_from, talk.folding.pinned
        begun = [entry for entry in talk.entries.with_parts(pinned, kept_from) if entry.part in pinned]
        by_id = {id(talk.folding.shown(entry)): entry for entry in (*begun, *talk.entries[kept_from:])}
        sources = ", ".join(source.name for source in talk.prompt.written.sources)
        behind = budget.scaled(budget.raw(talk.messages, ()))
        for message in talk.messages:
            tokens = budget.scaled(budget.size(message))
            entry = by_id.get(id(message))
            item = self._item(entry, message, tokens, behind)
            behind -= tokens
            for name, size in self._divided(entry, message, tokens):
                title = sources if name == _BROUGHT else item.title
                found.setdefault(name, []).append(replace(item, tokens=size, title=title))
        sums = ((name, tuple(items), sum(item.tokens for item in items)) for name, items in found.items())
        return [WindowPart(name, tokens, len(items), items) for name, items, tokens in sums if tokens]

    def read_s(self, tokens: int) -> float:
        return self._agent.model.window.budget.read_s(tokens)

    def fold(self, item_id: str) -> None:
        self._shorten(item_id, is_folded=True)

    def leave_out(self, item_id: str) -> None:
        self._shorten(item_id, is_folded=False)

    def bring_back(self, item_id: str) -> None:
        if self._entry(item_id) is not None:
            self._emit(BroughtBack(agent=self._agent.id, parts=(item_id,)))

    def pin(self, item_id: str, *, is_pinned: bool = True) -> None:
        if (entry := self._entry(item_id)) is not None:
            calls = [call.id for call in entry.message.tool_calls]  # of an answer those, with their results
            for part in calls or [item_id]:
                self._emit(Pinned(agent=self._agent.id, part=part, is_pinned=is_pinned))

    def _shorten(self, item_id: str, *, is_folded: bool) -> None:
        agent, entry = self._agent, self._entry(item_id)
        if entry is None:
            return
        budget, folding = agent.model.window.budget, agent.conversation.folding
        before = budget.scaled(budget.raw(agent.conversation.messages, agent.specs()))
        shorter = budget.size(folding.shortened(entry, is_folded=is_folded))
        gain = budget.scaled(budget.size(folding.shown(entry)) - shorter)
        parts = (item_id,)
        self._emit(
            Compacted(
                agent=agent.id,
                why="you folded it" if is_folded else "you left it out",
                tokens_before=before,
                tokens_after=before - gain,
                elided=() if is_folded else parts,
                folded=parts if is_folded else (),
            )
        )

    def _entry(self, item_id: str) -> Entry | None:
        return self._agent.conversation.entries.find(item_id)

    def _item(self, entry: Entry | None, message: Message, tokens: int, behind: int) -> WindowItem:
        if entry is None or not entry.part:
            return WindowItem("", _first_line(message), tokens, behind)
        folding = self._agent.conversation.folding
        state = "left out" if entry.part in folding.elided else "folded" if entry.part in folding.folded else ""
        title = entry.subject or entry.tool or _first_line(message)
        is_pinned = any(part in folding.pinned for part in (entry.part, *(call.id for call in message.tool_calls)))
        return WindowItem(entry.part, title, tokens, behind, state, is_pinned)

    def _divided(self, entry: Entry | None, message: Message, tokens: int) -> list[tuple[str, int]]:
        """Return the parts that a message belongs to, with how much of it."""
        budget = self._agent.model.window.budget
        match message.role:
            case Role.SYSTEM:
                text = self._agent.conversation.prompt.written.text
                brought = min(tokens, budget.scaled(budget.size(Message(Role.SYSTEM, text)))) if text else 0
                return [(_SYSTEM, tokens - brought), *([(_BROUGHT, brought)] if brought else [])]
            case Role.TOOL:
                return [(f"results of {entry.tool if entry and entry.tool else 'tools'}", tokens)]
            case Role.USER:
                pictures = budget.scaled(budget.image_tokens * len(message.images))
                if entry is not None and entry.part.startswith(RECALLED):
                    return [(_MEMORY, tokens)]
                name = _YOU if entry is not None or not self._agent.conversation.folding.summary else _SUMMARY
                return [(name, tokens - pictures), *([(_PICTURES, pictures)] if pictures else [])]
            case Role.ASSISTANT:
                size = budget.size(Message(Role.ASSISTANT, "", tool_calls=message.tool_calls)) if message.tool_calls else 0
                calls = budget.scaled(max(0, size - CALL_TOKENS // 2))
                return [(_ANSWERS, tokens - calls), *([(_CALLS, calls)] if calls else [])]


def _first_line(message: Message) -> str:
    """Return the beginning of what was said, or the names of the tools that were called."""
    text = " ".join(message.text[: 4 * _TITLE_CHARS].split())[:_TITLE_CHARS]
    return text or ", ".join(call.name for call in message.tool_calls) or "…"


@dataclass(frozen=True, slots=True)
class SessionParts:
    """What a session is made of; the composition root chooses them.

    `main` is what is asked of the session's own model, `model` how the root agent reaches it.
    """

    id: str
    log: SessionLog
    provider: Provider
    toolbox: Toolbox
    sandbox: Sandbox
    policy: Policy
    limits: Limits
    now: Callable[[], datetime]
    monotonic: Callable[[], float]
    main: ModelSettings = field(default_factory=ModelSettings)
    model: ModelAccess = field(default_factory=ModelAccess)
    checkpoints: Checkpoints | None = None
    images: Images | None = None
    redactor: Redactor = field(default_factory=lambda: Redactor(()))
    team: TeamParts = field(default_factory=TeamParts)
    features: Offers = field(default_factory=Offers)
    points: TurnPoints = field(default_factory=TurnPoints)


class EngineSession:
    """One conversation with one agent; implements `core.sessions.Session`.

    Args:
        parts: what it works with.
        past: the events of the log it continues, empty for a fresh one; what a crash left open is ended.
        is_ours: this user's lmtui wrote the log; else what it grants (mode, approvals) does not hold, what it left in the
            inbox is nobody's task, and nothing that it tells of can be undone.

    What is in `before_close` is called while it can still write events, what is in `when_closed` once it has let go of its log.
    """

    def __init__(self, parts: SessionParts, past: Sequence[events.Envelope] = (), *, is_ours: bool = True) -> None:
        self._parts = parts
        self._journal = Journal(parts.id, parts.log, parts.now, self._take_up, parts.redactor)
        self._team = Team(parts.team)
        name = f"{parts.id}_{parts.now():%H%M%S}"
        emit = self._journal.emit_from_outside
        in_turn, rules = (lambda: self.is_running), (lambda: self.rules)
        self.trial = SessionWorkspace(parts.sandbox, parts.checkpoints, name, lambda: self.mode, in_turn, emit, rules)
        self._agent = self._make_agent()
        self._background = Background(self._agent, emit)
        self._runner = TurnRunner(self._agent, emit, self._after_turn, self._name_after, parts.id)
        self.id = parts.id
        self.waiting = self._runner
        self.window_use = RequestParts(self._agent, emit)
        self.goals = SessionGoals(self._agent, emit)
        self.sleep = SessionSleep(self._agent, self._runner.put)
        self.plans = SessionPlans(self._agent, emit, self.submit)
        self.role_requests = RoleRequests(self._agent)
        self.outside_calls = OutsideCalls(self._agent, lambda: f"turn_{self._runner.turns + 1}", parts.redactor)
        self._title = ""
        self.changes: Changes | None = None
        if (states := parts.checkpoints) is not None:
            foreign = 0 if is_ours else len(past)
            self.changes = SessionChanges(states, parts.sandbox, self.history, self._journal.emit, in_turn, foreign)
        self.before_close: list[Callable[[], Awaitable[None]]] = []
        self.when_closed: list[Callable[[], object]] = []
        self._journal.replay(past)
        waiting, lost = left_waiting(past) if is_ours else ((), ())
        for said in waiting:
            self._agent.inbox.put(said)
        self._agent.services.approvals.keep_only(parts.policy.rules if is_ours else None)
        if not is_ours:
            planning = self._agent.state.planning.restarted(parts.policy.mode)
            self._agent.state = replace(self._agent.state, mode=parts.policy.mode, planning=planning)
        self._agent.update_sandbox(name="", text="")  # it is not running yet, and may be another one this time
        ends = ends_for_open_work(past)
        for event in ends:
            self.emit(event)
        for text in (*lost, offered_again(past, ends)):
            if text:
                self.emit(events.Notice(level=events.Level.WARNING, text=text))
        if lost:
            self._runner.show_inbox()
        self.trial.resume()

    def _make_agent(self) -> Agent:
        parts = self._parts
        picture = parts.images.get if parts.images else lambda _: None
        services = AgentServices(
            provider=parts.provider,
            toolbox=parts.toolbox,
            workspace=self.trial,
            approvals=Approvals(self._journal.emit, parts.id[-6:], parts.monotonic, is_attended=parts.policy.is_attended),
            limits=parts.limits,
            emit=self._journal.emit,
            now=parts.now,
            monotonic=parts.monotonic,
            start_sandbox=lambda: self._background.start_sandbox(parts.sandbox, parts.checkpoints),
            spending=Spending(parts.monotonic),
            images=parts.images,
            features=parts.features,
            points=parts.points,
        )
        state = AgentState(
            mode=parts.policy.mode,
            rules=parts.policy.rules,
            planning=PlanMode.starting(parts.policy.mode),
            model=ModelInUse(settings=parts.main, main=parts.main),
        )
        agent = Agent(state, services, Conversation(events.ROOT, picture=picture), parts.model)
        agent.children = SubAgents(self._team, agent).run if self._team.can_send(0) else None
        mask_files(agent)
        return agent

    def _after_turn(self) -> None:
        self._journal.sync()
        if not self.is_closed:
            self._background.name_session(self.history)

    @property
    def followed(self) -> Sequence[str]:
        """Return the names of the skills that the agent follows, in the order in which they came into use."""
        return tuple(dict.fromkeys(each.name for each in self._agent.state.skills.in_use))

    def run_tool(self, tool: str, arguments: str, typed: str) -> None:
        """Have a tool run as the user's own, behind the running turn; the model is not told."""
        self._runner.put(UserInput(arguments, typed=typed, is_command=True, is_told=False, tool=tool))

    @property
    def is_closed(self) -> bool:
        """Tell whether nothing is taken up any more."""
        return self._runner.is_closed

    @property
    def is_running(self) -> bool:
        return self._runner.is_running

    @property
    def mode(self) -> Mode:
        return self._agent.state.mode

    @property
    def unattended(self) -> Sequence[str]:
        """Return the rules that would have allowed what was refused because nobody was there."""
        return tuple(self._agent.services.approvals.unattended)

    def history(self) -> Sequence[events.Envelope]:
        return self._journal.history

    def subscribe(self, subscriber: Subscriber, *kinds: type[events.Event]) -> Callable[[], None]:
        return self._journal.subscribe(subscriber, *kinds)

    def emit(self, event: events.Event) -> None:
        """Add an event that no turn makes (the runtime's: opened, mode, notices)."""
        self._journal.emit_from_outside(event)

    def prepare(self, *, is_eager: bool) -> None:
        """Learn what the model is; with `is_eager` start the sandbox too, else it starts with the first tool call."""
        self._background.learn_model(self._parts.provider)
        if is_eager:
            self._background.start_sandbox(self._parts.sandbox, self._parts.checkpoints)

    def submit(self, text: str, *, typed: str = "", images: Sequence[Image] = (), is_from_file: bool = False) -> None:
        self._runner.put(UserInput(text, typed, tuple(images), is_from_file=is_from_file))

    def steer(self, text: str, *, typed: str = "", images: Sequence[Image] = ()) -> None:
        self._runner.put(UserInput(text, typed, tuple(images), is_steering=self.is_running))

    def run_agents_in(self, runner: AgentRunner) -> None:
        self._runner.run_agent = self._team.run_agent = runner

    def interrupt(self) -> None:
        self._runner.interrupt()

    def answer(self, approval_id: str, answer: Answer) -> None:
        """Answer an open approval; an answer that cannot be written down is a no."""
        try:
            self._agent.services.approvals.answer(approval_id, answer)
        except SessionFileError as error:
            self._journal.show_problem(error)

    def set_mode(self, mode: Mode) -> None:
        """Change the permission mode from the next call on; a running turn cannot enter or leave try mode."""
        if mode is self.mode:
            return
        if self.is_running and Mode.TRY in (mode, self.mode):
            self.emit(events.Notice(level=events.Level.WARNING, text=BETWEEN_TURNS))
            return
        is_left = self.mode is Mode.TRY
        self.emit(events.ModeChanged(mode=str(mode)))
        if is_left and self.trial.waiting:
            files = pluralize(self.trial.waiting, "file")
            text = f"{files} not merged: /merge shows the changes made in try mode"
            self.emit(events.Notice(level=events.Level.INFO, text=text))

    def set_model(self, model: str) -> None:
        self.emit(events.ModelChanged(model=model, url=self._parts.provider.url))
        self._background.learn_model(self._parts.provider)

    def budget(self) -> tuple[SessionBudget, SessionBudget]:
        spending = self._agent.services.spending
        return spending.budget, spending.spent

    def set_budget(self, budget: SessionBudget) -> None:
        self.emit(BudgetSet(budget=budget))

    def call_form(self) -> CallsInUse:
        calling = self._agent.model.known.calling
        return CallsInUse(calling.form, calling.why, calling.is_by_hand)

    def use_call_form(self, form: ToolCallFormat | None) -> None:
        model = self._agent.model.known
        if form is not None:
            model.keep(call_form=form, source=BY_HAND, note=_SET_BY_USER)
            self.emit(CallFormChanged(form=str(form), why=_SET_BY_USER, is_by_hand=True))
            return
        model.keep(call_form=None, source=LEARNED, note="")
        change = model.calling.let_go(model.served)
        self.emit(CallFormChanged(form=str(change.form), why=change.why, lets_go=True))

    @property
    def rules(self) -> Sequence[Rule]:
        return self._agent.all_rules()

    def revoke(self, rule: Rule) -> None:
        rules = tuple(each for each in self._agent.state.rules if each != rule)
        self._agent.state = replace(self._agent.state, rules=rules)
        self.emit(events.RuleRevoked(rule=str(rule), effect=str(rule.effect)))

    def rename(self, title: str) -> None:
        self.emit(events.SessionRenamed(title=title.strip()[:120]))

    @property
    def background(self) -> BackgroundCommands:
        return self._parts.sandbox.background

    async def wait_idle(self) -> None:
        await self._runner.wait_idle()

    async def close(self) -> None:
        if self.is_closed:
            return
        self._runner.is_closed = True
        self._agent.inbox = Inbox()
        past = self.history() if self.is_running else ()
        left = offered_again(past, ends_for_open_work(past), is_closing=True)
        self.interrupt()
        await self.wait_idle()
        if left:
            self.emit(events.Notice(level=events.Level.WARNING, text=left))
        await self.trial.close()
        for each in self.before_close:
            await each()
        await self._background.close()
        if (interpreter := self._parts.features.get(Interpreter)) is not None:
            await interpreter.close()
        await self._parts.sandbox.background.close()
        self._parts.sandbox.mask(id(self._agent.services.approvals), None)
        await self._parts.provider.close()
        self._journal.close()
        while self.when_closed:
            _ = self.when_closed.pop()()

    def _name_after(self, words: str) -> None:
        if not self._title:
            self.rename(words)

    def _take_up(self, event: events.Event) -> None:
        """Let a durable event change the session's state; live and on replay alike."""
        self._agent.services.approvals.apply(event)
        self._agent.services.spending.apply(event)
        for agent in (self._agent, *self._team.agents.values()):
            agent.apply(event)
        match event:
            case events.TurnStarted():
                self._runner.turns += 1
            case events.SessionRenamed(title=title):
                self._title = title
            case events.MessageAdded(tool_calls=calls):
                self._agent.services.call_ids.update(call.id for call in calls)
            case AgentStarted():
                self._team.count += 1
            case events.OverlayChanged(files=files, kept_as=name):
                self.trial.waiting, self.trial.kept_as = files, name
