"""Brings approvals up: when one is asked for, when its session is shown, and when another screen was closed."""

from __future__ import annotations

from lmtui.core.event_text import dangers_of
from lmtui.core.sessions import Answer
from lmtui.tui.commands import key_of
from lmtui.tui.modals.approval import (
    Approval,
    Batch,
    CommandEdit,
    Decided,
    GrantChoice,
    HunkApproval,
    is_divisible,
)
from lmtui.tui.modals.consent import ConsentDialog
from lmtui.tui.modals.effect_question import EffectApproval
from lmtui.tui.modals.picker import AskText, Reading
from lmtui.tui.modals.results import AllAnswered, Dismissed
from lmtui.tui.router import SessionView
from lmtui.tui.widgets.effect_page import EffectDecisions
from lmtui.tui.workbench_api import Handler, WorkbenchApi

_OVER_AN_APPROVAL = (AskText, CommandEdit, GrantChoice, Reading)


class ApprovalController:
    """Shows one approval at a time, that of the session on screen first."""

    def __init__(self, workbench: WorkbenchApi) -> None:
        self._workbench = workbench
        self._postponed: set[str] = set()
        self._behind_text: set[str] = set()
        self._dangers: dict[str, bool] = {}
        self._choices: dict[str, EffectDecisions] = {}  # of effects whose question was set aside
        workbench.prompt.come_back = self.come_back

    def handlers(self) -> dict[str, Handler]:
        """Return what answers each command."""
        return {"session.next_waiting": lambda _: self._next_waiting()}

    @property
    def _shown(self) -> Approval | None:
        dialogs = (each for each in self._workbench.app.screen_stack if isinstance(each, ConsentDialog))
        return next((each.question for each in dialogs if isinstance(each.question, Approval)), None)

    @property
    def is_asked(self) -> bool:
        """Tell whether an approval is up and has the keys."""
        return self._shown is not None

    def waiting(self) -> tuple[int, bool]:
        """Return how much the user is asked in all sessions, and whether a dangerous command is among it."""
        states = [view.state for view in self._workbench.sessions.views.values()]
        requests = {key: request for state in states for key, request in state.approvals.items()}
        known = self._dangers
        self._dangers = {key: known[key] if key in known else bool(dangers_of(each)) for key, each in requests.items()}
        return sum(len(state.approvals) or state.waits for state in states), any(self._dangers.values())

    def sync(self) -> None:
        """Show the approval of the session on screen, bring the one that is up to date, or put away one that is answered."""
        active = self._workbench.active
        is_chat_seen = all(each.has_class("-docked") for each in self._workbench.app.screen_stack[1:])
        if not self._sync_shown() and is_chat_seen and active is not None:
            self._ask(active)

    def ask(self, view: SessionView) -> None:
        """Show the first approval of a session, whatever is open, also one that was left for later."""
        self._postponed -= set(view.state.approvals)
        self._behind_text.clear()
        if not self._sync_shown():
            self._ask(view)

    def prompt_emptied(self) -> None:
        """Show the approvals again that made room for typing, once the text is sent or taken back."""
        if self._behind_text:
            self._postponed -= self._behind_text
            self._behind_text.clear()
            self._workbench.call_after_refresh(self.sync)

    def come_back(self) -> bool:
        """Show the approvals that made room for typing; the text stays. False where none did."""
        is_back = bool(self._behind_text)
        if is_back:
            self._next_waiting()
        return is_back

    def _next_waiting(self) -> None:
        """Go to the next session that waits, this one's own approval first."""
        self._postponed.clear()
        self._behind_text.clear()
        router = self._workbench.sessions.router
        waiting = router.waiting()
        if not waiting:
            self._workbench.say("No session is waiting for you")
            return
        if router.active not in waiting:
            router.show(waiting[0])
        elif not router.active.state.approvals:  # its plan was set aside
            _ = self._workbench.app.call_later(self._workbench.action_run_command, "plan.ask")
        self.sync()

    def _is_typing(self) -> bool:
        """Tell whether text is typed that an approval made room for: none takes the keys until it is gone."""
        self._behind_text &= {each for view in self._workbench.sessions.views.values() for each in view.state.approvals}
        return bool(self._behind_text and self._workbench.typed_text)

    def _ask(self, view: SessionView) -> None:
        open_ids = [each for each in view.state.approvals if each not in self._postponed]
        if open_ids and not self._is_typing():
            request = view.state.approvals[open_ids[0]]
            kind = EffectApproval if request.parts else HunkApproval if is_divisible(request) else Approval
            question = kind(request, view.state)
            if isinstance(question, EffectApproval) and request.approval_id in self._choices:
                question.page.decisions = self._choices.pop(request.approval_id)
            shown = ConsentDialog(question, self._workbench.now, self._workbench.panes)
            shown.letters.type_on, shown.letters.was_typing = self._workbench.type_on, bool(self._workbench.typed_text)
            _ = self._workbench.app.push_screen(shown, lambda result: self._decide(view, shown, request.approval_id, result))

    def _sync_shown(self) -> bool:
        """Keep an approval that is up in line with what is open; False where none is up."""
        shown, top = self._shown, self._workbench.app.screen
        if shown is None:
            return False
        if any(shown.request.approval_id in view.state.approvals for view in self._workbench.sessions.views.values()):
            shown.dialog.draw()
        elif top is shown.dialog:
            _ = shown.dialog.dismiss(None)
        elif isinstance(top, _OVER_AN_APPROVAL) or (isinstance(top, ConsentDialog) and isinstance(top.question, Batch)):
            _ = top.dismiss(None)
            self._workbench.call_after_refresh(self.sync)
        return True

    def _decide(self, view: SessionView, shown: ConsentDialog[Decided], approval_id: str, result: Decided) -> None:
        key = key_of("session.next_waiting")
        if isinstance(shown.question, EffectApproval) and isinstance(result, Dismissed):
            self._choices[approval_id] = shown.question.page.decisions
        if result is not None and not isinstance(result, Dismissed):
            self._workbench.panes.follow_chat()
        elif result is not None and result is not Dismissed.STOP:
            shown.fit.chat.give_back_place()
        match result:
            case Dismissed.STOP:
                view.session.interrupt()
            case Dismissed.TYPING:
                if self._workbench.app.screen.has_class("-docked"):
                    _ = self._workbench.app.pop_screen()
                self._postponed |= view.state.approvals.keys()  # another one would take the place of the prompt
                self._behind_text |= view.state.approvals.keys()
                self._workbench.say(f"Question postponed · {key} to return")
            case Dismissed():
                self._postponed.add(approval_id)
                self._workbench.say(f"Set aside · {key} to return")
            case AllAnswered():
                for each in result.approval_ids:
                    view.session.answer(each, result.answer)
            case Answer():
                view.session.answer(approval_id, result)
        self._workbench.call_after_refresh(self.sync)
