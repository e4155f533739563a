"""Every key and command, made from the table."""

from __future__ import annotations

import textwrap
from typing import ClassVar

from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from lmtui.tui.commands import COMMANDS, Command, Scope, bindings, of_scope

KEY_CELLS = 19
SLASH_CELLS = 20
BESIDE_CELLS = 70


class Help(ModalScreen[None]):
    """Shows the table, the scope where one is first."""

    CSS_PATH = "../dialogs.tcss"
    BINDINGS = bindings(Scope.APP)

    SCOPE: ClassVar[Scope] = Scope.HELP

    def __init__(self, here: str) -> None:
        super().__init__()
        self._here = here
        self._text = Static("", markup=False)

    def compose(self) -> ComposeResult:
        """Lay out the table."""
        with Vertical(classes="box wide tall"):
            yield Static("KEYS AND COMMANDS", classes="box-title", markup=False)
            with VerticalScroll(id="help-text"):
                yield self._text
            yield Static("esc close", classes="hint", markup=False)

    def on_mount(self) -> None:
        """Let the arrow keys scroll."""
        self.query_one("#help-text").focus()

    def on_resize(self) -> None:
        """Wrap for the width there is."""
        self.call_after_refresh(self._fill)

    def _fill(self) -> None:
        self._text.update(help_content(self._here, self._text.size.width - 1))

    def action_close_or_stop(self) -> None:
        """Close."""
        _ = self.dismiss(None)


def help_content(here: str, width: int) -> Content:
    """Return all commands by scope, `here` first, with the explanations wrapped next to keys and names."""
    scopes = dict.fromkeys((here, *Scope, *(each.scope for each in COMMANDS)))
    return Content("\n\n").join([_section(scope, width) for scope in scopes if of_scope(scope)])


def _section(scope: str, width: int) -> Content:
    lines = [_line(each, width) for each in of_scope(scope)]
    return Content("\n").join([Content.styled(scope.upper(), "$text-muted"), *lines])


def _line(each: Command, width: int) -> Content:
    slash = " ".join(f"/{name}" for name in each.slash)
    lead_cells = KEY_CELLS + SLASH_CELLS
    if width < BESIDE_CELLS:
        lead = Content.assemble((each.key_text, "$accent"), ("  " if each.bound_keys and slash else "", ""), (slash, "$text"))
        help_lines = textwrap.wrap(each.help, max(20, width - 4))
        return Content("\n    ").join([lead, *map(Content, help_lines)])
    help_lines = textwrap.wrap(each.help, max(20, width - lead_cells))
    return Content.assemble(
        (each.key_text.ljust(KEY_CELLS), "$accent"),
        (f"{slash} {each.argument}".strip().ljust(SLASH_CELLS) if slash else " " * SLASH_CELLS, "$text"),
        (("\n" + " " * lead_cells).join(help_lines), "$text"),
    )
