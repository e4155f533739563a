"""Every figure in one run: `make bench`.  Quiet machines give quiet numbers; the ratios hold on busy ones."""

from __future__ import annotations

import argparse
import asyncio
import sys

from benchmarks import (
    checkpoints,
    diffs,
    engine,
    files,
    fullscreen,
    hour,
    jobs,
    long_runs,
    long_sessions,
    long_work,
    mcp,
    models,
    parsing,
    prefix,
    sandbox,
    screen,
    sessions,
    transcript,
)
from benchmarks.report import Figure, table

_MEASURED = {
    "engine": engine.figures,
    "fullscreen": fullscreen.figures,
    "files": files.figures,
    "diffs": diffs.figures,
    "sandbox": sandbox.figures,
    "checkpoints": checkpoints.figures,
    "transcript": transcript.figures,
    "hour": hour.figures,
    "sessions": sessions.figures,
    "parsing": parsing.figures,
    "prefix": prefix.figures,
    "models": models.figures,
    "jobs": jobs.figures,
    "mcp": mcp.figures,
    "long_work": long_work.figures,
    "long_runs": long_runs.figures,
    "long_sessions": long_sessions.figures,
}
_PARTS = (*_MEASURED, "screen")


def main() -> int:
    """Measure the parts that are named (default: all) and print a table for each; 1 where a goal is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(_PARTS))
    parts = parser.parse_args().parts or list(_PARTS)
    missed: list[Figure] = []
    for name in parts:
        print(f"\n## {name}\n")
        if name == "screen":
            asyncio.run(screen.measure())
            continue
        figures = _MEASURED[name]()
        print(table(figures))
        missed += [figure for figure in figures if not figure.is_reached]
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
