"""The reports: what is listed, shown, exported or looked into without a session, each from settings to exit code."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from pathlib import Path

from lmtui.config import SETTINGS, Loaded, shown
from lmtui.core.clean import clean_line
from lmtui.core.errors import UsageError
from lmtui.core.times import moment_text, zone_of
from lmtui.frontends import audit, doctor, exam, mcp, models, sandbox, skills, trust
from lmtui.paths import config_dir, workspace_dir
from lmtui.runtime import transcript
from lmtui.runtime.reports import (
    find_models,
    granted_rules,
    list_sessions,
    rules_file,
    session_events,
    session_log,
    silent_address,
)

Report = Callable[[Path, Loaded, argparse.Namespace], Coroutine[None, None, int]]


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
