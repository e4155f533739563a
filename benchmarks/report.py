"""A figure with its goal, and the table of all of them."""

from __future__ import annotations

from dataclasses import dataclass


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
