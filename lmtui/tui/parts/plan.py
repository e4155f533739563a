"""What the workbench does about plan mode: asks for a plan, brings the question up, passes the answer on."""

from __future__ import annotations

from lmtui.core.errors import ToolError
from lmtui.core.permissions import Mode
from lmtui.tui.commands import command, first_key
from lmtui.tui.modals.plan import PlanAnswer, PlanQuestion, PlanVerb
from lmtui.tui.router import Feed
from lmtui.tui.stage import Handler, Stage


class PlanPart:
    """Answers the commands of plan mode."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._left: set[tuple[str, str]] = set()

    def handlers(self) -> dict[str, Handler]:
        """Return what answers each command."""
        return {"plan.ask": self._ask, "plan.toggle": self._toggle}

    def changed(self) -> None:
        """Bring up the plan of the session on screen, or put one away that is answered."""
        active, app = self._stage.desk.active, self._stage.app
        shown = next((each for each in app.screen_stack if isinstance(each, PlanQuestion)), None)
        if shown is not None:
            feeds = self._stage.desk.feeds.values()
            is_open = any(shown.asked is feed.facts.proposal for feed in feeds)
            if not is_open and app.screen is shown:
                _ = shown.dismiss(PlanAnswer(PlanVerb.LATER))
            return
        if active is None or len(app.screen_stack) > 1 or active.facts.approvals or active.facts.proposal is None:
            return
        if (active.session.id, active.facts.proposal.proposal_id) not in self._left:
            self._show(active)

    def _ask(self, task: str) -> None:
        active = self._stage.desk.active
        if active is None:
            self._stage.say("no session yet")
        elif task:
            if active.session.mode is not Mode.PLAN:
                active.session.set_mode(Mode.PLAN)
            self._stage.desk.submit(active, task)
        elif active.facts.proposal is not None:
            self._show(active)
        else:
            self._stage.go_to("plan")

    def _toggle(self, _: str) -> None:
        active = self._stage.desk.active
        if active is not None:
            is_on = active.session.mode is Mode.PLAN
            active.session.set_mode(active.facts.planning.before if is_on else Mode.PLAN)
            words = f"plan mode is off: {active.session.mode}" if is_on else "plan mode: only reading, until you approve a plan"
            self._stage.say(words)

    def _show(self, feed: Feed) -> None:
        asked = feed.facts.proposal
        if asked is None:
            return
        question = PlanQuestion(asked, feed.session.plans.grants, now=self._stage.now)
        question.type_on = self._stage.type_on
        _ = self._stage.app.push_screen(question, lambda answer: self._decide(feed, asked.proposal_id, answer))

    def _decide(self, feed: Feed, proposal_id: str, answer: PlanAnswer | None) -> None:
        plans = feed.session.plans
        if self._stage.panes is not None:
            self._stage.panes.follow_chat()
        try:
            match answer.verb if answer is not None else PlanVerb.LATER:
                case PlanVerb.APPROVE if answer is not None:
                    plans.approve(proposal_id, answer.edited, rules=answer.rules)
                case PlanVerb.REVISE if answer is not None:
                    plans.revise(proposal_id, answer.words)
                case PlanVerb.REJECT:
                    plans.reject(proposal_id)
                    self._stage.say(f"the plan is dropped; {first_key(command('mode.choose'))} leaves plan mode")
                case _:
                    self._left.add((feed.session.id, proposal_id))
                    self._stage.say(f"the plan waits; {first_key(command('plan.ask'))} brings it back")
        except ToolError as error:
            self._stage.say(error.full_text(), "error")
