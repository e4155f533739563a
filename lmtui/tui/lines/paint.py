"""From styled lines to strips: the one place where roles meet the theme."""

from __future__ import annotations

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip
from textual.widget import Widget

from lmtui.tui.lines.links import link_target
from lmtui.tui.lines.text import Line

ROLES = (
    "muted", "accent", "good", "bad", "warn", "strong", "em", "strike", "code", "link", "heading", "block",
    "keyword", "string", "comment", "number", "function", "type", "added", "removed", "added-word", "removed-word",
    "match", "cursor", "selected", "caret",
)  # fmt: skip
PREFIX = "lines--"
_MOST_STYLES = 2000


class Palette:
    """The styles of a widget's roles under the theme of the moment; made anew when the theme changes."""

    def __init__(self, widget: Widget) -> None:
        self._widget = widget
        self.base = widget.rich_style
        self._styles: dict[str, Style] = {"": self.base}

    def style(self, roles: str) -> Style:
        """Return the style of one or more roles, later ones over earlier ones."""
        found = self._styles.get(roles)
        if found is None:
            if len(self._styles) > _MOST_STYLES:  # the colours of pictures
                self._styles = {"": self.base}
            found = self.base
            for role in roles.split():
                target = link_target(role)
                found += Style(link=target) if target else self._own(role)
            self._styles[roles] = found
        return found

    def strip(self, line: Line, width: int) -> Strip:
        """Return a strip of at least `width` cells."""
        return Strip([Segment(text, self.style(roles)) for text, roles in line]).extend_cell_length(width, self.base)

    def _own(self, role: str) -> Style:
        if role.startswith(("fg:#", "bg:#")):
            return Style(color=role[3:]) if role.startswith("fg") else Style(bgcolor=role[3:])
        name = PREFIX + role
        rules = self._widget.get_component_styles(name)
        whole = self._widget.get_component_rich_style(name)
        has_color = rules.has_rule("color") or rules.has_rule("auto_color")
        return rules.text_style + Style(
            color=whole.color if has_color else None, bgcolor=whole.bgcolor if rules.has_rule("background") else None
        )
