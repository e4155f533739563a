"""The command line: arguments in, exit code out.  It picks a front end; each is imported only when it is picked."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import difflib
import functools
import gc
import importlib.util
import io
import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from lmtui import command_line
from lmtui.app.settings_trust import load_trusted
from lmtui.command_line import EXIT_ERROR, EXIT_INTERRUPTED, EXIT_USAGE, Parser, feature_flags, say
from lmtui.config import SETTINGS, Loaded, load_config, setting_flags
from lmtui.core.errors import ConfigError, LmtuiError, UsageError
from lmtui.core.roles import ModelRole
from lmtui.core.sanitize import sanitize_line
from lmtui.headless.inputs import check_screen, is_tab, joined, read_pictures, read_piped, wants_plain
from lmtui.paths import config_dir, install_hint
from lmtui.plain_files import forget_programs
from lmtui.registry import Feature, Subcommand, features

if TYPE_CHECKING:
    from lmtui.core.sessions import AgentRow, SessionHost
    from lmtui.host.connect import Target
    from lmtui.tui.options import Attachable, ReadAgents

_OLD_COMMANDS = {
    "--list-sessions": "sessions", "--resume": "resume", "--plan": "plan", "--submit": "submit", "--scheduler": "scheduler",
}  # fmt: skip
_OLD_OPTIONS = {"--permission": "--mode", "--scheduler-interval": "--interval-s"}


def run(argv: Sequence[str]) -> int:
    """Run a command line and return the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        code = _dispatch(_translated(list(argv)))
        sys.stdout.flush()
        return code
    except LmtuiError as error:
        say(f"lmtui: {error.full_text()}", file=sys.stderr)
        return EXIT_USAGE if isinstance(error, UsageError | ConfigError) else EXIT_ERROR
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:  # whoever reads has enough; nothing more is written, at the interpreter's end neither
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        return EXIT_ERROR


def _translated(argv: list[str]) -> list[str]:
    """Return the arguments with the words that users of an earlier program type put into ours."""
    argv = [_OLD_OPTIONS.get(word, word) for word in argv[argv[:2] == ["config", "trust"] :]]
    options = argv[: argv.index("--")] if "--" in argv else argv
    old = next((word for word in options if word in _OLD_COMMANDS), "") if argv and argv[0] not in _COMMANDS else ""
    if not old:
        return argv
    before, after = argv[: argv.index(old)], argv[argv.index(old) + 1 :]
    if before and not before[0].startswith("-"):  # a folder
        before = ["--workspace", *before]
    return _translated([_OLD_COMMANDS[old], *before, *after])


def _dispatch(argv: list[str]) -> int:
    if argv and argv[0].startswith("-") and not _COMMANDS.keys().isdisjoint(argv):  # options come first
        place = _COMMANDS[""][0]().parse_known_args(argv)[0].dir
        at = argv.index(place) if place in _COMMANDS else 0
        argv = [argv[at], *argv[:at], *argv[at + 1 :]]
    name = argv[0] if argv and argv[0] in _COMMANDS else ""
    if argv and not name and not argv[0].startswith("-") and not _is_folder(argv[0]) and not _is_task(argv[0]):
        close = difflib.get_close_matches(argv[0], _COMMANDS, n=1)
        hint = f"Did you mean `lmtui {close[0]}`?" if close else "`lmtui --help` lists the commands."
        raise UsageError(f"{argv[0]!r} is neither a command nor a folder", f'{hint} To run it as a task: lmtui run "TASK"')
    make_parser, execute = _COMMANDS[name]
    parser = make_parser()
    given = argv[1:] if name else argv
    words = given[given.index("--") + 1 :] if parser.behind and "--" in given else []
    given = given[: given.index("--")] if words else given
    arguments = parser.parse_args(given) if "--" in given else parser.parse_intermixed_args(given)
    if words:
        setattr(arguments, parser.behind, words)
    arguments.is_words = "--" in argv  # what stands behind it is no option, and no slash command either
    return execute(arguments)


def _is_task(text: str) -> bool:
    return any(map(str.isspace, text.strip())) and not _is_folder(text)


def _is_folder(text: str) -> bool:
    try:
        return Path(text).is_dir()
    except OSError:  # too long for a name
        return False


