"""The command line: arguments in, exit code out.  It picks a front end; each is imported only when it is picked."""

from __future__ import annotations

import argparse
import asyncio
import difflib
import gc
import io
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from lmtui import __version__
from lmtui.config import MODES, NETWORKS, SANDBOXES, Loaded, load_config
from lmtui.core.errors import ConfigError, LmtuiError, UsageError
from lmtui.frontends.places import check_screen, wants_plain
from lmtui.paths import config_dir
from lmtui.store.trust import read_trust

if TYPE_CHECKING:
    from lmtui.core.sessions import SessionHost

EXIT_ERROR, EXIT_USAGE, EXIT_INTERRUPTED = 1, 64, 130

EPILOG = """commands:
  lmtui [DIR]                 the full-screen app on a folder (default: WORKSPACE, else the current one)
  lmtui run "TASK"            one task without a screen; - reads it from standard input
  lmtui resume [ID] ["TEXT"]  continue a session (default: the newest)
  lmtui demo [--headless]     the whole program on a scripted model: no model needed, real tools, real sandbox
  lmtui serve [DIR]           the full-screen app in a browser on this machine
  lmtui --plain [DIR]         line by line, for screen readers and dumb terminals (or set ACCESSIBLE=1)
  lmtui sessions | show ID | export ID --format md|html|jsonl
  lmtui models | doctor | sandbox check|image|shell | config show|path|trust
`lmtui COMMAND --help` tells more of each."""


class _Parser(argparse.ArgumentParser):
    """A parser whose mistakes end with exit code 64, as the contract says."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(EXIT_USAGE, f"{self.prog}: {message}\n")


def run(argv: Sequence[str]) -> int:
    """Run a command line and return the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        return _dispatch(_translated(list(argv)))
    except (UsageError, ConfigError) as error:
        print(f"lmtui: {error.full_text()}", file=sys.stderr)
        return EXIT_USAGE
    except LmtuiError as error:
        print(f"lmtui: {error.full_text()}", file=sys.stderr)
        return EXIT_ERROR
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()
        return EXIT_ERROR


def _translated(argv: list[str]) -> list[str]:
    """Return the arguments with the words that users of an earlier program type put into ours."""
    for old, new in (("--list-sessions", "sessions"), ("--resume", "resume")):
        if argv[:1] == [old]:
            return [new, *argv[1:]]
    return ["--mode" if word == "--permission" else word for word in argv]


def _dispatch(argv: list[str]) -> int:
    name = argv[0] if argv and argv[0] in _COMMANDS else ""
    if argv and not name and not argv[0].startswith("-") and not Path(argv[0]).is_dir():
        close = difflib.get_close_matches(argv[0], _COMMANDS, n=1)
        hint = f"Did you mean `lmtui {close[0]}`?" if close else "`lmtui --help` lists the commands."
        raise UsageError(f"{argv[0]!r} is neither a command nor a folder", hint)
    make_parser, execute = _COMMANDS[name]
    parser = make_parser()
    arguments = parser.parse_args(argv[1:] if name else argv)
    return execute(arguments)


# -- parsers -----------------------------------------------------------------------------------------------------------


