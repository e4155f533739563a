"""What no first frame needs: events, panes and every dialog.  Imported in a thread once the first frame is."""

from __future__ import annotations

from lmtui.tui.commands import bindings, key_of, of_scope
from lmtui.tui.controllers.command_controller import CommandController
from lmtui.tui.controllers.file_controller import FileController
from lmtui.tui.controllers.job_controller import JobController
from lmtui.tui.controllers.mcp_controller import McpController
from lmtui.tui.controllers.pane_controller import ChatController, LayoutController, PaneController
from lmtui.tui.controllers.plan_controller import PlanController
from lmtui.tui.controllers.prompt_controller import PromptController
from lmtui.tui.controllers.prompt_file_controller import PromptFileController
from lmtui.tui.controllers.session_controller import SessionController
from lmtui.tui.controllers.skill_controller import SkillController
from lmtui.tui.editor import has_job_control
from lmtui.tui.modals.approval import Approval, Batch, CommandEdit, GrantChoice
from lmtui.tui.modals.hunks import approval_of
from lmtui.tui.modals.models import ModelController
from lmtui.tui.modals.picker import AskText, Confirm, Picker, Reading
from lmtui.tui.modals.rule_list import Rules
from lmtui.tui.modals.settings import SettingsController
from lmtui.tui.modals.trust_question import TrustController, TrustQuestion
from lmtui.tui.modals.undo import RestoreQuestion
from lmtui.tui.perf_overlay import GcPolicy, PerfOverlay
from lmtui.tui.router import Router
from lmtui.tui.screens.changes_screen import NO_CHANGES, ChangeSources, ChangesScreen, ChangeView, turns_of
from lmtui.tui.screens.first_run import FirstRun
from lmtui.tui.screens.help import Help
from lmtui.tui.summary import header_parts, hint_parts, status_parts, status_text
from lmtui.tui.terminal_notifier import TerminalNotifier
from lmtui.tui.theme_watch import ThemeWatch
from lmtui.tui.widgets.panes import Panes


class LazyImports:
    """The classes by name; a value of this type proves that they are loaded."""

    router = Router
    commands = CommandController
    bindings = staticmethod(bindings)
    of_scope = staticmethod(of_scope)
    hint_parts = staticmethod(hint_parts)
    key_of = staticmethod(key_of)
    panes = Panes
    attention = TerminalNotifier
    collector = GcPolicy
    theme_watch = ThemeWatch
    around_part = SettingsController
    meter = PerfOverlay
    chat_part = ChatController
    layout_part = LayoutController
    prompt_part = PromptController
    files_part = FileController
    sessions_part = SessionController
    agent_part = PaneController
    models_part = ModelController
    prompt_files_part = PromptFileController
    jobs_part = JobController
    mcp_part = McpController
    skills_part = SkillController
    trust_part = TrustController
    plan_part = PlanController
    approval = Approval
    approval_of = staticmethod(approval_of)
    beside_approval = (AskText, Batch, CommandEdit, GrantChoice, Reading)
    picker = Picker
    ask_text = AskText
    confirm = Confirm
    first_run = FirstRun
    changes = ChangesScreen
    change_sources = ChangeSources
    change_view = ChangeView
    no_changes = NO_CHANGES
    turns_of = staticmethod(turns_of)
    restore = RestoreQuestion
    rules = Rules
    trust = TrustQuestion
    help = Help
    has_job_control = staticmethod(has_job_control)
    header_parts = staticmethod(header_parts)
    status_parts = staticmethod(status_parts)
    status_text = staticmethod(status_text)