def _open(arguments: argparse.Namespace) -> int:
    """Open the full-screen app; a task given in place of a folder becomes its first message."""
    if not arguments.dir or not _is_task(arguments.dir):
        return _app(arguments)
    task, arguments.dir = arguments.dir, None
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("a task without a command needs a terminal", f"To run it here, use: lmtui run {shlex.quote(task)}")
    return _app(arguments, task=task)


# -- commands ----------------------------------------------------------------------------------------------------------


_SETTING_FLAGS = (
    *command_line.SETTING_FLAGS, "theme", "sub_agents", *(str(options["dest"]) for options in feature_flags().values())
)  # fmt: skip


def _reader(arguments: argparse.Namespace) -> tuple[Path, Callable[[], Loaded]]:
    """Return the workspace, and what reads the settings in force (again, once more of the workspace is trusted)."""
    workspace, flags = _given(arguments)
    return workspace, partial(load_trusted, workspace, os.environ, flags)


def _given(arguments: argparse.Namespace) -> tuple[Path, dict[str, Any]]:
    """Return the workspace and the settings that the command line names."""
    given = getattr(arguments, "dir", None) or arguments.workspace or _set_workspace()
    workspace = Path(os.path.realpath(Path(given or ".").expanduser()))  # one name for one folder: rules are kept by it
    forget_programs(workspace)  # also an app that only attaches runs editors and clipboard programs
    return workspace, _flags(arguments)


