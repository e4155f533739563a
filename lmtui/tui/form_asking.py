"""A form that a server asks the user to fill in: one question after the other, then a last look before it is sent."""

from __future__ import annotations

import asyncio
import webbrowser
from collections.abc import Mapping
from typing import Any

from textual.app import App

from lmtui.core.clean import clean_line
from lmtui.core.errors import UsageError
from lmtui.core.forms import Field, Form, fields_of
from lmtui.tui.modals.picker import Picker
from lmtui.tui.modals.questions import AskText, Confirm
from lmtui.tui.modals.results import Choice

_DONE = "\0done"


async def ask_form(app: App[Any], form: Form) -> Mapping[str, object] | None:
    """Ask everything that a form wants; None where the user left it.  Runs in a worker of the app."""
    if form.url:
        return await _visited(app, form)
    values: dict[str, object] = {}
    title = f"{clean_line(form.server)} ASKS: {form.text}"
    for each in fields_of(form):
        found = await _asked(app, title, each)
        if found is _LEFT:
            return None
        if found is not None:
            values[each.name] = found
    told = "\n".join(f"{clean_line(name)}: {clean_line(str(value))}" for name, value in values.items())
    text = f"{form.text}\n\n{told or '(nothing)'}"
    return values if await app.push_screen_wait(Confirm(f"Send this to {clean_line(form.server)}?", text)) else None


class _Left:
    """Stands for a question that was left."""


_LEFT = _Left()


async def _visited(app: App[Any], form: Form) -> Mapping[str, object] | None:
    text = f"{form.text}\n\n{form.url}"
    if not await app.push_screen_wait(Confirm(f"{clean_line(form.server)} wants you to open this page", text)):
        return None
    await asyncio.to_thread(webbrowser.open, form.url)
    return {}


async def _asked(app: App[Any], title: str, each: Field) -> object:
    """Return a field's value, None where it is left out, `_LEFT` where the whole form is left."""
    if each.kind == "boolean":
        choices = [Choice("yes", "yes"), Choice("no", "no")]
        found = await app.push_screen_wait(Picker(f"{title} · {each.title}", choices, chosen="yes" if each.default else "no"))
        return _LEFT if found is None else found == "yes"
    if each.kind == "array":
        return await _several(app, title, each)
    if each.choices:
        choices = [Choice(value, words) for value, words in each.choices]
        chosen = await app.push_screen_wait(Picker(f"{title} · {each.title}", choices, chosen=str(each.default or "")))
        return _LEFT if chosen is None else chosen
    return await _typed(app, title, each)


async def _several(app: App[Any], title: str, each: Field) -> object:
    """Let one after the other be chosen, until it is enough."""
    taken: list[str] = []
    while True:
        left = [Choice(value, words) for value, words in each.choices if value not in taken]
        done = Choice(_DONE, f"done: {', '.join(map(clean_line, taken)) or 'none'}")
        found = await app.push_screen_wait(Picker(f"{title} · {each.title}", [done, *left]))
        if found is None:
            return _LEFT
        if found == _DONE:
            return taken
        taken.append(found)


async def _typed(app: App[Any], title: str, each: Field) -> object:
    words = each.title
    while True:
        note = each.note or ("" if each.is_required else "may be left empty")
        value = "" if each.default is None else clean_line(str(each.default))
        text = await app.push_screen_wait(AskText(f"{title} · {words}", value=value, placeholder=note))
        if text is None:
            return _LEFT
        if not text and each.is_required:
            continue
        try:
            return each.read(text)
        except UsageError as error:
            words = str(error)
