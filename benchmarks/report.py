"""A figure with its goal, and the table of all of them."""

from __future__ import annotations

import platform
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import psutil

BEGIN, END = "<!-- figures:begin -->", "<!-- figures:end -->"


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured number; `goal` is the most it may be, 0 where there is none."""

    name: str
    value: float
    unit: str
    goal: float = 0.0

    @property
    def is_reached(self) -> bool:
        """Tell whether the goal is kept."""
        return self.goal == 0 or self.value <= self.goal


def table(figures: list[Figure]) -> str:
    """Return the figures as a Markdown table."""
    lines = ["| figure | measured | goal | |", "| --- | ---: | ---: | --- |"]
    for figure in figures:
        goal = f"{figure.goal:g} {figure.unit}" if figure.goal else "–"
        lines.append(f"| {figure.name} | {figure.value:.2f} {figure.unit} | {goal} | {'✓' if figure.is_reached else '✗'} |")
    return "\n".join(lines)


def put_into_page(page: Path, tables: list[str]) -> None:
    """Put tables into a page, between its marks, with the commit, the day and the machine they were measured on.

    Raises:
        ValueError: the page has no marks.
    """
    text = page.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{page} has no {BEGIN} … {END}")
    whole = "\n".join([f"{BEGIN}\n{_when_and_where()}\n", *tables, END])
    page.write_text(before + whole + after, encoding="utf-8")


def _when_and_where() -> str:
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    memory_gb = psutil.virtual_memory().total / 1e9
    machine = f"{platform.system()} {platform.machine()}, {psutil.cpu_count()} cores, {memory_gb:.0f} GB"
    return f"Measured {datetime.now(UTC):%Y-%m-%d} on {commit}: {machine}, Python {platform.python_version()}."
