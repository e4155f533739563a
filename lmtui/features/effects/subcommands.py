"""`lmtui try`: run a command of the user's own in an overlay, and say what it would change."""

from __future__ import annotations

import argparse
import asyncio
import json
import shlex
import sys

from lmtui.command_line import Parser, add_common, make_parser, say
from lmtui.core.errors import UsageError
from lmtui.core.sanitize import escape_invisible
from lmtui.core.workspace import CommandEffect
from lmtui.features.service import CommandCall

_MOST_S = 3600


def try_run_parser() -> Parser:
    """Return the parser of `lmtui try`."""
    doc = "Run a command in an overlay over the folder: your files stay unchanged until you keep its changes.\n"
    doc += "Shows what it changed, then asks. Exit code: the command's own."
    parser = make_parser("try", doc, "lmtui try --keep -- make format")
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--keep", action="store_true", help="keep all of its changes")
    choice.add_argument("--drop", action="store_true", help="keep nothing and do not ask")
    parser.add_argument("--diff", action="store_true", help="show the diff of each file")
    parser.add_argument("--json", action="store_true", help="one JSON value instead of text")
    parser.add_argument("--timeout", type=int, default=300, metavar="SECONDS", help="the command's time limit (300)")
    add_common(parser)
    parser.add_argument("command", nargs="*", metavar="COMMAND", help="the command, after --")
    return parser


async def try_run(call: CommandCall) -> int:
    """Run it, show what it did, and keep that where it is wanted."""
    given = call.arguments
    words = given.command[1:] if given.command[:1] == ["--"] else given.command
    command = shlex.join(words) if len(words) > 1 else " ".join(words).strip()  # one word is a command line of its own
    if not command:
        raise UsageError("no command was given", "Put it after --, for example: lmtui try -- make format")
    async with call.open_host() as host:
        sandbox = await host.sandbox()
        await sandbox.status()  # first what a killed process left is finished
        overlay = sandbox.overlay()
        try:
            shown = _Shown()
            show = None if given.json else shown.add
            ended = await overlay.sandbox.run_command(command, timeout_s=min(given.timeout, _MOST_S), on_output=show)
            if not given.json:
                shown.finish(ended.output)
            effect = await overlay.effect()
            is_kept = False if effect.is_empty or given.drop else given.keep or await _asked(effect, given)
            notes = (await overlay.keep(effect, None, host.rules())).notes if is_kept else ()
        finally:
            await overlay.close()
    if given.json:
        print(json.dumps(_as_json(ended.exit_code, ended.text, effect, is_kept=is_kept), ensure_ascii=False))
    else:
        lines = effect_text(effect, with_diff=given.diff) if given.keep or given.drop or effect.is_empty else []
        stopped = [f"It was stopped after {given.timeout} s."] if ended.is_timed_out else []
        ending = "" if effect.is_empty else "Kept." if is_kept else "Nothing was kept."
        say("\n".join([*ended.notes, *stopped, *lines, *notes, ending]).rstrip())
    return ended.exit_code


class _Shown:
    """The output of a command on the screen, as far as it came while the command ran; the rest comes at its end."""

    def __init__(self) -> None:
        self._text = ""

    def add(self, text: str) -> None:
        """Show a piece."""
        self._text += text
        print(escape_invisible(text), end="", flush=True)

    def finish(self, output: str) -> None:
        """Show what is missing, and end the last line."""
        if output.startswith(self._text):
            self.add(output.removeprefix(self._text))
        if self._text and not self._text.endswith("\n"):
            print()


async def _asked(effect: CommandEffect, given: argparse.Namespace) -> bool:
    """Show what it did and ask; without a terminal nothing is kept."""
    if given.json:
        return False
    say("\n".join(effect_text(effect, with_diff=given.diff)))
    if not sys.stdin.isatty():
        return False
    said = await asyncio.to_thread(input, "Keep this? [y/N] ")
    return said.strip().lower() in ("y", "yes")


def effect_text(effect: CommandEffect, *, with_diff: bool) -> list[str]:
    """Return what it did in lines, with the changes line by line if they are wanted."""
    if effect.is_empty:
        return ["It changed nothing."]
    diffs = [escape_invisible(each.diff.rstrip("\n")) for each in effect.ordered if each.diff] if with_diff else []
    return [*effect.lines(), *diffs]


def _as_json(exit_code: int, output: str, effect: CommandEffect, *, is_kept: bool) -> dict[str, object]:
    return {
        "exit_code": exit_code,
        "output": output,
        "kept": is_kept,
        "changes": [
            {"path": each.path, "kind": str(each.kind), "added": each.added_lines, "removed": each.removed_lines}
            | ({"source": each.source} if each.source else {})
            | ({"mode": f"{each.mode:o}"} if each.mode else {})
            for each in effect.parts
            if not each.path.endswith("/")
        ],
        "folders": list(effect.made),
        "cannot_be_kept": list(effect.special),
    }
