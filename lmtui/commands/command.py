"""What a command is, what it works on, and what it gives back.  A front end renders the result; nothing here knows which."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

from lmtui.core.errors import UsageError
from lmtui.core.prompt_text import slash_call

if TYPE_CHECKING:
    from lmtui.core.sessions import Session, SessionHost
    from lmtui.core.workspace import EffectReview, Restoration


class Scope(StrEnum):
    """Where a command applies.  A feature names its own dialogs in the same way, by a text."""

    APP = "everywhere"
    WORKBENCH = "workbench"
    PROMPT = "prompt"
    MOVING = "moving in a pane"
    LINES = "in a pane"
    TEXT = "in a text"
    DIFF = "in a difference"
    FILES = "files"
    CHAT = "conversation"
    FINDING = "search in the conversation"
    ASKING = "filter and search line"
    COPYING = "copy mode"
    QUESTION = "every question"
    REQUEST = "every approval"
    APPROVAL = "approval"
    HUNKS = "approval of a change"
    EFFECT = "approval of an effect"
    EFFECTS = "parts of an effect"
    EDIT = "changing a command"
    PLAN = "a plan that is proposed"
    SIDE = "side pane"
    AGENT = "a sub-agent"
    CHANGES = "changes"
    RESTORE = "undo, redo, rewind"
    TRUST = "trust"
    SETTINGS = "settings"
    PICKER = "lists"
    CONFIRM = "questions"
    LOG = "tool log"
    HELP = "help"
    VIEWER = "file and difference"


# What a question asks; its dialog has one action for all of them.
_ANSWERS = frozenset({
    Scope.REQUEST, Scope.APPROVAL, Scope.HUNKS, Scope.EFFECT, Scope.EFFECTS, Scope.PLAN,
    Scope.RESTORE, Scope.TRUST, Scope.CONFIRM,
})  # fmt: skip
_WAYS = re.compile(r"\{(.*?)\}")


@dataclass(frozen=True, slots=True)
class Output:
    """Lines for the user; those that have a title fill a page of the full screen, the others are a notice."""

    lines: tuple[str, ...]
    title: str = ""


@dataclass(frozen=True, slots=True)
class OpenView:
    """A dialog or a pane of the full screen; `text` returns what it shows in lines, for a front end that has no such view.

    `instead` is what to use where neither can be shown.
    """

    name: str
    argument: str = ""
    text: Callable[[], Awaitable[Iterable[str]]] | None = None
    instead: str = ""


@dataclass(frozen=True, slots=True)
class Begin:
    """Something that starts work in the session."""

    start: Callable[[Session], None]


@dataclass(frozen=True, slots=True)
class OpenSession:
    """Another session to bring to the front; a new one without an id."""

    session_id: str = ""


@dataclass(frozen=True, slots=True)
class Ask:
    """A question that is answered with a line of text; `start` is there to be changed."""

    question: str
    then: Callable[[str], Awaitable[Result]]
    start: str = ""
    placeholder: str = ""


@dataclass(frozen=True, slots=True)
class AskYes:
    """A yes-or-no question; `text` says what would be done, `yes` in a word; without one it cannot be undone.

    `instead` is what to use where nobody can be asked.
    """

    question: str
    text: str
    then: Callable[[], Awaitable[Result]]
    instead: str = ""
    yes: str = ""


@dataclass(frozen=True, slots=True)
class Choose:
    """A choice of one value; each has a note."""

    title: str
    choices: Mapping[str, str]
    then: Callable[[str], Awaitable[Result]]
    chosen: str = ""


@dataclass(frozen=True, slots=True)
class ConfirmRestore:
    """A change of files to be shown, and applied after a yes; `what` names it."""

    plan: Callable[[], Awaitable[Restoration]]
    what: str


@dataclass(frozen=True, slots=True)
class ReviewEffect:
    """Review the effect in an overlay, to be kept or dropped part by part, under a `title`."""

    review: EffectReview
    title: str


@dataclass(frozen=True, slots=True)
class Leave:
    """The end of the program."""


Result: TypeAlias = (
    Output | OpenView | Begin | OpenSession | Ask | AskYes | Choose | ConfirmRestore | ReviewEffect | Leave | None
)
Handler: TypeAlias = "Callable[[CommandContext, str], Awaitable[Result]]"


@dataclass(frozen=True, slots=True)
class Command:
    """One thing that can be done.

    `id` is what a keymap rebinds.  `slash` are the names after `/`, `aliases` others with the argument that each means;
    these, and a command that `is_rare`, are listed only where they are typed.  `argument` is what may follow and `values` names
    what that is completed from (modes, themes, models …).  `tab` is the page that shows it, and its name there.  A command
    without a `handler` opens the view of its id, which only the full screen has.  `instead` says what to use without a screen;
    one that has none runs there too.
    `status` returns a name and what `/status` says under it, `names` what else may be typed with a slash for it, and what for.

    `keys` are Textual key names and `hint` is the word next to the key in a footer.  `runs` names an action of the widget in
    focus.  A command that `is_fixed` keeps its keys whatever a keymap says; one that `is_first` wins over the widget that has
    the focus.  One that goes several ways names them in its action, `move('{up|down}')`, and may in its hint: its keys belong
    to them in turn.
    """

    id: str
    scope: str
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
    handler: Handler | None = None
    instead: str = ""
    status: Callable[[CommandContext], Awaitable[tuple[str, str]]] | None = None
    names: Callable[[CommandContext], Awaitable[Mapping[str, str]]] | None = None
    aliases: Mapping[str, str] = field(default_factory=dict, hash=False)
    tab: tuple[str, str] = ("", "")
    is_rare: bool = False

    @property
    def action(self) -> str:
        """Return Textual's name of the action."""
        if self.runs:
            return _WAYS.sub(lambda found: found[1].split("|")[0], self.runs)
        if self.scope in _ANSWERS:
            return f"answer('{self.id}')"
        match self.scope:
            case Scope.WORKBENCH:
                return f"run_command('{self.id}')"
            case Scope.APP:
                return self.id
            case _:
                return self.id.replace(".", "_")

    @property
    def ways(self) -> tuple[Command, ...]:
        """Return the command for each way that it goes: with its own id, action, hint and keys in force."""
        found = _WAYS.search(self.runs)
        if found is None:
            return (self,)
        names, hints = found[1].split("|"), self.hint.split("|")
        return tuple(
            replace(
                self, id=f"{self.id}#{at}", runs=self.runs.replace(found[0], name), hint=hints[at] if at < len(hints) else "",
                keys=tuple(filter(None, self.bound_keys[at :: len(names)])),
            )
            for at, name in enumerate(names)
        )  # fmt: skip

    @property
    def key_text(self) -> str:
        """Return the keys as a person reads them."""
        return " ".join(map(key_name, filter(None, self.bound_keys)))

    @property
    def bound_keys(self) -> tuple[str, ...]:
        """Return the keys in force: the user's own, else those of the table."""
        return _OWN_KEYS.get(self.id, self.keys)


