"""What a command may have left for programs outside: found by a survey, set aside or pointed out; and git's own files put back.

One for each workspace, used by its lanes around everything that can write there.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lmtui.core.clean import clean_line
from lmtui.core.errors import SandboxError
from lmtui.paths import WORKSPACE_FOLDER
from lmtui.sandbox import quarantine, replies
from lmtui.sandbox.client import Client
from lmtui.sandbox.inside import survey
from lmtui.sandbox.vault import Vault, is_a_setting, is_executed, is_not_an_object

_SURVEY_S = 15.0
_HOST_ENTRIES = 200_000
_HOST_S = 2.0
_CLOCK_SLACK_NS = 1_000_000_000
_MAX_TOLD = 20
_GIT_TOLD = "[the .git that this command made was moved to {target}: make it with the git tools]"
_TOLD = "[{path}, which this command made, was moved to {target}: programs outside the sandbox would run what it says]"
_NOTABLE = "[this command made or changed {paths}: programs outside the sandbox take instructions or settings from there]"
_PUT_BACK = "[this command changed {paths}: put back as it was before; what was new is in .lmagent/quarantine]"
_UNSEEN = "[the workspace is too large to be looked through: look for new .git, .vscode or .envrc before you use it outside]"

_Found = tuple[bytes, str, bool, int]


@dataclass(frozen=True, slots=True)
class Moment:
    """When something began, by both clocks: one that is set meanwhile is noticed."""

    wall_ns: int
    steady_ns: int


@dataclass(frozen=True, slots=True)
class Findings:
    """What was moved away, what the user should know of, and both in words."""

    quarantined: tuple[str, ...] = ()
    notable: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Custody:
    """Knows what was there before, so that what is new can be told."""

    def __init__(self, workspace: Path, clocks: Callable[[], Moment] | None = None) -> None:
        self._workspace = workspace
        self._clocks = clocks or _now
        self._known: dict[bytes, int] | None = None  # path and inode number
        self._git = Vault(workspace, ".git", is_executed)
        self._whole = (Vault(workspace, WORKSPACE_FOLDER, is_a_setting), Vault(workspace, ".git", is_not_an_object))

    async def begin(self, client: Client, *, keeps_copies: bool) -> Moment:
        """Look at what there is before a command; with `keeps_copies` take down what mounts do not protect."""
        if self._known is None:
            found, _ = await self._look(client, 2**62)
            self._known = {path: inode for path, _, _, inode in found}
        if keeps_copies:
            for vault in self._whole:
                await asyncio.to_thread(vault.keep)
        return self._clocks()

    async def end(self, client: Callable[[], Awaitable[Client]], began: Moment, *, keeps_copies: bool) -> Findings:
        """Put back and set aside what a command changed; works where its lane has died, too.

        Raises:
            SandboxError: something could not be set aside; everything else was.
        """
        put_back = [path for vault in self._whole for path in await asyncio.to_thread(vault.put_back)] if keeps_copies else []
        ended = self._clocks()
        is_set = abs((ended.wall_ns - began.wall_ns) - (ended.steady_ns - began.steady_ns)) > _CLOCK_SLACK_NS
        try:
            found, is_cut = await self._look(await client(), 0 if is_set else began.wall_ns)
        except SandboxError:  # no lane is left to look from
            seen = await asyncio.to_thread(survey.look, str(self._workspace), began.wall_ns, _HOST_ENTRIES, _HOST_S)
            found, is_cut = _paths(replies.parse(seen, replies.SurveyReply))
        ours = frozenset((b".git",)) if keeps_copies else frozenset()
        findings = await asyncio.to_thread(self._judge, found, ours)
        notes = [*findings.notes, *([_UNSEEN] if is_cut else [])]
        if put_back:
            notes.append(_PUT_BACK.format(paths=_listed(put_back)))
        return Findings((*findings.quarantined, *put_back), findings.notable, tuple(notes))

    async def begin_git(self) -> None:
        """Take down what git may not change by itself."""
        await asyncio.to_thread(self._git.keep)

    async def end_git(self, client: Client) -> Findings:
        """Put back what git should not have changed; what it checked out is known from now on, and told where it is notable."""
        changed = await asyncio.to_thread(self._git.put_back)
        found, _ = await self._look(client, 0)
        known = self._known or {}
        fresh = [path for path, kind, _, _ in found if path not in known and kind not in ("git", "gitfile")]
        self._known = {path: inode for path, _, _, inode in found}
        notable = tuple(_shown(path) for path in fresh) if known else ()
        notes = [_PUT_BACK.format(paths=_listed(changed))] if changed else []
        notes += [_NOTABLE.format(paths=_listed(notable))] if notable else []
        return Findings(changed, notable, tuple(notes))

    async def _look(self, client: Client, since_ns: int) -> tuple[list[_Found], bool]:
        facts, _ = await client.call("survey", {"since_ns": since_ns}, limit_s=_SURVEY_S)
        return _paths(replies.parse(facts, replies.SurveyReply))

    def _judge(self, found: Sequence[_Found], put_back: frozenset[bytes]) -> Findings:
        """Set new things aside and name the others; those that were put back already are left alone."""
        known = self._known or {}
        moved: list[tuple[str, str]] = []
        notable: list[str] = []
        problem: SandboxError | None = None
        for path, kind, is_fresh, inode in found:
            is_known = known.get(path) == inode
            if not is_fresh or (path in put_back and path in known) or (is_known and kind == "git"):
                continue
            if kind == "read" or (is_known and kind != "gitfile"):
                notable.append(_shown(path))
                continue
            try:
                if target := quarantine.set_aside(self._workspace, path or b"HEAD"):
                    moved.append((_shown(path or b"HEAD"), target))
            except SandboxError as error:
                problem = problem or error
        gone = {path for path, _ in moved}
        self._known = {path: inode for path, _, _, inode in found if _shown(path) not in gone}
        if problem is not None:
            raise problem
        notes = [
            (_GIT_TOLD if path == ".git" else _TOLD).format(path=path, target=target) for path, target in moved[:_MAX_TOLD]
        ]
        notes += [_NOTABLE.format(paths=_listed(notable))] if notable else []
        return Findings(tuple(path for path, _ in moved), tuple(notable), tuple(notes))


def _now() -> Moment:
    return Moment(time.clock_gettime_ns(getattr(time, "CLOCK_REALTIME_COARSE", time.CLOCK_REALTIME)), time.monotonic_ns())


def _paths(reply: replies.SurveyReply) -> tuple[list[_Found], bool]:
    return [(bytes.fromhex(path), kind, is_fresh, inode) for path, kind, is_fresh, inode in reply.found], reply.is_cut


def _shown(path: bytes) -> str:
    return clean_line(path.decode("utf-8", "replace"))


def _listed(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - _MAX_TOLD} more" if len(paths) > _MAX_TOLD else ""
    return ", ".join(paths[:_MAX_TOLD]) + more
