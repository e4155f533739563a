"""`lmtui check`: lint and test what is changed in a folder, without a model."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from lmtui.command_line import Parser, add_common, make_parser, say
from lmtui.core.offers import Offers
from lmtui.core.verification import CheckEvent, CheckOutcome, CheckRan, ProjectCheck
from lmtui.features.checks.commands import check_lines, command_lines, lacks_suite, started_line
from lmtui.features.checks.service import ChecksService
from lmtui.features.service import CommandCall

_FINDINGS, _NOTHING = 1, 2


def check_parser() -> Parser:
    """Return the parser of `lmtui check`."""
    doc = "Check changes in a folder: syntax, linter, related tests, then all tests.\n"
    doc += "Exit code: 0 all passed, or failed before too, 1 something failed, 2 nothing to check, or a check could not run.\n"
    doc += "Files that checks write are discarded."
    parser = make_parser("check", doc, "lmtui check --verify 'make test'")
    parser.add_argument("--list", action="store_true", help="list the commands, and run none")
    parser.add_argument("--json", action="store_true", help="one JSON value instead of text")
    add_common(parser, without=("--goal",))
    return parser


async def check(call: CommandCall) -> int:
    """Run the checks and print what came of each as soon as it is known."""
    has_json, shown = call.arguments.json, set[str]()

    def tell(event: CheckEvent) -> None:
        lines = check_lines([event]) if isinstance(event, CheckRan) else [started_line(event, shown)]
        if any(lines) and not has_json:
            say("\n".join(lines), flush=True)

    async with call.open_host() as host:
        checks = ChecksService(host, Offers())
        checks.require_profile()
        if call.arguments.list:
            return _list(await checks.listed(), checks, has_json=has_json)
        ran = await checks.run(tell)
    if has_json:
        names = ("rung", "outcome", "command", "source", "exit_code", "text", "elapsed_s")
        print(json.dumps([{name: getattr(each, name) for name in names} for each in ran], ensure_ascii=False))
    elif lacks_suite(ran):
        say(checks.why_nothing())
    if any(each.outcome is CheckOutcome.FAILED for each in ran):
        return _FINDINGS
    decides = [each for each in ran if each.decides]
    return 0 if decides and decides[-1].outcome.is_green else _NOTHING


def _list(listed: Sequence[ProjectCheck], checks: ChecksService, *, has_json: bool) -> int:
    """Print the commands that would run and the rules behind them."""
    if has_json:
        rules = [{"rung": name, "command": "", "source": "settings", "text": text} for name, text in checks.rules()]
        print(json.dumps([*map(asdict, listed), *rules], ensure_ascii=False))
    else:
        nothing = [checks.why_nothing()] if lacks_suite(listed) else []
        say("\n".join([*nothing, *command_lines(listed, checks.rules())]))
    return 0 if listed else _NOTHING