def _parser(name: str, doc: str, example: str) -> _Parser:
    return _Parser(
        prog=f"lmtui {name}".strip(),
        description=doc,
        epilog=f"example: {example}" if name else EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def _add_common(parser: _Parser) -> None:
    add = parser.add_argument
    add("--workspace", metavar="DIR", help="the folder that the agent works in")
    add("--url", help="the model server: a root, a /v1 or a full /v1/chat/completions address")
    add("--model", metavar="NAME")
    add("--api-key", metavar="KEY", help="better in LLM_API_KEY: arguments can be seen by other users")
    add("--mode", choices=MODES, help="when to ask before a tool runs (default: normal)")
    add("--sandbox", choices=SANDBOXES, help="where commands run (default: auto)")
    add("--network", choices=NETWORKS, help="network for commands (default: off)")
    add("--max-iterations", type=int, metavar="N", help="requests in one turn")
    add("--temperature", type=float, metavar="X")
    add("--seed", type=int, metavar="N")
    add("--timeout-s", type=float, metavar="N", help="seconds that the task may take")
    add("--allow", action="append", metavar="RULE", help="allow what matches, for example 'Shell(git status*)'")
    add("--deny", action="append", metavar="RULE", help="forbid what matches, for example 'Write(secrets/**)'")
    for word in ("--no-mcp", "--no-sub-agents"):
        add(word, action="store_true", help="for scripts: neither is there yet, so nothing is switched off")


def _add_output(parser: _Parser) -> None:
    parser.add_argument("--output", choices=("text", "json", "stream-json"), default="text")
    parser.add_argument("--plain", action="store_true", help="on a terminal: line by line instead of full screen")
    parser.add_argument("--json", dest="output", action="store_const", const="json", help="the same as --output json")


def _app_parser() -> _Parser:
    parser = _parser("", "A workbench for agents on your own models.", "")
    parser.add_argument("dir", nargs="?", metavar="DIR")
    parser.add_argument("--version", action="version", version=f"lmtui {__version__}")
    parser.add_argument("--theme", metavar="NAME")
    parser.add_argument("--plain", action="store_true", help="line by line, for screen readers: lmtui --plain ~/src/parser")
    _add_common(parser)
    _add_image(parser)
    return parser


def _add_image(parser: _Parser) -> None:
    parser.add_argument("--image", action="append", metavar="FILE", help="a picture for a model that sees; may be repeated")


def _run_parser() -> _Parser:
    parser = _parser("run", "Run one task without a screen.", 'lmtui run --mode auto "add a test for parse()"')
    parser.add_argument("task", metavar="TASK", help="what to do; - reads it from standard input")
    _add_common(parser)
    _add_image(parser)
    _add_output(parser)
    return parser


def _resume_parser() -> _Parser:
    parser = _parser("resume", "Continue a session, full screen on a terminal.", 'lmtui resume 3fa2b1 "now the docs"')
    parser.add_argument("id", nargs="?", metavar="ID", help="an id or the end of one (default: the newest)")
    parser.add_argument("text", nargs="?", metavar="TEXT")
    _add_common(parser)
    _add_image(parser)
    _add_output(parser)
    return parser


def _demo_parser() -> _Parser:
    parser = _parser("demo", "The whole program on a built-in scripted model server.", "lmtui demo --headless --keep /tmp/demo")
    parser.add_argument("--headless", action="store_true", help="without the screen")
    parser.add_argument("--keep", metavar="DIR", help="work in this new folder")
    _add_common(parser)
    _add_output(parser)
    return parser


def _serve_parser() -> _Parser:
    parser = _parser("serve", "The full-screen app in a browser; each tab is a screen of its own.", "lmtui serve ~/src/parser")
    parser.add_argument("dir", nargs="?", metavar="DIR")
    parser.add_argument("--host", default="127.0.0.1", help="address to serve on; others than this machine's own need --pin")
    parser.add_argument("--port", type=int, default=8000, metavar="N")
    parser.add_argument("--pin", default="", metavar="TEXT", help="what opens the door; without it a link that works once")
    _add_common(parser)
    return parser


def _sessions_parser() -> _Parser:
    parser = _parser("sessions", "List the sessions of a workspace.", 'lmtui sessions --search "slugify test"')
    parser.add_argument("--search", default="", metavar="WORDS", help="only those whose text has all these words")
    parser.add_argument("--limit", type=int, default=20, metavar="N")
    return _with_report(parser)


def _show_parser() -> _Parser:
    parser = _parser("show", "Print a session's transcript.", "lmtui show 3fa2b1")
    parser.add_argument("id", metavar="ID")
    parser.add_argument("--audit", action="store_true", help="every decision and execution: who, what, which rule, how long")
    return _with_report(parser)


def _export_parser() -> _Parser:
    parser = _parser("export", "Write a session to standard output.", "lmtui export 3fa2b1 --format html > session.html")
    parser.add_argument("id", metavar="ID")
    parser.add_argument("--format", choices=("md", "html", "jsonl"), default="md")
    return _with_report(parser, has_json=False)


def _models_parser() -> _Parser:
    parser = _parser("models", "Show the model servers that answer and their models.", "lmtui models")
    parser.add_argument("--url")
    parser.add_argument("--api-key", metavar="KEY")
    return _with_report(parser)


def _doctor_parser() -> _Parser:
    parser = _parser("doctor", "Check everything lmtui needs; each row says what to do.", "lmtui doctor")
    parser.add_argument("--offline", action="store_true", help="leave the model servers out")
    return _with_report(parser)


def _sandbox_parser() -> _Parser:
    parser = _parser("sandbox", "What isolates commands on this machine.", "lmtui sandbox check")
    parser.add_argument("action", nargs="?", choices=("check", "image", "shell"), default="check")
    parser.add_argument("--from", dest="source", default="", metavar="NAME", help="image: pull this one instead of building")
    parser.add_argument("--cache", default="", metavar="FILE", help="image: keep it in, and take it from, this archive")
    parser.add_argument("--sandbox", choices=SANDBOXES, help="shell: where it runs")
    return _with_report(parser)


def _config_parser() -> _Parser:
    parser = _parser("config", "Each setting, its value and where the value came from.", "lmtui config show")
    parser.add_argument("action", nargs="?", choices=("show", "path", "trust"), default="show")
    parser.add_argument("--yes", action="store_true", help="trust: answer the question with yes")
    return _with_report(parser)


def _with_report(parser: _Parser, *, has_json: bool = True) -> _Parser:
    parser.add_argument("--workspace", metavar="DIR")
    if has_json:
        parser.add_argument("--json", action="store_true", help="one JSON value instead of text")
    return parser


# -- commands ----------------------------------------------------------------------------------------------------------


_SETTING_FLAGS = (
    "url", "model", "api_key", "mode", "sandbox", "network", "max_iterations", "temperature", "seed", "timeout_s", "theme",
)  # fmt: skip


def _reader(arguments: argparse.Namespace) -> tuple[Path, Callable[[], Loaded]]:
    """Return the workspace, and what reads the settings in force (again, once more of the workspace is trusted)."""
    given = getattr(arguments, "dir", None) or arguments.workspace or os.environ.get("WORKSPACE", "").strip()
    workspace = Path(os.path.realpath(Path(given or ".").expanduser()))  # one name for one folder: rules are kept by it
    flags = {name: getattr(arguments, name, None) for name in _SETTING_FLAGS}
    rules = {name: tuple(found) for name in ("allow", "deny") if (found := getattr(arguments, name, None))}

    def read() -> Loaded:
        answer = read_trust(workspace)
        return load_config(workspace, os.environ, flags | rules, trusted=answer.digest if answer.is_trusted else "")

    return workspace, read


def _settings(arguments: argparse.Namespace) -> tuple[Path, Loaded]:
    """Return the workspace and the settings in force; what an untrusted workspace asked for and does not get is told."""
    workspace, read = _reader(arguments)
    loaded = read()
    if loaded.ignored and getattr(arguments, "action", "") != "trust":
        print(f"not taken from this untrusted folder: {', '.join(loaded.ignored)} (lmtui config trust)", file=sys.stderr)
    return workspace, loaded


def _app(arguments: argparse.Namespace, session_id: str = "", task: str = "", *, is_demo: bool = False) -> int:
    if wants_plain(is_asked=arguments.plain):
        from lmtui.frontends.plain.console import PlainStart, run_plain

        return run_plain(_host_opener(arguments, session_id)[2], PlainStart(session_id, task, is_demo))
    check_screen()
    gc.disable()  # a tenth of the start-up; the app turns it on again when its first frame stands
    from lmtui.tui.app import LmtuiApp
    from lmtui.tui.keymap import KEYS_FILE, read_keymap
    from lmtui.tui.options import StartOptions

    workspace, loaded, open_host, opened = _host_opener(arguments, session_id)
    config = loaded.config
    keymap = read_keymap(config_dir() / KEYS_FILE)
    options = StartOptions(
        keys=keymap.keys,
        problems=keymap.problems,
        notify=config.notify,
        session_id=session_id,
        task=task,
        images=tuple(getattr(arguments, "image", None) or ()),
        theme=config.theme,
        mode=config.mode,
        workspace=str(workspace),
        is_demo=is_demo,
    )
    app = LmtuiApp(open_host, options)
    app.run()
    if is_demo and opened:
        print(f"The demo's files are in {opened[0].workspace}.")
    return app.return_code or 0


def _host_opener(
    arguments: argparse.Namespace, session_id: str
) -> tuple[Path, Loaded, Callable[[], SessionHost], list[SessionHost]]:
    """Return workspace, settings, what opens the host of a user who is there, and the list that it then stands in."""
    workspace, read = _reader(arguments)
    loaded = read()
    opened: list[SessionHost] = []

    def open_host() -> SessionHost:
        from lmtui.runtime.host import open_runtime

        runtime = open_runtime(workspace, loaded.config, writes_log=True, is_mode_forced=loaded.sources["mode"] == "flag")
        runtime.ask_trust(loaded, read)
        if session_id:
            runtime.take_server_of(session_id)
        opened.append(runtime)
        return runtime

    return workspace, loaded, open_host, opened


def _serve(arguments: argparse.Namespace) -> int:
    from lmtui.frontends.web.server import serve

    workspace, _ = _settings(arguments)
    if arguments.api_key:
        os.environ["LLM_API_KEY"] = arguments.api_key  # not in the arguments of the apps, which other users can see
    passed: list[str] = []
    for name in _PASSED_ON:
        value = getattr(arguments, name)
        flag = f"--{name.replace('_', '-')}"
        passed += [part for each in value for part in (flag, each)] if isinstance(value, list) else []
        passed += [f"{flag}={value}"] if value is not None and not isinstance(value, list) else []
    return serve(passed, workspace, arguments.host, arguments.port, arguments.pin)


def _run(arguments: argparse.Namespace) -> int:
    text = sys.stdin.read() if arguments.task == "-" else arguments.task
    if not text.strip():
        raise UsageError("the task is empty", "Write what to do, or pipe it in and give - as the task.")
    return _headless(arguments, text)


def _headless(arguments: argparse.Namespace, text: str, session_id: str = "") -> int:
    from lmtui.frontends import commands
    from lmtui.frontends.headless import HeadlessTask
    from lmtui.frontends.pictures import read_pictures

    workspace, loaded = _settings(arguments)
    if arguments.output != "text" and isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")  # JSON is UTF-8 (RFC 8259), whatever the terminal is
    images = read_pictures(arguments.image or ())
    return asyncio.run(commands.task(workspace, loaded, HeadlessTask(text, session_id, arguments.output, images)))


def _resume(arguments: argparse.Namespace) -> int:
    from lmtui.frontends import commands

    workspace, _ = _settings(arguments)
    session_id, text = commands.which_session(workspace, arguments.id or "", arguments.text or "")
    if sys.stdin.isatty() and sys.stdout.isatty() and arguments.output == "text":
        return _app(arguments, session_id, text)
    return _headless(arguments, text or "Go on.", session_id)


def _demo(arguments: argparse.Namespace) -> int:
    keep = Path(arguments.keep) if arguments.keep else None
    if not arguments.headless and sys.stdin.isatty() and sys.stdout.isatty():
        if keep is not None:
            raise UsageError("--keep goes with --headless", "On a terminal the demo makes a folder and names it at its end.")
        from lmtui.providers.demo import DEMO_TASK

        return _app(arguments, task=DEMO_TASK, is_demo=True)
    from lmtui.frontends import commands

    _, loaded = _settings(arguments)
    return asyncio.run(commands.demo(loaded.config, keep, arguments.output))


def _report(name: str) -> Callable[[argparse.Namespace], int]:
    return partial(_print_report, name)


def _print_report(name: str, arguments: argparse.Namespace) -> int:
    from lmtui.frontends import commands

    workspace, loaded = _settings(arguments)
    return asyncio.run(commands.REPORTS[name](workspace, loaded, arguments))


_PASSED_ON = (
    "url", "model", "mode", "sandbox", "network", "max_iterations", "temperature", "seed", "timeout_s", "allow", "deny",
)  # fmt: skip
_COMMANDS: dict[str, tuple[Callable[[], _Parser], Callable[[argparse.Namespace], int]]] = {
    "": (_app_parser, _app),
    "run": (_run_parser, _run),
    "resume": (_resume_parser, _resume),
    "demo": (_demo_parser, _demo),
    "serve": (_serve_parser, _serve),
    "sessions": (_sessions_parser, _report("sessions")),
    "show": (_show_parser, _report("show")),
    "export": (_export_parser, _report("export")),
    "models": (_models_parser, _report("models")),
    "doctor": (_doctor_parser, _report("doctor")),
    "sandbox": (_sandbox_parser, _report("sandbox")),
    "config": (_config_parser, _report("config")),
}
