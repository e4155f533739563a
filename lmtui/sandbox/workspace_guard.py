"""What is asked of the guard: the layout and the tools of a workspace, and what a command may have left for programs outside.

What was left is found by a survey, and moved aside or pointed out: `WorkspaceGuard`, one for each workspace, is used by its
instances around everything that can write there.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lmtui.core.errors import SandboxError, SandboxUnavailable
from lmtui.core.permissions.rules import MaskExpressions
from lmtui.core.sanitize import sanitize_line
from lmtui.sandbox import replies
from lmtui.sandbox.backend import Backend
from lmtui.sandbox.guest.linux import FILE_CLOCK
from lmtui.sandbox.mount_layout import SandboxLayout, from_reply, read_only_in
from lmtui.sandbox.package_indexes import MARKER_BYTES
from lmtui.sandbox.project_tools import (
    MARKERS,
    ProjectTools,
    find_project_tools,
    with_added,
    with_allowed,
    with_repository,
)
from lmtui.sandbox.repository import find_repository
from lmtui.sandbox.supervisor_client import Client, InstanceKind
from lmtui.sandbox.toolchains import AddedFolder

_GUARD_S = 60.0  # it looks for some at a time, for up to 5 s each
_MOST_TICKS_MS = 20
_CLOCK_SLACK_NS, _STEADY = 1_000_000_000, getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_MAX_TOLD = 20
_MOVED_AT_ONCE = 100  # with paths as long as they can be, so many fit into a frame
_GIT_TOLD = "[the .git that this command made was moved to {target}: make it with the git tools]"
_TOLD = "[{path}, which this command made or changed, was moved to {target}: programs outside would run what it says]"
_NOTABLE = "[this command made or changed {paths}: programs outside the sandbox take instructions or settings from there]"
_UNSEEN = "[the workspace is too large to be looked through: look for new .git, .vscode or .envrc before you use it outside]"

_Place = tuple[str, bytes]  # an added folder (empty: the workspace), and the path in it
_Found = tuple[_Place, str, bool, int]


@dataclass(frozen=True, slots=True)
class GuardMoment:
    """When something began, by two clocks that count a machine's sleep: to set one is noticed."""

    wall_ns: int
    steady_ns: int


