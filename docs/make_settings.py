"""Writes docs/settings.md from the settings' own declarations: `make docs`."""

from __future__ import annotations

from pathlib import Path

from lmtui.config import SETTINGS

PAGE = Path(__file__).with_name("settings.md")
HEAD = """\
# Settings

Made from the program's own table by `make docs`; do not edit it. In the app `F11` shows and changes them, `lmtui
config show` lists each with its value and where it came from.

A setting is written in `config.toml` as `name = value` (`lmtui config path` says where), in the environment or a `.env` file
under its names there, or it is a flag: `lmtui --help`. Later wins: defaults, your `config.toml`, the folder's
`.lmagent/config.toml`, `.env`, the environment, flags. A folder's own files may only tighten until you trust them
([permissions](permissions.md)).

| Setting | Default | In the environment | What it is |
| --- | --- | --- | --- |
"""


def page() -> str:
    """Return the whole page."""
    return HEAD + "".join(f"{_row(name)}\n" for name in SETTINGS)


def _row(name: str) -> str:
    setting = SETTINGS[name]
    words = str(setting.metadata["doc"])
    choices = setting.metadata["choices"]
    if choices:
        words += f" ({', '.join(f'`{each}`' for each in choices)})"
    environment = " ".join(f"`{each}`" for each in setting.metadata["env"])
    cells = (f"`{name}`", _written(setting.default), environment, words)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _written(default: object) -> str:
    """Return a default as it would stand in config.toml."""
    if isinstance(default, tuple):
        return "`[]`"
    return f'`"{default}"`' if isinstance(default, str) else f"`{default}`"


if __name__ == "__main__":
    _ = PAGE.write_text(page(), encoding="utf-8")
