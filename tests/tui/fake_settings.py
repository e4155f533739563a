"""Settings and a window in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lmtui.core.errors import ConfigError
from lmtui.core.roles import ModelRole, Roles, parse_roles, with_role
from lmtui.core.sessions import SettingRow
from lmtui.core.window import WindowItem, WindowPart

_ROWS = (
    SettingRow("url", "http://127.0.0.1:11434/v1", "environment", "address of the model server", "http://127.0.0.1:11434/v1"),
    SettingRow("api_key", "••••••••", "/home/ada/.config/lmtui/config.toml", "key for the model server"),
    SettingRow("temperature", "0.65", "default", "sampling temperature, 0 to 2", "0.65", variables=("LLM_TEMPERATURE",)),
    SettingRow("mode", "normal", "default", "when to ask", "normal", ("manual", "normal", "auto", "try", "plan")),
    SettingRow("allow", "–", "default", "permission rules that allow", "", is_list=True),
    SettingRow("theme", "–", "default", "colours of the screen", "", ("dusk", "paper")),
)
GROUPS = {"url": "Model", "api_key": "Model", "temperature": "Model", "theme": "Screen"}
LABELS = {"url": "Server URL", "api_key": "API key", "allow": "Allow rules", "mode": "Permission mode"}
ROWS = tuple(
    replace(row, label=LABELS.get(row.name, row.name.capitalize()), group=GROUPS.get(row.name, "Permissions")) for row in _ROWS
)


class FakeSettings:
    """Settings that keep what is changed; the temperature is a number."""

    def __init__(self) -> None:
        self.values = {row.name: row for row in ROWS}
        self.changes: list[tuple[str, str | None]] = []
        self.role_texts: tuple[str, ...] = ()

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

    def roles(self) -> Roles:
        return parse_roles(self.role_texts)

    def set_role(self, role: ModelRole, model: str) -> None:
        self.role_texts = with_role(self.role_texts, role, model)


class FakeWindow:
    """A request of a few parts, read at 400 tokens a second; what is done with them is noted."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.states: dict[str, str] = {}
        self.pinned: set[str] = set()

    def parts(self) -> Sequence[WindowPart]:
        read = (self._item("c1", "src/parser.py", 760, 1500), self._item("c2", "a.py", 220, 700))
        ran = (self._item("c3", "pytest -q", 200, 400), self._item("c4", "ls", 40, 160))
        you = (WindowItem("", "fix the parser", 60, 1590), WindowItem("", "and the docs", 30, 60))
        return (
            WindowPart("system prompt", 410, 1, (WindowItem("", "You are lmtui, a coding agent.", 410, 3320),)),
            WindowPart("tools", 1320, 14, tuple(WindowItem("", f"tool_{number}", 94) for number in range(14))),
            WindowPart("your messages", 90, 2, you),
            WindowPart("answers", 160, 3, tuple(WindowItem("", text, 53, 700) for text in ("I look.", "Testing.", "Done."))),
            WindowPart("tool calls", 120, 4, tuple(WindowItem("", text, 30, 700) for text in ("read", "read", "shell", "ls"))),
            WindowPart("results of read", sum(item.tokens for item in read), 2, read),
            WindowPart("results of shell", 240, 2, ran),
        )

    def _item(self, item_id: str, title: str, tokens: int, behind: int) -> WindowItem:
        return WindowItem(item_id, title, tokens, behind, self.states.get(item_id, ""), item_id in self.pinned)

    def read_s(self, tokens: int) -> float:
        return tokens / 400

    def fold(self, item_id: str) -> None:
        self.done.append(f"fold {item_id}")
        self.states[item_id] = "folded"

    def leave_out(self, item_id: str) -> None:
        self.done.append(f"leave out {item_id}")
        self.states[item_id] = "left out"

    def bring_back(self, item_id: str) -> None:
        self.done.append(f"bring back {item_id}")
        self.states.pop(item_id, None)

    def pin(self, item_id: str, *, is_pinned: bool = True) -> None:
        self.done.append(f"{'pin' if is_pinned else 'unpin'} {item_id}")
        (self.pinned.add if is_pinned else self.pinned.discard)(item_id)
