"""What no first frame needs: the panes, the controllers and all that they import.  Imported in a thread after that frame."""

from __future__ import annotations

from functools import partial
from types import ModuleType
from typing import ClassVar

from lmtui.paths import state_dir
from lmtui.registry import features
from lmtui.tui import summary
from lmtui.tui.controllers.approval_controller import ApprovalController, PlanController
from lmtui.tui.controllers.change_controller import ChangeController
from lmtui.tui.controllers.command_controller import AppController, CommandController
from lmtui.tui.controllers.file_controller import FileController
from lmtui.tui.controllers.pane_controller import ChatController, PaneController
from lmtui.tui.controllers.prompt_controller import PromptController
from lmtui.tui.controllers.send_controller import Sending
from lmtui.tui.controllers.session_controller import SessionController
from lmtui.tui.modals.models import ModelController
from lmtui.tui.modals.settings import SettingsController
from lmtui.tui.modals.trust_question import TrustController
from lmtui.tui.open_sessions import OpenSessions
from lmtui.tui.terminal_app import ThemedApp
from lmtui.tui.widgets.panes import Panes
from lmtui.tui.workbench_api import FeatureController, Handler, WorkbenchApi

FEATURE_CONTROLLERS: tuple[type[FeatureController], ...] = tuple(
    each.load(each.controller) for each in features() if each.controller
)
_OTHERS = (ChatController, ModelController, TrustController)


class Ready:
    """The open sessions, the panes and the controllers of the workbench, connected."""

    texts: ClassVar[ModuleType] = summary

    def __init__(self, app: ThemedApp, workbench: WorkbenchApi, sessions: OpenSessions, panes: Panes, sending: Sending) -> None:
        self.sessions, self.panes = sessions, panes
        self.features: list[FeatureController] = []
        self.approvals, self.changes = ApprovalController(workbench), ChangeController(workbench)
        self.plans = PlanController(workbench, self.approvals)
        self.session_controller = SessionController(workbench, self.approvals, sending, state_dir() / "open")
        self.prompts = PromptController(workbench, sending, state_dir() / "history")
        self.files, self.agents = FileController(workbench), PaneController(workbench)
        settings = SettingsController(workbench, app.use_theme)
        self.app_controller = AppController(app, settings.keep_theme)
        actions: dict[str, Handler] = {}
        self.commands = CommandController(workbench, actions, self.session_controller, self.changes)
        for each in (
            *(self.approvals, self.changes, self.session_controller, self.plans, self.prompts.pasting),
            *(self.files, self.agents, self.app_controller, sending, settings),
            *(make(workbench) for make in _OTHERS),
        ):
            actions |= each.handlers()
        for pane in ("files", "plan", "log", "chat"):
            actions[f"pane.{pane}"] = partial(_go_to, workbench, pane)
        panes.plan.open_agent, panes.changed.open_change = self.agents.open, self.changes.show
        tabs = self.changes.tab, self.files.tab, self.agents.tab
        panes.side_tabs = dict(zip(("Changes", "File", "Output"), tabs, strict=True))
        panes.arranged = workbench.place_dock


def _go_to(workbench: WorkbenchApi, pane: str, _: str) -> None:
    workbench.go_to(pane)
