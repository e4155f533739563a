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


ASKED = ("keys answer the question", "/ and other words go to the prompt")


def hint_parts(pane: str, *, has_mouse: bool, is_asked: bool = False) -> tuple[list[Part], list[Part]]:
    """Return the line's parts; `pane` is the one that has the focus, empty for the prompt; `is_asked`: a question has it."""
    if is_asked:
        return [Part(ASKED[0], "$accent", 0), Part(ASKED[1], "$text-muted", 1)], []
    ids = IN_A_PANE.get(pane, IN_THE_PROMPT)
    left = [Part(f"keys go to {pane}", "$accent", 0)] if pane else []
    left += [Part(hint_text([command(each)]), "$text-muted", rank) for rank, each in enumerate(ids, 1 if pane else 0)]
    left += [Part(f"{first_key(command(f'pane.{pane}'))} prompt", "$text-muted", 1)] if pane else []
    mouse = "" if has_mouse else f"mouse off  {first_key(command('app.mouse'))} on"
    return left, [Part(mouse, "$warning", 1)] if mouse else []
