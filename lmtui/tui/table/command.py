"""What a command is: its id, where it applies, its keys and its words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Scope(StrEnum):
    """Where a command applies."""

    APP = "everywhere"
    WORKBENCH = "workbench"
    PROMPT = "prompt"
    MOVING = "moving in a pane"
    LINES = "in a pane"
    FILES = "files"
    CHAT = "conversation"
    FINDING = "search in the conversation"
    SEARCHING = "search line"
    ASKING = "filter and search line"
    COPYING = "copy mode"
    APPROVAL = "approval"
    HUNKS = "approval of a change"
    GRANT = "what always means"
    EDIT = "changing a command"
    BATCH = "several approvals"
    PLAN = "a plan that is proposed"
    PLAN_GRANTS = "what a plan may do"
    RULES = "rules"
    CONTEXT = "what fills the window"
    CACHE = "how prompts were read"
    CHANGES = "changes"
    RESTORE = "undo, redo, rewind"
    TRUST = "trust"
    TRUSTED = "what is trusted"
    SETTINGS = "settings"
    READING = "explanations"
    PICKER = "lists"
    CONFIRM = "questions"
    SWITCHER = "sessions"
    MODELS = "models"
    JOBS = "jobs"
    MCP = "MCP servers"
    SKILLS = "skills"
    GRID = "sessions side by side"
    LOG = "tool log"
    FIRST_RUN = "first run"
    HELP = "help"
    VIEWER = "file and difference"


_ANSWERS = frozenset(
    {Scope.APPROVAL, Scope.HUNKS, Scope.BATCH, Scope.PLAN, Scope.PLAN_GRANTS, Scope.RESTORE, Scope.TRUST},
)  # what a question asks; its dialog has one action for all of them


@dataclass(frozen=True, slots=True)
class Command:
    """One thing that can be done.

    `id` is what a keymap rebinds.  The action method is `action_` and the id with its dot as `_`; the answers of a question
    share `action_answer`, and commands of the app itself (`app.leave`) are found there from every screen.  `keys` are
    Textual key names.  `hint` is the word next to the key in a footer; `slash` the names after `/`; `argument` what may
    follow them.  `runs` names an action of the widget in focus.  A command that `is_fixed` keeps its keys whatever a keymap
    says; one that `is_first` wins over the widget that has the focus.  `values` names what an argument is completed from
    (modes, themes, models …).
    """

    id: str
    scope: Scope
    title: str
    help: str
    keys: tuple[str, ...] = ()
    hint: str = ""
    slash: tuple[str, ...] = ()
    argument: str = ""
    is_fixed: bool = False
    is_first: bool = False
    runs: str = ""
    values: str = ""

    @property
    def action(self) -> str:
        """Return Textual's name of the action."""
        if self.runs:
            return self.runs
        if self.scope in _ANSWERS:
            return f"answer('{self.id}')"
        return self.id if self.id.startswith("app.") else self.id.replace(".", "_")

    @property
    def key_text(self) -> str:
        """Return the keys as a person reads them."""
        return " ".join(KEY_NAMES.get(key, key) for key in self.bound_keys)

    @property
    def bound_keys(self) -> tuple[str, ...]:
        """Return the keys in force: the user's own, else those of the table."""
        return _OWN_KEYS.get(self.id, self.keys)


@dataclass(frozen=True, slots=True)
class SlashCall:
    """A slash command as typed: `command` is None without a such command."""

    name: str
    argument: str
    command: Command | None


KEY_NAMES = {
    "question_mark": "?",
    "slash": "/",
    "full_stop": ".",
    "colon": ":",
    "right_square_bracket": "]",
    "left_square_bracket": "[",
    "right_curly_bracket": "}",
    "left_curly_bracket": "{",
    "escape": "esc",
    "shift+tab": "shift-tab",
    "dollar_sign": "$",
    "pageup": "page up",
    "pagedown": "page down",
    "alt+full_stop": "alt+.",
    "alt+comma": "alt+,",
    "alt+equals_sign": "alt+=",
    "alt+minus": "alt+-",
    "ctrl+underscore": "ctrl+_",
}
_OWN_KEYS: dict[str, tuple[str, ...]] = {}


def use_keys(keys: Mapping[str, tuple[str, ...]]) -> None:
    """Show the user's own keys from now on, everywhere where keys are named."""
    _OWN_KEYS.clear()
    _OWN_KEYS.update(keys)
