"""Brings questions up, approvals and plans: when one is asked, when its session is shown, when another screen was closed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from textual.screen import ModalScreen

from lmtui.core.agent_events import PlanDecided, PlanProposed
from lmtui.core.errors import ToolError
from lmtui.core.event_text import dangers_of
from lmtui.core.events import Envelope, Outcome
from lmtui.core.permissions.rules import Mode
from lmtui.core.plan_mode import PlanApprovals
from lmtui.core.proposals import Proposal
from lmtui.core.sanitize import escape_invisible_line, pluralize
from lmtui.core.sessions import Answer
from lmtui.tui.commands import key_of
from lmtui.tui.modals.approval import Approval, Decided, HunkApproval, PlanAnswer, PlanQuestion, is_divisible, plan_lines
from lmtui.tui.modals.consent import ConsentDialog, Question, YesNo
from lmtui.tui.modals.effect_question import EffectApproval
from lmtui.tui.modals.results import AllAnswered, Dismissed
from lmtui.tui.router import SessionView
from lmtui.tui.screens.output_screen import CallPage, OutputScreen
from lmtui.tui.widgets.bars import Part
from lmtui.tui.widgets.prompt import Prompt
from lmtui.tui.workbench_api import Handler, WorkbenchApi


class ApprovalController:
    """Shows one question at a time, of the session on screen: an approval, else its plan."""

    def __init__(self, workbench: WorkbenchApi) -> None:
        self._workbench = workbench
        self._open: dict[object, tuple[str, SessionView]] = {}  # what each dialog asks, and of which session
        self._postponed: set[str] = set()  # what waits for later, or was answered
        self._behind_text: set[str] = set()
        self._dangers: dict[str, bool] = {}
        self._before: dict[str, Question[Any]] = {}  # with what was written and chosen before they were postponed
        workbench.prompt.come_back = self.come_back

    def handlers(self) -> dict[str, Handler]:
        """Return what answers each command."""
        return {"session.next_waiting": lambda _: self._next_waiting()}

    @property
    def is_asked(self) -> bool:
        """Tell whether a question over the conversation has the keys."""
        screen = self._workbench.app.screen
        return isinstance(screen, ConsentDialog) and screen.letters.type_on is not None

    def waiting(self) -> tuple[int, bool]:
        """Return how much the user is asked in all sessions, and whether a dangerous command is among it."""
        states = [view.state for view in self._workbench.sessions.views.values()]
        requests = {key: request for state in states for key, request in state.approvals.items()}
        known = self._dangers
        self._dangers = {key: known[key] if key in known else bool(dangers_of(each)) for key, each in requests.items()}
        return sum(len(state.approvals) or state.waits for state in states), any(self._dangers.values())

    def sync(self) -> None:
        """Show the question of the session on screen, bring the one that is up to date, or put one away that is answered."""
        app, active = self._workbench.app, self._workbench.active
        self._postponed &= {key for view in self._workbench.sessions.views.values() for key in _asked(view)}
        shown, top = next((screen for screen in app.screen_stack if screen in self._open), None), app.screen
        if isinstance(shown, ConsentDialog):
            key, view = self._open[shown]
            if view is active and key in _asked(view):
                shown.draw()
            elif isinstance(top, ModalScreen):
                _ = top.dismiss(None)
                self._workbench.call_after_refresh(self.sync)
        elif active is not None and all(screen.has_class("-docked") for screen in app.screen_stack[1:]):
            self._ask(active)

    def bring_back(self, view: SessionView) -> None:
        """Show what a session asks, also what was postponed."""
        self._postponed.difference_update(_asked(view))
        self._behind_text.clear()
        self.sync()

    def prompt_emptied(self) -> None:
        """Show the questions again that made room for typing, once the text is sent or taken back."""
        if self._behind_text:
            self._postponed -= self._behind_text
            self._behind_text.clear()
            self._workbench.call_after_refresh(self.sync)

    def come_back(self) -> bool:
        """Show the questions that made room for typing; the text stays. False where none did."""
        is_back = bool(self._behind_text)
        if is_back:
            self._next_waiting()
        return is_back

    def asks_about(self, event: Prompt.Submitted, send: Callable[[Prompt.Submitted], None]) -> bool:
        """Ask what a message means that is sent while something is asked; False where nothing is."""
        active = self._workbench.active
        if active is None or not active.state.approvals or not event.text or event.text.startswith("!"):
            return False

        def answered(is_denied: bool | None) -> None:
            if is_denied is None:
                self._set_aside(active, is_typing=True)
                self._workbench.prompt.put_before(event.typed.text)
                return
            for approval_id in [*active.state.approvals] if is_denied else ():
                self._postponed.add(approval_id)
                active.session.answer(approval_id, Answer(Outcome.NO))
            event.is_now = event.is_now or is_denied
            send(event)

        count = len(active.state.approvals)
        what = "the question is" if count == 1 else f"{count} questions are"
        reply = YesNo(f"Send this while {what} open?", event.typed.text, "deny and send", "send after this turn")
        reply.has_delay = True
        _ = self._workbench.app.push_screen(ConsentDialog(reply), answered)
        return True

    def leave_for(self, action: str) -> None:
        """Do what a key of the workbench does, over what is asked; after a dialog that it opens the question comes back."""
        _ = self._workbench.app.call_later(self._leave_for, action, self._workbench.active)

    async def _leave_for(self, action: str, view: SessionView) -> None:
        app = self._workbench.app
        _ = await app.run_action(action, default_namespace=app.screen_stack[0])
        if isinstance(app.screen, ModalScreen) or self._workbench.active is not view:
            self._postponed.difference_update(_asked(view))
            self.sync()

    def _next_waiting(self) -> None:
        """Go to the next session that waits, this one's own question first."""
        self._postponed.clear()
        self._behind_text.clear()
        router = self._workbench.sessions.router
        waiting = router.waiting()
        if not waiting:
            self._workbench.say("No session is waiting for you")
            return
        if router.active not in waiting:
            router.show(waiting[0])
        self.sync()

    def _is_typing(self) -> bool:
        """Tell whether text is typed that a question made room for: none takes the keys until it is gone."""
        self._behind_text &= {key for view in self._workbench.sessions.views.values() for key in _asked(view)}
        return bool(self._behind_text and self._workbench.typed_text)

    def _ask(self, view: SessionView) -> None:
        keys = [key for key in _asked(view) if key not in self._postponed]
        if keys and not self._is_typing():
            question: Question[Any] = _question(view, keys[0])
            if keys[0] in self._before:
                question.take_over(self._before.pop(keys[0]))
            dialog: ConsentDialog[Any] = ConsentDialog(question)
            self._open[dialog] = keys[0], view
            _ = self._workbench.app.push_screen(dialog, lambda result: self._decide(dialog, result))

    def _set_aside(self, view: SessionView, *, is_typing: bool) -> None:
        """Let all questions of a session wait."""
        self._postponed.update(_asked(view))  # another one would take the place of the prompt
        if is_typing:
            self._behind_text.update(_asked(view))

    def _decide(self, dialog: ConsentDialog[Any], result: Decided | PlanAnswer) -> None:
        key, view = self._open.pop(dialog)
        self._postponed.add(key)
        if isinstance(result, Dismissed):
            self._before[key] = dialog.question
            if result is not Dismissed.STOP:
                dialog.fit.chat.give_back_place()
        elif result is not None:
            self._workbench.panes.follow_chat()
        match result:
            case Dismissed.STOP:
                view.session.interrupt()
            case Dismissed.TYPING | Dismissed.AWAY:
                is_typing = result is Dismissed.TYPING
                if is_typing and self._workbench.app.screen.has_class("-docked"):
                    _ = self._workbench.app.pop_screen()
                self._set_aside(view, is_typing=is_typing)
            case AllAnswered():
                for approval_id in result.approval_ids:
                    view.session.answer(approval_id, result.answer)
            case Answer():
                view.session.answer(key, result)
            case (give, words):
                self._answer_plan(view, give, words)
        if result in {Dismissed.LATER, Dismissed.TYPING}:
            self._workbench.say(f"Set aside · {key_of('session.next_waiting')}")
        self.sync()  # at once: no key may go to the prompt between two questions

    def _answer_plan(self, view: SessionView, give: Callable[[PlanApprovals], None], words: str) -> None:
        try:
            give(view.session.plans)
            if words:
                self._workbench.say(words)
        except ToolError as error:
            self._workbench.say(error.full_text(), "error")


