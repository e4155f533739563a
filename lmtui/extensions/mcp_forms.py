"""What servers ask the user during calls: put before who made the call, and kept in words without what was filled in."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from lmtui.core.clean import clean_line
from lmtui.core.forms import Ask, Form, ask_nobody
from lmtui.extensions.mcp_names import harmless

_TEXT_CHARS = 120
_NAME_CHARS = 40
_MOST_NAMES = 20


@dataclass(eq=False, slots=True)
class _Call:
    """A call that is under way: who is asked, and what was asked and answered so far."""

    ask: Ask
    notes: list[str] = field(default_factory=list)


class Questions:
    """The calls of one server that are under way, and what is asked during each."""

    def __init__(self) -> None:
        self._open: list[_Call] = []

    @contextlib.contextmanager
    def during(self, ask: Ask) -> Iterator[list[str]]:
        """Put what is asked until the block ends before `ask`; the list then says what was asked and answered."""
        call = _Call(ask)
        self._open.append(call)
        try:
            yield call.notes
        finally:
            self._open.remove(call)

    async def ask(self, form: Form) -> Mapping[str, object] | None:
        """Put a form before who made the call that is under way; None declines it."""
        if not self._open:
            return None
        call = self._open[-1]
        found = await call.ask(form)
        call.notes.append(form_words(form, found, is_alone=call.ask is ask_nobody))
        return found


def form_words(form: Form, given: Mapping[str, object] | None, *, is_alone: bool = False) -> str:
    """Return what was asked and whether it was answered: the names of fields, never what was filled in."""
    asked = f"[the server asked the user {harmless(form.text, _TEXT_CHARS)!r}: "
    if given is None:
        return asked + ("declined, as nobody is there to answer]" if is_alone else "the user declined]")
    if form.url:
        return f"{asked}the user opened {clean_line(form.url.partition('?')[0])[:_TEXT_CHARS]}]"
    names = [clean_line(str(name))[:_NAME_CHARS] for name in list(given)[:_MOST_NAMES]]
    return f"{asked}the user accepted and filled in {', '.join(names) or 'nothing'}]"
