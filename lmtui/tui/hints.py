"""The line of keys below the prompt: those of the place where the keys go now."""

from __future__ import annotations

from lmtui.tui.commands import command, first_key, hint_text
from lmtui.tui.widgets.fit import Part

IN_THE_PROMPT = ("prompt.send", "prompt.newline", "session.list", "mode.choose", "app.stop")
IN_A_PANE = {
    "files": ("lines.select", "files.filter", "files.mark", "files.edit", "files.hidden"),
    "chat": ("lines.select", "chat.find_here", "lines.copy", "chat.copy_code", "copying.start"),
    "plan": ("lines.select", "lines.copy"),
    "log": ("lines.select", "log.filter", "lines.copy"),
}


def hint_parts(pane: str, *, has_mouse: bool) -> tuple[list[Part], list[Part]]:
    """Return the line's parts; `pane` is the one that has the focus, empty for the prompt."""
    ids = IN_A_PANE.get(pane, IN_THE_PROMPT)
    left = [Part(f"keys go to {pane}", "$accent", 0)] if pane else []
    left += [Part(hint_text([command(each)]), "$text-muted", rank) for rank, each in enumerate(ids, 1 if pane else 0)]
    left += [Part(f"{first_key(command(f'pane.{pane}'))} prompt", "$text-muted", 1)] if pane else []
    mouse = "" if has_mouse else f"mouse off  {first_key(command('app.mouse'))} on"
    return left, [Part(mouse, "$warning", 1)] if mouse else []
