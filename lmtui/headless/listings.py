"""The reports: what is listed, shown, exported or looked into without a session, each from settings to exit code."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import sys
import tempfile
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from lmtui.app.archive import archive_of, as_json, as_text, exported, session_events, session_log
from lmtui.app.extensions import IdleWorkspace, WorkspaceFeatures
from lmtui.app.folder_rules import granted_rules, kept_problems, rules_file, rules_in_force
from lmtui.app.host import open_runtime
from lmtui.app.model_servers import NO_SERVER, Servers, examine_named, lacking_models, silent_address
from lmtui.app.sandboxes import FULL, BackendReport, backend_reports, build_image, counter_name, free_space, workspace_problem
from lmtui.command_line import EXIT_BLOCKED, FAILURE, NONE, OK, WARNING, CheckRow, print_json, print_report, say
from lmtui.config import SETTINGS, Config, Loaded, shown
from lmtui.core import events
from lmtui.core.agent_events import PlanDecided
from lmtui.core.errors import ConfigError, LmtuiError, UsageError
from lmtui.core.event_text import EventText
from lmtui.core.hosts import is_loopback
from lmtui.core.ports import Sandbox
from lmtui.core.roles import parse_roles, unasked_roles
from lmtui.core.sanitize import pluralize, sanitize_line
from lmtui.core.servers import KEY_HINT, KEY_NOTES, ServerFound, exam_text, server_lines, size_text, window_words
from lmtui.core.sessions import answer_words, chosen_words, summary_line
from lmtui.headless import trust_report
from lmtui.paths import WORKSPACE_FOLDER, config_dir, state_dir, workspace_dir
from lmtui.plain_files import list_plain


def as_table(servers: Sequence[ServerFound], *, silent: str = "") -> Iterator[str]:
    """Yield the lines of a table, a server's own line above its models; nothing answers at `silent`."""
    if silent:
        yield f"nothing answers at {sanitize_line(silent)}; check the address and the port"
    yield from server_lines(servers) if servers else NO_SERVER


async def exam_report(config: Config, arguments: argparse.Namespace) -> int:
    """Probe how a model calls tools, and print it; 0: a form works with it, 1: none does.

    Raises:
        UsageError: no such model.
        ProviderError: the server cannot be asked.
    """
    if not arguments.exam.strip():
        raise UsageError("--exam wants the name of a model", "`lmtui models` lists them.")
    result = await examine_named(config, arguments.exam.strip())
    lines = f"{sanitize_line(result.model)}  {sanitize_line(result.url)}", exam_text(result), sanitize_line(result.kept)
    print_report(asdict(result), lines, is_json=arguments.json)
    return 0 if result.call_form else 1


_AUDITED = (events.FilesChanged, events.FilesRestored, events.ModeChanged, events.RuleRevoked)


@dataclass(frozen=True, slots=True)
class AuditRow:
    """What was called, asked, changed or reached: when, for which agent, in words, and what decided it."""

    time: datetime
    agent: str
    text: str
    decided: str = ""


def audit_rows(history: Sequence[events.Envelope]) -> Iterator[AuditRow]:
    """Yield a row for each call, answer, connection and change of files, mode or rules, in the order of the log."""
    asked: dict[str, events.ApprovalRequested] = {}
    told = EventText()
    for envelope in history:
        event, lines, decided = envelope.event, list(told.lines(envelope.event)), ""
        match event:
            case events.ToolCallFinished(decision=decision, rule=rule, why=why):
                decided = ", ".join(filter(None, (decision, rule, why)))
            case events.ApprovalRequested(approval_id=approval_id):
                asked[approval_id] = event
                continue
            case events.ApprovalResolved(approval_id=approval_id, rule=rule, edited=edited) if approval_id in asked:
                request = asked[approval_id]
                lines, part = [f"question: {request.tool} {request.text}"], chosen_words(request, event)
                by = answer_words(event, f"{part} by" if part else "")
                decided = ", ".join(filter(None, (by, rule, f"run instead: {edited}" if edited else "")))
            case events.HostReached(host=host, why_not=why_not, sent_bytes=sent, received_bytes=received):
                lines = [f"connection: {host}, {why_not or f'sent {sent} bytes, received {received}'}"]
            case PlanDecided(by=by, rules=rules):
                decided = ", ".join((f"by {by}", *rules))
            case _ if not isinstance(event, _AUDITED):
                continue
        yield AuditRow(envelope.time, sanitize_line(event.agent), sanitize_line(lines[0])[:300], sanitize_line(decided))