@dataclass(frozen=True, slots=True)
class Findings:
    """What was moved away, what the user should know of, and both in words."""

    quarantined: tuple[str, ...] = ()
    notable: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class WorkspaceGuard:
    """Remembers what existed before, to recognise what is new.

    Args:
        guard: returns the supervisor that looks after the workspace.
        frozen: stops every process of the workspace during a `with` block.
        clocks: for tests.
        added: folders outside the workspace that commands may change; what is found there has its whole path.
    """

    def __init__(
        self,
        guard: Callable[[], Awaitable[Client]],
        frozen: Callable[[], contextlib.AbstractAsyncContextManager[None]],
        clocks: Callable[[], GuardMoment] | None = None,
        added: Sequence[str] = (),
    ) -> None:
        self._folders = ("", *added)
        self._guard = guard
        self._frozen = frozen
        self._clocks = clocks or _now
        self._known: dict[_Place, int] | None = None  # place and inode number
        self._seen_ns = 0  # when the last look ended, by the exact clock
        self._open: list[GuardMoment] = []  # of the commands under way

    async def begin(self) -> GuardMoment:
        """Look at what there is before a command."""
        if self._known is None:
            found, _ = await self._look(2**62)
            self._known = {place: inode for place, _, _, inode in found}
        await files_are_newer(self._seen_ns)  # what was seen already is older than what this command writes
        moment = self._clocks()
        self._open.append(moment)
        return moment

    async def end(self, began: GuardMoment) -> Findings:
        """Move aside what a command left for programs outside.

        Raises:
            SandboxError: something could not be moved aside; everything else was.
        """
        ended = self._clocks()
        is_set = abs((ended.wall_ns - began.wall_ns) - (ended.steady_ns - began.steady_ns)) > _CLOCK_SLACK_NS
        since_ns = 0 if is_set else min(each.wall_ns for each in (began, *self._open))  # another's may be what is found
        with contextlib.suppress(ValueError):
            self._open.remove(began)
        found, is_cut = await self._look(since_ns)
        moved: dict[_Place, str] = {}
        if self._judge(found)[0]:
            async with self._frozen():  # what is moved is what is seen now, and nothing can exchange it
                found, is_cut = await self._look(since_ns)
                moved, problem = await self._set_aside(self._judge(found)[0])
            if problem:
                self._known = {place: inode for place, _, _, inode in found if place not in moved}
                raise SandboxError(
                    f"could not quarantine what a command made: {problem}",
                    "Look at it before you run git there or open the folder in an editor.",
                )
        notable = tuple(_shown(*place) for place in self._judge(found)[1])
        self._known = {place: inode for place, _, _, inode in found if place not in moved}
        told = [(_shown(folder, path or b"HEAD"), target) for (folder, path), target in moved.items()]
        notes = [(_GIT_TOLD if path == ".git" else _TOLD).format(path=path, target=to) for path, to in told[:_MAX_TOLD]]
        notes += [_NOTABLE.format(paths=_listed(notable))] if notable else []
        notes += [_UNSEEN] if is_cut else []
        return Findings(tuple(path for path, _ in told), notable, tuple(notes))

    async def end_git(self) -> Findings:
        """Know from now on what git checked out, and tell of what is notable."""
        found, _ = await self._look(0)
        known = self._known or {}
        fresh = [place for place, kind, _, _ in found if place not in known and kind not in ("git", "gitfile")]
        self._known = {place: inode for place, _, _, inode in found}
        notable = tuple(_shown(*place) for place in fresh) if known else ()
        return Findings((), notable, (_NOTABLE.format(paths=_listed(notable)),) if notable else ())

    async def _set_aside(self, places: Sequence[_Place]) -> tuple[dict[_Place, str], str]:
        """Return where each is now, and why something could not be moved."""
        moved: dict[_Place, str] = {}
        problem = ""
        own = {(folder, path or b"HEAD"): (folder, path) for folder, path in places}
        paths = [[folder, path.hex()] for folder, path in own]
        for first in range(0, len(paths), _MOVED_AT_ONCE):
            fields = {"action": "set_aside", "paths": paths[first : first + _MOVED_AT_ONCE]}
            reply, _ = await (await self._guard()).ask(replies.MovedReply, "guard", fields, limit_s=_GUARD_S)
            moved |= {own[folder, bytes.fromhex(path)]: _shown(folder, target) for folder, path, target in reply.moved}
            problem = problem or sanitize_line(reply.problem)
        return moved, problem

    async def _look(self, since_ns: int) -> tuple[list[_Found], bool]:
        found: list[_Found] = []
        is_cut = False
        for folder in self._folders:
            fields = {"action": "survey", "folder": folder, "since_ns": since_ns}
            reply, _ = await (await self._guard()).ask(replies.SurveyReply, "guard", fields, limit_s=_GUARD_S)
            found += [((folder, bytes.fromhex(path)), kind, is_fresh, inode) for path, kind, is_fresh, inode in reply.found]
            is_cut = is_cut or reply.is_cut
        self._seen_ns = time.time_ns()
        return found, is_cut

    def _judge(self, found: Sequence[_Found]) -> tuple[list[_Place], list[_Place]]:
        """Return what to quarantine and what only to report."""
        known = self._known or {}
        moving: list[_Place] = []
        notable: list[_Place] = []
        for place, kind, is_fresh, inode in found:
            is_known = known.get(place) == inode
            if not is_fresh or (is_known and kind == "git"):
                continue
            is_named = kind == "read" or (is_known and kind != "gitfile")
            (notable if is_named else moving).append(place)
        return moving, notable


async def files_are_newer(moment_ns: int) -> None:
    """Wait until what is written gets a time after a moment."""
    for _ in range(_MOST_TICKS_MS):
        if time.clock_gettime_ns(FILE_CLOCK) > moment_ns:
            return
        await asyncio.sleep(0.001)


def _now() -> GuardMoment:
    return GuardMoment(time.clock_gettime_ns(FILE_CLOCK), time.clock_gettime_ns(_STEADY))


def _shown(folder: str, path: bytes | str) -> str:
    text = path if isinstance(path, str) else path.decode("utf-8", "replace")
    return sanitize_line(f"{folder}/{text}" if folder else text)


def _listed(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - _MAX_TOLD} more" if len(paths) > _MAX_TOLD else ""
    return ", ".join(paths[:_MAX_TOLD]) + more


_ANSWER_S = 30.0
_FREEZING_S = 3.0
_HISTORY_S = 3
_GIT_MEMORY_MB = 512
_TOO_MANY = "your rules deny more files than can be masked (300), or the workspace is too large to find them all"
_FEWER = "Deny whole folders instead, for example Read(secrets/**)."


@dataclass(slots=True)
class OutsideFolders:
    """Folders outside the workspace that commands use: those that settings add, and tools that the user allowed since."""

    added: tuple[AddedFolder, ...] = ()
    allowed: list[Path] = field(default_factory=list)

    @property
    def writable(self) -> list[str]:
        """Return the added folders that commands may change."""
        return [str(folder.path) for folder in self.added if folder.is_writable]


async def open_client(backend: Backend, kind: InstanceKind, layout: SandboxLayout) -> Client:
    """Start a supervisor, and look whether its mounts are those that were asked for.

    Raises:
        SandboxError: it does not start, or has other mounts; nothing of it runs then.
    """
    client = Client(await backend.open(kind, layout))
    try:
        await client.start()
        await check_mounts(client, kind, layout)
    except BaseException:
        await client.close()
        raise
    return client


