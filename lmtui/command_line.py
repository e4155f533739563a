"""The parsers of the commands, each with its help and an example, and what they share: exit codes and the flags of settings.

Features add flags, and make their own subcommands' parsers with it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import difflib
import importlib
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from lmtui import __version__
from lmtui.core.errors import UsageError
from lmtui.core.roles import ModelRole
from lmtui.core.sanitize import sanitize, sanitize_line
from lmtui.core.times import json_value
from lmtui.paths import docs_dir
from lmtui.registry import features
from lmtui.settings import SETTINGS

EXIT_ERROR, EXIT_UNFINISHED, EXIT_BLOCKED, EXIT_USAGE, EXIT_INTERRUPTED = 1, 2, 3, 64, 130


T = TypeVar("T")
Option = tuple[tuple[str, ...], dict[str, Any]]


class Parser(argparse.ArgumentParser):
    """A parser whose mistakes end with exit code 64, as the contract says.  `behind` names what takes all words behind `--`."""

    behind = ""

    def add(self, *options: Option) -> Parser:
        """Add options and arguments and return the parser."""
        for names, given in options:
            self.add_argument(*names, **given)
        return self

    def format_help(self) -> str:
        """Return the help, that of `lmtui` with its commands."""
        text = super().format_help()
        return f"{text}\n{overview()}\n" if self.prog == "lmtui" else text

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and how it is used, and end."""
        self.print_usage(sys.stderr)
        hint = f"  {self.epilog}" if self.behind else ""
        unknown = message.removeprefix("unrecognized arguments: ").split()[0].partition("=")[0] if message else ""
        if message.startswith("unrecognized") and unknown.startswith("--"):
            near = difflib.get_close_matches(unknown, self._option_string_actions, n=1, cutoff=0.7)
            message = f"unknown option {unknown}."
            hint = f" Did you mean {near[0]}?" if near else f" `{self.prog} --help` lists the options."
        self.exit(EXIT_USAGE, f"{self.prog}: {message}{hint}\n")


def option(*names: str, **given: Any) -> Option:
    """Return an option or argument of a command, as argparse takes it."""
    return names, given


