"""What the built-in tools do, a row each: what rules, notes to the model and summaries must know of a tool by its name.

Logs and rules name tools and know no more of them; so this hangs on the name, and a new tool needs a row here.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Deed(StrEnum):
    """What a call does to the files of the workspace.  Of a tool that is not built in nothing is known: it may do all of it."""

    NOTHING = "nothing"
    SHOWS = "shows what is in them"
    LISTS = "tells their names"
    CHANGES = "changes those it names and no others"
    GIT = "moves what git keeps, and files with it"
    RUNS = "runs code"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ToolFacts:
    """One tool.

    `is_about_paths`: what it is about are paths, so that a rule for it may be widened to a folder; `is_deep`: of a folder it
    shows all that is below; `is_for_work`: it belongs to carrying a plan out and has no meaning in plan mode.
    """

    deed: Deed
    is_about_paths: bool = False
    is_deep: bool = False
    is_for_work: bool = False

    @property
    def may_change_unseen(self) -> bool:
        """Tell whether files may be other than they were, though the call named none of them."""
        return self.deed in (Deed.GIT, Deed.RUNS, Deed.UNKNOWN)

    @property
    def meets_file(self) -> bool:
        """Tell whether a call is about one file, which it shows or changes."""
        return self.deed is Deed.CHANGES or (self.deed is Deed.SHOWS and not self.is_deep)

    @property
    def looks(self) -> bool:
        """Tell whether a call that went well says how things stand in the workspace."""
        return self.deed in (Deed.SHOWS, Deed.LISTS, Deed.RUNS) and not self.is_for_work


_NOTHING, _SENDS = ToolFacts(Deed.NOTHING), ToolFacts(Deed.UNKNOWN)
_WORK = ToolFacts(Deed.NOTHING, is_for_work=True)
_SHOWS, _CHANGES = ToolFacts(Deed.SHOWS, is_about_paths=True), ToolFacts(Deed.CHANGES, is_about_paths=True)
_SEARCHES = ToolFacts(Deed.SHOWS, is_about_paths=True, is_deep=True)
_LISTS, _GIT, _RUNS = ToolFacts(Deed.LISTS), ToolFacts(Deed.GIT), ToolFacts(Deed.RUNS)
TOOL_FACTS = {
    "read": _SHOWS,
    "look": _SHOWS,
    "data_view": _SHOWS,
    "promote_skill": _SHOWS,
    "grep": _SEARCHES,
    "git_diff": _SEARCHES,
    "write": _CHANGES,
    "edit": _CHANGES,
    "mkdir": _CHANGES,
    "ls": ToolFacts(Deed.LISTS, is_about_paths=True),
    "glob": _LISTS,
    "git_status": _LISTS,
    "git_add": ToolFacts(Deed.GIT, is_about_paths=True),
    "git_commit": _GIT,
    "git_branch": _GIT,
    "shell": _RUNS,
    "background": _SENDS,
    "python": _RUNS,
    "delegate": _SENDS,
    "explore": _SENDS,
    "decompose": _SENDS,
    "report_result": _NOTHING,
    "todo_add": _WORK,
    "todo_update": _WORK,
    "todo_complete": _WORK,
    "todo_list": _NOTHING,
    "task_todo_set": _WORK,
    "manage_tasks": _WORK,
    "propose_plan": _NOTHING,
    "plan_complete_step": _WORK,
    "task_state_get": _NOTHING,
    "task_state_update": ToolFacts(Deed.LISTS, is_for_work=True),
    "task_reconcile": ToolFacts(Deed.LISTS, is_for_work=True),
    "wait": _WORK,
    "get_time": _NOTHING,
    "fetch": _NOTHING,
    "skill": _NOTHING,
}
_OF_OTHERS = ToolFacts(Deed.UNKNOWN)


def facts_of(tool: str) -> ToolFacts:
    """Return what is known of a tool by its own name."""
    return TOOL_FACTS.get(tool, _OF_OTHERS)


def tools_that(*deeds: Deed) -> frozenset[str]:
    """Return the names of the built-in tools that do one of these."""
    return frozenset(name for name, facts in TOOL_FACTS.items() if facts.deed in deeds)