def _flags(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the settings among the arguments, by name."""
    flags = setting_flags(getattr(arguments, "config", None) or ())
    flags |= {name: found for name in _SETTING_FLAGS if (found := getattr(arguments, name, None)) is not None}
    if roles := {role: found for role in ModelRole if (found := getattr(arguments, f"{role}_model", None))}:
        flags["roles"] = (*flags.get("roles", ()), *(f"{role}: {found}" for role, found in roles.items()))
        flags |= {"model": roles[ModelRole.CODER]} if ModelRole.CODER in roles else {}
    rules = {name: tuple(found) for name in ("allow", "deny") if (found := getattr(arguments, name, None))}
    if added := getattr(arguments, "add_dir", None):
        flags["add_dirs"] = tuple(str(Path(each).expanduser().absolute()) for each in added)
    return flags | rules


def _set_workspace() -> str:
    """Return the folder that the settings name, as the current folder has them where it is trusted; empty for none."""
    return load_trusted(Path(os.path.realpath(".")), os.environ, {"profile": ""}).config.workspace


def _settings(arguments: argparse.Namespace) -> tuple[Path, Loaded]:
    """Return the workspace and the settings in force."""
    workspace, read = _reader(arguments)
    loaded = read()
    for text in loaded.retired:
        say(text, file=sys.stderr)
    if loaded.ignored and not hasattr(arguments, "revoke"):
        say(f"ignored until you trust this folder: {', '.join(loaded.ignored)} (lmtui trust)", file=sys.stderr)
    return workspace, loaded


def _app(
    arguments: argparse.Namespace,
    session_id: str = "",
    task: str = "",
    *,
    is_demo: bool = False,
    attach: Attachable | None = None,
) -> int:
    """Open the app, on sessions of this process or on those of a host that `attach` connects to."""
    if wants_plain(is_asked=arguments.plain):
        from lmtui.plain.console import run_plain

        open_plain = attach.connect if attach else _host_opener(arguments, session_id)[2]
        return run_plain(open_plain, session_id or (attach.find_session() if attach else ""), task, is_demo=is_demo)
    check_screen()
    gc.disable()  # a tenth of the start-up; the app turns it on again when its first frame stands
    from lmtui.tui.app import LmtuiApp
    from lmtui.tui.options import KEYS_FILE, StartOptions

    workspace, loaded, open_host = _host_opener(arguments, session_id)
    config = loaded.config
    keys_file = config_dir() / KEYS_FILE
    keymap = None
    if keys_file.exists():  # few have keys of their own, and the whole table of commands is loaded to read them
        from lmtui.tui.keymap import read_keymap

        keymap = read_keymap(keys_file)
    options = StartOptions(
        keys=keymap.keys if keymap else {},
        problems=keymap.problems if keymap else (),
        notify=config.notify,
        session_id=session_id,
        task=task,
        images=tuple(getattr(arguments, "image", None) or ()),
        theme=config.theme,
        mode=config.mode,
        workspace=str(workspace),
        is_demo=is_demo,
        is_attached=attach is not None,
        agents=attach.read_agents if attach else _agents(),
        find_session=attach.find_session if attach else None,
    )
    app = LmtuiApp(attach.connect if attach else open_host, options)
    app.run()
    given = {"--host-url": getattr(arguments, "host_url", ""), "--token-file": getattr(arguments, "token_file", "")}
    words = [f"{name}={value}" for name, value in given.items() if value]
    if app.next_folder:
        command_line.open_app(app.next_folder, app.next_session, words)
    elif is_demo:
        say(f"The demo's files are in {arguments.demo_folder}.")
    elif app.left_session[0] and not is_tab():
        session_id, title = app.left_session
        words += [] if attach or workspace == Path.cwd() else [f"--workspace={workspace}"]
        say(f"{sanitize_line(title)}\nlmtui {shlex.join(['attach' if attach else 'resume', session_id, *words])}")
    return app.return_code or 0


def _host_opener(arguments: argparse.Namespace, session_id: str) -> tuple[Path, Loaded, Callable[[], SessionHost]]:
    """Return workspace, settings, and what opens the host of a user who is there."""
    workspace, read = _reader(arguments)
    loaded = read()

    def open_host() -> SessionHost:
        from lmtui.app.host import attended_runtime

        runtime = attended_runtime(workspace, loaded, read, _model_file(arguments))
        runtime.plans_first = getattr(arguments, "plans_first", False)
        runtime.demo_folder = getattr(arguments, "demo_folder", None)
        if session_id:
            runtime.take_server_of(session_id)
        return runtime

    return workspace, loaded, open_host


def _host(arguments: argparse.Namespace) -> int:
    from lmtui.host.connect import host

    if arguments.action != "run":
        return host(arguments)
    from lmtui.host.host_process import host_lock, run_host

    config = load_config(Path.home(), os.environ, {}).config
    with host_lock() as file:
        asyncio.run(run_host(file, config, arguments.http or config.host_http, allows_plain=bool(arguments.plain_http)))
    return 0


def _target(arguments: argparse.Namespace, session_id: str = "", url: str = "", token_file: str = "") -> Target:
    """Return the host to connect to, with the settings that it gets from here."""
    from lmtui.host.connect import Target, token_for

    workspace, flags = _given(arguments)
    if url:
        token = token_for(url, token_file, os.environ, is_plain=arguments.plain_http)
        return Target(arguments.workspace or "", session_id, url, token)
    names = (name for setting in SETTINGS.values() for name in setting.metadata["env"])
    return Target(
        str(workspace),
        session_id,
        flags=flags,
        environment={name: os.environ.get(name, "") for name in names},  # empty: not set here, whatever the host has
    )


def _agents(target: Callable[[], Target] | None = None) -> ReadAgents:
    """Return what reads the sessions of a host, without a target that of this machine."""

    async def read() -> Sequence[AgentRow]:
        from lmtui.host.connect import agents

        return await asyncio.to_thread(lambda: agents(target().url, target().token) if target else agents())

    return read


def _attach(arguments: argparse.Namespace) -> int:
    """Open the app on a host; what connects to it is imported after the first frame."""
    from lmtui.tui.options import Attachable

    @functools.cache
    def target() -> Target:
        return _target(arguments, arguments.id, arguments.host_url, arguments.token_file)

    def connect() -> SessionHost:
        from lmtui.host.remote import RemoteHost

        return cast("SessionHost", RemoteHost(target().open))

    def find_session() -> str:
        from lmtui.host.connect import newest_session

        return newest_session(target())

    return _app(arguments, arguments.id, attach=Attachable(connect, find_session, _agents(target)))


def _model_file(arguments: argparse.Namespace) -> Path | None:
    """Return the model file that is to be run, None for a server."""
    given = getattr(arguments, "gguf", None)
    if given and arguments.url:
        raise UsageError("--gguf and --url name two servers", "Leave one of them out.")
    return Path(given).expanduser().absolute() if given else None


def _serve(arguments: argparse.Namespace) -> int:
    from lmtui.host.connect import read_pin, serve

    if is_tab():
        return _attach(argparse.Namespace(**vars(arguments), id="", host_url="", token_file="", plain=False))
    workspace, _ = _settings(arguments)
    pin = read_pin(os.environ, arguments.pin_file, asks=arguments.pin)
    given = {"host": arguments.host, "port": arguments.port, "pin": pin, "arguments": sys.argv[1:], "folder": str(Path.cwd())}
    return serve({**given, "environment": dict(os.environ)}, command_line.check_folder(workspace))


def _acp(arguments: argparse.Namespace) -> int:
    if importlib.util.find_spec("acp") is None:
        raise UsageError("the Agent Client Protocol needs the extra `acp`", install_hint("acp"))
    from lmtui.acp.acp_server import run as serve_editor

    if arguments.setup:  # the app asks for a model server where none is chosen
        return _app(argparse.Namespace(**vars(arguments), workspace="", plain=False))
    return serve_editor(_flags(arguments))


def _run(arguments: argparse.Namespace) -> int:
    _check_attempts(arguments)
    text, piped = _task_and_input(arguments.task, getattr(arguments, "goal", None) or "")
    if arguments.detach:
        from lmtui.host.connect import check_detached, detach

        check_detached(arguments)
        return detach(_target(arguments), joined(text, piped), text, read_pictures(arguments.image or ()))
    session_id = ""
    if arguments.goes_on or arguments.resume:
        from lmtui.headless.run import which_session

        session_id = which_session(_reader(arguments)[0], arguments.resume or "", "")[0]
    return _headless(arguments, text, session_id, piped)


def _check_attempts(arguments: argparse.Namespace) -> None:
    """Reject options that several attempts do not support, and read the names of the models."""
    given = arguments.models
    arguments.models = tuple(dict.fromkeys(filter(None, map(str.strip, (given or "").split(",")))))
    if given is not None and not 2 <= len(arguments.models) <= 16:
        raise UsageError("--models needs 2 to 16 models", "For example: --models qwen3-coder-30b,devstral-24b")
    if arguments.attempts is None and not arguments.models:
        if arguments.keep:
            raise UsageError("--keep needs --attempts or --models", "For example: --attempts 4 --keep")
        return
    least, most = 1 if arguments.models else 2, 16 // (len(arguments.models) or 1)
    arguments.attempts = least if arguments.attempts is None else arguments.attempts
    if not least <= arguments.attempts <= most:
        raise UsageError(f"--attempts takes a number from {least} to {most} here; 16 attempts are the limit")
    others = ("goes_on", "resume", "output_schema", "output_last_message", "ephemeral")
    if arguments.output == "stream-json" or any(getattr(arguments, name) for name in others):
        raise UsageError("--attempts is for a new session, with text or --output json", "Leave the other options out.")


def _task_and_input(task: str | None, goal: str) -> tuple[str, str]:
    """Return the task, and what was piped in next to it; a goal is a task by itself.

    Raises:
        UsageError: no words for the model, or too many.
    """
    task = task or (f"Work until `{goal}` exits with 0." if goal else task)
    piped = sys.stdin.read() if task == "-" else read_piped(sys.stdin, sys.stderr, is_waited_for=not task)
    text, piped = (task, piped) if task and task != "-" else (piped, "")
    if not text.strip():
        raise UsageError("the task is empty", 'Write what to do, as in lmtui run "TASK", or pipe it in.')
    return text, piped


def _plan(arguments: argparse.Namespace) -> int:
    return _begin(arguments, _task_of(arguments), approves=arguments.approve)


def _begin(arguments: argparse.Namespace, text: str, session_id: str = "", *, approves: bool = False) -> int:
    """Give a session its task, in the app where there is a screen; one whose plan the command line `approves` needs none."""
    if _has_screen(arguments) and not approves:
        return _app(arguments, session_id, text)
    return _headless(arguments, text, session_id)


def _has_screen(arguments: argparse.Namespace) -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty() and arguments.output == "text"


def _task_of(arguments: argparse.Namespace) -> str:
    text: str = sys.stdin.read() if arguments.task == "-" else arguments.task
    if not text.strip():
        raise UsageError("the task is empty", "Write what to do, or pipe it in and give - as the task.")
    return text


def _headless(arguments: argparse.Namespace, text: str, session_id: str = "", piped: str = "") -> int:
    from lmtui.headless import run as headless

    workspace, loaded = _settings(arguments)
    if arguments.output != "text" and isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")  # JSON is UTF-8 (RFC 8259) everywhere
    names = headless.HeadlessTask.__dataclass_fields__
    given = {name: found for name in names if (found := getattr(arguments, name, None))}
    if "output_schema" in given:
        from lmtui.json_schema import read_schema

        given["output_schema"] = read_schema(Path(given["output_schema"]))
    given |= {"text": text, "session_id": session_id, "piped": piped, "images": read_pictures(arguments.image or ())}
    return asyncio.run(headless.task(workspace, loaded, headless.HeadlessTask(**given), _model_file(arguments)))


def _resume(arguments: argparse.Namespace) -> int:
    from lmtui.headless import run as headless

    workspace, _ = _settings(arguments)
    session_id, text = headless.which_session(workspace, arguments.id or "", arguments.text or "")
    return _begin(arguments, text, session_id, approves=arguments.approve)


def _demo(arguments: argparse.Namespace) -> int:
    from lmtui.app.host import fresh_folder

    given = arguments.keep or arguments.workspace
    folder = arguments.demo_folder = fresh_folder(Path(given) if given else None)
    arguments.workspace = str(folder)
    if not arguments.headless and sys.stdin.isatty() and sys.stdout.isatty():
        return _app(arguments, task=_demo_task(arguments), is_demo=True)
    from lmtui.headless import run as headless

    _, loaded = _settings(arguments)
    options = {name: getattr(arguments, name) for name in ("output", "approve", "allow_named", "plans_first")}
    wanted = headless.HeadlessTask(_demo_task(arguments), **options)
    return asyncio.run(headless.demo(loaded.config, folder, wanted, is_kept=bool(given)))


def _demo_task(arguments: argparse.Namespace) -> str:
    from lmtui.app.host import AGENTS_DEMO_TASK, DEMO_TASK, PLAN_DEMO_TASK

    return PLAN_DEMO_TASK if arguments.plans_first else AGENTS_DEMO_TASK if arguments.agents else DEMO_TASK


def _print_report(name: str, arguments: argparse.Namespace) -> int:
    from lmtui.headless import listings

    workspace, loaded = _settings(arguments)
    return asyncio.run(listings.REPORTS[name](workspace, loaded, arguments))


def _feature_parser(feature: Feature, subcommand: Subcommand) -> Parser:
    parser: Parser = feature.load(f"{subcommand.place}_parser")()
    return parser


def _feature_command(feature: Feature, subcommand: Subcommand, arguments: argparse.Namespace) -> int:
    from lmtui.app.host import run_feature_command

    workspace, loaded = _settings(arguments)
    return asyncio.run(run_feature_command(feature.load(subcommand.place), workspace, loaded.config, arguments))


def _feature_task(feature: Feature, subcommand: Subcommand, arguments: argparse.Namespace) -> int:
    return _begin(arguments, feature.load(subcommand.place)(_task_of(arguments), is_attended=_has_screen(arguments)))


def _help(arguments: argparse.Namespace) -> int:
    command_line.show_page(arguments.topic, {name: make for name, (make, _) in _COMMANDS.items() if name})
    return 0


def _completion(arguments: argparse.Namespace) -> int:
    print(command_line.completion_script(arguments.shell, {name: make for name, (make, _) in _COMMANDS.items()}))
    return 0


_EXECUTE: Mapping[str, Callable[[argparse.Namespace], int]] = {
    "": _open, "run": _run, "plan": _plan, "resume": _resume, "demo": _demo, "serve": _serve, "acp": _acp, "host": _host,
    "attach": _attach, "help": _help, "completion": _completion,
}  # fmt: skip
_COMMANDS: dict[str, tuple[Callable[[], Parser], Callable[[argparse.Namespace], int]]] = {
    name: (make, _EXECUTE.get(name) or partial(_print_report, name)) for name, make in command_line.PARSERS.items()
}
for _feature in features():
    for _each in _feature.subcommands:
        _run_it = _feature_task if _each.is_task else _feature_command
        _COMMANDS[_each.name] = (partial(_feature_parser, _feature, _each), partial(_run_it, _feature, _each))
