"""`lmtui trust`: what a folder brings, the answer to it, what is trusted by now, and taking that back."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from lmtui.app.extensions import WorkspaceFeatures, idle_features
from lmtui.app.settings_trust import trusted_folders, with_settings
from lmtui.command_line import EXIT_BLOCKED, check_folder, print_report, say
from lmtui.config import Loaded
from lmtui.core.errors import LmtuiError
from lmtui.core.look_alikes import warning
from lmtui.core.sanitize import escape_invisible_line, sanitize_line
from lmtui.core.tool_servers import Reach, ToolServers
from lmtui.core.trust import Trust, TrustItem, kinds_text, outcome_text

YES = ("y", "yes")
_KEY = "s"
Read = Callable[[str], str]
Say = Callable[[str], object]


def item_lines(items: Sequence[TrustItem]) -> Iterator[str]:
    """Yield what the folder brings, with a warning where something looks like something else."""
    for item in items:
        yield f"{item.kind}, {escape_invisible_line(item.source)}: {escape_invisible_line(item.words)}"
        if found := warning((item.words,)):
            yield f"  {found}"


def ask_trust(items: Sequence[TrustItem], choose: Callable[[str, Reach], object], read: Read, say: Say) -> str | None:
    """Ask whether all of it holds and return what was typed.

    None where the user chose where a server runs, which `choose` keeps: then it is to be shown and asked again.
    """
    servers = list(dict.fromkeys(item.server for item in items if item.server))
    offer = f", {_KEY} to choose where a server runs" if servers else ""
    typed = read(f"Trust all of this as it is now? [y/N{offer}] ").strip().lower()
    if typed not in (*YES, "n", "no", "", _KEY if servers else ""):
        return ask_trust(items, choose, read, say)
    if typed != _KEY:
        return typed
    which = 0 if len(servers) == 1 else pick(servers, "which server? ", read, say)
    reach = None if which is None else pick(list(Reach), f"where does {sanitize_line(servers[which])} run? ", read, say)
    if which is not None and reach is not None:
        try:
            _ = choose(servers[which], list(Reach)[reach])
        except LmtuiError as error:
            _ = say(f"error: {sanitize_line(error.full_text())}")
    return None


def pick(rows: Sequence[str], question: str, read: Read, say: Say) -> int | None:
    """Let one of some rows be chosen by its number; None for anything else."""
    for number, row in enumerate(rows, 1):
        _ = say(f"  {number}. {sanitize_line(row)}")
    typed = read(question).strip()
    return int(typed) - 1 if typed.isdecimal() and 0 < int(typed) <= len(rows) else None


async def report(workspace: Path, loaded: Loaded, arguments: argparse.Namespace) -> int:
    """Show what the folder brings and ask once whether it holds; or list what is trusted, or take it back."""
    features = idle_features(workspace)
    trust = with_settings(features.trust, workspace, lambda: loaded.waiting)
    if arguments.revoke is not None:
        return _revoke(Path(arguments.revoke) if arguments.revoke else workspace)
    if arguments.list:
        return _list(workspace, trust.trusted(), trusted_folders(), is_json=arguments.json)
    return _ask(check_folder(workspace), trust, features, is_yes=arguments.yes)


def _ask(workspace: Path, trust: Trust, features: WorkspaceFeatures, *, is_yes: bool) -> int:
    """Show what waits or was refused and ask; 1 where nothing could be read, 3 where nobody is there to answer."""
    problems = features.problems()
    for problem in problems:
        print(f"✗ {sanitize_line(problem)}")
    trusted, items = trust.trusted(), tuple(trust.waiting() or trust.refused())
    for line in item_lines((*trusted, *items)):
        say(line)
    if not items:
        rest = f"{workspace} brings nothing {'else ' if problems else ''}that needs trust."
        say("All of this is trusted; `lmtui trust --revoke` revokes it." if trusted else rest)
        return 1 if problems and not trusted else 0
    if trusted:
        say(f"Trusted by now: {kinds_text(trusted)}.  It is about: {kinds_text(items)}.")
    if not is_yes and not (sys.stdin.isatty() and sys.stdout.isatty()):
        held = "lmtui ignores all of this." if not trusted else "lmtui ignores the rest."
        say(f"{held} `lmtui trust --yes` trusts the current contents; changes need approval again.")
        return EXIT_BLOCKED
    typed = "y" if is_yes else ask_trust(items, features.extensions[ToolServers].choose_reach, input, print)
    if typed is None:
        return _ask(workspace, trust, features, is_yes=False)
    trust.answer(items, is_trusted=typed in YES)
    say(outcome_text(items, is_trusted=typed in YES))
    return 0


def _list(workspace: Path, trusted: Sequence[TrustItem], folders: Mapping[str, Sequence[TrustItem]], *, is_json: bool) -> int:
    """Print what is trusted here, and the other folders in which something is."""
    others = {folder: items for folder, items in folders.items() if folder != str(workspace)}
    items = [{"kind": each.kind, "source": each.source, "text": each.text} for each in trusted]
    found = [{"folder": folder, "kinds": list(dict.fromkeys(each.kind for each in own))} for folder, own in others.items()]
    lines = [f"{workspace}: {kinds_text(trusted) or 'nothing is trusted'}", *item_lines(trusted)]
    if others:
        lines += ["Other folders, as they were when you said yes:"]
        lines += [f"    {sanitize_line(folder)}  {kinds_text(items)}" for folder, items in others.items()]
    if trusted or others:
        lines.append("`lmtui trust --revoke [DIR]` revokes it.")
    print_report({"folder": str(workspace), "trusted": items, "others": found}, lines, is_json=is_json)
    return 0


def _revoke(folder: Path) -> int:
    folder = Path(os.path.realpath(folder.expanduser()))
    nothing = f"Nothing that {folder} brings was trusted; `lmtui trust --list` names the folders where something is."
    gone = f"Nothing that {folder} brings is trusted any more: its servers end, and sessions opened from now on do without it."
    trust = idle_features(folder).trust
    was_any = str(folder) in trusted_folders() or trust.trusted()
    if not was_any:
        check_folder(folder)
    trust.revoke()
    say(gone if was_any else nothing)
    return 0
