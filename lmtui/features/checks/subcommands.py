"""`lmtui check`: lint and test what is changed in a folder, without a model."""

from __future__ import annotations

import json
from dataclasses import asdict

from lmtui.command_line import Parser, add_common, make_parser
from lmtui.core.project_checks import CheckOutcome
from lmtui.features.checks.commands import check_lines, command_lines
from lmtui.features.checks.service import ChecksService
from lmtui.features.service import CommandCall, WorkspaceExtensions

_FINDINGS, _NOTHING = 1, 2


def check_parser() -> Parser:
    """Return the parser of `lmtui check`."""
    doc = "Check what is changed in a folder: the linter, the tests that name it, then everything.\n"
    doc += "Exit code: 0 all passed, 1 something failed, 2 nothing to check, or a check could not run."
    parser = make_parser("check", doc, "lmtui check --verify 'make test'")
    parser.add_argument("--list", action="store_true", help="list the commands, and run none")
    parser.add_argument("--json", action="store_true", help="one JSON value instead of text")
    add_common(parser)
    return parser


async def check(call: CommandCall) -> int:
    """Run the checks and print what came of each."""
    async with call.open_host() as host:
        checks = ChecksService(host, WorkspaceExtensions())
        if call.arguments.list:
            listed = await checks.listed()
            print(
                json.dumps([asdict(each) for each in listed])
                if call.arguments.json
                else "\n".join(command_lines(listed, checks.rules()))
            )
            return 0 if listed else _NOTHING
        ran = await checks.run()
    if call.arguments.json:
        names = ("rung", "outcome", "command", "source", "exit_code", "text", "elapsed_s")
        print(json.dumps([{name: getattr(each, name) for name in names} for each in ran], ensure_ascii=False))
    else:
        nothing = "Nothing to check: no test command was found. Set one with --verify COMMAND."
        print("\n".join(check_lines(ran)) or nothing)
    if any(each.outcome is CheckOutcome.FAILED for each in ran):
        return _FINDINGS
    decides = [each for each in ran if each.decides]
    return 0 if decides and decides[-1].outcome.is_green else _NOTHING
