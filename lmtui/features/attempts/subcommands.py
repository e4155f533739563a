"""`lmtui eval --history`: results of attempts by model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict

from lmtui.command_line import Parser, add_common, make_parser, say
from lmtui.core.errors import UsageError
from lmtui.core.sanitize import sanitize_line
from lmtui.features.service import CommandCall
from lmtui.store.attempt_history import ModelRecord, history_file, read_results, records

_HEAD = ("model", "won", "green", "lines", "seconds")


def eval_history_parser() -> Parser:
    """Return the parser of `lmtui eval`."""
    doc = "Show how each model did in your attempts: how often it won against other models, how often its checks passed,\n"
    doc += "and its median changed lines and seconds."
    parser = make_parser("eval", doc, "lmtui eval --history")
    parser.add_argument("--history", action="store_true", help="show the results of earlier attempts")
    parser.add_argument("--json", action="store_true", help="one JSON value instead of text, with each attempt")
    add_common(parser)
    return parser


async def eval_history(call: CommandCall) -> int:
    """Print the table."""
    if not call.arguments.history:
        raise UsageError("nothing to show", "Use: lmtui eval --history")
    results = await asyncio.to_thread(read_results)
    found = records(results)
    if call.arguments.json:
        print(json.dumps({"models": [*map(asdict, found)], "attempts": [*map(asdict, results)]}, ensure_ascii=False))
    elif found:
        say("\n".join(history_lines(found)))
    else:
        say(f"No attempts yet ({history_file()}). Try: lmtui run --models A,B TASK")
    return 0


def history_lines(found: Sequence[ModelRecord]) -> list[str]:
    """Return the table in aligned columns."""
    rows = [
        (
            sanitize_line(each.model) or "default model",
            f"{each.won} of {each.rounds}",
            f"{each.green} of {each.attempts}",
            f"{each.lines}",
            f"{each.seconds:.0f}",
        )
        for each in found
    ]
    widths = [max(len(row[at]) for row in (_HEAD, *rows)) for at in range(len(_HEAD))]
    return ["  ".join((row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:]))) for row in (_HEAD, *rows)]
