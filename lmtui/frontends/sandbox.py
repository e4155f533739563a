"""`lmtui sandbox`: which backends work here and what each isolates; the image; a shell inside."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from dataclasses import asdict, replace
from pathlib import Path

from lmtui.config import Loaded
from lmtui.core.clean import clean_line, reveal
from lmtui.core.errors import SandboxError
from lmtui.core.ports import Sandbox
from lmtui.runtime.checks import (
    backend_reports,
    make_image,
    make_project_image,
    project_image_source,
    workspace_problem,
)
from lmtui.runtime.host import open_runtime

EXIT_BLOCKED = 3


async def report(workspace: Path, loaded: Loaded, arguments: argparse.Namespace) -> int:
    """Do what the action says and return the exit code."""
    if arguments.action == "check":
        return await _check(workspace, is_json=arguments.json)
    if arguments.action == "image":
        return await (_project_image if arguments.project else _image)(workspace, loaded, arguments)
    if arguments.action == "explain":
        return await _explain(workspace, loaded, is_json=arguments.json)
    return await _shell(workspace, loaded)


async def _check(workspace: Path, *, is_json: bool) -> int:
    with tempfile.TemporaryDirectory() as other:  # the machine is checked, so where the user is does not matter
        reports = await backend_reports(Path(other) if workspace_problem(workspace) else workspace)
    if is_json:
        print(json.dumps([asdict(found) for found in reports], indent=2, ensure_ascii=False))
    else:
        for found in reports:
            how = f"works, ready in {found.start_ms} ms" if found.works else found.why_not
            print(f"{'✓' if found.works else '✗'} {found.name:<11} {how}")
            for line in found.isolation.facts() if found.works else (found.fix,):
                print(f"    {line}")
    return 0 if any(found.works for found in reports) else 1


async def _explain(workspace: Path, loaded: Loaded, *, is_json: bool) -> int:
    """Say what the sandbox of this project is, which of its tools commands see, and why."""
    runtime = open_runtime(workspace, loaded.config)
    try:
        sandbox = await runtime.sandbox()
        status = await sandbox.status()
        path = (await sandbox.run_command('printf %s "$PATH"')).output if status.has_shell else ""
        hosts = await sandbox.package_hosts() if status.has_shell else ()
    finally:
        await runtime.close()
    if is_json:
        found = asdict(status) | {"path": path.split(":"), "package_hosts": list(hosts)}
        print(json.dumps(found, indent=2, ensure_ascii=False))
        return 0
    print(f"{status.text}{f' ({status.reason})' if status.reason else ''}")
    for line in (*status.facts, f"PATH: {path}", f"packages, after your yes: {', '.join(hosts) or 'no index found'}"):
        print(f"    {line}")
    return 0


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


async def _project_image(workspace: Path, loaded: Loaded, arguments: argparse.Namespace) -> int:
    """Show how the project describes its image, ask, and build it."""
    runtime = open_runtime(workspace, replace(loaded.config, sandbox="files"))
    try:
        sandbox = await runtime.sandbox()
        source, texts = await project_image_source(sandbox)
        for name, text in texts.items():
            if name in (source.file, source.dockerfile):
                _say(f"--- {clean_line(name)}\n{reveal(text)}")
        for key in source.ignored:
            _say(f"{source.file}: lmtui does not act on {key}")
        is_there = sys.stdin.isatty() and sys.stderr.isatty()
        if not arguments.yes and not is_there:
            _say("Nothing was built. lmtui sandbox image --project --yes builds it without asking.")
            return EXIT_BLOCKED
        if not arguments.yes:
            _say("Docker runs these steps with network access, outside the sandbox of your sessions. Build the image? [y/N] ")
            if (await asyncio.to_thread(sys.stdin.readline)).strip().lower() not in ("y", "yes"):
                return EXIT_BLOCKED
        name = await make_project_image(workspace, sandbox, source, texts, _say)
    finally:
        await runtime.close()
    print(json.dumps({"image": name}) if arguments.json else name)
    return 0


async def _image(_: Path, loaded: Loaded, arguments: argparse.Namespace) -> int:
    cache = Path(arguments.cache) if arguments.cache else None
    name = await make_image(loaded.config.image, arguments.source, cache, _say)
    print(json.dumps({"image": name}) if arguments.json else name)
    return 0


async def _shell(workspace: Path, loaded: Loaded) -> int:
    """Run lines of standard input, one command each, until it ends."""
    runtime = open_runtime(workspace, replace(loaded.config, mode="auto"))
    try:
        sandbox = await runtime.sandbox()
        status = await sandbox.status()
        print(f"{status.text}; each line is a command of its own, Ctrl+D ends", file=sys.stderr)
        while line := await asyncio.to_thread(_read_line):
            await _run_line(sandbox, line)
        return 0
    finally:
        await runtime.close()


def _read_line() -> str:
    if sys.stdin.isatty():
        print("sandbox$ ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline()


async def _run_line(sandbox: Sandbox, line: str) -> None:
    def show(text: str) -> None:
        print(text, end="", flush=True)

    try:
        result = await sandbox.run_command(line, timeout_s=120, on_output=show)
    except SandboxError as error:
        print(error.full_text(), file=sys.stderr)
        return
    if result.exit_code:
        print(f"(exit code {result.exit_code})", file=sys.stderr)