def as_audit_text(history: Sequence[events.Envelope]) -> str:
    """Return the rows as a person reads them."""
    decided = "\n    decided: "
    lines = (
        f"{row.time:%Y-%m-%d %H:%M:%S}  {row.agent}  {row.text}{decided if row.decided else ''}{row.decided}"
        for row in audit_rows(history)
    )
    return "\n".join(lines) or "nothing was run in this session"


Report = Callable[[Path, Loaded, argparse.Namespace], Coroutine[None, None, int]]


async def sandbox_report(workspace: Path, loaded: Loaded, arguments: argparse.Namespace) -> int:
    """Do what the action says and return the exit code."""
    actions: dict[str, Report] = {"check": _check, "explain": _explain, "image": _image}
    return await actions[arguments.action](workspace, loaded, arguments)


async def _check(workspace: Path, _: Loaded, arguments: argparse.Namespace) -> int:
    with tempfile.TemporaryDirectory() as other:  # the machine is checked, so where the user is does not matter
        reports = await backend_reports(Path(other) if workspace_problem(workspace) else workspace)
    print_report([asdict(found) for found in reports], map(_backend_text, reports), is_json=arguments.json)
    return 0 if any(found.works for found in reports) else 1


def _backend_text(found: BackendReport) -> str:
    how = f"works, ready in {found.start_ms} ms" if found.works else found.why_not
    facts = found.isolation if found.works else (found.fix,)
    return "\n    ".join((f"{'✓' if found.works else '✗'} {found.name:<11} {how}", *facts))


async def _explain(workspace: Path, loaded: Loaded, arguments: argparse.Namespace) -> int:
    """Say what the sandbox of this project is, which of its tools commands see, and why."""
    async with open_runtime(workspace, loaded.config) as runtime:
        sandbox = await runtime.sandbox()
        status, path, hosts = await sandbox.status(), await _path_in(sandbox), await sandbox.package_hosts()
    facts = (*status.facts, f"PATH: {path}", f"packages, after your yes: {', '.join(hosts) or 'no index found'}")
    text = f"{status.text}{f' ({status.reason})' if status.reason else ''}"
    found = asdict(status) | {"path": path.split(":"), "package_hosts": list(hosts)}
    print_report(found, [text, *(f"    {line}" for line in facts)], is_json=arguments.json)
    return 0


async def _path_in(sandbox: Sandbox) -> str:
    """Return PATH in a sandbox without the folders that do not exist there."""
    listing = 'set -f; IFS=:; for each in $PATH; do [ -d "$each" ] && printf "%s:" "$each"; done; true'
    return (await sandbox.run_command(listing)).output.rstrip(":")


def _say(line: str) -> None:
    say(line, file=sys.stderr, flush=True)


async def _image(_: Path, loaded: Loaded, arguments: argparse.Namespace) -> int:
    name = await build_image(loaded.config.image, source=arguments.source, say=_say)
    print(json.dumps({"image": name}) if arguments.json else name)
    return 0


async def _sessions(workspace: Path, _: Loaded, arguments: argparse.Namespace) -> int:
    found = archive_of(workspace).sessions(arguments.search, arguments.limit)
    is_any = not arguments.search and arguments.limit > 0
    nothing = "no sessions" + (" yet; start one with `lmtui`" if is_any else " match")
    print_report([asdict(each) for each in found], map(summary_line, found) if found else [nothing], is_json=arguments.json)
    return 0


async def _show(workspace: Path, _: Loaded, arguments: argparse.Namespace) -> int:
    history = session_events(workspace, arguments.id)
    if arguments.audit and arguments.json:
        print_json([asdict(row) for row in audit_rows(history)])
    elif arguments.audit:
        say(as_audit_text(history))
    else:
        print(as_json(history) if arguments.json else as_text(history))
    return 0


async def _export(workspace: Path, _: Loaded, arguments: argparse.Namespace) -> int:
    sys.stdout.write(exported(session_log(workspace, arguments.id), arguments.format))
    return 0


