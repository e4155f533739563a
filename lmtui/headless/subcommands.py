"""What runs without a screen (a task, the demo), from settings to exit code.  No report is loaded for it."""

from __future__ import annotations

import asyncio
import dataclasses
import sys
from pathlib import Path

from lmtui.app.demo import fresh_folder
from lmtui.app.host import open_runtime
from lmtui.app.reports import list_sessions, session_log
from lmtui.config import Config, Loaded
from lmtui.core.errors import SessionFileError
from lmtui.headless.run import HeadlessTask, run_headless

EXIT_BLOCKED = 3


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
        SessionFileError: no such session.
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
        raise SessionFileError(f"no session in {workspace} yet", 'Start one with `lmtui` or `lmtui run "TASK"`.')
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
