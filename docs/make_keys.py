"""Writes docs/keys.md from the table of commands: `make docs`."""

from __future__ import annotations

from pathlib import Path

from lmtui.commands.command import Command, Scope, key_name
from lmtui.tui.commands import COMMANDS

PAGE = Path(__file__).with_name("keys.md")
HEAD = """\
# Keys and commands

Made from the table of commands by `make docs`; do not edit it. In the app `F1` shows the same, and `Ctrl+P` finds
commands by their names. The words in the first column are what a keymap names: see [the workbench](workbench.md).
"""


def page() -> str:
    """Return the whole page."""
    used = [each.scope for each in COMMANDS]
    sections = [_section(scope) for scope in dict.fromkeys((*Scope, *used)) if scope in used]
    return "\n".join([HEAD, *sections])


def _section(scope: str) -> str:
    lines = [f"## {scope[:1].upper()}{scope[1:]}", "", "| Command | Keys | Typed | What it does |", "| --- | --- | --- | --- |"]
    lines += [_row(each) for each in COMMANDS if each.scope == scope]
    return "\n".join([*lines, ""])


def _row(each: Command) -> str:
    keys = " ".join(f"`{key_name(key)}`" for key in each.keys)
    typed = " ".join(f"`/{name}`" for name in (*each.slash, *each.aliases))
    typed += f" {each.argument}" if each.slash and each.argument else ""
    cells = (f"`{each.id}`", keys, typed, f"{each.title}: {each.help}")
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


if __name__ == "__main__":
    _ = PAGE.write_text(page(), encoding="utf-8")
