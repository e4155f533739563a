"""Registers folders in which sessions are opened, lists them, and is `lmtui projects`."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from lmtui.command_line import Parser, check_folder, make_parser, open_app, say, with_report
from lmtui.core.errors import UsageError
from lmtui.core.events import ModelChanged
from lmtui.core.folders import NO_PROJECTS, KnownProject, Projects, project_lines
from lmtui.core.offers import Offers
from lmtui.core.sanitize import pluralize, sanitize_line
from lmtui.engine.session import EngineSession
from lmtui.features.service import CommandCall, FeatureHost, WorkspaceFeature
from lmtui.models.demo_scripts import DEMO_MODEL
from lmtui.store.projects import MOST_ENTRIES, ProjectStore, find_project, look_at, scan

EXIT_NEEDS_USER = 2
_log = logging.getLogger(__name__)


class ProjectsService(WorkspaceFeature):
    """Implements `Projects`; the folder is registered once, with the first session of the user's own."""

    def __init__(self, host: FeatureHost, extensions: Offers) -> None:
        super().__init__(host, extensions)
        self._is_registered = False
        extensions.add(Projects, self)

    def follow(self, session: EngineSession, *, is_ours: bool) -> None:
        """Register the folder of a session; the demo's is not one."""
        del is_ours
        is_demo = any(isinstance(each.event, ModelChanged) and each.event.model == DEMO_MODEL for each in session.history())
        if self._is_registered or is_demo:
            return
        self._is_registered = True
        try:
            ProjectStore().put(self.host.workspace, used=datetime.now(UTC))
        except OSError as error:
            _log.warning("the project cannot be registered: %s", error)

    async def read(self) -> Sequence[KnownProject]:
        return await asyncio.to_thread(lambda: [*map(look_at, ProjectStore().read()[0])])


def projects_parser() -> Parser:
    """Return the parser of `lmtui projects`."""
    doc = "List the folders that you work in. needs-action exits with 2 if one needs you; use opens lmtui there."
    parser = make_parser("projects", doc, "lmtui projects scan ~/src")
    actions = ("list", "scan", "add", "remove", "needs-action", "use")
    parser.add_argument("action", nargs="?", choices=actions, default="list")
    parser.add_argument(
        "project", nargs="?", metavar="DIR|NAME", help="a folder (default: the current one), or a project's name"
    )
    parser.add_argument("--tag", action="append", metavar="T", help="with add: a word to find it by")
    return with_report(parser)


async def projects(call: CommandCall) -> int:
    """List the projects, or change the list."""
    return await asyncio.to_thread(_do, call)


def _do(call: CommandCall) -> int:
    arguments, store = call.arguments, ProjectStore()
    known, problems = store.read()
    for problem in problems:
        print(sanitize_line(problem), file=sys.stderr)
    if arguments.tag and arguments.action != "add":
        raise UsageError("--tag only works with `lmtui projects add`", "Leave it out.")
    if arguments.action in ("remove", "use") and not arguments.project:
        raise UsageError(
            f"`lmtui projects {arguments.action}` needs a project", "`lmtui projects` lists them; give a name or a path."
        )
    try:
        match arguments.action:
            case "add":
                found = [store.put(_folder(call), tags=arguments.tag or ())]
            case "scan":
                found = _scan(_folder(call), store, {each.path for each in known})
            case "remove":
                found = [find_project(known, arguments.project)]
                store.remove(found[0])
                print(f"removed: {sanitize_line(found[0].path)}", file=sys.stderr)
            case "use":
                return _use(find_project(known, arguments.project), is_json=arguments.json)
            case _:
                found = [look_at(each) for each in known]
    except OSError as error:
        raise UsageError(f"cannot write {store.file}: {error.strerror}", "Check the folder's owner and rights.") from error
    if arguments.action == "needs-action":
        found = [each for each in found if each.needs]
    _print(found, is_json=arguments.json, empty="Nothing needs you." if arguments.action == "needs-action" else NO_PROJECTS)
    return EXIT_NEEDS_USER if found and arguments.action == "needs-action" else 0


def _folder(call: CommandCall) -> Path:
    given = call.arguments.project or call.workspace.workspace
    return check_folder(Path(os.path.realpath(Path(given).expanduser())))


def _scan(root: Path, store: ProjectStore, known: set[str]) -> list[KnownProject]:
    found, is_cut = scan(root)
    if is_cut:
        say(f"stopped after {MOST_ENTRIES:,} files and folders; scan a smaller folder to find the rest", file=sys.stderr)
    say(f"{pluralize(len(found), 'project')} found, {sum(str(each) not in known for each in found)} new", file=sys.stderr)
    return [look_at(store.put(each)) for each in found]


def _use(project: KnownProject, *, is_json: bool) -> int:
    """Open lmtui in a project; without a terminal, print its path."""
    if is_json:
        _print([project], is_json=True, empty="")
    elif sys.stdin.isatty() and sys.stdout.isatty():
        open_app(project.path)
    else:
        print(sanitize_line(project.path) if sys.stdout.isatty() else project.path)
    return 0


def _print(found: Sequence[KnownProject], *, is_json: bool, empty: str) -> None:
    if is_json:
        print(json.dumps([asdict(each) for each in found], indent=2, default=lambda time: time.isoformat()))
    else:
        say("\n".join(project_lines(found, datetime.now(UTC))) or empty)
