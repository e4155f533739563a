"""Themes: TOML files of roles, made into Textual themes.  A broken file is said and leaves the default in place."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from rich.segment import Segment
from rich.style import Style
from textual.color import Color, ColorParseError
from textual.filter import LineFilter, Monochrome
from textual.theme import Theme

from lmtui import paths


class WithoutColor(LineFilter):
    """Takes the colours out of every line.  `marked` are the backgrounds that mean something, as hexadecimal texts."""

    def __init__(self, marked: frozenset[str]) -> None:
        super().__init__()
        self._marked = marked

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:  # noqa: ARG002 - Textual's signature
        """Return the line without colours."""
        return [Segment(text, style and plain_style(style, self._marked), control) for text, style, control in segments]


def filters_without_color(filters: list[LineFilter], theme: Theme) -> list[LineFilter]:
    """Return an app's filters with this one in place of greys; what the theme marks by a background is reversed."""
    marked = frozenset(Color.parse(theme.variables[name]).hex6.lower() for name in ("selection", "text"))
    return [*(each for each in filters if not isinstance(each, Monochrome | WithoutColor)), WithoutColor(marked)]


@lru_cache(4096)
def plain_style(style: Style, marked: frozenset[str]) -> Style:
    """Return a style with its attributes and its meaning for the mouse, reversed where its background marks something."""
    is_marked = style.bgcolor is not None and style.bgcolor.get_truecolor().hex in marked
    return style.without_color + Style(reverse=True if is_marked else None, meta=style.meta)


DEFAULT = "dusk"
FEW_COLORS = "sixteen"
BLENDS = {
    "added": ("success", 0.12),
    "removed": ("danger", 0.12),
    "added_word": ("success", 0.3),
    "removed_word": ("danger", 0.3),
    "match": ("warning", 0.3),
    "cursor": ("text", 0.07),
    "edge": ("faint", 0.6),
    "waiting": ("warning", 0.17),
}
ROLES = (
    *("text", "muted", "faint", "background", "surface", "panel", "selection"),
    *("accent", "warning", "danger", "success", "code"),
)
_TERMS_OF_FEW_COLORS = frozenset({"linux", "xterm", "vt100", "vt220", "ansi", "screen", "rxvt", "cygwin", "putty"})


class ThemeError(Exception):
    """A theme file cannot be used; the text names the file and the role."""


@dataclass(frozen=True, slots=True)
class ThemePalette:
    """The colours of a theme by role, as hexadecimal or CSS colour texts."""

    name: str
    is_dark: bool
    colors: dict[str, str]


def kind_text(file: Path) -> tuple[str, str]:
    """Return whether a theme is dark or light, or broken, and what its first line says.  Blocks."""
    try:
        kind = "Dark" if read_palette(file).is_dark else "Light"
    except ThemeError:
        return "Broken", "cannot be used; its file has an error"
    first = file.read_text("utf-8").partition("\n")[0]
    return kind, first.removeprefix("#").strip().removesuffix(".") if first.startswith("#") else ""


def find_theme(name: str) -> Theme:
    """Return a theme by name.

    Raises:
        ThemeError: the theme is unknown, or its file has an error.
    """
    files = paths.theme_files()
    if name in files:
        return make_theme(read_palette(files[name]))
    raise ThemeError(f"Theme {name!r} not found. Use one of {', '.join(sorted(files)) or 'none'}")


def built_in_theme() -> Theme:
    """Return the default theme."""
    return make_theme(read_palette(paths.themes_dir() / f"{DEFAULT}.toml"))


def first_theme(environ: Mapping[str, str]) -> str:
    """Return the theme to begin with where none is chosen: one for 16 colours on a terminal that has no more."""
    term = environ.get("TERM", "")
    has_more = "256" in term or "direct" in term or environ.get("COLORTERM", "") in ("truecolor", "24bit")
    return DEFAULT if has_more or term not in _TERMS_OF_FEW_COLORS else FEW_COLORS


def read_palette(file: Path) -> ThemePalette:
    """Read a theme file: `dark` (a boolean) and a `[colors]` table with every role; the grounds of `BLENDS` may be in it too.

    Raises:
        ThemeError: the file cannot be read or a role is missing, unknown or not a colour.
    """
    try:
        data = tomllib.loads(file.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ThemeError(f"{file}: {error}") from error
    colors = data.get("colors")
    if not isinstance(colors, dict):
        raise ThemeError(f"{file}: there is no [colors] table")
    for role, value in colors.items():
        if role not in ROLES and role not in BLENDS:
            raise ThemeError(f"{file}: no role {role!r}; the roles are {', '.join((*ROLES, *BLENDS))}")
        if not isinstance(value, str) or not _is_color(value):
            raise ThemeError(f"{file}: {role} is not a colour: {value!r}")
    missing = [role for role in ROLES if role not in colors]
    if missing:
        raise ThemeError(f"{file}: no colour for {', '.join(missing)}")
    return ThemePalette(file.stem, bool(data.get("dark", True)), {role: str(value) for role, value in colors.items()})


def make_theme(palette: ThemePalette) -> Theme:
    """Return the Textual theme of a palette; the roles become the variables that widgets use."""
    color = palette.colors
    return Theme(
        name=palette.name,
        primary=color["accent"],
        secondary=color["code"],
        accent=color["accent"],
        warning=color["warning"],
        error=color["danger"],
        success=color["success"],
        foreground=color["text"],
        background=color["background"],
        surface=color["surface"],
        panel=color["panel"],
        dark=palette.is_dark,
        variables=_variables(color),
    )


def ground(colors: Mapping[str, str], role: str) -> str:
    """Return the colour of a ground as hexadecimal: the theme's own, else a little of another role on the background."""
    if role in colors:
        return colors[role]
    source, part = BLENDS[role]
    return Color.parse(colors["background"]).blend(Color.parse(colors[source]), part).hex6


_VARIABLES = {
    "text": "text block-cursor-foreground block-cursor-blurred-foreground input-cursor-background",
    "muted": "muted text-muted text-disabled scrollbar-hover",
    "faint": "faint border border-blurred scrollbar",
    "selection": "selection block-cursor-background block-cursor-blurred-background "
    "input-selection-background screen-selection-background",
    "background": "input-cursor-foreground scrollbar-background scrollbar-background-hover "
    "scrollbar-background-active scrollbar-corner-color",
    "panel": "block-hover-background",
    "accent": "text-accent text-primary scrollbar-active link-color",
    "code": "text-secondary",
    "warning": "text-warning",
    "danger": "text-error",
    "success": "text-success",
}
"""The variables of Textual and ours, by the role whose colour they have."""


def _variables(color: dict[str, str]) -> dict[str, str]:
    grounds = {f"{role.replace('_', '-')}-ground": ground(color, role) for role in BLENDS}
    named = {name: color[role] for role, names in _VARIABLES.items() for name in names.split()}
    return {**grounds, **named, "edge": ground(color, "edge"), "block-cursor-text-style": "none"}


def _is_color(value: str) -> bool:
    try:
        Color.parse(value)
    except ColorParseError:
        return False
    return True
