"""The parsers of the commands, each with its help and an example, and what they share: exit codes and the flags of settings.

Features add flags, and make their own subcommands' parsers with it.
"""

from __future__ import annotations

import argparse
import difflib
import os
import shlex
import sys
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from lmtui import __version__
from lmtui.core.errors import UsageError
from lmtui.core.roles import ModelRole
from lmtui.core.sanitize import sanitize, sanitize_line
from lmtui.paths import docs_dir
from lmtui.registry import features
from lmtui.settings import MODES, NETWORKS, SANDBOXES

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


def add_common(parser: Parser, without: Container[str] = ()) -> None:
    """Add the flags of settings, `without` those that mean nothing here."""
    add = parser.add_argument
    if "--workspace" not in without:
        add("--workspace", metavar="DIR", help="the folder that the agent works in")
    add("--url", help="the model server: a root, a /v1 or a full /v1/chat/completions address")
    add("--model", metavar="NAME")
    add("--profile", metavar="NAME", help="connect as this entry of the setting `profiles` says")
    roles = parser.add_argument_group(
        "models of roles", "for this run only, instead of the setting `roles`; see docs/models.md"
    )
    for role in ModelRole:
        roles.add_argument(f"--{role}-model", metavar="KEY")
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
        if flag not in without:
            add(flag, **options)
    add("--add-dir", action="append", metavar="DIR", help="another folder that the agent may read; DIR:rw allows changes")
    add("-c", "--config", action="append", metavar="KEY=VALUE", help="set any setting, for example -c command_timeout_s=300")


def with_report(parser: Parser, *, has_json: bool = True) -> Parser:
    """Add the flags of a report and return the parser."""
    parser.add_argument("--workspace", metavar="DIR")
    if has_json:
        parser.add_argument("--json", action="store_true", help="one JSON value instead of text")
    return parser


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


OK, NONE, WARNING, FAILURE = "ok", "none", "warning", "failure"
TRUST_HINT = "`lmtui config trust` shows it and asks; until then it does not hold."


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


_MOST_FOUND = 8


def show_page(topic: str, commands: Mapping[str, Callable[[], Parser]]) -> None:
    """Print the help of a command and the page about a topic, or which there are.

    Raises:
        UsageError: no such page, and none says anything about the topic.
    """
    pages = {page.stem: page for page in sorted(docs_dir().rglob("*.md")) if page.parent.name != "decisions"}
    if not topic:
        print("`lmtui --help` lists the commands. Topics, shown with `lmtui help TOPIC`:\n")
        for name, each in pages.items():
            print(f"  {name:<18} {_title(each)}")
        return
    if topic in commands:
        print(commands[topic]().format_help())
        if topic not in pages:
            return
    wanted = topic.lower().strip().replace(" ", "-")
    beginning = [page for name, page in pages.items() if name.startswith(wanted)]
    page = pages.get(wanted) or (beginning[0] if len(beginning) == 1 else None)
    if page is None:
        about = [name for name, other in pages.items() if topic.lower() in other.read_text(encoding="utf-8").lower()]
        near = difflib.get_close_matches(topic, pages, n=1)
        if not about and not near:
            raise UsageError(f"no help page matches {topic!r}", "`lmtui help` lists the topics.")
        print(f"no page {topic!r}. It builds on: {', '.join((about or near)[:_MOST_FOUND])}")
        return
    print(page.read_text(encoding="utf-8"), end="")


def _title(page: Path) -> str:
    with page.open(encoding="utf-8") as lines:
        return next((line.removeprefix("#").strip() for line in lines if line.startswith("# ")), page.stem)


SHELLS = ("bash", "zsh", "fish")
_FOLDERS = ("DIR",)
_FILES = ("FILE", "PATH")