def make_parser(name: str, doc: str, example: str, *options: Option) -> Parser:
    """Return the parser of `lmtui NAME`, without a name that of `lmtui`."""
    return Parser(
        prog=f"lmtui {name}".strip(),
        description=doc,
        epilog=f"example: {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    ).add(*options)


def feature_flags() -> dict[str, Mapping[str, Any]]:
    """Return the flags that features have for their settings, each as argparse takes it; `dest` is the setting."""
    return {flag: options for feature in features() for flag, options in feature.flags.items()}


# Flags of settings, each with the name of its value; those with choices show them.
SETTING_FLAGS: Mapping[str, str | None] = {
    "url": "URL", "model": "NAME", "profile": "NAME", "api_key": "KEY", "mode": None, "sandbox": None, "network": None,
    "max_iterations": "N", "temperature": "X", "seed": "N", "timeout_s": "N", "budget": "WORDS",
}  # fmt: skip
_TYPES: Mapping[str, Callable[[str], Any]] = {"int": int, "float": float}


def setting_option(name: str) -> Option:
    """Return the flag of a setting."""
    setting = SETTINGS[name]
    kind, choices = _TYPES.get(str(setting.type), str), setting.metadata["choices"] or None
    doc = setting.metadata["doc"].replace("%", "%%")
    return option(f"--{name.replace('_', '-')}", type=kind, choices=choices, metavar=SETTING_FLAGS[name], help=doc)


_WORKSPACE = option("--workspace", metavar="DIR", help="the folder that the agent works in")


def add_common(parser: Parser, without: Container[str] = ()) -> Parser:
    """Add the flags of settings, `without` those that mean nothing here, and return the parser."""
    parser.add(
        *([_WORKSPACE] if "--workspace" not in without else []),
        *map(setting_option, SETTING_FLAGS),
        option("--allow", action="append", metavar="RULE", help="allow matching calls, for example 'Shell(git status*)'"),
        option("--deny", action="append", metavar="RULE", help="deny matching calls, for example 'Write(secrets/**)'"),
        option("--no-sub-agents", action="store_const", const="off", dest="sub_agents", help="disable sub-agents"),
        *(option(flag, **given) for flag, given in feature_flags().items() if flag not in without),
        option("--add-dir", action="append", metavar="DIR", help="another folder to read; DIR:rw allows changes"),
        option("-c", "--config", action="append", metavar="KEY=VALUE", help="set any setting, for example -c seed=7"),
    )
    roles = parser.add_argument_group(
        "models of roles", "for this run only, instead of the setting `roles`; see docs/models.md"
    )
    for role in ModelRole:
        roles.add_argument(f"--{role}-model", metavar="KEY")
    return parser


def with_report(parser: Parser, *, has_json: bool = True) -> Parser:
    """Add the flags of a report and return the parser."""
    json_flag = option("--json", action="store_true", help="one JSON value instead of text")
    return parser.add(option("--workspace", metavar="DIR"), *([json_flag] if has_json else []))


def open_app(folder: str, session: str = "", options: Sequence[str] = ()) -> NoReturn:
    """Become `lmtui FOLDER`, or with a session of the host `lmtui attach`, with the settings of that folder and of the user.

    Raises:
        UsageError: it is not a folder that can be entered.
    """
    try:
        os.chdir(folder)
    except OSError as error:
        raise UsageError(
            f"cannot open {sanitize_line(folder)}: {error.strerror}", "`lmtui projects` lists the others."
        ) from error
    sys.stdout.flush()
    words = ["attach", session, *options, "--workspace", folder] if session else [folder]
    os.execv(sys.executable, [sys.executable, "-P", "-m", "lmtui", *words])


def check_folder(folder: Path) -> Path:
    """Return a folder that is there, and refuse any other."""
    if not folder.is_dir():
        raise UsageError(f"{sanitize_line(str(folder))} is not a folder", "Name one that exists.")
    return folder


@contextlib.contextmanager
def stopping(interrupt: Callable[[], object]) -> Iterator[None]:
    """Let Ctrl+C, SIGTERM and SIGHUP interrupt what runs, so that everything is saved."""
    loop, numbers = asyncio.get_running_loop(), [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as `nohup` sets it
        numbers.append(signal.SIGHUP)
    for number in numbers:
        loop.add_signal_handler(number, interrupt)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


async def until_stopped(work: Awaitable[T], told: str) -> T | None:
    """Return what comes of work, None and a line that says so where a signal interrupted it."""
    running = asyncio.ensure_future(work)
    with stopping(running.cancel):  # until all is closed; a second Ctrl+C only speeds that up
        await asyncio.wait({running})
    if not running.cancelled():
        return running.result()
    say(f"lmtui: interrupted; {told}", file=sys.stderr)
    return None


OK, NONE, WARNING, FAILURE = "ok", "none", "warning", "failure"
TRUST_HINT = "`lmtui trust` shows it and asks; until then lmtui ignores it."


@dataclass(frozen=True, slots=True)
class CheckRow:
    """One thing that was looked at: it works, is not there (and need not be), wants a look or your yes, or is broken."""

    name: str
    state: str
    text: str
    hint: str = ""


def say(text: str, **options: Any) -> None:
    """Print text for people: what lmtui did not write in it, such as a name, cannot steer the terminal."""
    print(sanitize(text), **options)


def print_json(value: object) -> None:
    """Print a report as one JSON value."""
    print(json.dumps(value, indent=2, ensure_ascii=False, default=json_value))


def print_report(value: object, lines: Iterable[str], *, is_json: bool) -> None:
    """Print a report as one JSON value, or line by line for people."""
    if is_json:
        print_json(value)
    else:
        for line in lines:
            say(line)


def show_page(topic: str, commands: Mapping[str, Callable[[], Parser]]) -> None:
    """Print the help of a command and the page about a topic, or which there are.

    Raises:
        UsageError: no such page.
    """
    pages = {page.stem: page for page in sorted(docs_dir().rglob("*.md")) if page.parent.name != "decisions"}
    if not topic:
        print("`lmtui --help` lists the commands. Topics, shown with `lmtui help TOPIC`:\n")
        for name, each in pages.items():
            print(f"  {name:<18} {_title(each)}")
        return
    if topic in commands:
        print(commands[topic]().format_help())
    wanted = topic.lower().strip().replace(" ", "-")
    found = [wanted] if wanted in pages else [name for name in pages if name.startswith(wanted)]
    if len(found) == 1 and (topic not in commands or topic in pages):
        print(pages[found[0]].read_text(encoding="utf-8"), end="")
    elif topic not in commands:
        raise UsageError(f"no help page matches {topic!r}", "`lmtui help` lists the topics.")


def _title(page: Path) -> str:
    with page.open(encoding="utf-8") as lines:
        return next((line.removeprefix("#").strip() for line in lines if line.startswith("# ")), page.stem)


SHELLS = ("bash", "zsh", "fish")
_PATHS = {"DIR": "DIRECTORY", "FILE": "FILE", "PATH": "FILE"}
# What else may stand where a command does: a folder.
_FOLDERS = {
    "bash": "complete -o default -F _shtab_lmtui lmtui",
    "zsh": "_lmtui() { _shtab_lmtui; (( compstate[nmatches] )) || _files -/ }\ncompdef _lmtui lmtui",
    "fish": "complete -c lmtui -n __fish_use_subcommand -a '(__fish_complete_directories)'",
}


def completion_script(shell: str, commands: Mapping[str, Callable[[], Parser]]) -> str:
    """Return what completes the commands in a shell, where a file or a folder is wanted its path too."""
    shtab = importlib.import_module("shtab")
    every = commands[""]()
    every._actions[:] = [each for each in every._actions if each.option_strings]  # not the folder: a command stands there
    subparsers = every.add_subparsers(prog="lmtui")
    for name, make in commands.items():
        own = make() if name else every
        for action in own._actions:
            if path := _PATHS.get(str(action.metavar)):
                action.complete = getattr(shtab, path)  # type: ignore[attr-defined]  # read by shtab
        if name:
            subparsers.add_parser(name, help=own.description, parents=[own], add_help=False)
    return "\n".join((shtab.complete(every, shell), _FOLDERS[shell]))


def overview() -> str:
    """Return what `lmtui --help` says of the commands; it makes the parser of each."""
    own = [f"  lmtui {name:<11} {make().description}" for name, make in PARSERS.items() if name]
    own += [f"  lmtui {each.usage}" for feature in features() for each in feature.subcommands]
    return "\n".join(("commands:", *own, "`lmtui COMMAND --help` shows details."))


_OUTPUT = (
    option("--output", choices=("text", "json", "stream-json"), default="text"),
    option("--plain", action="store_true", help="line by line instead of full screen, on a terminal"),
    option("--json", dest="output", action="store_const", const="json", help="the same as --output json"),
)
_MODEL_AND_PICTURES = (
    option("--gguf", metavar="FILE", help="run this model file inside lmtui (extra lmtui[embedded])"),
    option("--image", action="append", metavar="FILE", help="attach a picture; may be repeated"),
)
_APPROVE = (
    option("--approve", action="store_true", help="without a screen: approve the plan unseen and run it"),
    option("--allow-named", action="store_true", help="with --approve: allow what the plan names, as far as that is safe"),
)
_DIR_HELP = "folder to work in (default: WORKSPACE, else the current one)"
_FOLDER = option("dir", nargs="?", metavar="DIR", help=_DIR_HELP)
_ID = option("id", metavar="ID")


def add_task_options(parser: Parser) -> Parser:
    """Add the options of what gives the model a task, settings, model file, pictures and output, and return the parser."""
    return add_common(parser.add(*_MODEL_AND_PICTURES, *_OUTPUT))


def _run_parser() -> Parser:
    parser = make_parser(
        "run", "Run one task without a screen.", 'lmtui run --mode auto "add a test for parse()"',
        option("task", nargs="?", metavar="TASK", help="what to do; piped input is added to it, or is the task (-)"),
        option("--output-schema", metavar="FILE", help="JSON Schema that the answer must match"),
        option("--output-last-message", metavar="FILE", help="also write the answer to this file"),
        option("--ephemeral", action="store_true", help="do not save the session"),
        option("--detach", action="store_true", help="run in the host and print the session's id; see lmtui attach"),
        option("--attempts", type=int, metavar="N", help="try N times (2 to 16) in overlays; checks choose the best"),
        option("--models", metavar="A,B,…", help="let each of these models try it, once or --attempts times"),
        option("--keep", action="store_true", help="with --attempts or --models: keep the chosen changes unless checks fail"),
    )  # fmt: skip
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--continue", dest="goes_on", action="store_true", help="continue the session used last")
    which.add_argument("--resume", metavar="ID", help="continue this session")
    return add_task_options(parser)


def _plan_parser() -> Parser:
    text = "Plan first: the agent only reads and proposes a plan; you approve it, change it or say no."
    task = option("task", metavar="TASK", help="what to plan and then do; - reads it from standard input")
    parser = add_task_options(make_parser("plan", text, 'lmtui plan "split the parser"', task, *_APPROVE))
    parser.set_defaults(plans_first=True)
    return parser


PARSERS: Mapping[str, Callable[[], Parser]] = {
    "": lambda: add_common(make_parser(
        "", "A workbench for agents on your own models.", "lmtui ~/src/parser",
        _FOLDER,
        option("--version", action="version", version=f"lmtui {__version__}"),
        option("--theme", metavar="NAME"),
        option("--plain", action="store_true", help="line by line, for screen readers: lmtui --plain ~/src/parser"),
        *_MODEL_AND_PICTURES,
    )),
    "run": _run_parser,
    "plan": _plan_parser,
    "resume": lambda: add_task_options(make_parser(
        "resume", "Continue a session, full screen on a terminal.", 'lmtui resume 3fa2b1 "now the docs"',
        option("id", nargs="?", metavar="ID", help="an id or the end of one (default: the last used)"),
        option("text", nargs="?", metavar="TEXT"), *_APPROVE,
    )),
    "demo": lambda: add_common(make_parser(
        "demo", "The whole program on a built-in scripted model server.", "lmtui demo --headless --keep /tmp/demo",
        option("--headless", action="store_true", help="run without the full screen"),
        option("--keep", metavar="DIR", help="work in this folder (or --workspace DIR)"),
        option("--plan", dest="plans_first", action="store_true", help="a task that is planned first"),
        option("--agents", action="store_true", help="a task that sub-agents do"), *_APPROVE, *_OUTPUT,
    )),
    "serve": lambda: add_common(make_parser(
        "serve", "The full-screen app in a browser; each tab has its own screen.", "lmtui serve ~/src/parser", _FOLDER,
        option("--host", default="127.0.0.1", help="address to serve on; all but loopback need a PIN"),
        option("--port", type=int, default=8766, metavar="N"),
        option("--pin", action="store_true", help="ask for a PIN (default: a one-time link)"),
        option("--pin-file", default="", metavar="PATH", help="file with the PIN, readable by you alone"),
    )),
    "acp": lambda: add_common(make_parser(
        "acp", "Run as an agent for editors: Agent Client Protocol over standard input and output. See docs/editors.md.",
        "lmtui acp --mode normal",
        option("--setup", action="store_true", help="choose a model server in this terminal, then exit"),
    ), without=("--workspace",)),
    "host": lambda: with_report(make_parser(
        "host", "Manage the background process that keeps sessions running after a terminal closes.",
        "lmtui host start --http 127.0.0.1:8765",
        option("action", nargs="?", choices=("start", "stop", "status", "run"), default="status"),
        option("--http", default="", metavar="HOST:PORT", help="start: address of the HTTP API (default: host_http)"),
        option("--plain-http", action="store_true", help="--http: serve other machines without encryption"),
        option("--now", action="store_true", help="stop: even if sessions are working"),
    )),
    "attach": lambda: add_common(make_parser(
        "attach", "Open the app on a session in the host; the session keeps running after you close the app.",
        "lmtui attach 3fa2b1 --host-url http://127.0.0.1:8765",
        option("id", nargs="?", default="", metavar="ID", help="session to open (default: the newest of this folder)"),
        option("--host-url", default="", metavar="URL", help="HTTP address of a host on another machine"),
        option("--token-file", default="", metavar="PATH", help="file with its token (default: LMTUI_HOST_TOKEN)"),
        option("--plain-http", action="store_true", help="send the token without encryption"),
        option("--plain", action="store_true", help="line by line, for screen readers"),
    )),
    "sessions": lambda: with_report(make_parser(
        "sessions", "List the sessions of a workspace.", 'lmtui sessions --search "slugify test"',
        option("--search", default="", metavar="WORDS", help="only sessions that contain all these words"),
        option("--limit", type=int, default=20, metavar="N"),
    )),
    "show": lambda: with_report(make_parser(
        "show", "Print a session's transcript.", "lmtui show 3fa2b1", _ID,
        option("--audit", action="store_true", help="each decision and execution: who, what, which rule"),
    )),
    "export": lambda: with_report(make_parser(
        "export", "Write a session to standard output.", "lmtui export 3fa2b1 --format html > session.html", _ID,
        option("--format", choices=("md", "html", "jsonl"), default="md"),
    ), has_json=False),
    "models": lambda: with_report(make_parser(
        "models", "Show the model servers that answer and their models, or find out how one calls tools.",
        "lmtui models --exam qwen2.5-coder:7b",
        option("--exam", metavar="NAME", help="test how this model calls tools, and save the result"),
        setting_option("url"), setting_option("api_key"),
    )),
    "doctor": lambda: with_report(make_parser(
        "doctor", "Check everything lmtui needs; each row says what to do.", "lmtui doctor",
        option("--offline", action="store_true", help="do not start MCP servers or contact model servers"),
    )),
    "sandbox": lambda: with_report(make_parser(
        "sandbox", "What isolates commands on this machine.", "lmtui sandbox check",
        option("action", nargs="?", choices=("check", "explain", "image"), default="check"),
        option("--from", dest="source", default="", metavar="NAME", help="image: pull this one instead of building"),
        setting_option("sandbox"),
    )),
    "config": lambda: with_report(make_parser(
        "config", "Show settings and their sources, or config file paths.", "lmtui config path",
        option("action", nargs="?", choices=("show", "path"), default="show"),
    )),
    "trust": lambda: with_report(make_parser(
        "trust", "Review what this folder wants to enable.", "lmtui trust --list",
        option("--yes", action="store_true", help="answer the question with yes"),
        option("--list", action="store_true", help="what is trusted, here and in other folders"),
        option("--revoke", nargs="?", const="", metavar="DIR", help="revoke it, here or in DIR"),
    )),
    "import": lambda: with_report(make_parser(
        "import", "Import schedules, notes, skills and sessions of LMAgent and LAO.", "lmtui import",
        option("--yes", action="store_true", help="import without asking"),
    ), has_json=False),
    "help": lambda: make_parser(
        "help", "Show the help of a command or a page of the docs, or list them.", "lmtui help sandbox",
        option("topic", nargs="?", default="", metavar="TOPIC", help="a command, or a page"),
    ),
    "completion": lambda: make_parser(
        "completion", "Print what completes lmtui's commands and options in a shell.", 'eval "$(lmtui completion bash)"',
        option("shell", choices=SHELLS),
    ),
}  # fmt: skip