async def look(
    guard: Client, masks: MaskExpressions, added: Sequence[AddedFolder] = (), *, is_first: bool = False
) -> SandboxLayout:
    """Return what to protect and mask now, in the workspace and in added folders; `is_first` is before any command.

    Raises:
        SandboxError: not all that a rule denies can be found or masked.
    """
    fields = {"action": "layout", "is_first": is_first, "denied": masks.denied, "secret": masks.secret, "shown": masks.shown}
    reply, _ = await guard.ask(replies.LayoutReply, "guard", fields, limit_s=_ANSWER_S)
    layout = from_reply(reply)
    for folder in added:
        path = str(folder.path)
        reply, _ = await guard.ask(replies.LayoutReply, "guard", {**fields, "folder": path}, limit_s=_ANSWER_S)
        if reply.is_cut and not folder.is_writable:
            raise SandboxUnavailable(f"{path} is too large to look for files with secrets", "Add a folder inside it instead.")
        layout = layout.with_added(from_reply(reply, path, is_writable=folder.is_writable), path)
    if layout.is_cut and masks.denied:
        raise SandboxUnavailable(_TOO_MANY, _FEWER)
    return layout


async def find_tools(guard: Client, workspace: Path, outside: OutsideFolders) -> ProjectTools:
    """Return the tools of a project; its files are read inside.

    Raises:
        SandboxError: the guard is gone.
    """

    async def read(name: str) -> tuple[str, str | None]:
        facts, data = await guard.call("read", {"path": name, "max_bytes": MARKER_BYTES}, limit_s=_ANSWER_S)
        return name, None if "error" in facts else data.decode("utf-8", "replace")

    read_ones = await asyncio.gather(*map(read, MARKERS))
    texts = {name: text for name, text in read_ones if text is not None}
    finding = asyncio.to_thread(find_project_tools, workspace, texts), asyncio.to_thread(find_repository, workspace)
    tools = with_repository(*await asyncio.gather(*finding))
    tools = await asyncio.to_thread(with_allowed, tools, outside.allowed, workspace)
    return with_added(tools, outside.added)


async def check_mounts(client: Client, kind: InstanceKind, layout: SandboxLayout) -> None:
    """Compare from inside what is mounted with what the guard saw: a path may have been exchanged for a link meanwhile.

    Raises:
        SandboxUnavailable: a mask does not work, or something else was mounted.
    """
    fields = {"masked": [path for path, *_ in layout.masked] if kind.is_masked else [], "read_only": read_only_in(kind, layout)}
    if not fields["masked"] and not fields["read_only"]:
        return
    found, _ = await client.ask(replies.CompareReply, "compare", fields, limit_s=_ANSWER_S)
    if found.visible:
        raise SandboxUnavailable(f"{sanitize_line(found.visible[0])} cannot be masked, so no command can run", "Try again.")
    if found.replaced:
        raise SandboxUnavailable(f"{sanitize_line(found.replaced[0])} was replaced while the sandbox started", "Try again.")


async def has_git(view: Client, paths: Sequence[str], *, is_denied: bool) -> bool:
    """Tell whether git tracks one of these paths, or a commit has one.

    If searching the history takes longer than 3 s, the answer is `is_denied`.
    """
    listing = {
        "arguments": ["ls-files", "-z", "--recurse-submodules", "--", *paths],
        "timeout_s": _HISTORY_S,
        "memory_mb": _GIT_MEMORY_MB,
    }
    ended, data = await view.ask(replies.RunReply, "git", listing, limit_s=_ANSWER_S)
    if ended.exit == 0 and data:
        return True
    history = {**listing, "arguments": ["rev-list", "--all", "--max-count=1", "--", *paths]}
    ended, data = await view.ask(replies.RunReply, "git", history, limit_s=_ANSWER_S)
    return is_denied if ended.reason == "timeout" else ended.exit == 0 and bool(data)


async def has_secrets(view: Client, expression: str) -> bool:
    """Tell whether a repository that is larger than the workspace has or had files whose paths match an expression."""
    fields = {"what": "secrets", "expression": expression}
    return (await view.ask(replies.ListingReply, "listing", fields, limit_s=_ANSWER_S))[0].is_cut


async def freeze(client: Client) -> None:
    """Stop every process of an instance; end it if its supervisor cannot do that."""
    with contextlib.suppress(SandboxError):
        if (await client.ask(replies.YesReply, "freeze", {}, limit_s=_FREEZING_S))[0].is_so:
            return
    await client.close()


async def thaw(clients: Sequence[Client]) -> None:
    """Let the processes of instances go on."""
    for client in clients:
        with contextlib.suppress(SandboxError):  # it has ended, with everything in it
            await client.call("thaw", {}, limit_s=_FREEZING_S)
