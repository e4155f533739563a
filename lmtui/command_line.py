"""What the parsers of all commands share: exit codes, the flags of settings, and the flags that features add."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from lmtui.config import MODES, NETWORKS, SANDBOXES
from lmtui.registry import features

EXIT_USAGE = 64


class Parser(argparse.ArgumentParser):
    """A parser whose mistakes end with exit code 64, as the contract says.  `behind` names what takes all words behind `--`."""

    behind = ""

    def takes(self, option: str) -> bool:
        """Tell whether this is an option of the command."""
        return option in self._option_string_actions

    def wants_value(self, option: str) -> bool:
        """Tell whether a value follows an option."""
        action = self._option_string_actions.get(option)
        return action is not None and action.nargs != 0

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and how it is used, and end."""
        self.print_usage(sys.stderr)
        hint = f"  {self.epilog}" if self.behind else ""
        unknown = message.removeprefix("unrecognized arguments: ").split()[0].partition("=")[0] if message else ""
        if message.startswith("unrecognized") and unknown.startswith("--"):
            near = difflib.get_close_matches(unknown, self._option_string_actions, n=1)
            message = f"unknown option {unknown}."
            hint = f" Did you mean {near[0]}?" if near else f" `{self.prog} --help` lists the options."
        self.exit(EXIT_USAGE, f"{self.prog}: {message}{hint}\n")


def make_parser(name: str, doc: str, example: str) -> Parser:
    """Return the parser of `lmtui NAME`, without a name that of `lmtui` with the example as it is."""
    return Parser(
        prog=f"lmtui {name}".strip(),
        description=doc,
        epilog=f"example: {example}" if name else example,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def feature_flags() -> dict[str, Mapping[str, Any]]:
    """Return the flags that features have for their settings, each as argparse takes it; `dest` is the setting."""
    return {flag: options for feature in features() for flag, options in feature.flags.items()}


def add_common(parser: Parser) -> None:
    """Add the flags of settings."""
    add = parser.add_argument
    add("--workspace", metavar="DIR", help="the folder that the agent works in")
    add("--url", help="the model server: a root, a /v1 or a full /v1/chat/completions address")
    add("--model", metavar="NAME")
    add("--api-key", metavar="KEY", help="API key; prefer LLM_API_KEY, because other users can see arguments")
    add("--mode", choices=MODES, help="when to ask before a tool runs (default: normal)")
    add("--sandbox", choices=SANDBOXES, help="where commands run (default: auto)")
    add("--network", choices=NETWORKS, help="network for commands (default: off)")
    add("--max-iterations", type=int, metavar="N", help="maximum number of requests in one turn")
    add("--temperature", type=float, metavar="X")
    add("--seed", type=int, metavar="N")
    add("--timeout-s", type=float, metavar="N", help="time limit of the task in seconds")
    add("--allow", action="append", metavar="RULE", help="allow matching calls, for example 'Shell(git status*)'")
    add("--deny", action="append", metavar="RULE", help="forbid what matches, for example 'Write(secrets/**)'")
    add("--budget", metavar="WORDS", help="budget of a new session, for example '3h 200 steps 1.5M tokens'")
    add("--no-sub-agents", action="store_const", const="off", dest="sub_agents", help="disable sub-agents")
    for flag, options in feature_flags().items():
        add(flag, **options)
    add("--add-dir", action="append", metavar="DIR", help="another folder that the agent may read; DIR:rw allows changes")
    add("-c", "--config", action="append", metavar="KEY=VALUE", help="set any setting, for example -c command_timeout_s=300")


def with_report(parser: Parser, *, has_json: bool = True) -> Parser:
    """Add the flags of a report and return the parser."""
    parser.add_argument("--workspace", metavar="DIR")
    if has_json:
        parser.add_argument("--json", action="store_true", help="one JSON value instead of text")
    return parser


OK, NONE, WARNING, FAILURE = "ok", "none", "warning", "failure"
TRUST_HINT = "`lmtui config trust` shows it and asks; until then it does not hold."


@dataclass(frozen=True, slots=True)
class CheckRow:
    """One thing that was looked at: it works, is not there (and need not be), wants a look or your yes, or is broken."""

    name: str
    state: str
    text: str
    hint: str = ""
