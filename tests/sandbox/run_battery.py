"""The whole battery on every backend, its table into SECURITY.md: `make battery`.  Exit 1 where something got out.

    python -m tests.sandbox.run_battery [--only NAME] [--cases FILE] [--no-write]

As root it also plays bubblewrap and Landlock as an ordinary user, in a child process; as an ordinary user it leaves out what
only root can play, and says so.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import pwd
import re
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import psutil

from lmtui.core.errors import LmtuiError, SandboxUnavailable
from lmtui.sandbox.select import select_sandbox
from tests.sandbox import battery
from tests.sandbox.conftest import LIMITS

_PAGE = Path(__file__).parents[2] / "SECURITY.md"
_BEGIN, _END = "<!-- battery:begin -->", "<!-- battery:end -->"
_ORDINARY_USER = "nobody"
_OPEN = "an approved command can change `.lmagent`"
# What the reduced tier does not hold, and says so: name of the case, and why.
_REDUCED = {
    "w-chmod": "modes of your own files outside", "w-mtime": "times of your own files outside",
    "w-xattr": "attributes of your own files outside", "ok-multiprocessing": "no shared memory",
    "ok-loopback-server": "no sockets at all", "p-nnp": "/proc/self is closed to grandchildren",
    "p-caps": "/proc/self is closed to grandchildren", "p-seccomp": "/proc/self is closed to grandchildren",
    "d-tmp-fill": "no private /tmp of a fixed size",
    "v-git-vendored": "told, not put back",
    "p-lmagent-config": _OPEN, "p-lmagent-replace": _OPEN,
    "p-lmagent-symlink": _OPEN, "v-lmagent-rules": _OPEN,
}  # fmt: skip


class Setup:
    """A backend and who plays it."""

    def __init__(self, name: str, backend: str, *, is_ordinary: bool = False, in_overlay: bool = False) -> None:
        self.name, self.backend, self.is_ordinary, self.in_overlay = name, backend, is_ordinary, in_overlay

    def plays(self, case: battery.Case) -> bool:
        """Tell whether a case is played: in an overlay those of commands, whose marks do not have to be real."""
        is_command = bool(case.command) and case.category != "must-work" and case.id not in battery.TOLD_WHEN_KEPT
        return case.category not in battery.NOT_APPLICABLE and (is_command or not self.in_overlay)

    @property
    def excused(self) -> dict[str, str]:
        """Return the cases that this backend says it does not hold."""
        return _REDUCED if self.backend == "landlock" else {}


SETUPS = (
    Setup("docker", "docker"),
    Setup("bubblewrap, ordinary user", "bubblewrap", is_ordinary=True),
    Setup("bubblewrap, root", "bubblewrap"),
    Setup("landlock (reduced), ordinary user", "landlock", is_ordinary=True),
    Setup("overlay, docker", "docker", in_overlay=True),
    Setup("overlay, bubblewrap, ordinary user", "bubblewrap", is_ordinary=True, in_overlay=True),
    Setup("overlay, bubblewrap, root", "bubblewrap", in_overlay=True),
)


def main() -> int:
    """Play, print, write; 1 where something escaped or a control does not work."""
    parser = argparse.ArgumentParser(prog="make battery", description=__doc__)
    parser.add_argument("--only", help="one backend, by the start of its name")
    parser.add_argument("--case", action="append", help="only cases whose name begins so")
    parser.add_argument("--cases", type=Path, help="another file of cases")
    parser.add_argument("--no-write", action="store_true", help="leave SECURITY.md alone")
    parser.add_argument("--play", metavar="NAME", help=argparse.SUPPRESS)
    given = parser.parse_args()
    chosen = battery.cases(given.cases) if given.cases else battery.cases()
    if given.case:
        chosen = [case for case in chosen if case.id.startswith(tuple(given.case))]
    if given.play:
        setup = next(setup for setup in SETUPS if setup.name == given.play)
        print(json.dumps(asyncio.run(_play_all(setup, chosen))))
        return 0
    setups = [setup for setup in SETUPS if not given.only or setup.name.startswith(given.only)]
    results = {setup.name: _results(setup, chosen, sys.argv[1:]) for setup in setups}
    table = _table(chosen, setups, results)
    print(table)
    if not given.no_write and not given.only and not given.case and not given.cases:
        _write(table)
    failed = (name for setup in setups for name, output in results[setup.name].items() if output and name not in setup.excused)
    return int(any(failed))


def _results(setup: Setup, chosen: list[battery.Case], arguments: list[str]) -> dict[str, str]:
    """Return what came of each case: an empty text where it held, else the end of its output."""
    print(f"== {setup.name}", file=sys.stderr, flush=True)
    if setup.is_ordinary and os.getuid() == 0:
        return _as_ordinary_user(setup, arguments)
    if not setup.is_ordinary and setup.backend != "docker" and os.getuid() != 0:
        return {"*": "only root can play it"}
    return asyncio.run(_play_all(setup, chosen))


async def _play_all(setup: Setup, chosen: list[battery.Case]) -> dict[str, str]:
    """Play the controls, and then, where they work, everything else."""
    results: dict[str, str] = {}
    backend, excused = setup.backend, setup.excused
    ordered = sorted(chosen, key=lambda case: case.category != "must-work")
    for case in ordered:
        if not setup.plays(case):
            continue
        broken = [name for name in results if name.startswith("ok-") and results[name] and name not in excused]
        if case.category != "must-work" and broken:
            return {**results, "*": f"given up: controls do not work ({', '.join(broken)})"}
        try:
            results[case.id] = await _play(case, setup)
        except SandboxUnavailable as reason:
            return {"*": reason.full_text()}
        except (LmtuiError, OSError, subprocess.SubprocessError) as error:
            results[case.id] = f"could not be played: {error}"
        print(f"{backend:<12}{case.id:<28}{'' if not results[case.id] else 'NO'}", file=sys.stderr, flush=True)
    return results


async def _play(case: battery.Case, setup: Setup) -> str:
    owner = 1000 if setup.backend == "docker" and os.getuid() == 0 else None
    base = Path(tempfile.mkdtemp(prefix="lmtui-battery-", dir="/var/tmp"))
    base.chmod(0o755)
    try:
        async with battery.stage(base, case.setup, owner) as setting:
            sandbox = await select_sandbox(setting.workspace, backend=setup.backend, limits=LIMITS)
            try:
                await sandbox.status()
                overlay = sandbox.overlay() if setup.in_overlay else None
                holds, output = await battery.contains(case, setting, overlay.sandbox if overlay else sandbox)
                if overlay is not None:
                    await overlay.close()
            finally:
                await sandbox.close()
        return "" if holds else output or "(no output)"
    finally:
        shutil.rmtree(base, ignore_errors=True)


def _as_ordinary_user(setup: Setup, arguments: list[str]) -> dict[str, str]:
    user = pwd.getpwnam(_ORDINARY_USER)
    home = Path(tempfile.mkdtemp(prefix="lmtui-battery-home-", dir="/var/tmp"))
    try:
        checkout = _for_everybody(_PAGE.parent, home / "checkout", ("lmtui", "tests", "themes", "pyproject.toml"))
        packages = _for_everybody(Path(psutil.__file__).parents[1], home / "packages", ())
        python = f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}"
        environment = {
            "PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": f"{checkout}:{packages}", "LANG": "C.UTF-8",
        }  # fmt: skip
        shutil.chown(home, user.pw_uid, user.pw_gid)
        command = [python if Path(python).exists() else sys.executable, "-B", "-m", "tests.sandbox.run_battery", *arguments]
        played = subprocess.run(
            [*command, "--play", setup.name], cwd=checkout, env=environment, user=user.pw_uid, group=user.pw_gid,
            extra_groups=[], stdout=subprocess.PIPE, check=False,
        )  # fmt: skip
    finally:
        shutil.rmtree(home, ignore_errors=True)
    if played.returncode != 0:
        return {"*": f"the child that plays as {_ORDINARY_USER} failed ({played.returncode})"}
    results: dict[str, str] = json.loads(played.stdout.splitlines()[-1])
    return results


def _for_everybody(folder: Path, copy: Path, names: tuple[str, ...]) -> Path:
    """Return the folder where every user may read it, else a copy of it (of these names in it, where some are given)."""
    if all(path.stat().st_mode & 0o005 == 0o005 for path in (folder, *folder.parents)):
        return folder
    ignore = shutil.ignore_patterns("__pycache__", ".git", "__snapshots__")
    if not names:
        shutil.copytree(folder, copy, ignore=ignore)
        return copy
    copy.mkdir()
    for name in names:
        if (folder / name).is_dir():
            shutil.copytree(folder / name, copy / name, ignore=ignore)
        else:
            shutil.copy(folder / name, copy / name)
    return copy


def _table(chosen: list[battery.Case], setups: list[Setup], results: dict[str, dict[str, str]]) -> str:
    """Return held/played for each category and backend, and what did not hold, as Markdown."""
    categories = sorted({case.category for case in chosen} - battery.NOT_APPLICABLE.keys())
    shown = [setup for setup in setups if not setup.in_overlay] or setups
    lines = [
        f"{len(chosen)} cases, run on {datetime.now(UTC):%Y-%m-%d} on Linux {os.uname().release.split('-')[0]}. "
        f"Cells show passed / run, with limits of {LIMITS.processes} processes and {LIMITS.file_mb} MB per file.",
        "",
        f"| kind of attempt | {' | '.join(setup.name for setup in shown)} |",
        f"| --- |{' ---: |' * len(shown)}",
    ]
    for category in categories:
        names = [case.id for case in chosen if case.category == category]
        lines.append(f"| {category} | {' | '.join(_held(results[setup.name], names) for setup in shown)} |")
    whole = {setup.name: _held(results[setup.name], [case.id for case in chosen]) for setup in setups}
    lines += [f"| **all** | {' | '.join(whole[setup.name] for setup in shown)} |", ""]
    overlays = [f"{setup.name.removeprefix('overlay, ')} {whole[setup.name]}" for setup in setups if setup not in shown]
    lines += [f"- In an overlay, where the cases of commands are played: {'; '.join(overlays)}."] if overlays else []
    lines += [f"- {category}: not played, {why}." for category, why in battery.NOT_APPLICABLE.items()]
    for setup in setups:
        failed = {name: output for name, output in results[setup.name].items() if output}
        by_reason: dict[str, list[str]] = {}
        for name in failed:
            if name in setup.excused:
                by_reason.setdefault(setup.excused[name], []).append(name)
        known = [f"{', '.join(names)} ({reason})" for reason, names in by_reason.items()]
        if known:
            lines.append(f"- {setup.name} does not hold, and does not claim to: {'; '.join(known)}.")
        for name, output in failed.items():
            if name not in setup.excused:
                last = re.sub(r"[^\x20-\x7e]", "?", (output.strip().splitlines() or [""])[-1])[:160]
                lines.append(f"- **{setup.name}: {name} got out or did not work**: {last}")
    return "\n".join(lines) + "\n"


def _held(results: dict[str, str], names: list[str]) -> str:
    """Return how many of these cases held, of those that were played."""
    played = [name for name in names if name in results]
    return f"{sum(not results[name] for name in played)}/{len(played)}" if played else "–"


def _write(table: str) -> None:
    page = _PAGE.read_text(encoding="utf-8")
    if _BEGIN not in page:
        page += f"\n## Escape battery\n\n{_BEGIN}\n{_END}\n"
    before, _, rest = page.partition(_BEGIN)
    _PAGE.write_text(f"{before}{_BEGIN}\n{table}{_END}{rest.partition(_END)[2]}", encoding="utf-8")


if __name__ == "__main__":
    began = time.monotonic()
    code = main()
    print(f"{time.monotonic() - began:.0f} s", file=sys.stderr)
    sys.exit(code)
