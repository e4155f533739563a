"""Commands of plan mode: asking for a plan, and deciding about one."""

from __future__ import annotations

from lmtui.tui.table.command import Command, Scope

PLANNING: tuple[Command, ...] = (
    Command(
        "plan.ask", Scope.WORKBENCH, "Plan first", "Plan a task in read-only mode; alone, show the plan that waits for you.",
        ("alt+d",), "plan", ("plan",), "[task]", is_first=True, runs="call('plan.ask')",
    ),
    Command(
        "plan.toggle", Scope.PROMPT, "Plan mode on or off", "Only read and plan from the next call on, or go back.",
        ("shift+tab",), "plan mode", runs="screen.call('plan.toggle')",
    ),
    Command("plan.approve", Scope.PLAN, "Approve", "Leave plan mode and let the plan be carried out.", ("y",), "approve"),
    Command(
        "plan.grant", Scope.PLAN, "Approve and allow", "See which files and commands it names, allow them and approve.",
        ("g",), "and allow…",
    ),
    Command("plan.edit", Scope.PLAN, "Edit", "Change the plan in your editor (VISUAL or EDITOR).", ("e",), "edit"),
    Command("plan.revise", Scope.PLAN, "Change it", "Say what should be different; it is proposed again.", ("f",), "change…"),
    Command("plan.reject", Scope.PLAN, "Reject", "Drop the plan; plan mode stays on.", ("n",), "reject"),
    Command(
        "grants.yes", Scope.PLAN_GRANTS, "Allow and approve", "Keep these rules for this session and carry the plan out.",
        ("y",), "allow these and approve",
    ),
    Command("grants.no", Scope.PLAN_GRANTS, "Back", "Go back to the plan; nothing is allowed.", ("n",), "back"),
)  # fmt: skip
