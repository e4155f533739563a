"""Every figure in one run: `make bench`.  Quiet machines give quiet numbers; the ratios hold on busy ones."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

from benchmarks import (
    attach,
    attempts,
    batch,
    checkpoints,
    diffs,
    engine,
    files,
    fullscreen,
    host,
    hour,
    jobs,
    light,
    long_runs,
    long_sessions,
    long_work,
    mcp,
    memory,
    models,
    parsing,
    pipeline,
    prefix,
    sandbox,
    screen,
    sessions,
    transcript,
    verification,
)
from benchmarks.report import Figure, put_into_page, table

_MEASURED = {
    "engine": engine.figures,
    "attempts": attempts.figures,
    "pipeline": pipeline.figures,
    "batch": batch.figures,
    "fullscreen": fullscreen.figures,
    "files": files.figures,
    "diffs": diffs.figures,
    "sandbox": sandbox.figures,
    "checkpoints": checkpoints.figures,
    "transcript": transcript.figures,
    "hour": hour.figures,
    "sessions": sessions.figures,
    "parsing": parsing.figures,
    "verification": verification.figures,
    "prefix": prefix.figures,
    "models": models.figures,
    "jobs": jobs.figures,
    "host": host.figures,
    "attach": attach.figures,
    "mcp": mcp.figures,
    "memory": memory.figures,
    "long_work": long_work.figures,
    "long_runs": long_runs.figures,
    "long_sessions": long_sessions.figures,
}
_PARTS = (*_MEASURED, "screen")


def main() -> int:
    """Measure the parts that are named (default: all) and print a table for each; 1 where a goal is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(_PARTS))
    parser.add_argument("--page", type=Path, metavar="FILE", help="put the tables into a page too, between its marks")
    parser.add_argument("--light", action="store_true", help="a minute or two of ratios, held against those recorded")
    parser.add_argument("--record", action="store_true", help="record the ratios that --light compares with")
    arguments = parser.parse_args()
    if arguments.light or arguments.record:
        return light.record() if arguments.record else light.check()
    missed: list[Figure] = []
    tables: list[str] = []
    for name in arguments.parts or _PARTS:
        print(f"\n## {name}\n", flush=True)
        if name == "screen":
            asyncio.run(screen.measure())
            continue
        figures = _MEASURED[name]()
        tables.append(f"### {name}\n\n{table(figures)}\n")
        print(tables[-1], flush=True)
        missed += [figure for figure in figures if not figure.is_reached]
    if arguments.page is not None:
        put_into_page(arguments.page, tables)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
