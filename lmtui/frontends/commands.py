"""The commands without a screen, each from settings to exit code."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import sys
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from pathlib import Path

from lmtui.config import SETTINGS, Config, Loaded, shown
from lmtui.core.clean import clean_line
from lmtui.core.errors import SessionFileError, UsageError
from lmtui.core.times import moment_text, zone_of
from lmtui.frontends import audit, doctor, exam, mcp, models, sandbox, skills, trust
from lmtui.frontends.headless import HeadlessTask, run_headless
from lmtui.paths import config_dir, workspace_dir
from lmtui.runtime import transcript
from lmtui.runtime.demo import fresh_folder
from lmtui.runtime.host import open_runtime
from lmtui.runtime.reports import (
    find_models,
    granted_rules,
    list_sessions,
    rules_file,
    session_events,
    session_log,
    silent_address,
)

EXIT_BLOCKED = 3
Report = Callable[[Path, Loaded, argparse.Namespace], Coroutine[None, None, int]]


async def task(
    workspace: Path, loaded: Loaded, wanted: HeadlessTask, model_file: Path | None = None, *, plans_first: bool = False
) -> int:
    """Run one task, on a model file where one is named, and return the exit code; with `plans_first` it begins in plan mode."""
    is_mode_forced = loaded.sources["mode"] == "flag"
    runtime = open_runtime(workspace, loaded.config, is_attended=False, is_mode_forced=is_mode_forced, writes_log=True)
    runtime.plans_first = plans_first
    try:
        if model_file is not None:
            await asyncio.to_thread(runtime.servers.run_file, model_file)
        return await run_headless(runtime, wanted, sys.stdout, sys.stderr)
    finally:
        await runtime.close()


def which_session(workspace: Path, wanted: str, text: str) -> tuple[str, str]:
    """Return the session to resume and the text to go on with; the only word may be either.

    Raises:
        SessionFileError: there is no such session.
    """
    if wanted:
        try:
            return session_log(workspace, wanted).stem, text
        except SessionFileError:
            if text or " " not in wanted:
                raise
            text = wanted
    newest = list_sessions(workspace, limit=1)
    if not newest:
        raise SessionFileError(f"there is no session in {workspace} yet", 'Start one with `lmtui` or `lmtui run "TASK"`.')
    return newest[0].id, text


async def demo(config: Config, keep: Path | None, wanted: HeadlessTask, *, plans_first: bool = False) -> int:
    """Run the scripted demo without a screen and return the exit code."""
    print(
        "lmtui demo: the model is a script on a loopback port; the tools, the sandbox and the files are real.", file=sys.stderr
    )
    folder = fresh_folder(keep)
    runtime = open_runtime(folder, dataclasses.replace(config, mode="auto"), is_attended=False, writes_log=True)
    try:
        lacks = await runtime.use_demo(folder, rate=0.0)
        print(f"folder:  {folder}", file=sys.stderr)
        if lacks:
            print(f"lacking: {lacks}", file=sys.stderr)
        runtime.plans_first = plans_first
        code = await run_headless(runtime, wanted, sys.stdout, sys.stderr)
    finally:
        await runtime.close()
    where = folder if keep else f"{folder} (a temporary folder; --keep DIR chooses one)"
    if code == 0:
        print(f"What it made is in {where}.  `lmtui demo` on a terminal shows it full screen.", file=sys.stderr)
        return 0
    if plans_first and not wanted.approves and code == EXIT_BLOCKED:
        print("The demo's model has gone: `lmtui demo --headless --plan --approve` plans again and does it.", file=sys.stderr)
    print(f"What was done until then is in {where}.", file=sys.stderr)
    return 0 if lacks and code == EXIT_BLOCKED else code  # what this machine lacks was said; the rest of the demo ran


async def _sessions(workspace: Path, _: Loaded, arguments: argparse.Namespace) -> int:
    found = list_sessions(workspace, arguments.search, arguments.limit)
    if arguments.json:
        _print_json([dataclasses.asdict(summary) for summary in found])
        return 0
    for summary in found:
        title = summary.title[:60] or "(untitled)"
        state = "waits for you" if summary.state == "waits" else summary.state
        wakes = f"  wakes {moment_text(summary.wakes, datetime.now(UTC), zone_of(''))}" if summary.wakes is not None else ""
        print(f"{summary.id}  {state:<13} {summary.changed_files:>3} files  {title}{wakes}")
    if not found:
        print("no sessions" + (" match" if arguments.search else " yet; start one with `lmtui`"))
    return 0


async def _show(workspace: Path, _: Loaded, arguments: argparse.Namespace) -> int:
    events = session_events(workspace, arguments.id)
    if arguments.audit and arguments.json:
        _print_json([dataclasses.asdict(row) for row in audit.audit_rows(events)])
    elif arguments.audit:
        print(audit.as_audit_text(events))
    else:
        print(transcript.as_json(events) if arguments.json else transcript.as_text(events))
    return 0


async def _export(workspace: Path, _: Loaded, arguments: argparse.Namespace) -> int:
    sys.stdout.write(transcript.exported(session_log(workspace, arguments.id), arguments.format))
    return 0


async def _models(_: Path, loaded: Loaded, arguments: argparse.Namespace) -> int:
    if arguments.exam is not None:
        return await exam.report(loaded.config, arguments)
    servers = await find_models(loaded.config)
    silent = silent_address(loaded.config, servers)
    print(models.as_json(servers) if arguments.json else "\n".join(models.as_table(servers, silent=silent)))
    return 0 if any(server.models for server in servers) else 1


async def _config(workspace: Path, loaded: Loaded, arguments: argparse.Namespace) -> int:
    if arguments.action != "trust" and (arguments.list or arguments.revoke is not None):
        raise UsageError("--list and --revoke go with trust", "Write: lmtui config trust --list")
    if arguments.action == "path":
        for path in (config_dir() / "config.toml", workspace_dir(workspace) / "config.toml", rules_file()):
            print(f"{path}  {'there' if path.exists() else 'not there'}")
        return 0
    if arguments.action == "trust":
        return trust.report(workspace, loaded, arguments)
    values = dataclasses.asdict(loaded.config)
    if arguments.json:
        told = {name: {"value": _told(name, values[name]), "source": loaded.sources[name]} for name in SETTINGS}
        _print_json(told)
        return 0
    for name, setting in SETTINGS.items():
        print(f"{name:<16} {shown(name, values[name]):<28} {loaded.sources[name]:<14} {setting.metadata['doc']}")
    for rule in granted_rules(workspace):
        print(f"{'always allowed':<16} {clean_line(rule)}  ({rules_file()}: delete the line to revoke it)")
    return 0


def _told(name: str, value: object) -> object:
    return shown(name, value) if SETTINGS[name].metadata["is_secret"] and value else value


def _print_json(value: object) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False, default=str))


REPORTS: dict[str, Report] = {
    "sessions": _sessions,
    "show": _show,
    "export": _export,
    "models": _models,
    "doctor": doctor.report,
    "sandbox": sandbox.report,
    "mcp": mcp.report,
    "skills": skills.report,
    "config": _config,
}