async def _models(_: Path, loaded: Loaded, arguments: argparse.Namespace) -> int:
    if arguments.exam is not None:
        return await exam_report(loaded.config, arguments)
    servers = await Servers(loaded.config).find_answering()
    silent = silent_address(loaded.config, servers)
    print_report([asdict(server) for server in servers], as_table(servers, silent=silent), is_json=arguments.json)
    return 0 if any(server.models for server in servers) and not silent else 1


async def _config(workspace: Path, loaded: Loaded, arguments: argparse.Namespace) -> int:
    if arguments.action == "path":
        for path in (config_dir() / "config.toml", workspace_dir(workspace) / "config.toml", rules_file()):
            say(f"{path}  {'there' if path.exists() else 'not there'}")
        return 0
    told = {name: {"value": _told(name, loaded), "source": loaded.sources[name]} for name in SETTINGS}
    print_report(told, _setting_lines(workspace, loaded), is_json=arguments.json)
    return 0


def _setting_lines(workspace: Path, loaded: Loaded) -> Iterator[str]:
    for name, setting in SETTINGS.items():
        value = shown(name, getattr(loaded.config, name))
        yield f"{name:<16} {value:<28} {loaded.sources[name]:<14} {setting.metadata['doc']}"
    for rule in granted_rules(workspace):
        yield f"{'always allowed':<16} {sanitize_line(rule)}  ({rules_file()}: delete the line to revoke it)"


def _told(name: str, loaded: Loaded) -> object:
    value = getattr(loaded.config, name)
    return shown(name, value) if SETTINGS[name].metadata["is_secret"] and value else value


async def _import(workspace: Path, loaded: Loaded, arguments: argparse.Namespace) -> int:
    """List what earlier programs left in a folder, ask, and take it over; 1 where something could not be."""
    async with open_runtime(workspace, loaded.config, is_attended=False, writes_log=True) as runtime:
        found, failed = await asyncio.to_thread(runtime.imports), False
        if not found:
            say("No cron.json, LAO_MEMORY.md, .lao/skills or LMAgent sessions here.")
            return 0
        say("\n".join(sanitize_line(each.text) for each in found))
        if not arguments.yes and not sys.stdin.isatty():
            say("Nothing was imported. `lmtui import --yes` imports all of this.")
            return EXIT_BLOCKED
        if not arguments.yes:
            _say("Import all of this? [y/N] ")
            if (await asyncio.to_thread(sys.stdin.readline)).strip().lower() not in trust_report.YES:
                return 0
        for each in found:
            try:
                outcome = f"imported: {each.text} ({await each.run()})"
            except LmtuiError as error:
                outcome, failed = f"not imported: {each.text}: {error.full_text()}", True
            say(sanitize_line(outcome))
    return int(failed)


_OTHER_SERVER = "Start it, or name another: LLM_URL, or `url` in your settings."
_LEAST_FREE, _MOST_NAMED = 5_000_000_000, 20
_SIGNS = {OK: "✓", NONE: "–", WARNING: "!", FAILURE: "✗"}


async def doctor_report(workspace: Path, loaded: Loaded, arguments: argparse.Namespace) -> int:
    """Print row by row everything that lmtui needs, each with what to do about it; 0 all well, 1 warnings, 2 failures."""
    rows = [*_program_rows(), *_workspace_rows(workspace, loaded)]
    if workspace_problem(workspace) is None:  # else nothing can be tried in it
        rows += sandbox_rows(await backend_reports(workspace))
    rows += _rule_rows(workspace, loaded)
    async with aclosing(IdleWorkspace(workspace, loaded.config)) as idle:
        rows += [row for each in WorkspaceFeatures(idle) for row in await each.check(is_offline=arguments.offline)]
    if not arguments.offline:
        rows += await _server_rows(loaded)
    print_report([asdict(row) for row in rows], map(_row_text, rows), is_json=arguments.json)
    states = {row.state for row in rows}
    return 2 if FAILURE in states else 1 if WARNING in states else 0


def _row_text(row: CheckRow) -> str:
    hint = f"\n{'':15}{sanitize_line(row.hint)}" if row.hint else ""
    return f"{_SIGNS[row.state]} {row.name:<12} {sanitize_line(row.text)}{hint}"


