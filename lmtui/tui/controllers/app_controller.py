"""The dialogs that can be opened from everywhere: help, all commands, themes, and the question before leaving."""

from __future__ import annotations

from lmtui.commands.command import Scope
from lmtui.tui import themes
from lmtui.tui.commands import key_of, of_scope
from lmtui.tui.modals.picker import Confirm, Picker
from lmtui.tui.modals.results import Choice
from lmtui.tui.screens.help import Help
from lmtui.tui.terminal_app import ThemedApp
from lmtui.tui.workbench_api import Handler

PALETTE_SCOPES = (Scope.WORKBENCH, Scope.CHANGES, Scope.RULES)


class AppController:
    """Answers the commands that apply everywhere."""

    def __init__(self, app: ThemedApp) -> None:
        self._app = app

    def handlers(self) -> dict[str, Handler]:
        """Return what answers each command."""
        return {
            "app.help": lambda _: self._show_help(),
            "app.palette": lambda _: self._show_palette(),
            "app.theme": self._choose_theme,
        }

    def asks_to_leave(self, running: int) -> bool:
        """Ask before leaving while agents work; False where nothing is asked, or it was already."""
        if not running or isinstance(self._app.screen, Confirm):
            return False
        count = "an agent is working" if running == 1 else f"{running} agents are working"
        text = f"Turns stop; their work is saved, and sessions can be resumed.\nPress {key_of('app.leave')} again to quit."
        confirm = Confirm(f"Quit while {count}?", text)
        _ = self._app.push_screen(confirm, lambda is_sure: self._app.leave_now(0) if is_sure else None)
        return True

    @property
    def _here(self) -> Scope:
        scope: Scope = getattr(self._app.screen, "SCOPE", Scope.WORKBENCH)
        return scope

    def _show_help(self) -> None:
        if self._here is not Scope.HELP:
            _ = self._app.push_screen(Help(self._here))

    def _show_palette(self) -> None:
        """Show all commands of the place where one is, to choose one."""
        app, screen = self._app, self._app.screen
        if self._here not in PALETTE_SCOPES:
            return

        async def run_chosen(action: str | None) -> None:
            if action is not None:
                _ = await app.run_action(action, default_namespace=screen)

        found = of_scope(Scope.APP, self._here)
        choices = [Choice(each.action, each.title, f"{each.key_text:<10}  {each.help}") for each in found]
        _ = app.push_screen(Picker("COMMANDS", choices), run_chosen)

    def _choose_theme(self, name: str) -> None:
        """Use a theme, and let one be chosen where none is named."""
        app = self._app
        if name:
            app.use_theme(name)
            return
        choices = [Choice(each, each, themes.kind_text(file)) for each, file in themes.theme_files().items()]
        _ = app.push_screen(Picker("THEME", choices, chosen=app.theme), lambda name: app.use_theme(name) if name else None)
