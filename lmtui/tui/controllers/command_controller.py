"""Runs commands on the full screen and shows what they give back, and the help: every key and command."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

from textual.content import Content
from textual.screen import Screen
from textual.worker import WorkerError

from lmtui.commands.command import (
    Ask,
    AskYes,
    Begin,
    Choose,
    CommandContext,
    ConfirmRestore,
    Leave,
    OpenSession,
    OpenView,
    Output,
    Result,
    ReviewEffect,
    Scope,
)
from lmtui.commands.table import run_typed
from lmtui.core.errors import LmtuiError
from lmtui.core.sanitize import pluralize
from lmtui.paths import theme_files
from lmtui.tui import themes
from lmtui.tui.commands import COMMANDS, TABLE, Command, command, first_key, key_of, of_scope
from lmtui.tui.controllers.change_controller import ChangeController
from lmtui.tui.controllers.session_controller import SessionController
from lmtui.tui.modals.consent import ConsentDialog
from lmtui.tui.modals.effect_question import EffectReviewScreen
from lmtui.tui.modals.picker import RECENT, AskText, Confirm, Picker, Reading
from lmtui.tui.modals.results import Choice, VeiledScreen
from lmtui.tui.terminal_app import ThemedApp
from lmtui.tui.timing import call_after
from lmtui.tui.workbench_api import Handler, WorkbenchApi, wanted_session

QUICK_S = 0.1
RESTS_S = 0.08  # of the bar, before all of the screen is made again
UNMERGED = "{files} not merged. The changes are saved as a patch; the session shows where."


class CommandController:
    """Runs commands.  `actions` are what the full screen does itself, by command id: open a view, go to a pane."""

    def __init__(
        self, workbench: WorkbenchApi, actions: dict[str, Handler], sessions: SessionController, changes: ChangeController
    ) -> None:
        self._workbench = workbench
        self.actions = actions
        self._sessions, self._changes = sessions, changes
        workbench.prompt.completing.commands = TABLE

    async def run(self, command_id: str) -> None:
        """Run a command at its key."""
        handler = command(command_id).handler
        if handler is None or self._workbench.sessions.host is None:
            await self._open(command_id)
        else:
            await self._do(lambda context: handler(context, ""))

    def is_command(self, text: str) -> bool:
        """Tell whether a text is a slash command, of ours or a Markdown file's."""
        return TABLE.parse(text) is not None

    async def run_text(self, text: str) -> None:
        """Run a slash command as it was typed; one that is not known stays in the prompt, to be put right."""
        call = TABLE.parse(text)
        if call is not None:
            TABLE.used(call.name)
        if self._workbench.sessions.host is None and call is not None and call.command is not None:
            await self._open(call.command.id, call.argument)
        else:
            await self._do(lambda context: run_typed(context, text), text if call is None or call.command is None else "")

    async def _do(self, work: Callable[[CommandContext], Awaitable[Result]], kept: str = "") -> None:
        """Run a command and render its result; wait for a quick one only, so that the screen never does for a slow one.

        `kept` goes back into the prompt where it fails.
        """
        host, active = self._workbench.sessions.host, self._workbench.active
        if host is None:
            self._workbench.say("no session yet")
            return
        session = active.session if active is not None else None
        context = CommandContext(host, session, TABLE, self._workbench.now, say=self._workbench.say)

        async def finish() -> None:
            try:
                await self._render(await work(context))
            except LmtuiError as error:
                self._workbench.say(error.full_text(), "error")
                if kept and not self._workbench.prompt.text:
                    self._workbench.prompt.replace_text(kept)

        worker = self._workbench.app.run_worker(finish(), group="commands")
        with contextlib.suppress(TimeoutError, WorkerError):
            await asyncio.wait_for(asyncio.shield(worker.wait()), QUICK_S)

    async def _open(self, name: str, argument: str = "") -> None:
        if name in self.actions:
            done = self.actions[name](argument)
            if done is not None:
                await done
        elif command(name).scope is Scope.APP:
            _ = await self._workbench.app.run_action(command(name).action)
        else:
            self._workbench.say("no session yet")

    async def _render(self, result: Result) -> None:
        workbench = self._workbench
        app: Any = workbench.app
        match result:
            case Output(lines=lines, title=""):
                workbench.say("\n".join(lines))
            case Output(lines=lines, title=title):
                _ = app.push_screen(Reading(title, lines))
            case OpenView(name=name, argument=argument):
                await self._open(name, argument)
            case Begin(start=start):
                self._begin(start)
            case OpenSession(session_id=session_id):
                _ = app.run_worker(self._sessions.open(session_id), group="open-session")
            case Ask(question=question, then=then):
                ask = AskText(question, value=result.start, placeholder=result.placeholder)
                _ = app.push_screen(ask, lambda typed: self._answer(then, typed))
            case AskYes(question=question, text=text, then=done):
                confirm = Confirm(question, text, result.yes)
                _ = app.push_screen(confirm, lambda is_sure: self._answer(lambda _: done(), "" if is_sure else None))
            case Choose():
                choices = [Choice(value, value, note) for value, note in result.choices.items()]
                picker = Picker(result.title, choices, chosen=result.chosen)
                _ = app.push_screen(picker, lambda chosen: self._answer(result.then, chosen))
            case ConfirmRestore(plan=plan, what=what):
                _ = app.run_worker(self._changes.restore(plan(), what), group="restore", exclusive=True)
            case ReviewEffect(review=review, title=title):
                _ = app.push_screen(EffectReviewScreen(review, title))
            case Leave():
                _ = await app.run_action("app.leave")

    def _begin(self, start: Callable[[Any], None]) -> None:
        if (active := wanted_session(self._workbench)) is not None:
            self._workbench.panes.follow_chat()
            self._workbench.sessions.begin(active, start)

    def _answer(self, then: Callable[[str], Awaitable[Result]], answer: str | None) -> None:
        if answer is not None:
            _ = self._workbench.app.run_worker(self._do(lambda _: then(answer)), group="commands")