_BASH = """# completion of lmtui: put `eval "$(lmtui completion {shell})"` into {rc}
{setup}_lmtui() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}" command="" words="" word
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    case "$word" in {commands}) command="$word"; break ;; esac
  done
  case "$command:$before" in
{values}
  esac
  case "$command" in
{options}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _lmtui lmtui
"""
_COMPLETE = 'COMPREPLY=($(compgen {kind} -- "$current")); return'
_RC = {"bash": "~/.bashrc", "zsh": "~/.zshrc"}
_SETUP = {"bash": "", "zsh": "autoload -U +X bashcompinit && bashcompinit\n"}

Parsers = Mapping[str, argparse.ArgumentParser]


def script(shell: str, parsers: Parsers) -> str:
    """Return the completion script of a shell; `parsers` are those of the commands by name, that of none by the empty one."""
    return "\n".join(_fish(parsers)) + "\n" if shell == "fish" else _bash(shell, parsers)


def _bash(shell: str, parsers: Parsers) -> str:
    values, options = [], []
    names = [name for name in parsers if name]
    for name, parser in parsers.items():
        words = [option for action in _shown(parser) for option in action.option_strings if option.startswith("--")]
        words += [choice for action in _shown(parser) if not action.option_strings for choice in action.choices or ()]
        options.append(f"    {shlex.quote(name)}) words={shlex.quote(' '.join([*words, *([] if name else names)]))} ;;")
        for action in _shown(parser):
            if kind := _kind(action):
                patterns = "|".join(shlex.quote(f"{name}:{option}") for option in action.option_strings)
                values.append(f"    {patterns}) {_COMPLETE.format(kind=kind)} ;;")
    return _BASH.format(
        shell=shell,
        rc=_RC[shell],
        setup=_SETUP[shell],
        commands="|".join(names),
        values="\n".join(values),
        options="\n".join(options),
    )


def _fish(parsers: Parsers) -> Iterator[str]:
    names = [name for name in parsers if name]
    yield "# completion of lmtui: lmtui completion fish > ~/.config/fish/completions/lmtui.fish"
    for name, parser in parsers.items():
        seen = f"__fish_seen_subcommand_from {name}" if name else f"not __fish_seen_subcommand_from {' '.join(names)}"
        about = f"complete -c lmtui -n {shlex.quote(seen)}"
        if name:
            doc = shlex.quote(str(parser.description or ""))
            yield f"complete -c lmtui -n __fish_use_subcommand -a {name} -d {doc}"
        for action in _shown(parser):
            choices = f" -x -a {shlex.quote(' '.join(action.choices))}" if action.choices else ""
            takes = choices or (" -r" if action.nargs != 0 else "")
            longs = "".join(f" -l {option[2:]}" for option in action.option_strings if option.startswith("--"))
            doc = f" -d {shlex.quote(action.help or '')}"
            if longs:
                yield f"{about}{longs}{takes}{doc}"
            elif action.choices:
                yield f"{about}{choices.replace(' -x', ' -f')}"


