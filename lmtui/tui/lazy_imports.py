"""What no first frame needs: events, panes and every dialog.  Imported in a thread once the first frame stands."""

from __future__ import annotations

from lmtui.tui.controllers.files import FilesPart
from lmtui.tui.controllers.jobs import JobsPart
from lmtui.tui.controllers.mcp import McpPart
from lmtui.tui.controllers.panes import AgentPart, ChatPart, LayoutPart
from lmtui.tui.controllers.plan import PlanPart
from lmtui.tui.controllers.prompt import PromptPart
from lmtui.tui.controllers.prompt_files import GuidancePart, PromptFilesPart
from lmtui.tui.controllers.sessions import SessionsPart
from lmtui.tui.controllers.skills import SkillsPart
from lmtui.tui.editor import has_job_control
from lmtui.tui.modals.approval import Approval, Batch, CommandEdit, GrantChoice
from lmtui.tui.modals.hunks import approval_of
from lmtui.tui.modals.models import ModelsPart
from lmtui.tui.modals.picker import AskText, Confirm, Picker, Reading
from lmtui.tui.modals.restore import RestoreQuestion
from lmtui.tui.modals.rules import Rules
from lmtui.tui.modals.settings import AroundPart
from lmtui.tui.modals.trust import TrustPart, TrustQuestion
from lmtui.tui.modals.window import LongWorkPart
from lmtui.tui.perf_overlay import Collector, Meter
from lmtui.tui.router import Router
from lmtui.tui.screens.changes import NO_CHANGES, ChangeSources, ChangesScreen, ChangeView, turns_of
from lmtui.tui.screens.first_run import FirstRun
from lmtui.tui.screens.help import Help
from lmtui.tui.summary import header_parts, status_parts, status_text
from lmtui.tui.terminal_notifier import Attention
from lmtui.tui.theme_watch import ThemeWatch
from lmtui.tui.widgets.panes import Panes


class Dialogs:
    """The classes by name; a value of this type proves that they are loaded."""

    router = Router
    panes = Panes
    attention = Attention
    collector = Collector
    theme_watch = ThemeWatch
    around_part = AroundPart
    meter = Meter
    chat_part = ChatPart
    layout_part = LayoutPart
    prompt_part = PromptPart
    files_part = FilesPart
    sessions_part = SessionsPart
    agent_part = AgentPart
    models_part = ModelsPart
    long_work_part = LongWorkPart
    guidance_part = GuidancePart
    prompt_files_part = PromptFilesPart
    jobs_part = JobsPart
    mcp_part = McpPart
    skills_part = SkillsPart
    trust_part = TrustPart
    plan_part = PlanPart
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
