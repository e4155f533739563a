"""What no first frame needs: the panes, the controllers and all that they import.  Imported in a thread after that frame."""

from __future__ import annotations

from dataclasses import dataclass, field
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


@dataclass(frozen=True, slots=True)
class Ready:
    """The open sessions, the panes and the controllers of the workbench."""

    sessions: OpenSessions
    panes: Panes
    commands: CommandController
    approvals: ApprovalController
    plans: PlanController
    session_controller: SessionController
    changes: ChangeController
    prompts: PromptController
    files: FileController
    agents: PaneController
    app_controller: AppController
    features: list[FeatureController] = field(default_factory=list)

    texts: ClassVar[ModuleType] = summary


def connect(app: ThemedApp, workbench: WorkbenchApi, sessions: OpenSessions, panes: Panes, *, sending: Sending) -> Ready:
    """Make the controllers and connect them with each other."""
    approvals, changes = ApprovalController(workbench), ChangeController(workbench)
    session_controller = SessionController(workbench, approvals, sending, state_dir() / "open")
    settings = SettingsController(workbench, app.use_theme)
    actions: dict[str, Handler] = {}
    ready = Ready(
        sessions,
        panes,
        CommandController(workbench, actions, session_controller, changes),
        approvals,
        PlanController(workbench, approvals),
        session_controller,
        changes,
        PromptController(workbench, sending, state_dir() / "history"),
        FileController(workbench),
        PaneController(workbench),
        AppController(app, settings.keep_theme),
    )
    for each in (
        *(approvals, changes, session_controller, ready.plans, ready.prompts.pasting, ready.files, ready.agents),
        *(ready.app_controller, sending, settings, *(make(workbench) for make in _OTHERS)),
    ):
        actions |= each.handlers()
    for pane in ("files", "plan", "log", "chat"):
        actions[f"pane.{pane}"] = partial(_go_to, workbench, pane)
    panes.plan.open_agent, panes.changed.open_change = ready.agents.open, changes.show
    panes.side_tabs = {"Changes": changes.tab, "File": ready.files.tab, "Output": ready.agents.tab}
    panes.arranged = workbench.place_dock
    return ready


def _go_to(workbench: WorkbenchApi, pane: str, _: str) -> None:
    workbench.go_to(pane)
