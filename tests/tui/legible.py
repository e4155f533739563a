"""What a reader's eyes need of the cells on screen: contrast, and the brightest ground where something waits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from rich.color import Color as RichColor
from textual.app import App
from textual.color import Color
from textual.geometry import Region

from lmtui.tui.modals.results import VeiledScreen

TEXT, MARKS = 4.5, 3.0
SAME = 1.02  # Textual mixes colours, which rounds
RULES = frozenset("▏▎▍▌▋▊▉│─━╸╺▁▂▃▄▅▆▇█▔ ")  # bars, rules, meters: shapes, not text


class Cells(NamedTuple):
    """Neighbouring cells of one style, the colours as `#rrggbb`."""

    region: Region
    text: str
    color: str
    ground: str


def contrast(one: str, other: str) -> float:
    """Return the WCAG 2 contrast ratio of two colours."""
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def luminance(color: str) -> float:
    channels = (channel / 255 for channel in Color.parse(color).rgb)
    red, green, blue = (each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def cells(app: App[Any]) -> Iterator[Cells]:
    """Yield all that is on screen, with what shows behind a dialog."""
    update = app.screen._compositor.render_update(full=True, screen_stack=app._background_screens)
    for y, chops in enumerate(getattr(update, "strips", ())):
        x = 0
        for segment in (segment for strip in chops for segment in strip):
            style, width = segment.style, segment.cell_length
            if style is not None and style.color is not None and style.bgcolor is not None:
                color, ground = _hex(style.color), _hex(style.bgcolor)
                color, ground = (ground, color) if style.reverse else (color, ground)
                yield Cells(Region(x, y, width, 1), segment.text, color, ground)
            x += width


def illegible(app: App[Any]) -> list[Cells]:
    """Return what has too little contrast; what is behind a veil is not meant to be read."""
    screen = app.screen
    boxes = [box.region for box in screen.query(".box")] if isinstance(screen, VeiledScreen) else [screen.region]
    found = []
    for each in cells(app):
        text = "".join(char for char in each.text if char not in RULES)
        least = TEXT if any(char.isalnum() for char in text) else MARKS
        if text and any(box.contains_region(each.region) for box in boxes) and contrast(each.color, each.ground) < least:
            found.append(each)
    return found


def is_brightest_waiting(app: App[Any]) -> bool:
    """Tell whether the ground that differs most from the app's own is amber, or red for what is dangerous."""
    theme = app.current_theme
    brightest = max((each.ground for each in cells(app)), key=lambda ground: contrast(ground, theme.background or "#000000"))
    return any(contrast(brightest, color) < SAME for color in (theme.warning, theme.error) if color)


def _hex(color: RichColor) -> str:
    return "#{:02x}{:02x}{:02x}".format(*color.get_truecolor())