@dataclass(slots=True)
class CommandContext:
    """What a command works on.  `listed` are the ids of the sessions that were listed last, by which a number means one.

    `say` shows a notice while a command still runs.
    """

    host: SessionHost
    active: Session | None
    commands: CommandTable
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    listed: list[str] = field(default_factory=list)
    say: Callable[[str], None] = lambda _: None

    @property
    def session(self) -> Session:
        """Return the session in front.

        Raises:
            UsageError: there is none yet.
        """
        if self.active is None:
            raise UsageError("no session yet")
        return self.active


@dataclass(frozen=True, slots=True)
class SlashCall:
    """A slash command as typed: `command` is None where none has this name."""

    name: str
    argument: str
    command: Command | None


USUAL_NAMES = ("new", "sessions", "model", "mode", "plan", "changes", "undo", "compact")
MOST_RECENT = 3


class CommandTable:
    """Commands by id and by name."""

    def __init__(self, commands: Sequence[Command]) -> None:
        self.commands = tuple(commands)
        self._by_id = {each.id: each for each in self.commands}
        self._by_name = {name: (each, "") for each in self.commands for name in each.slash}
        self._by_name |= {name: (each, words) for each in self.commands for name, words in each.aliases.items()}
        self.recent: list[str] = []  # the names that were typed last, the newest first

    @property
    def names(self) -> tuple[str, ...]:
        """Return every name that can be typed after a slash."""
        return tuple(self._by_name)

    def by_id(self, command_id: str) -> Command:
        return self._by_id[command_id]

    def parse(self, text: str) -> SlashCall | None:
        """Read a slash command; None for what goes to the model (see `slash_call`)."""
        call = ("quit", "") if text.strip() == "quit" else slash_call(text)
        if call is None:
            return None
        command, words = self._by_name.get(call[0].lower(), (None, ""))
        return SlashCall(call[0], f"{words} {call[1]}".strip(), command)

    def complete(self, text: str) -> list[tuple[str, Command]]:
        """Return the slash commands that begin with what is typed, each once; nothing once an argument follows.

        Before anything is typed the recent and the usual ones come first; rare ones come where no other begins so.
        """
        if not text.startswith("/") or " " in text or "\n" in text:
            return []
        typed, found = text[1:].lower(), dict[str, tuple[str, Command]]()
        names = [name for name in self._by_name if name.startswith(typed)]
        listed = [
            name for name in names if name == typed or (name == self._listed(name) and not self._by_name[name][0].is_rare)
        ]
        first = [typed, *self.recent, *USUAL_NAMES]
        for name in sorted(listed or names, key=lambda name: first.index(name) if name in first else len(first)):
            found.setdefault(self._by_name[name][0].id, (name, self._by_name[name][0]))
        return list(found.values())

    def _listed(self, name: str) -> str:
        return next(iter(self._by_name[name][0].slash), "")

    def used(self, name: str) -> None:
        """Take note that a command was typed."""
        if name in self._by_name:
            self.recent = [name, *(each for each in self.recent if each != name)][:MOST_RECENT]


_KEY_NAMES = {
    "question_mark": "?", "slash": "/", "full_stop": ".", "comma": ",", "colon": ":", "equals_sign": "=", "minus": "-",
    "underscore": "_", "dollar_sign": "$", "right_square_bracket": "]", "left_square_bracket": "[",
    "right_curly_bracket": "}", "left_curly_bracket": "{", "escape": "Esc", "pageup": "PgUp", "pagedown": "PgDn",
    "up": "↑", "down": "↓", "left": "←", "right": "→",
}  # fmt: skip


def key_name(key: str) -> str:
    """Return a key as a person reads it: `Ctrl+P`, `PgUp`, `y`."""
    return key if len(key) == 1 else "+".join(_KEY_NAMES.get(part, part.capitalize()) for part in key.split("+"))


_OWN_KEYS: dict[str, tuple[str, ...]] = {}


def use_keys(keys: Mapping[str, tuple[str, ...]]) -> None:
    """Show the user's own keys from now on, everywhere where keys are named."""
    _OWN_KEYS.clear()
    _OWN_KEYS.update(keys)
