"""`lmtui config trust`: what a folder brings, the answer to it, what is trusted by now, and taking that back."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from lmtui.app.extensions import CompositeTrust, WorkspaceFeatures, idle_features
from lmtui.app.settings_trust import FolderTrust
from lmtui.command_line import say
from lmtui.config import Loaded
from lmtui.core.errors import LmtuiError
from lmtui.core.look_alikes import warning
from lmtui.core.sanitize import escape_invisible_line, sanitize_line
from lmtui.core.tool_servers import Reach, ToolServers
from lmtui.core.trust import TrustItem, kinds_text, part_by_time

KEY = "s"


def offer(items: Sequence[TrustItem]) -> str:
    """Return what the question says of the choice; empty where there is none."""
    return f", {KEY} to choose where a server runs" if any(item.server for item in items) else ""


def choose_reach(
    items: Sequence[TrustItem], choose: Callable[[str, Reach], object], read: Callable[[str], str], say: Callable[[str], object]
) -> None:
    """Let the user choose a server and where it runs; `choose` keeps it.  Anything but a number of the list leaves it."""
    names = list(dict.fromkeys(item.server for item in items if item.server))
    name = names[0] if len(names) == 1 else _one_of(names, "which server? ", read, say)
    reach = _one_of(list(Reach), f"where does {sanitize_line(name)} run? ", read, say) if name else None
    if name and reach:
        try:
            _ = choose(name, Reach(reach))
        except LmtuiError as error:
            _ = say(f"error: {sanitize_line(error.full_text())}")


def _one_of(choices: Sequence[str], question: str, read: Callable[[str], str], say: Callable[[str], object]) -> str:
    for number, choice in enumerate(choices, 1):
        _ = say(f"{number}. {sanitize_line(choice)}")
    typed = read(question).strip()
    return choices[int(typed) - 1] if typed.isdecimal() and 0 < int(typed) <= len(choices) else ""


EXIT_BLOCKED = 3


def report(workspace: Path, loaded: Loaded, arguments: argparse.Namespace) -> int:
    """Show what the folder brings and ask once whether it holds; or list what is trusted, or take it back."""
    features = idle_features(workspace)
    trust = CompositeTrust(FolderTrust(workspace, loaded, lambda: loaded, lambda _: None), features.trust)
    if arguments.revoke is not None:
        return _revoke(Path(os.path.realpath(Path(arguments.revoke).expanduser())) if arguments.revoke else workspace)
    if arguments.list:
        return _list(workspace, trust.trusted(), features.trusted_folders(), is_json=arguments.json)
    return _ask(workspace, trust, features, is_yes=arguments.yes)


def _ask(workspace: Path, trust: CompositeTrust, features: WorkspaceFeatures, *, is_yes: bool) -> int:
    """Show what waits or was refused and ask; 1 where nothing could be read, 3 where nobody is there to answer."""
    problems = features.problems()
    for problem in problems:
        print(f"✗ {sanitize_line(problem)}")
    trusted, items = trust.trusted(), tuple(trust.waiting() or trust.refused())
    _print_items((*trusted, *items))
    if not items:
        rest = f"{workspace} brings nothing {'else ' if problems else ''}that needs trust."
        say("All of this is trusted; `lmtui config trust --revoke` takes it back." if trusted else rest)
        return 1 if problems and not trusted else 0
    if trusted:
        say(f"Trusted by now: {kinds_text(trusted)}.  It is about: {kinds_text(items)}.")
    if not is_yes and not (sys.stdin.isatty() and sys.stdout.isatty()):
        held = "None of this holds." if not trusted else "The rest does not hold."
        say(f"{held} `lmtui config trust --yes` trusts it as it is now; a change asks again.")
        return EXIT_BLOCKED
    typed = "y" if is_yes else input(f"Trust all of this as it is now? [y/N{offer(items)}] ").strip().lower()
    if typed == KEY and offer(items):
        choose_reach(items, features.extensions[ToolServers].choose_reach, input, print)
        return _ask(workspace, trust, features, is_yes=False)
    is_trusted = typed in ("y", "yes")
    trust.answer(items, is_trusted=is_trusted)
    say(_holds(items) if is_trusted else "None of this holds.")
    return 0


def _holds(items: Sequence[TrustItem]) -> str:
    """Return when what was trusted just now holds, in an lmtui that is open too."""
    now, later = part_by_time(items)
    parts = [f"From now on: {kinds_text(now)}."] if now else []
    return " ".join([*parts, *([f"From the next session on: {kinds_text(later)}."] if later else [])])


def _list(workspace: Path, trusted: Sequence[TrustItem], folders: Mapping[str, tuple[str, ...]], *, is_json: bool) -> int:
    """Print what is trusted here, and the other folders in which something is."""
    others = {folder: kinds for folder, kinds in folders.items() if folder != str(workspace)}
    if is_json:
        items = [{"kind": each.kind, "source": each.source, "text": each.text} for each in trusted]
        found = [{"folder": folder, "kinds": list(kinds)} for folder, kinds in others.items()]
        print(json.dumps({"folder": str(workspace), "trusted": items, "others": found}, indent=2, ensure_ascii=False))
        return 0
    say(f"{workspace}: {kinds_text(trusted) or 'nothing is trusted'}")
    _print_items(trusted)
    if others:
        say("Other folders, as they were when you said yes:")
    for folder, kinds in others.items():
        print(f"    {sanitize_line(folder)}  {', '.join(kinds)}")
    if trusted or others:
        say("`lmtui config trust --revoke [DIR]` takes it back.")
    return 0


def _revoke(folder: Path) -> int:
    if not idle_features(folder).revoke_trust():
        say(f"Nothing that {folder} brings was trusted; `lmtui config trust --list` names the folders where something is.")
        return 0
    say(f"Nothing that {folder} brings is trusted any more: its servers end, and sessions opened from now on do without it.")
    return 0


def _print_items(items: Sequence[TrustItem]) -> None:
    for item in items:
        print(f"{item.kind}, {escape_invisible_line(item.source)}: {escape_invisible_line(item.text)}")
        if found := warning((item.text,)):
            say(f"  {found}")
