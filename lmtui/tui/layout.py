"""How the user arranged the panes: a value, and the file that it is kept in between starts."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

FILE_NAME = "layout.json"
HIDEABLE = ("files", "plan", "log")
LEAST_CELLS, MOST_CELLS = 16, 120
LEAST_PLAN, MOST_PLAN = 10, 90
STEP_CELLS, STEP_PERCENT = 4, 10


class LayoutError(Exception):
    """The layout's file cannot be used; the text names the file, the line and what is done instead."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Which panes are hidden, how wide the columns at the sides are in cells (0: by the screen), and the plan's share of
    the right one in percent.
    """

    hidden: tuple[str, ...] = ()
    files_cells: int = 0
    side_cells: int = 0
    plan_percent: int = 40

    def toggled(self, pane: str) -> Layout:
        """Return the layout with a pane hidden, or shown again."""
        return self.shown(pane) if pane in self.hidden else replace(self, hidden=(*self.hidden, pane))

    def shown(self, pane: str) -> Layout:
        """Return the layout with a pane shown."""
        return replace(self, hidden=tuple(each for each in self.hidden if each != pane))

    def with_width(self, column: str, cells: int) -> Layout:
        """Return the layout with the `files` or the `side` column of a width, within bounds."""
        width = max(LEAST_CELLS, min(MOST_CELLS, cells))
        return replace(self, files_cells=width) if column == "files" else replace(self, side_cells=width)

    def with_plan(self, percent: int) -> Layout:
        """Return the layout with another share for the plan, within bounds."""
        return replace(self, plan_percent=max(LEAST_PLAN, min(MOST_PLAN, percent)))


def read_layout(folder: Path) -> Layout:
    """Return the layout that was kept, the usual one where none was.

    Raises:
        LayoutError: the file is not one of ours or broken; the usual layout is meant to be used.
    """
    file = folder / FILE_NAME
    try:
        data = json.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        return Layout()
    except json.JSONDecodeError as error:
        raise LayoutError(f"{file}: line {error.lineno}: {error.msg}; the usual layout is used") from error
    except (OSError, ValueError, RecursionError) as error:
        raise LayoutError(f"{file}: {error}; the usual layout is used") from error
    return _checked(file, data)


def save_layout(folder: Path, layout: Layout) -> None:
    """Keep a layout; the file is replaced in one step.  Blocks (disk).

    Raises:
        OSError: it cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = folder / f".{FILE_NAME}.new"
    draft.write_text(json.dumps(asdict(layout), indent=2) + "\n", "utf-8")
    draft.replace(folder / FILE_NAME)


def _checked(file: Path, data: Any) -> Layout:
    text = file.read_text("utf-8")

    def fail(name: str, problem: str) -> LayoutError:
        at = text.find(f'"{name}"')
        return LayoutError(f"{file}: line {text.count(chr(10), 0, max(at, 0)) + 1}: {problem}; the usual layout is used")

    if not isinstance(data, dict):
        raise fail("", "this is no layout")
    known = {each.name for each in fields(Layout)}
    for name, value in data.items():
        if name not in known:
            raise fail(name, f"there is no {name!r}")
        is_panes = isinstance(value, list) and all(each in HIDEABLE for each in value)
        if (name == "hidden" and not is_panes) or (name != "hidden" and type(value) is not int):
            raise fail(name, f"{name} cannot be {value!r}")
    found = Layout(**{**data, "hidden": tuple(dict.fromkeys(data.get("hidden", ())))})
    if found.files_cells:
        found = found.with_width("files", found.files_cells)
    if found.side_cells:
        found = found.with_width("side", found.side_cells)
    return found.with_plan(found.plan_percent)
