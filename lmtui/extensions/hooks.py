"""The hooks of a session: read when it is opened, called together, each in its place.

What a folder brings runs only where the user said yes to it as it is, and in the sandbox; the user's own run on this machine.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lmtui.core.hooks import HookCall, HookEvent, HookVerdict
from lmtui.core.permissions import Mode, Verdict
from lmtui.core.serving import Launcher
from lmtui.core.shell.command import word_set
from lmtui.core.shell.grammar import outline, unquoted
from lmtui.core.trust import TrustItem
from lmtui.extensions.folder_yes import Brought, FolderYes
from lmtui.extensions.hooks_answer import Ran, together
from lmtui.extensions.hooks_config import HookEntry, HookFiles, read_hooks
from lmtui.extensions.hooks_run import host_environment, program_of, run_in_lane, run_on_host
from lmtui.extensions.hooks_words import Surroundings, matched_names, meets, odd_matchers, our_input, payload
from lmtui.plain_files import find_program

# Words of the shell itself.
_BUILT_IN = word_set(
    "! . : [ [[ alias bg break builtin case cd command continue declare dirs disown do echo else enable esac eval exec exit "
    "export false fg fi for function getopts hash if jobs kill let local mapfile popd printf pushd pwd read readarray readonly "
    "return select set shift shopt source test then time times trap true type typeset ulimit umask unalias unset until wait "
    "while { }"
)
_FUNCTION = re.compile(r"([\w-]+)\s*\(\)|\bfunction\s+([\w-]+)")
_UNSAFE = "{whose} hooks before tool calls cannot be read, so each call is asked about until {file} is mended"
_UNTRUSTED = (
    "{count} of this folder ({files}) left out: nobody said yes to {it} as {it_is} now.  `/trust` or `lmtui config trust` asks."
)


@dataclass(frozen=True, slots=True)
class Lane:
    """Where a folder's hooks run: what starts them (None: nothing can), and the workspace's path there."""

    launcher: Launcher | None
    root: str


def hooks_trust(workspace: Path) -> FolderYes:
    """Return what a folder's hooks wait for."""

    def brought() -> Brought:
        files = read_hooks(workspace)
        items = (TrustItem("hook", each.source, each.words + _missing(each)) for each in files.folders)
        return Brought(tuple(items), files.digest)

    def _missing(entry: HookEntry) -> str:
        missing = [name for name in _programs(entry) if find_program(name, workspace) is None]
        return f" ({', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not on this machine)" if missing else ""

    return FolderYes(workspace, "hooks", brought)


def _programs(entry: HookEntry) -> tuple[str, ...]:
    """Return the programs that a hook starts by their names, as far as that is plain."""
    if entry.arguments is not None:
        commands = [entry.command]
    else:
        commands = [unquoted(words[0]) for words in outline(entry.command).commands] or [*entry.command.split()[:1]]
    inner = {name for names in _FUNCTION.findall(entry.command) for name in names} | _BUILT_IN
    names = dict.fromkeys(map(program_of, commands))
    return tuple(name for name in names if name and "/" not in name and name not in inner)


class SessionHooks:
    """Implements `core.hooks.Hooks`; what the files say when it is made holds for the whole session.

    Args:
        workspace: the folder.
        around: the session and its log.
        lane: returns where a folder's hooks run.
        environ: lmtui's own environment; little of it reaches a hook.
        tools: our names of all tools, for what is said of matchers.
    """

    def __init__(
        self,
        workspace: Path,
        around: Surroundings,
        lane: Callable[[], Awaitable[Lane]],
        environ: Mapping[str, str],
        *,
        tools: Sequence[str] = (),
    ) -> None:
        self._workspace = workspace
        self._around = around
        self._lane = lane
        self._environment = host_environment(environ, workspace)
        files = read_hooks(workspace)
        is_trusted = hooks_trust(workspace).holds(files.digest)
        self._entries = tuple(entry for entry in files.entries if entry.is_own or is_trusted)
        unread = next((entry for entry in files.unread if entry.is_own or is_trusted), None)
        self._is_unsafe = unread is not None
        self._unsafe = (
            _UNSAFE.format(whose="your own" if unread.is_own else "this folder's", file=unread.source) if unread else ""
        )
        odd = odd_matchers(self._entries, tools) if tools else ()
        self._problems = (*files.problems, *odd, *(() if is_trusted else _left_out(files)))
        self._wanted = frozenset(entry.event for entry in self._entries)

    @property
    def has_any(self) -> bool:
        """Tell whether there is a hook at all."""
        return bool(self._entries)

    def wants(self, event: HookEvent) -> bool:
        """Tell whether a hook waits for an event."""
        return event in self._wanted or (self._is_unsafe and event is HookEvent.PRE_TOOL_USE)

    def problems(self) -> Sequence[str]:
        """Return what cannot be read or does not hold."""
        return (*self._problems, *([f"{self._unsafe}."] if self._is_unsafe else []))

    async def run(self, call: HookCall) -> HookVerdict:
        """Call the hooks that an event is for; see `core.hooks.Hooks.run`."""
        names = matched_names(call)
        meant = [entry for entry in self._entries if entry.event is call.event and entry.is_about(names)]
        about = [entry for entry in meant if meets(entry.condition, call)]
        entries = list({(entry.command, entry.arguments, entry.is_own): entry for entry in about}.values())
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._run(entry, call)) for entry in entries]
        verdict = together(call.event, entries, [task.result() for task in tasks])
        if verdict.changed is not None:
            verdict = replace(verdict, changed=our_input(call, verdict.changed))
        if self._is_unsafe and call.event is HookEvent.PRE_TOOL_USE and verdict.permission is not Verdict.DENY:
            verdict = replace(verdict, permission=Verdict.ASK, reason=verdict.reason or self._unsafe)
        return verdict

    async def _run(self, entry: HookEntry, call: HookCall) -> Ran:
        limit_s = min(entry.limit_s, call.limit_s or entry.limit_s)
        if entry.is_own:
            told = payload(call, self._around)
            program = entry.program(self._around.root)
            return await run_on_host(program, told, self._workspace, self._environment, limit_s)
        lane = await self._lane()
        if lane.launcher is None:
            return Ran(-1, problem="could not be run: no sandbox works here")
        told = payload(call, replace(self._around, root=lane.root))
        can_write = call.mode != Mode.PLAN
        return await run_in_lane(entry.program(lane.root), told, lane.launcher, can_write=can_write, limit_s=limit_s)


def _left_out(files: HookFiles) -> tuple[str, ...]:
    """Return in words which hooks of the folder do not run."""
    if not files.folders:
        return ()
    count, names = len(files.folders), ", ".join(dict.fromkeys(entry.source for entry in files.folders))
    words = ("1 hook", "it", "it is") if count == 1 else (f"{count} hooks", "them", "they are")
    return (_UNTRUSTED.format(count=words[0], files=names, it=words[1], it_is=words[2]),)
