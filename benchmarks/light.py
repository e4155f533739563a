"""The light form of the figures: a minute or two of ratios, held against those recorded beside this file.

A part that is worse than recorded by more than a third is measured again, three times at most: what stays worse is worse.
`--record` writes down what is measured now; a commit that does so says why.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks import engine, fullscreen, mcp, models, parsing, prefix
from benchmarks.report import Figure

RECORDED = Path(__file__).with_name("light.json")
_PARTS: Mapping[str, Callable[[], list[Figure]]] = {
    "fullscreen": fullscreen.starting,
    "engine": engine.figures,
    "parsing": parsing.figures,
    "prefix": prefix.figures,
    "models": models.figures,
    "mcp": mcp.figures,
}
_UNITS = frozenset({"×", "tokens", "%", ""})  # what does not hang on how fast the machine is
_WORSE, _NOISE = 4 / 3, 0.35
_TIMES = 3


def check() -> int:
    """Measure each part and compare; 1 where a figure stays worse than recorded by more than a third."""
    recorded: dict[str, float] = json.loads(RECORDED.read_text(encoding="utf-8"))
    worse: dict[str, float] = {}
    for name, measure in _PARTS.items():
        best: dict[str, float] = {}
        for _ in range(_TIMES):
            best = _least(best, measure())
            worse = {figure: value for figure, value in best.items() if _is_worse(value, recorded.get(figure))}
            if not worse:
                break
        print(f"{name}: {len(best)} figures, {len(worse)} worse than recorded")
        for figure, value in worse.items():
            print(f"  {figure}: {value:.2f}, recorded {recorded[figure]:.2f}")
        if worse:
            return 1
    return 0


def record() -> int:
    """Measure each part three times and write down the middle of each figure; always 0."""
    found: dict[str, float] = {}
    for name, measure in _PARTS.items():
        runs = [_least({}, measure()) for _ in range(_TIMES)]
        found |= {figure: round(sorted(run[figure] for run in runs)[_TIMES // 2], 3) for figure in runs[0]}
        print(f"{name}: recorded")
    RECORDED.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0


def _least(best: Mapping[str, float], figures: list[Figure]) -> dict[str, float]:
    """Return the lesser of each figure's values that can be compared between machines."""
    found = {figure.name: figure.value for figure in figures if figure.unit in _UNITS}
    return {name: min(value, best.get(name, value)) for name, value in found.items()}


def _is_worse(value: float, recorded: float | None) -> bool:
    return recorded is not None and value > max(recorded * _WORSE, recorded + _NOISE)
