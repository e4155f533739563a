"""Settings and a window in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lmtui.core.errors import ConfigError
from lmtui.core.sessions import WindowPart
from lmtui.core.settings import SettingRow

ROWS = (
    SettingRow("url", "http://127.0.0.1:11434/v1", "environment", "address of the model server", "http://127.0.0.1:11434/v1"),
    SettingRow("api_key", "••••••••", "/home/ada/.config/lmtui/config.toml", "key for the model server"),
    SettingRow("temperature", "0.65", "default", "sampling temperature, 0 to 2", "0.65", variables=("LLM_TEMPERATURE",)),
    SettingRow("mode", "normal", "default", "when to ask", "normal", ("manual", "normal", "auto", "plan")),
    SettingRow("allow", "–", "default", "permission rules that allow", "", is_list=True),
    SettingRow("theme", "–", "default", "colours of the screen", ""),
)


class FakeSettings:
    """Settings that keep what is changed; the temperature is a number."""

    def __init__(self) -> None:
        self.values = {row.name: row for row in ROWS}
        self.changes: list[tuple[str, str | None]] = []

    def rows(self) -> Sequence[SettingRow]:
        return tuple(self.values.values())

    def change(self, name: str, text: str | None) -> SettingRow:
        if name == "temperature" and text == "hot":
            raise ConfigError("temperature cannot be 'hot' (the settings)", "It is a number.")
        self.changes.append((name, text))
        row = self.values[name]
        if row.source != "environment":
            row = replace(row, value=text or "–", text=text or "", source="default" if text is None else "config.toml")
        self.values[name] = row
        return row


class FakeWindow:
    """A request of a few parts."""

    def parts(self) -> Sequence[WindowPart]:
        return (
            WindowPart("system prompt", 410, 1),
            WindowPart("tools", 1320, 14),
            WindowPart("you", 90, 2),
            WindowPart("answers", 160, 3),
            WindowPart("tool calls", 120, 4),
            WindowPart("results of read", 980, 2),
            WindowPart("results of shell", 240, 2),
        )
