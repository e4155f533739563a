"""The lines at the top and the bottom: where one is, what continues, what can be done.  They draw what they are given."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, Literal

from textual import events
from textual.content import Content
from textual.geometry import Size
from textual.style import Style
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Static

from lmtui.commands.command import Command
from lmtui.core.sanitize import sanitize
from lmtui.tui.key_bindings import first_key
from lmtui.tui.timing import call_after


@dataclass(frozen=True, slots=True)
class Part:
    """Some words with a style of theme variables, or styled already; the higher `rank` is dropped the earlier, rank 0 never."""

    text: str | Content
    style: str = ""
    rank: int = 0

    @property
    def content(self) -> Content:
        """Return it as it is drawn."""
        return self.text if isinstance(self.text, Content) else Content.styled(self.text, self.style)


def fit_line(left: Sequence[Part], right: Sequence[Part], width: int) -> Content:
    """Return one line of a width in cells: `left` parts, blank, `right` parts; too long a line loses parts, then its end."""
    kept_left, kept_right = [part for part in left if part.text], [part for part in right if part.text]
    while _join(kept_left).cell_length + _join(kept_right).cell_length + 2 > width:
        worst = max((part.rank for part in (*kept_left, *kept_right)), default=0)
        if worst == 0:
            break
        parts = kept_right if any(part.rank == worst for part in kept_right) else kept_left
        del parts[max(at for at, part in enumerate(parts) if part.rank == worst)]
    before, after = _join(kept_left), _join(kept_right)
    space = max(width - before.cell_length - after.cell_length, 2 if kept_left and kept_right else 0)
    return Content.assemble(before, " " * space, after).truncate(width, ellipsis=True)


def _join(parts: Sequence[Part]) -> Content:
    return Content("  ").join([part.content for part in parts])


class ClickableText(Widget):
    """Text with parts that do something when they are clicked on; the one under the pointer has the ground of a selection."""

    _pointed = ""

    def lit(self, content: Content) -> Content:
        """Return a text with what is under the pointer marked; grounds that it has stay."""
        spans = content.spans if self._pointed else ()
        for span in spans:
            if isinstance(span.style, Style) and span.style.meta.get("verb") == self._pointed:
                content = content.stylize_before("on $selection", span.start, span.end)
        return content

    def _point(self, verb: object) -> None:
        if verb != self._pointed:
            self._pointed = str(verb)
            self.refresh()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        self._point(event.style.meta.get("verb", ""))

    def on_leave(self) -> None:
        self._point("")

    async def on_click(self, event: events.Click) -> None:
        if isinstance(verb := event.style.meta.get("verb"), str):
            event.stop()
            _ = await self.app.run_action(verb, self.screen) or await self.app.run_action(verb, self.app.focused)


WIDE_CELLS = 120
WIDTHS = [(0, "-narrow"), (80, "-medium"), (WIDE_CELLS, "-wide")]
HEIGHTS = [(0, "-flat"), (9, "-low"), (13, "-short"), (16, "-high")]


class Bar(ClickableText):
    """One line of parts, laid out for the width it has; repainted only when what it says changes."""

    DEFAULT_CSS = """
    Bar { height: 1; width: 1fr; padding: 0 1; }
    """

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's name for it
        super().__init__(id=id)
        self._parts: tuple[Sequence[Part], Sequence[Part]] = ((), ())

    def show(self, left: Sequence[Part], right: Sequence[Part]) -> None:
        """Draw these parts."""
        if (left, right) != self._parts or _spans(left, right) != _spans(*self._parts):
            before = self.render()
            self._parts = (left, right)
            after = self.render()
            # one that is hidden has no width to tell by
            if not self.size or (after.plain, after.spans) != (before.plain, before.spans):
                self.refresh()

    def render(self) -> Content:
        return self.lit(fit_line(*self._parts, self.content_size.width))


def _spans(*sides: Sequence[Part]) -> list[object]:
    """Return the colours of parts: two contents are equal whatever theirs are."""
    return [part.text.spans for side in sides for part in side if isinstance(part.text, Content)]


class Spinner(Static):
    """One cell that turns four times a second while something runs, and does nothing at all otherwise."""

    DEFAULT_CSS = """
    Spinner { width: 1; height: 1; color: $accent; }
    """
    SIGNS: ClassVar[str] = "⠋⠙⠹⠸⠼⠴⠦⠧"
    TURNS_PER_S: ClassVar[int] = 4

    @classmethod
    def sign(cls, now: datetime) -> str:
        """Return the sign of a moment."""
        return cls.SIGNS[int(now.timestamp() * cls.TURNS_PER_S) % len(cls.SIGNS)]

    def show(self, is_running: bool, now: datetime) -> None:
        """Draw the sign of this moment, or a blank."""
        sign = self.sign(now) if is_running else " "
        if self.content != sign:
            self.update(sign, layout=False)


Tone = Literal["info", "warning", "error"]
SAY_S = 4.0
MOST_NOTICES = 2
TONE_STYLES: dict[Tone, tuple[str, str, int]] = {
    "info": ("$accent", "$text", 1),
    "warning": ("$warning", "$warning", 2),
    "error": ("$error", "$error", 3),
}


class SayLine(Static):
    """Floats at most two notices at the top right of the chat.  Errors stay until something else is done, the others go."""

    DEFAULT_CSS = """
    SayLine { layer: above; dock: top; height: auto; margin-top: 1; display: none; background: $panel; }
    """

    def __init__(self) -> None:
        super().__init__("", id="say", markup=False)
        self.say_s = SAY_S
        self._said: dict[str, tuple[Tone, Timer | None]] = {}
        self._x, self._room = 0, 0

    def place(self, x: int, room: int) -> None:
        """Stay within these columns, at their right end."""
        self._x, self._room = x, room
        self._draw()

    def say(self, text: str, tone: Tone = "info") -> None:
        """Show a text next to the one before; one that is there already is shown again, an empty one puts all away."""
        self._forget(text)
        if not text:
            self.clear()
            return
        while len(self._said) >= MOST_NOTICES:
            self._forget(next((each for each, (other, _) in self._said.items() if other != "error"), next(iter(self._said))))
        self._said[text] = tone, None if tone == "error" else call_after(self, self.say_s, lambda: self.clear(text))
        self._draw()

    def clear(self, *texts: str) -> None:
        """Put these notices away, without any all of them."""
        if found := [text for text in texts or tuple(self._said) if text in self._said]:
            for text in found:
                self._forget(text)
            self._draw()

    def clear_errors(self) -> None:
        """Put errors away that are repaired."""
        self.clear(*([text for text, (tone, _) in self._said.items() if tone == "error"] or [""]))

    def _forget(self, text: str) -> None:
        _, timer = self._said.pop(text, ("info", None))
        if timer is not None:
            timer.stop()

    def _draw(self) -> None:
        room = max(4, self._room or self.app.size.width)
        lines = [line for text, (tone, _) in self._said.items() for line in _notice(text, tone, room)]
        cells = max((line.cell_length for line in lines), default=0) + 1
        self.display = bool(lines)
        self.styles.width, self.styles.offset = cells, (self._x + max(0, room - cells), 0)
        self.update(Content("\n").join(lines))


def _notice(text: str, tone: Tone, room: int) -> list[Content]:
    """Return a notice behind its bar, in as many lines as its tone may have."""
    bar, style, most = TONE_STYLES[tone]
    lines = Content.styled(sanitize(text).replace("`", ""), style).wrap(room - 3)
    if len(lines) > most:
        lines[most - 1 :] = [Content(" ").join(lines[most - 1 :]).truncate(room - 3, ellipsis=True)]
    return [Content.assemble(("▌ ", bar), line) for line in lines]


Hint = tuple[str, str, str]
_KEPT = (".no", ".reject", ".anyway")  # the way out is always a button, and the only way in


ONE_ROW_BELOW, KEYS_ONLY_BELOW = 30, 13


class ChoiceRows(ClickableText):
    """Draws answers as buttons, the chosen one filled, and behind them in hints what else can be done.

    In a low terminal they take one row: buttons that have no room are left out, and if the words do not fit, the keys remain.
    """

    DEFAULT_CSS = """
    ChoiceRows { height: auto; width: 1fr; }
    """

    _buttons: Sequence[Command] = ()
    _hints: Sequence[Hint] = ()
    _shown: tuple[object, ...] = ()
    drawn: Collection[str] = ()
    tone = "$warning"

    def show(self, buttons: Sequence[Command], hints: Sequence[Hint], *, chosen: str, dim: Collection[str]) -> None:
        """Draw these; hints are key, word and action.  Buttons with an id in `dim`, which do not count yet, are dim."""
        self._chosen, self._dim, self._buttons, self._hints = chosen, dim, list(buttons), list(hints)
        shown = (*buttons, *hints, chosen, *dim, self.app.size)
        if shown != self._shown:
            self._shown = shown
            self.refresh(layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return how many lines the buttons take."""
        del container, viewport
        return len(self._rows(width))

    def render(self) -> Content:
        return self.lit(Content("\n").join(self._rows(self.content_size.width)))

    def _rows(self, width: int) -> list[Content]:
        """Return the buttons and the hints."""
        buttons, hints, height = list(self._buttons), list(map(_hint, self._hints)), self.app.size.height
        self.drawn = {button.id for button in buttons}
        if height < KEYS_ONLY_BELOW:
            keys = [Content.styled(first_key(each), "bold $accent").stylize(_verb_meta(each.action)) for each in buttons]
            return _flow([*keys, *hints], " ", width)[:2]
        while len(rows := _flow([*map(self._button, buttons), *hints], " ", width)) > 1 and height < ONE_ROW_BELOW:
            spare = [each for each in buttons if each.id != self._chosen and each.bound_keys and not each.id.endswith(_KEPT)]
            if not spare:
                break
            buttons.remove(spare[-1])
            self.drawn = {button.id for button in buttons}
        return rows if height >= ONE_ROW_BELOW else rows[:1]

    def _button(self, each: Command) -> Content:
        key, word = first_key(each) if each.bound_keys else "", each.hint[:1].upper() + each.hint[1:]
        is_dim = each.id in self._dim
        if each.id == self._chosen:
            style = "bold $background on $text-muted" if is_dim else f"bold $background on {self.tone}"
            found = Content.styled(f" {key} {word} " if key else f" {word} ", style)
        else:
            parts = ((key, "$text-muted" if is_dim else "bold $accent"), (f" {word} ", "$text-muted" if is_dim else "$text"))
            found = Content.assemble(" ", *parts) if key else Content.assemble(parts[1])
        return found.stylize(_verb_meta(each.action))


def _verb_meta(action: str) -> Style:
    return Style.from_meta({"verb": action})


def _hint(each: Hint) -> Content:
    key, word, action = each
    found = Content.assemble(" ", (f"{key} ".lstrip(), "bold $accent"), (f"{word} ", "$text-muted"))
    return found.stylize(_verb_meta(action)) if action else found


def _flow(parts: Sequence[Content], gap: str, width: int) -> list[Content]:
    rows: list[list[Content]] = [[]]
    for part in parts:
        if rows[-1] and Content(gap).join([*rows[-1], part]).cell_length > width:
            rows.append([])
        rows[-1].append(part)
    return [Content(gap).join(row) for row in rows]
