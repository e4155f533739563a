"""Every key and command, made from the table."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from lmtui.tui.commands import Command, Scope, bindings, of_scope

KEY_CELLS = 20
SLASH_CELLS = 24


class Help(ModalScreen[None]):
    """Shows the table, the scope where one stands first."""

    CSS_PATH = "../dialogs.tcss"
    BINDINGS = bindings(Scope.APP)

    SCOPE: ClassVar[Scope] = Scope.HELP

    def __init__(self, here: Scope) -> None:
        super().__init__()
        self._here = here

    def compose(self) -> ComposeResult:
        """Lay out the table."""
        with Vertical(classes="box wide tall"):
            yield Static("KEYS AND COMMANDS", classes="box-title", markup=False)
            with VerticalScroll(id="help-text"):
                yield Static(help_content(self._here), markup=False)
            yield Static(
                "esc close · keys can be changed in config.toml under [keys], by the name in the last column",
                classes="hint",
                markup=False,
            )

    def on_mount(self) -> None:
        """Let the arrow keys scroll."""
        self.query_one("#help-text").focus()

    def action_close_or_stop(self) -> None:
        """Close."""
        _ = self.dismiss(None)


def help_content(here: Scope) -> Content:
    """Return all commands by scope, `here` first."""
    scopes = [here, *(scope for scope in Scope if scope is not here)]
    return Content("\n\n").join([_section(scope) for scope in scopes if of_scope(scope)])


def _section(scope: Scope) -> Content:
    lines = [Content.styled(scope.value.upper(), "$text-muted"), *(_line(each) for each in of_scope(scope))]
    return Content("\n").join(lines)


def _line(each: Command) -> Content:
    slash = " ".join(f"/{name}" for name in each.slash)
    return Content.assemble(
        (each.key_text.ljust(KEY_CELLS), "$accent"),
        (f"{slash} {each.argument}".strip().ljust(SLASH_CELLS) if slash else " " * SLASH_CELLS, "$text"),
        (each.help, "$text"),
        (f"  {each.id}" if not each.is_fixed else "", "$text-muted"),
    )