GROUPS = {
    "This turn": "undo. merge. room. deep. plan. budget. background.",
    "Session": "session. usage. window. cache.",
    "View": "pane. changes. attempts. pipeline. batch. jobs. side. viewer. files. chat. layout. lines.",
    "Permissions": "mode. rules. trust.",
    "Model": "model. calls.",
    "Prompt": "prompt.",
    "Extensions": "guidance. skills. prompts. mcp. memory.",
}
OTHER_WORDS = {
    "app.theme": "color colour dark light appearance",
    "changes.show": "diff review",
    "attempts.show": "arena models best of several tries",
    "pipeline.show": "plan tasks board kanban queue",
    "budget.show": "quota limit cost",
    "usage.show": "tokens cost statistics stats dashboard",
    "settings.show": "config preferences options",
    "session.list": "background folders",
    "undo.last": "revert",
    "rules.show": "allow deny",
    "model.choose": "server key address",
}
MOST_RECENT = 3


def group_of(each: Command) -> str:
    """Return the group that a command is listed in."""
    return next((name for name, ids in GROUPS.items() if each.id.startswith(tuple(ids.split()))), "General")


HAS_PALETTE = Scope.WORKBENCH, Scope.CHANGES, Scope.VIEWER, Scope.SIDE, Scope.AGENT


def _choice(each: Command, group: str) -> Choice:
    words = f"{OTHER_WORDS.get(each.id, '')} {' '.join((*each.slash, *each.aliases))}"
    return Choice(each.action, each.title, each.help, words, group, first_key(each) if each.keys else "")


HERE, USUAL = "Here", "Most used"
MOST_HERE = 12
_OWN_MODE = (Scope.APP, Scope.COPYING, Scope.FINDING, Scope.MOVING)  # shown in their mode, or under all keys
USUAL_IDS = (
    "app.palette", "app.stop", "session.list", "session.next_waiting", "session.new", "mode.choose", "changes.show",
    "undo.last", "model.choose", "files.find", "settings.show", "app.leave",
)  # fmt: skip


def _help_row(each: Command, group: str) -> Choice:
    typed = [f"/{name} {each.argument}".strip() for name in (*each.slash, *each.aliases)]
    words = "  ".join([*typed, each.key_text, OTHER_WORDS.get(each.id, "")])
    title = each.hint[:1].upper() + each.hint[1:] if each.id.startswith("list.") and each.hint else each.title
    return Choice(each.id, title, each.help, words, group, each.key_text or "".join(typed[:1]).partition(" ")[0])


def every_key() -> list[Choice]:
    """Return a row for each command, by group."""

    def group(each: Command) -> str:
        return group_of(each) if each.scope in (Scope.APP, Scope.WORKBENCH) else each.scope[:1].upper() + each.scope[1:]

    groups = dict.fromkeys((*GROUPS, "General", *map(group, COMMANDS)))
    return [_help_row(each, name) for name in groups for each in COMMANDS if group(each) == name]


class Help(Picker):
    """Lists what the keys do here and the usual commands, or all; enter runs what can be run."""

    NAME, SCOPE = "help", Scope.HELP
    REPEATED = (HERE, USUAL)  # under all keys, too

    def __init__(self, here: Sequence[Command]) -> None:
        shown = [_help_row(each, HERE) for each in here[:MOST_HERE]]
        ids = {each.id for each in here}
        usual = [_help_row(command(each), USUAL) for each in USUAL_IDS if each not in ids]
        super().__init__("Help", [*shown, *usual], noun="command", hidden=every_key())

    def verbs(self, *left_out: str) -> list[Command]:
        """Return what can be done in the list."""
        runs = self.current is not None and command(self.current.id).scope in (Scope.APP, Scope.WORKBENCH)
        shown = super().verbs(*left_out, *([] if runs else ["picker.open"]))
        return [*shown, *(of_scope(Scope.HELP) if self.hidden else ())]

    def action_help_all(self) -> None:
        """Show all keys."""
        self.choices, self.hidden = self.hidden or self.choices, ()
        self.show_all()

    def about(self, row: Choice | None) -> tuple[str | Content, Sequence[Command]]:
        """Return all that there is to know of the marked command."""
        return f"{row.note}  ·  {row.words.strip()}" if row is not None else "", super().about(row)[1]

    def act(self) -> None:
        """Run the marked command, unless it belongs to another place."""
        if self.current is not None and command(self.current.id).scope in (Scope.APP, Scope.WORKBENCH):
            _ = self.dismiss(command(self.current.id).action)


