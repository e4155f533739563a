"""The reports: what is listed, shown, exported or looked into without a session, each from settings to exit code."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from pathlib import Path

from lmtui.app.archive import archive_of, as_json, as_text, exported, session_events, session_log
from lmtui.app.checks import (
    BackendReport,
    backend_reports,
    build_image,
    workspace_problem,
)
from lmtui.app.folder_rules import granted_rules, rules_file
from lmtui.app.host import open_runtime
from lmtui.app.model_servers import NO_SERVER, Servers, examine_named, silent_address
from lmtui.command_line import EXIT_BLOCKED, print_json, print_report, say
from lmtui.config import SETTINGS, Config, Loaded, shown
from lmtui.core import events
from lmtui.core.agent_events import PlanDecided, PlanOutcome
from lmtui.core.errors import LmtuiError, SandboxError, UsageError
from lmtui.core.hosts import COMMAND_QUESTIONS
from lmtui.core.ports import Sandbox
from lmtui.core.sanitize import sanitize_line
from lmtui.core.servers import ServerFound, exam_text, server_lines
from lmtui.core.sessions import chosen_words, summary_line
from lmtui.core.workspace import EFFECT_TOOL
from lmtui.headless import doctor, trust_report
from lmtui.headless.trust_report import YES
from lmtui.paths import config_dir, workspace_dir


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


@dataclass(slots=True)
class Ruling:
    """How a call was decided, by which rule, by whom and for how long; `asked_ms` is -1 where nobody was asked."""

    decision: str = ""
    rule: str = ""
    by: str = ""
    scope: str = ""
    asked_ms: int = -1
    why: str = ""


@dataclass(slots=True)
class AuditRow:
    """One call: who asked for it, what it was, how it was decided, the outcome, milliseconds.

    `hunks` says how many of a change were accepted, where not all were; `ok` is None while it is not over.
    """

    time: datetime
    agent: str
    tool: str
    what: str
    ruling: Ruling = field(default_factory=Ruling)
    edited: str = ""
    hunks: str = ""
    ok: bool | None = None
    outcome: str = ""
    elapsed_ms: int = -1
    files: tuple[str, ...] = field(default=())


def audit_rows(history: Sequence[events.Envelope]) -> Iterator[AuditRow]:
    """Yield a row for each call, in the order in which they began, and for what the user changed between them."""
    rows: list[AuditRow] = []
    calls: dict[str, AuditRow] = {}
    asked: dict[str, tuple[AuditRow, events.ApprovalRequested]] = {}
    for envelope in history:
        match envelope.event:
            case events.ToolCallStarted() as event:
                row = calls[event.call_id] = AuditRow(envelope.time, event.agent, event.tool, event.title)
                rows.append(row)
            case events.ApprovalRequested(tool=tool) as event if tool in COMMAND_QUESTIONS:
                row = AuditRow(envelope.time, event.agent, tool, event.text)
                asked[event.approval_id] = row, event
                rows.append(row)
            case events.ApprovalRequested() as event if event.call_id in calls:
                row = calls[event.call_id]
                asked[event.approval_id] = row, event
                row.what = event.text if event.tool != EFFECT_TOOL else row.what
            case events.ApprovalResolved() as event if event.approval_id in asked:
                row, request = asked[event.approval_id]
                row.ruling = Ruling(str(event.outcome), event.rule, event.by, event.scope, event.elapsed_ms)
                row.edited, row.hunks = event.edited, chosen_words(request, event)
                row.ok = event.outcome is not events.Outcome.NO if row.tool in COMMAND_QUESTIONS else row.ok
            case events.FilesChanged() as event if event.call_id in calls:
                calls[event.call_id].files = event.files
            case events.ToolCallFinished() as event if event.call_id in calls:
                row = calls[event.call_id]
                row.ok, row.outcome, row.elapsed_ms = event.ok, event.summary, event.elapsed_ms
                row.ruling = row.ruling if row.ruling.by else Ruling(event.decision, event.rule)
                row.ruling.why = event.why
            case other:
                rows += _no_call(envelope.time, other)
    yield from rows


def as_audit_text(history: Sequence[events.Envelope]) -> str:
    """Return the rows as a person reads them, one line each and what matters next to it."""
    lines: list[str] = []
    for row in audit_rows(history):
        took = f"{row.elapsed_ms} ms" if row.elapsed_ms >= 0 else "–"
        sign = {True: "✓", False: "✗", None: "…"}[row.ok]
        lines.append(
            f"{row.time:%Y-%m-%d %H:%M:%S}  {sanitize_line(row.agent)}  {sign} {sanitize_line(row.tool)}  "
            f"{sanitize_line(row.what)[:200]}  {took}  {sanitize_line(row.outcome)}"
        )
        about = {
            "decided": ", ".join(filter(None, (_decided(row), sanitize_line(row.ruling.rule), sanitize_line(row.ruling.why)))),
            "run instead": sanitize_line(row.edited),
            "changed": ", ".join(map(sanitize_line, row.files[:20])),
        }
        lines += [f"    {name}: {text}" for name, text in about.items() if text]
    return "\n".join(lines) or "nothing was run in this session"


def _no_call(time: datetime, event: object) -> list[AuditRow]:
    """Return the row of a connection, or of what the user did."""
    own = Ruling(by="user")
    match event:
        case events.HostReached(agent=agent, host=host, why_not=why_not, sent_bytes=sent, received_bytes=received):
            outcome = why_not or f"sent {sent} bytes, received {received}"
            return [AuditRow(time, agent, "connection", host, ok=not why_not, outcome=outcome)]
        case events.FilesRestored(agent=agent, action=action, files=files):
            return [AuditRow(time, agent, action, ", ".join(files), own, ok=True, outcome="put back", files=files)]
        case events.ModeChanged(agent=agent, mode=mode):
            return [AuditRow(time, agent, "mode", mode, own, ok=True)]
        case events.RuleRevoked(agent=agent, rule=rule):
            return [AuditRow(time, agent, "revoke", rule, own, ok=True)]
        case PlanDecided(agent=agent, outcome=outcome, by=by, feedback=feedback, rules=rules):
            ruling = Ruling(str(outcome), ", ".join(rules), by)
            return [AuditRow(time, agent, "plan", feedback, ruling, ok=outcome is PlanOutcome.APPROVED)]
        case _:
            return []


def _decided(row: AuditRow) -> str:
    ruling = row.ruling
    asked = f" after {ruling.asked_ms / 1000:.1f} s" if ruling.asked_ms >= 0 else ""
    by = f" by {ruling.by}{asked}" if ruling.by else ""
    scope = f" ({ruling.scope})" if ruling.scope else ""
    return f"{row.hunks or ruling.decision}{scope}{by}".strip()


_SHELL_S = 120
Report = Callable[[Path, Loaded, argparse.Namespace], Coroutine[None, None, int]]


async def sandbox_report(workspace: Path, loaded: Loaded, arguments: argparse.Namespace) -> int:
    """Do what the action says and return the exit code."""
    actions: dict[str, Report] = {"check": _check, "explain": _explain, "image": _image, "shell": _shell}
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


async def _shell(workspace: Path, loaded: Loaded, _: argparse.Namespace) -> int:
    """Run lines of standard input, one command each, until it ends."""
    async with open_runtime(workspace, replace(loaded.config, mode="auto")) as runtime:
        sandbox = await runtime.sandbox()
        status = await sandbox.status()
        _say(status.text)
        limits = [fact for fact in status.facts if fact.startswith(("processes:", "memory:", "cpu:"))]
        for fact in (*limits, f"PATH: {await _path_in(sandbox)}"):
            _say(f"    {fact}")
        _say(f"Each line is a separate command, {_SHELL_S} s at most. Ctrl+D ends.")
        while line := await asyncio.to_thread(_read_line):
            try:
                result = await sandbox.run_command(line, timeout_s=_SHELL_S)
            except SandboxError as error:
                say(error.full_text(), file=sys.stderr)
                continue
            print(result.output, *(f"{note}\n" for note in result.notes), sep="", end="", flush=True)
            if result.exit_code:
                say(f"(exit code {result.exit_code})", file=sys.stderr)
        return 0


def _read_line() -> str:
    if sys.stdin.isatty():
        print("sandbox$ ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline()


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
            if (await asyncio.to_thread(sys.stdin.readline)).strip().lower() not in YES:
                return 0
        for each in found:
            try:
                outcome = f"imported: {each.text} ({await each.run()})"
            except LmtuiError as error:
                outcome, failed = f"not imported: {each.text}: {error.full_text()}", True
            say(sanitize_line(outcome))
    return int(failed)


REPORTS: dict[str, Report] = {
    "sessions": _sessions,
    "show": _show,
    "export": _export,
    "models": _models,
    "doctor": doctor.report,
    "sandbox": sandbox_report,
    "config": _config,
    "trust": trust_report.report,
    "import": _import,
}