def _shown(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return [action for action in parser._actions if action.help != argparse.SUPPRESS]


def _kind(action: argparse.Action) -> str:
    """Return how bash completes an option's value, empty where it cannot."""
    if not action.option_strings or action.nargs == 0:
        return ""
    if action.choices:
        return f"-W {shlex.quote(' '.join(map(str, action.choices)))}"
    return "-d" if action.metavar in _FOLDERS else "-f" if action.metavar in _FILES else ""


_HEAD = """commands:
  lmtui [DIR]                 the full-screen app on a folder (default: WORKSPACE, else the current one)
  lmtui run ["TASK"]          one task without a screen; piped input is added to it
  lmtui plan "TASK"           plan first: the agent only reads, you approve, then it does it
  lmtui resume [ID] ["TEXT"]  continue a session (default: the last used)
  lmtui demo [--headless]     try lmtui with a scripted model: no model needed, real tools, real sandbox
  lmtui host start|stop|status, lmtui attach [ID]   sessions that go on when the terminal closes
  lmtui serve [DIR]           the full-screen app in a browser on this machine
  lmtui acp                   an agent for editors (Agent Client Protocol) on standard input and output
  lmtui --plain [DIR]         line by line, for screen readers and dumb terminals (or set ACCESSIBLE=1)
"""
_TAIL = """  lmtui sessions | show ID | export ID --format md|html|jsonl
  lmtui models | doctor | sandbox check|explain|image|shell
  lmtui config show|path|trust | help TOPIC | completion bash|zsh|fish
`lmtui COMMAND --help` shows details."""


def overview() -> str:
    """Return what `lmtui --help` says of the commands."""
    lines = [" | ".join(each.usage for each in feature.subcommands) for feature in features() if feature.subcommands]
    return _HEAD + "".join(f"  lmtui {line}\n" for line in lines) + _TAIL


def _add_gguf(parser: Parser) -> None:
    text = "run this model file inside lmtui (with the extra lmtui[embedded]) instead of a server"
    parser.add_argument("--gguf", metavar="FILE", help=text)


def _add_output(parser: Parser) -> None:
    parser.add_argument("--output", choices=("text", "json", "stream-json"), default="text")
    parser.add_argument("--plain", action="store_true", help="line by line instead of full screen, on a terminal")
    parser.add_argument("--json", dest="output", action="store_const", const="json", help="the same as --output json")


def app_parser() -> Parser:
    """Return the parser of `lmtui`."""
    parser = make_parser("", "A workbench for agents on your own models.", overview())
    parser.add_argument("dir", nargs="?", metavar="DIR")
    parser.add_argument("--version", action="version", version=f"lmtui {__version__}")
    parser.add_argument("--theme", metavar="NAME")
    parser.add_argument("--plain", action="store_true", help="line by line, for screen readers: lmtui --plain ~/src/parser")
    add_common(parser)
    _add_gguf(parser)
    _add_image(parser)
    return parser


def _add_image(parser: Parser) -> None:
    parser.add_argument(
        "--image", action="append", metavar="FILE", help="attach a picture, for a vision model; may be repeated"
    )


def add_task_options(parser: Parser) -> None:
    """Add the options of what gives the model a task: settings, model file, pictures and output."""
    add_common(parser)
    _add_gguf(parser)
    _add_image(parser)
    _add_output(parser)


def run_parser() -> Parser:
    """Return the parser of `lmtui run`."""
    parser = make_parser("run", "Run one task without a screen.", 'lmtui run --mode auto "add a test for parse()"')
    add = parser.add_argument
    add("task", nargs="?", metavar="TASK", help="what to do; standard input is added to it, or is the task (also with -)")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--continue", dest="goes_on", action="store_true", help="continue the session used last")
    which.add_argument("--resume", metavar="ID", help="continue this session")
    add("--output-schema", metavar="FILE", help="JSON Schema that the answer must match")
    add("--output-last-message", metavar="FILE", help="also write the answer to this file")
    add("--ephemeral", action="store_true", help="do not save the session")
    add("--detach", action="store_true", help="run in the host: print the session's id and exit; see lmtui attach")
    add("--attempts", type=int, metavar="N", help="try N times (2 to 16), each in an overlay; the checks choose the best")
    add("--models", metavar="A,B,…", help="let each of these models try it, once or --attempts times")
    add(
        "--keep",
        action="store_true",
        help="with --attempts or --models: keep the changes of the chosen attempt unless checks fail",
    )
    add_task_options(parser)
    return parser


def host_parser() -> Parser:
    """Return the parser of `lmtui host`."""
    text = "Manage the background process that keeps sessions running after a terminal closes."
    parser = make_parser("host", text, "lmtui host start --http 127.0.0.1:8765")
    add = parser.add_argument
    add(
        "action",
        nargs="?",
        choices=("start", "stop", "status", "run"),
        default="status",
        help="run stays in the foreground (default: status)",
    )
    add("--http", default="", metavar="HOST:PORT", help="start: serve the HTTP API at this address (default: host_http)")
    add("--plain-http", action="store_true", help="--http: serve other machines without encryption; they need the token")
    add("--now", action="store_true", help="stop: even if sessions are working; you can resume them later")
    return with_report(parser)


def attach_parser() -> Parser:
    """Return the parser of `lmtui attach`."""
    text = "Open the app on a session in the host; the session keeps running after you close the app."
    parser = make_parser("attach", text, "lmtui attach 3fa2b1 --host-url http://127.0.0.1:8765")
    add = parser.add_argument
    add("id", nargs="?", default="", metavar="ID", help="session to open (default: the newest one open in this folder)")
    add("--host-url", default="", metavar="URL", help="HTTP address of a host on another machine, for example an ssh tunnel")
    add("--token-file", default="", metavar="PATH", help="file with the token of that host (default: LMTUI_HOST_TOKEN)")
    add("--plain-http", action="store_true", help="send the token to another machine without encryption")
    add("--plain", action="store_true", help="line by line, for screen readers")
    add_common(parser)
    return parser


def plan_parser() -> Parser:
    """Return the parser of `lmtui plan`."""
    text = "Plan first: the agent only reads and proposes a plan; you approve it, change it or say no."
    parser = make_parser("plan", text, 'lmtui plan "split the parser into two modules"')
    parser.add_argument("task", metavar="TASK", help="what to plan and then do; - reads it from standard input")
    _add_approve(parser)
    add_task_options(parser)
    parser.set_defaults(plans_first=True)
    return parser


def _add_approve(parser: Parser) -> None:
    parser.add_argument("--approve", action="store_true", help="without a screen: approve the plan unseen and run it")
    text = "with --approve: the files and commands that the plan names need no further yes, as far as that is safe"
    parser.add_argument("--allow-named", action="store_true", help=text)


def resume_parser() -> Parser:
    """Return the parser of `lmtui resume`."""
    parser = make_parser("resume", "Continue a session, full screen on a terminal.", 'lmtui resume 3fa2b1 "now the docs"')
    parser.add_argument("id", nargs="?", metavar="ID", help="an id or the end of one (default: the last used)")
    parser.add_argument("text", nargs="?", metavar="TEXT")
    _add_approve(parser)
    add_task_options(parser)
    return parser


def demo_parser() -> Parser:
    """Return the parser of `lmtui demo`."""
    parser = make_parser(
        "demo", "The whole program on a built-in scripted model server.", "lmtui demo --headless --keep /tmp/demo"
    )
    parser.add_argument("--headless", action="store_true", help="run without the full screen")
    parser.add_argument("--keep", metavar="DIR", help="work in this folder (or --workspace DIR)")
    parser.add_argument("--plan", dest="plans_first", action="store_true", help="a task that is planned first")
    parser.add_argument("--agents", action="store_true", help="a task that sub-agents do")
    _add_approve(parser)
    add_common(parser)
    _add_output(parser)
    return parser


def serve_parser() -> Parser:
    """Return the parser of `lmtui serve`."""
    parser = make_parser("serve", "The full-screen app in a browser; each tab has its own screen.", "lmtui serve ~/src/parser")
    parser.add_argument("dir", nargs="?", metavar="DIR")
    parser.add_argument("--host", default="127.0.0.1", help="address to serve on; any address except loopback needs a PIN")
    parser.add_argument("--port", type=int, default=8000, metavar="N")
    parser.add_argument("--pin", action="store_true", help="ask for a PIN that browsers must enter (default: a one-time link)")
    parser.add_argument("--pin-file", default="", metavar="PATH", help="read the PIN from a file that only you can read")
    add_common(parser)
    return parser


def acp_parser() -> Parser:
    """Return the parser of `lmtui acp`."""
    doc = "Run as an agent for editors: Agent Client Protocol over standard input and output. See docs/editors.md."
    parser = make_parser("acp", doc, "lmtui acp --mode normal")
    parser.add_argument("--setup", action="store_true", help="choose a model server in this terminal, then exit")
    add_common(parser, without=("--workspace",))
    return parser


def sessions_parser() -> Parser:
    """Return the parser of `lmtui sessions`."""
    parser = make_parser("sessions", "List the sessions of a workspace.", 'lmtui sessions --search "slugify test"')
    parser.add_argument("--search", default="", metavar="WORDS", help="only sessions whose text contains all these words")
    parser.add_argument("--limit", type=int, default=20, metavar="N")
    return with_report(parser)


def show_parser() -> Parser:
    """Return the parser of `lmtui show`."""
    parser = make_parser("show", "Print a session's transcript.", "lmtui show 3fa2b1")
    parser.add_argument("id", metavar="ID")
    parser.add_argument("--audit", action="store_true", help="every decision and execution: who, what, which rule, how long")
    return with_report(parser)


def export_parser() -> Parser:
    """Return the parser of `lmtui export`."""
    parser = make_parser("export", "Write a session to standard output.", "lmtui export 3fa2b1 --format html > session.html")
    parser.add_argument("id", metavar="ID")
    parser.add_argument("--format", choices=("md", "html", "jsonl"), default="md")
    return with_report(parser, has_json=False)


def models_parser() -> Parser:
    """Return the parser of `lmtui models`."""
    doc = "Show the model servers that answer and their models, or find out how one calls tools."
    parser = make_parser("models", doc, "lmtui models --exam qwen2.5-coder:7b")
    parser.add_argument(
        "--exam",
        metavar="NAME",
        help="test how this model (or the only one with NAME in its name) calls tools, and save that",
    )
    parser.add_argument("--url")
    parser.add_argument("--api-key", metavar="KEY")
    return with_report(parser)


def doctor_parser() -> Parser:
    """Return the parser of `lmtui doctor`."""
    parser = make_parser("doctor", "Check everything lmtui needs; each row says what to do.", "lmtui doctor")
    parser.add_argument("--offline", action="store_true", help="do not start MCP servers or contact model servers")
    return with_report(parser)


def sandbox_parser() -> Parser:
    """Return the parser of `lmtui sandbox`."""
    parser = make_parser("sandbox", "What isolates commands on this machine.", "lmtui sandbox check")
    parser.add_argument("action", nargs="?", choices=("check", "explain", "image", "shell"), default="check")
    parser.add_argument("--from", dest="source", default="", metavar="NAME", help="image: pull this one instead of building")
    parser.add_argument(
        "--project", action="store_true", help="image: build the image that this project describes, for this project only"
    )
    parser.add_argument("--yes", action="store_true", help="image --project: build without asking")
    parser.add_argument("--sandbox", choices=SANDBOXES, help="explain, shell: which one")
    return with_report(parser)


def help_parser() -> Parser:
    """Return the parser of `lmtui help`."""
    parser = make_parser("help", "Show the help of a command or a page of the docs, or list them.", "lmtui help sandbox")
    parser.add_argument(
        "topic", nargs="?", default="", metavar="TOPIC", help="a command, a page, or a word to search for in all pages"
    )
    return parser


def completion_parser() -> Parser:
    """Return the parser of `lmtui completion`."""
    doc = "Print what completes lmtui's commands and options in a shell."
    parser = make_parser("completion", doc, 'eval "$(lmtui completion bash)"')
    parser.add_argument("shell", choices=SHELLS)
    return parser


def config_parser() -> Parser:
    """Return the parser of `lmtui config`."""
    parser = make_parser(
        "config",
        "Each setting, its value and where it came from; the files; and what a folder brings that waits for your yes (trust).",
        "lmtui config trust --list",
    )
    parser.add_argument("action", nargs="?", choices=("show", "path", "trust"), default="show")
    parser.add_argument("--yes", action="store_true", help="trust: answer the question with yes")
    parser.add_argument("--list", action="store_true", help="trust: what is trusted, here and in other folders")
    parser.add_argument("--revoke", nargs="?", const="", metavar="DIR", help="trust: revoke it, here or in DIR")
    return with_report(parser)