def _row(name: str, text: str, hint: str, *, is_well: bool, otherwise: str = WARNING) -> CheckRow:
    """Return a row that has a hint only where something is not well."""
    return CheckRow(name, OK if is_well else otherwise, text, "" if is_well else hint)


def _program_rows() -> Iterable[CheckRow]:
    is_fit = (3, 11) <= sys.version_info[:2] < (3, 14)
    yield _row("python", platform.python_version(), "lmtui runs on Python 3.11 to 3.13.", is_well=is_fit, otherwise=FAILURE)
    is_shown, hint = os.environ.get("TERM", "dumb") != "dumb", 'Use `lmtui run "TASK"`, or a terminal with TERM set.'
    yield _row("terminal", os.environ.get("TERM", "none"), hint, is_well=is_shown)
    yield CheckRow("tokens", OK, f"counted by {counter_name()}")
    if unread := sorted(_NOT_READ & os.environ.keys()):
        hint = "Other programs read them: see `lmtui help coming-from`."
        yield CheckRow("environment", NONE, f"set, but not read by lmtui: {', '.join(unread)}", hint)
    for name, folder in (("settings", config_dir()), ("state", state_dir())):
        is_writable = os.access(_nearest(folder), os.W_OK)
        yield _row(name, str(folder), "Set LMTUI_HOME to a folder that can be written.", is_well=is_writable)


# Settings of the programs that lmtui succeeds: what is set and not read here is named.
_NOT_READ = {
    "AGENT_CERT", "AGENT_HOST", "AGENT_KEY", "AGENT_PORT", "AGENT_TOKEN", "ARTIFACT_SCAN_WINDOW", "BLOCKED_COMMANDS",
    "BRIEF_DATA_BUDGET", "DB_PATH", "ENABLE_PLAN_ENFORCEMENT", "ENABLE_TODO_TRACKING", "KEEP_RECENT_MESSAGES", "LAO_CONFIG",
    "LAO_OTEL_ENDPOINT", "LM_STUDIO_BASE_URL", "MAX_FILE_READ", "MAX_GREP_RESULTS", "MAX_LS_ENTRIES",
    "MAX_SUB_AGENT_ITERATIONS", "MAX_TOOL_OUTPUT", "PLANS_DIR", "REQUIRE_WORKSPACE", "SHELL_WORKSPACE_ONLY",
    "THINKING_MAX_TOKENS", "TOTAL_RAM_GB", "WORKSPACE_ROOT",
}  # fmt: skip


def _nearest(folder: Path) -> Path:
    """Return the folder, or the nearest one above it that is there."""
    return folder if folder.exists() or folder == folder.parent else _nearest(folder.parent)


def _workspace_rows(workspace: Path, loaded: Loaded) -> Iterable[CheckRow]:
    problem = workspace_problem(workspace)
    if isinstance(problem, UsageError):
        yield CheckRow("workspace", FAILURE, str(problem), problem.hint)
    else:
        names = list_plain(workspace, f"{WORKSPACE_FOLDER}/sessions")
        count = sum(name.endswith(".jsonl") for name, _ in names)
        yield CheckRow("workspace", OK, f"{workspace}, {pluralize(count, 'session')}")
    if unasked := unasked_roles(parse_roles(loaded.config.roles)):
        yield CheckRow("roles", NONE, unasked.removeprefix("roles: "))
    for folder, free in free_space(workspace).items():
        hint = "Free some: checkpoints, overlays and downloaded packages need it."
        text = f"{size_text(free) or 'nothing'} free at {sanitize_line(str(folder))}"
        yield _row("disk", text, hint, is_well=free >= _LEAST_FREE)
    if loaded.ignored:
        hint = "To review it, run `lmtui trust`, or put it into your own config.toml."
        yield CheckRow("trust", WARNING, f"ignored until you trust this folder: {', '.join(loaded.ignored)}", hint)
    yield from (CheckRow("settings", NONE, sanitize_line(text)) for text in loaded.not_used)