class AppController:
    """Answers the commands that apply everywhere.  `keep_theme` makes a theme the user's."""

    def __init__(self, app: ThemedApp, keep_theme: Callable[[str], None]) -> None:
        self._app, self._keep_theme = app, keep_theme
        self._recent: list[str] = []
        self._leaving: Confirm | None = None

    def handlers(self) -> dict[str, Handler]:
        """Return what answers each command."""
        return {
            "app.help": lambda _: self._show_help(),
            "app.palette": lambda _: self._show_palette(),
            "app.theme": self._choose_theme,
        }

    def asks_to_leave(self, running: int, unmerged: int = 0) -> bool:
        """Ask before leaving while agents work or files are not merged; False where nothing is asked, or it was already."""
        if self._app.options.is_attached or not (running or unmerged) or self._app.screen is self._leaving:
            return False
        count = "an agent is working" if running == 1 else f"{running} agents are working"
        works = "Turns stop; their work is saved, and sessions can be resumed.\n" if running else ""
        waits = f"{UNMERGED.format(files=pluralize(unmerged, 'file'))}\n" if unmerged else ""
        text = f"{works}{waits}Press {key_of('app.leave')} again to quit."
        title = f"Quit while {count}?" if running else "Quit without merging?"
        self._leaving = Confirm(title, text, "quit")
        _ = self._app.push_screen(self._leaving, lambda is_sure: self._app.leave_now(0) if is_sure else None)
        return True

    @property
    def _here(self) -> str:
        scope: str = getattr(self._app.screen, "SCOPE", Scope.WORKBENCH)
        return scope

    def _show_help(self) -> None:
        """Show what the keys do where one is, and the usual commands."""
        if isinstance(self._app.screen, Help):
            _ = self._app.screen.dismiss(None)
        else:
            screen, focused = self._app.screen, self._app.focused
            if isinstance(screen, VeiledScreen):
                here = [replace(each, id=each.id.partition("#")[0]) for each in screen.key_verbs()[0]]
            else:
                ids = {binding.id for _, binding in focused._bindings} if focused is not None else set()
                here = [each for each in COMMANDS if each.id in ids and each.scope not in _OWN_MODE]
                here += [each for each in of_scope(self._here) if self._here != Scope.WORKBENCH and each not in here]
            _ = self._app.push_screen(Help(here), lambda action: self._run(action, screen))

    async def _run(self, action: str | None, screen: Screen[Any]) -> None:
        if action is not None:
            self._recent = [action, *(each for each in self._recent if each != action)][:MOST_RECENT]
            is_own = hasattr(screen, f"action_{action.partition('(')[0]}")
            if isinstance(screen, ConsentDialog) and not is_own:
                screen.leave_for(action)
            else:
                place = screen if is_own else self._app.screen_stack[0]
                _ = await self._app.run_action(action, default_namespace=place)

    def _show_palette(self) -> None:
        """Show all commands of the place where one is, to choose one."""
        app, screen = self._app, self._app.screen
        if isinstance(screen, ConsentDialog):
            screen.action_leave_for("app.palette")
        if isinstance(screen, ConsentDialog) or self._here not in HAS_PALETTE:
            return
        found = [each for each in of_scope(Scope.APP, self._here) if each.id != "app.palette"]
        found.sort(key=lambda each: [*GROUPS, "General"].index(group_of(each)))
        choices = [_choice(each, group_of(each)) for each in found if not each.is_rare]
        rare = [_choice(each, group_of(each)) for each in found if each.is_rare]
        by_action = {each.action: each for each in found}
        recent = [_choice(by_action[each], RECENT) for each in self._recent if each in by_action]
        picker = Picker("Commands", [*recent, *choices], noun="command", hidden=rare)
        _ = app.push_screen(picker, lambda action: self._run(action, screen))

    def _choose_theme(self, name: str) -> None:
        """Use a theme from now on, and let one be chosen where none is named."""
        app = self._app
        if name:
            self._use_theme(name)
            return
        before = app.theme
        kinds = {name: themes.kind_text(file) for name, file in theme_files().items()}
        choices = [Choice(name, name, note, group=kind) for name, (kind, note) in kinds.items()]
        choices.sort(key=lambda each: (each.group, each.text))

        def preview(name: str) -> None:
            if picker.is_current and (row := picker.current) is not None and row.id == name != app.theme:
                app.use_theme(name)

        picker = Picker("Theme", choices, chosen=before, marked=lambda name: call_after(app, RESTS_S, lambda: preview(name)))
        _ = app.push_screen(picker, lambda name: app.use_theme(before) if name is None else self._use_theme(name))

    def _use_theme(self, name: str) -> None:
        """Show a theme and keep it for the next start; one that is broken is only said."""
        if name != self._app.theme:
            self._app.use_theme(name)
        if name == self._app.theme:
            self._keep_theme(name)