def _asked(view: SessionView) -> list[str]:
    """Return what a session asks: its approvals, else its plan."""
    plan = view.state.proposal
    return [*view.state.approvals] or ([f"{view.session.id} {plan.proposal_id}"] if plan is not None else [])


def _question(view: SessionView, key: str) -> Approval | PlanQuestion:
    request, plan = view.state.approvals.get(key), view.state.proposal
    if request is not None:
        kind = EffectApproval if request.parts else HunkApproval if is_divisible(request) else Approval
        return kind(request, view.state)
    assert plan is not None, "a session that asks nothing"
    return PlanQuestion(plan, view.session.plans.grants)


class PlanController:
    """Answers the commands of plan mode."""

    def __init__(self, workbench: WorkbenchApi, approvals: ApprovalController) -> None:
        self._workbench, self._approvals = workbench, approvals

    def handlers(self) -> dict[str, Handler]:
        """Return what answers each command."""
        return {"plan.ask": self._ask, "plan.toggle": self._toggle}

    def _ask(self, argument: str) -> None:
        del argument
        active = self._workbench.active
        if active is not None and active.state.proposal is not None:
            self._approvals.bring_back(active)
        elif active is not None and (proposal := last_proposal(active.session.history())) is not None:
            title = [Part("Plan", "$text-muted"), Part(escape_invisible_line(proposal.title), "bold")]
            steps = [Part(pluralize(len(proposal.steps), "step"))]
            page = CallPage(title, steps, lambda width: plan_lines(proposal, width))
            _ = self._workbench.app.push_screen(OutputScreen(lambda _: page, panes=self._workbench.panes, tab=""))
        else:
            self._workbench.go_to("plan")

    def _toggle(self, _: str) -> None:
        active = self._workbench.active
        if active is not None:
            is_on = active.session.mode is Mode.PLAN
            active.session.set_mode(active.state.work.planning.before if is_on else Mode.PLAN)
            words = f"Plan mode off: {active.session.mode}" if is_on else "Plan mode on: read-only until you approve a plan"
            self._workbench.say(words)


def last_proposal(history: Sequence[Envelope]) -> Proposal | None:
    """Return the plan that was proposed last, as the user changed it."""
    for each in reversed(history):
        if isinstance(each.event, PlanDecided) and each.event.edited is not None:
            return each.event.edited
        if isinstance(each.event, PlanProposed):
            return each.event.proposal
    return None