def _model_rows(loaded: Loaded, servers: Sequence[ServerFound]) -> Iterable[CheckRow]:
    """Tell which models that the settings name the first server, which is the one in use, or its pool does not have."""
    used = [each for each in servers if each.pool] or servers[:1]
    models = tuple(model for server in used for model in server.models)
    if lacks := lacking_models(loaded.config, replace(servers[0], models=models), loaded.config.model):
        names = ", ".join(model.name for model in models[:_MOST_NAMED])
        yield CheckRow("models", WARNING, f"{servers[0].url} has no {lacks}", f"It has {sanitize_line(names)}.")


def _rule_rows(workspace: Path, loaded: Loaded) -> Iterable[CheckRow]:
    try:
        rules, problems = rules_in_force(loaded.config, workspace), kept_problems(workspace)
    except (ConfigError, UsageError) as error:
        yield CheckRow("rules", FAILURE, str(error), error.hint)
        return
    yield from (CheckRow("rules", WARNING, problem) for problem in problems)
    yield CheckRow("rules", OK if rules else NONE, pluralize(len(rules), "permission rule") if rules else "no permission rules")


def sandbox_rows(reports: Sequence[BackendReport]) -> list[CheckRow]:
    """Return what the backends are worth together: one that isolates is enough, the others are told without alarm."""
    rows = [
        CheckRow(found.name, OK, f"works, ready in {found.start_ms} ms")
        if found.works
        else CheckRow(found.name, NONE, f"not available: {found.why_not}")
        for found in reports
    ]
    working = {found.name for found in reports if found.works}
    fixes = " ".join(dict.fromkeys(found.fix for found in reports if found.name in FULL and found.fix))
    if working.isdisjoint((*FULL, "landlock")):
        rows.append(CheckRow("sandbox", FAILURE, "no sandbox works: lmtui runs only with --sandbox process", fixes))
    elif working.isdisjoint(FULL):
        weaker = "only landlock works: it isolates less, and each command asks unless you name it (--sandbox landlock)"
        rows.append(CheckRow("sandbox", WARNING, weaker, fixes))
    return rows


async def _server_rows(loaded: Loaded) -> list[CheckRow]:
    try:
        servers = await Servers(loaded.config).find_answering()
    except UsageError as error:
        return [CheckRow("models", FAILURE, str(error), error.hint)]
    if silent_address(loaded.config, servers):
        return [CheckRow("models", WARNING, f"no model server answers at {loaded.config.url}", _OTHER_SERVER)]
    if not servers:
        hint = "Start LM Studio, Ollama, llama.cpp or vLLM, or name an address (LLM_URL, `url`); `lmtui demo` needs none."
        return [CheckRow("models", WARNING, "no model server answers", hint)]
    rows = [*map(_server_row, servers), *_model_rows(loaded, servers)]
    return [*rows, *memory_rows(loaded, servers[0])]


def memory_rows(loaded: Loaded, server: ServerFound) -> Iterable[CheckRow]:
    """Tell whether the largest model that the settings name fits, where it runs on this machine."""
    names = {loaded.config.model, *(each.model for each in parse_roles(loaded.config.roles).values())}
    named = [each for each in server.models if each.name.removesuffix(":latest") in names]
    size, total = max((each.size_bytes for each in named), default=0), psutil.virtual_memory().total
    if size and is_loopback(urlsplit(server.url).hostname or ""):
        text = f"the largest model has {size_text(size)}, this machine {size_text(total)}"
        hint = "Use a smaller model or quantisation, unless a graphics card has memory for it."
        yield _row("memory", text, hint, is_well=size <= 0.9 * total)


def _server_row(server: ServerFound) -> CheckRow:
    hint = KEY_HINT if server.note in KEY_NOTES else _OTHER_SERVER
    loaded = [f"{sanitize_line(model.name)} ({window_words(model)})" for model in server.chat_models if model.is_loaded]
    offer = pluralize(len(server.chat_models), "model") + (f", loaded: {', '.join(loaded)}" if loaded else "")
    text = f"{next(server_lines([replace(server, models=())]))}  {offer}"
    return _row("models", text, hint, is_well=bool(server.models) and server.note not in KEY_NOTES)


REPORTS: dict[str, Report] = {
    "sessions": _sessions,
    "show": _show,
    "export": _export,
    "models": _models,
    "doctor": doctor_report,
    "sandbox": sandbox_report,
    "config": _config,
    "trust": trust_report.report,
    "import": _import,
}
