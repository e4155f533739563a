"""The sandbox as tools see it: each operation is one call to a supervisor, its answer checked and put into the port's words."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import tomllib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from pathlib import Path

from lmtui.core.errors import SandboxError, SandboxUnavailable
from lmtui.core.hosts import HostApproval, ToolGate
from lmtui.core.permissions.git_commands import (
    CONNECTS,
    GitCommand,
    message_file,
    named_remote,
    names_writing_git,
    unsupported,
    writing_git_commands,
)
from lmtui.core.permissions.rules import MaskExpressions
from lmtui.core.ports import Checkpoints, OutputSink
from lmtui.core.sanitize import sanitize_line
from lmtui.core.workspace import (
    CommandLimits,
    DirEntry,
    ExecResult,
    FileContent,
    GrepMatch,
    SandboxStatus,
)
from lmtui.paths import kept_dir
from lmtui.sandbox import replies
from lmtui.sandbox.backend import FULL, Backend
from lmtui.sandbox.guest.beneath import Refused, shown
from lmtui.sandbox.guest.listing import glob_expression
from lmtui.sandbox.guest.protocol import MAX_UPLOAD_BYTES
from lmtui.sandbox.host_paths import locate, make_for_owner
from lmtui.sandbox.instance_programs import InstanceLauncher, SandboxBackground
from lmtui.sandbox.overlays import OverlayInstances, WorkspaceOverlay, finish_interrupted
from lmtui.sandbox.package_indexes import WORKSPACE_FILES, PackageIndexes, find_package_indexes
from lmtui.sandbox.pool import ChosenBackend, SandboxPool
from lmtui.sandbox.project_tools import can_show, fetching, find_missing, with_remote
from lmtui.sandbox.proxy import Proxy
from lmtui.sandbox.repository import local_remote
from lmtui.sandbox.supervisor_client import Client, InstanceKind
from lmtui.sandbox.workspace_guard import Findings
from lmtui.sandbox.workspace_states import SandboxCheckpoints, SandboxListing, read_entries

_FILE_CALL_S = 30.0
_SPARE_S = 12.0
_GIT_MEMORY_MB = 1024
_MAX_MESSAGE_BYTES = 100_000
_SWEEPING = ("grep",)  # tools that show the contents of files that nobody named
_LOOKING = frozenset({"read", "real", "listing", "glob", "grep"})
_READ_ONLY_GIT = re.compile(r"(?is)\.git\b.{0,200}read-only|index\.lock|temporary object directory")
_LITERAL = "[git takes paths as they are written here, patterns too: name the files]"
_GIT_UNDO = "[/undo restores the files; commits, branches and stashes stay]"
_REMOTE_URL = re.compile(r"^(.+)\t(.*) \((fetch|push)\)", re.MULTILINE)
_NOT_REAL = "not in an overlay: git commands that write, background commands and packages need the real folder"
_MOST_NAMED = 5
_TAIL_CHARS = 4096
_NOT_STARTED = (126, 127)  # a shell's exit codes for a program that cannot be run, or is not there
_MASKED_BY_RULE = "[masked, as a rule denies it: {paths}]"
_MASKED_BY_NAME = "[masked, as it may hold secrets: {paths}. A command that names the file asks the user to show it.]"
_NOTES = tomllib.loads(Path(__file__).with_name("command_notes.toml").read_text("utf-8"))
_GIT_HINT = _NOTES["hints"]["git"]
_GIT_WHY, _LIMITS_MET = ({re.compile(words): note for words, note in _NOTES[name].items()} for name in ("git", "limits"))
_NO_NETWORK = re.compile("|".join(_NOTES["network"]["patterns"]))
_HOW_TO_INSTALL = "[no network here; to install packages call shell again with network=true, which asks the user]"
_TOOLS_CHANGED = "[the sandbox has other tools of this project now: run the command again]"


Connect = Callable[[str, Proxy, Mapping[str, str]], Backend]


class WorkspaceSandbox:
    """One session's access to the instances of its workspace, or another view of it through another instance.

    Args:
        instances: the supervisors of the workspace.
        release: lets go of them; None where somebody else does.
        launcher: starts long-running programs.
        limits: what commands may take.
        connect: makes a backend whose way out is a proxy.
    """

    def __init__(
        self,
        pool: SandboxPool,
        release: Callable[[SandboxPool], Awaitable[None]] | None,
        launcher: InstanceLauncher | None = None,
        *,
        limits: CommandLimits = CommandLimits(),
        connect: Connect | None = None,
    ) -> None:
        self._overlay: OverlayInstances | None = None
        self._is_fresh = False
        self._pool = pool
        self._connect = connect
        self._indexes: list[PackageIndexes] = []
        self.background = SandboxBackground(pool, limits)
        self.limits = limits
        self.launcher: InstanceLauncher | None = launcher
        self._release = release
        self._instance_kind = InstanceKind.MAIN
        self._warned: set[str] = set()
        self._revealed: frozenset[str] = frozenset()
        self._states = SandboxCheckpoints(pool)
        self.checkpoints: Checkpoints = self._states
        self.listing = SandboxListing(pool)

    async def status(self) -> SandboxStatus:
        status = await (self._pool.read_status() if self._instance_kind is InstanceKind.READ else self._pool.status())
        if status.has_overlays and self._overlay is None and not self._pool.was_asked:
            self._pool.was_asked = True
            adopt = partial(self.overlay, stays=True)
            finished = await finish_interrupted(self._pool.workspace, self, self._states, adopt)
            self._pool.notice = finished or self._pool.notice
        return replace(status, is_overlay=self._overlay is not None)

    def for_session(self) -> WorkspaceSandbox:
        """Return the same workspace with its own background commands."""
        if self._overlay is not None:
            return self
        own = WorkspaceSandbox(self._pool, None, self.launcher, limits=self.limits, connect=self._connect)
        own._instance_kind = self._instance_kind
        return own

    def read_only(self) -> WorkspaceSandbox:
        return self if self._instance_kind is InstanceKind.READ else self._view(InstanceKind.READ)

    def unmasked(self) -> WorkspaceSandbox:
        return self._view(InstanceKind.VIEW)

    def fresh(self) -> WorkspaceSandbox:
        view = self._view(self._instance_kind, self._revealed)
        view._is_fresh = True
        return view

    def revealing(self, paths: Sequence[str]) -> WorkspaceSandbox:
        located = [self._locate(path) for path in paths]
        revealed = frozenset(path for folder, path in located if not folder)  # in added folders they stay masked
        return self._view(self._instance_kind, revealed)

    def _over(self, overlay: OverlayInstances, checkpoints: Checkpoints) -> WorkspaceSandbox:
        view = self._view(InstanceKind.MAIN, self._revealed)
        view._overlay = overlay
        view.background = SandboxBackground(self._pool, self.limits, why_not=_NOT_REAL)
        view.checkpoints = checkpoints
        return view

    def overlay(self, folder: Path | None = None, *, stays: bool = False) -> WorkspaceOverlay[WorkspaceSandbox]:
        if self._overlay is not None:
            raise SandboxUnavailable("there is no overlay over an overlay")
        return WorkspaceOverlay(self._pool, self, self._states, self._over, stays=stays, folder=folder)

    def mask(self, owner: int, expressions: MaskExpressions | None) -> None:
        self._pool.mask(owner, expressions)

    async def run_command(
        self,
        command: str,
        *,
        timeout_s: int = 30,
        memory_mb: int = 0,
        on_output: OutputSink | None = None,
        gate: ToolGate | None = None,
        with_packages: bool = False,
    ) -> ExecResult:
        chosen = await self._pool.started()
        can_run = self._instance_kind is InstanceKind.MAIN or (
            self._instance_kind is InstanceKind.READ and chosen.backend.has_mounts
        )
        if not can_run:
            raise SandboxUnavailable(f"no command can run here: {chosen.backend.name} cannot keep it from changing the folder")
        findings: list[Findings] = []
        fields = {"command": command, "timeout_s": timeout_s, "memory_mb": memory_mb or self.limits.memory_mb}
        is_real = self._overlay is None and self._instance_kind is InstanceKind.MAIN
        git_commands = writing_git_commands(command, str(self._pool.workspace)) if chosen.backend.is_isolated else ()
        if self._overlay is not None and (with_packages or git_commands):
            raise SandboxUnavailable(_NOT_REAL)
        if is_real and git_commands:
            return await self._run_git_commands(git_commands, timeout_s, on_output, gate)
        if is_real and with_packages and chosen.status.network == "none":
            return await self._run_with_packages(timeout_s, on_output, gate, fields)
        if self._overlay is not None:
            opened = self._overlay.client(self._instance_kind, is_fresh=self._is_fresh)
        elif self._instance_kind is InstanceKind.READ:
            opened = self._pool.read_client()
        elif self._is_fresh and chosen.backend.is_isolated:
            opened = self._pool.own_client(findings)
        else:
            opened = self._pool.command_client(findings, self._revealed)
        asked = gate if self._instance_kind is InstanceKind.MAIN else None  # what only reads reaches no host
        async with opened as client:
            with self._pool.network_approvals.open(asked):
                result = await self._run(client, "run", timeout_s, on_output, **fields)
        notes = [
            f"[background command {ended.id} {ended.state}: {sanitize_line(ended.command)[:80]}]"
            for ended in (self.background.take_endings() if is_real else ())
        ]
        is_refused = _READ_ONLY_GIT.search(result.output) or (result.exit_code and not result.output)  # `stash` says nothing
        if chosen.backend.has_mounts and is_refused and names_writing_git(command):
            notes.append(_GIT_HINT)
        notes += [*await self._ways(result, chosen, gate), *self._masks_met(result)]
        return _with_notes(result, notes, findings)

    async def package_hosts(self) -> Sequence[str]:
        self._indexes.append(indexes := await self._find_indexes())
        return [host if host in indexes.named else f"{host} (named by this project)" for host in indexes.hosts]

    async def _find_indexes(self) -> PackageIndexes:
        texts: dict[str, str] = {}
        for name in WORKSPACE_FILES:
            with contextlib.suppress(SandboxError):
                texts[name] = (await self.read_file(name)).data.decode("utf-8", "replace")
        return await asyncio.to_thread(find_package_indexes, texts, os.environ)

    async def _run_with_packages(
        self, timeout_s: int, on_output: OutputSink | None, gate: HostApproval | None, fields: Mapping[str, object]
    ) -> ExecResult:
        """Run a command that reaches the package indexes of the project, and no other host without a question."""
        if self._connect is None:
            raise SandboxUnavailable("this sandbox has no proxy, so no command reaches the package indexes")
        # The user said yes to one of the questions that wait; which one is not known here, so it is what all of them name.
        indexes = self._indexes[-1] if self._indexes else await self._find_indexes()
        hosts = tuple(host for host in indexes.hosts if all(host in each.hosts for each in self._indexes))
        self._indexes[:] = [replace(indexes, hosts=hosts)] * (len(self._indexes) - 1)
        proxy = Proxy(hosts, lambda: gate, named=indexes.named)
        findings: list[Findings] = []
        try:
            own = (await self._pool.started()).backend
            backend = self._connect(own.name, proxy, dict(indexes.variables))
            packages = await asyncio.to_thread(make_for_owner, kept_dir("packages", self._pool.workspace), self._pool.workspace)
            backend.tools = fetching(own.tools, packages, indexes.certificates)
            async with self._pool.own_client(findings, backend) as client:
                result = await self._run(client, "run", timeout_s, on_output, **fields)
        finally:
            await proxy.close()
            await self._pool.refresh_tools()
        return _with_notes(result, self._masks_met(result), findings)

    async def _ways(self, result: ExecResult, chosen: ChosenBackend, gate: ToolGate | None) -> list[str]:
        """Say of a command that missed a program or the network how it gets it."""
        tail, backend = result.output[-_TAIL_CHARS:], chosen.backend
        if result.exit_code == 0 or not backend.is_isolated:
            return []
        if backend.name in FULL and chosen.status.network == "none" and _NO_NETWORK.search(tail):
            return [_HOW_TO_INSTALL]
        if result.exit_code not in _NOT_STARTED:
            return []
        if await self._pool.refresh_tools():
            return [_TOOLS_CHANGED]
        in_image = backend.name in ("docker", "podman")
        found, notes = await asyncio.to_thread(find_missing, tail, self._pool.workspace, in_image=in_image)
        offered = {path: f"it has {why}" for path, why in backend.tools.offered.items()}
        if gate is not None and await self._offer_tools(offered | found, gate):
            return [_TOOLS_CHANGED]
        notes += [f"not in the sandbox: {each}" for each in backend.tools.not_shown]
        for note in notes:
            if gate is not None and note not in self._warned:
                self._warned.add(note)
                gate.warn(note)
        return [f"[{note}]" for note in notes]

    async def _offer_tools(self, offers: Mapping[str, str], gate: ToolGate) -> bool:
        """Ask the user which folders of tools to show; True if there was one."""
        shown = False
        for folder, why in list(offers.items())[:_MOST_NAMED]:
            path = Path(folder)
            if await asyncio.to_thread(can_show, path, self._pool.workspace) and await gate.may_show(folder, why):
                self._pool.outside.allowed.append(path)  # what is opened from now on has it
                await self._pool.refresh_tools()
                shown = True
        return shown

    def _masks_met(self, result: ExecResult) -> list[str]:
        """Say of a command that met masked files why it could not read them."""
        if result.exit_code == 0 or "ermission denied" not in result.output:
            return []
        met = [path for path in self._pool.masked if path.rpartition("/")[2] in result.output and path not in self._revealed]
        denied = [sanitize_line(path) for path in met if self._pool.masked[path]][:_MOST_NAMED]
        secret = [sanitize_line(path) for path in met if not self._pool.masked[path] and not path.startswith("/")][:_MOST_NAMED]
        told = ((_MASKED_BY_RULE, denied), (_MASKED_BY_NAME, secret))
        return [text.format(paths=", ".join(paths)) for text, paths in told if paths]

    async def run_git(
        self, arguments: Sequence[str], *, writes: bool = False, timeout_s: int = 30, folder: str = ""
    ) -> ExecResult:
        findings: list[Findings] = []
        fields = {"arguments": list(arguments), "at": folder, "timeout_s": timeout_s, "memory_mb": _GIT_MEMORY_MB}
        if writes and (self._instance_kind is not InstanceKind.MAIN or self._overlay is not None):
            raise SandboxError("the workspace is read-only here" if self._overlay is None else _NOT_REAL)
        if self._overlay is not None:
            async with self._overlay.client(InstanceKind.VIEW) as client:
                return await self._run(client, "git", timeout_s, None, **fields)
        if not writes:
            return await self._run(await self._pool.client(InstanceKind.VIEW), "git", timeout_s, None, **fields)
        async with self._pool.git_client(findings) as client:
            result = await self._run(client, "git", timeout_s, None, **fields)
        return _with_notes(result, (), findings)

    async def _run_git_commands(
        self, commands: Sequence[GitCommand], timeout_s: int, on_output: OutputSink | None, gate: ToolGate | None
    ) -> ExecResult:
        """Run git commands that change the repository one after the other, up to the first that fails."""
        for _, words in commands:
            if word := unsupported(words):
                raise SandboxError(f"git {words[0]}: lmtui does not run it with {word}", "Run it in a terminal.")
        findings: list[Findings] = []
        result = ExecResult(0, "", 0, 0)
        for command in commands:
            words = await self._with_message(command)
            fields = {"arguments": words, "at": command.folder, "timeout_s": timeout_s, "memory_mb": _GIT_MEMORY_MB}
            async with contextlib.AsyncExitStack() as parts:
                own, kind = None, InstanceKind.GIT
                if words[0] in CONNECTS:
                    own, fields["reach"] = await self._remote_backend(command, gate, parts)
                    kind = InstanceKind.REMOTE
                    parts.enter_context(self._pool.network_approvals.open(gate))
                client = await parts.enter_async_context(self._pool.git_client(findings, kind, own))
                last = await self._run(client, "git", timeout_s, on_output, **fields)
            output = result.output + last.output
            result = replace(
                last, output=output, total_bytes=len(output.encode()), elapsed_ms=result.elapsed_ms + last.elapsed_ms,
                notes=(*result.notes, *last.notes),
            )  # fmt: skip
            if last.exit_code != 0:
                break
        notes = [_LITERAL] if "did not match any file" in result.output else []
        is_history = result.exit_code in (0, 1) and any(words[0] not in ("add", "mv", "restore", "rm") for _, words in commands)
        return _with_notes(result, [*notes, *[_GIT_UNDO] * is_history], findings)

    async def _with_message(self, command: GitCommand) -> tuple[str, ...]:
        """Return the arguments of a git command with the text of the file that it takes its message from.

        Git itself would also read a file that is hidden here.
        """
        path, others = message_file(command.arguments)
        if not path:
            return command.arguments
        found = await self.read_file(str(Path(command.folder, path)), _MAX_MESSAGE_BYTES)
        return others[0], f"--message={found.data.decode('utf-8', 'replace')}", *others[1:]

    async def _remote_backend(
        self, command: GitCommand, gate: ToolGate | None, parts: contextlib.AsyncExitStack
    ) -> tuple[Backend | None, str]:
        """Return a backend for a git command that uses another repository, and the protocols that it may use.

        It is None where the workspace's own has a network.  Its way out is closed with `parts`.
        """
        chosen, words = await self._pool.started(), command.arguments
        if self._connect is None or not chosen.backend.has_mounts:
            why = f"git {words[0]} cannot reach other repositories in the {chosen.backend.name} sandbox"
            raise SandboxUnavailable(why, "Use bubblewrap or Docker, or run it in a terminal.")
        urls = await self._remote_urls(command)
        found = {url: local_remote(url, self._pool.workspace) for url in urls}
        paths = {path for path in found.values() if path is not None}
        protocols = ":".join(["file"] * bool(paths) + ["git:http:https"] * (None in found.values() or not urls))
        if not paths and chosen.status.network != "none":
            return None, protocols
        proxy = Proxy((), lambda: gate)
        parts.push_async_callback(proxy.close)
        own = self._connect(chosen.backend.name, proxy, {})
        own.tools = chosen.backend.tools
        for path in sorted(paths):
            does = "writes to" if words[0] == "push" else "reads"
            if gate is None or not await gate.may_show(str(path), f"git {words[0]} {does} this repository"):
                raise SandboxError(f"git {words[0]} needs the repository {path}", f"Allow it: Tools({path})")
            own.tools = with_remote(own.tools, path, is_writable=words[0] == "push")
        return own, protocols

    async def _remote_urls(self, command: GitCommand) -> list[str]:
        """Return the addresses that a git command uses: of the remote that it names, or of the branch's usual one."""
        folder, words = command
        remotes = _REMOTE_URL.findall((await self.run_git(["remote", "-v"], folder=folder)).output)
        names = {name for name, *_ in remotes}
        used = {named_remote(words)} - {""}
        if not used and "--all" not in words:
            form = f"--format=%(HEAD)%({'push' if words[0] == 'push' else 'upstream'}:remotename)"
            heads = (await self.run_git(["for-each-ref", form, "refs/heads"], folder=folder)).output.splitlines()
            used = {head[1:] for head in heads if head.startswith("*")} - {""} or names & {"origin"}
        which = "push" if words[0] == "push" else "fetch"
        return [url for name, url, kind in remotes if kind == which and (not used or name in used)]

    async def real_paths(self, paths: Sequence[str]) -> Sequence[str]:
        located = [self._locate(path) for path in paths]
        found: dict[tuple[str, str], str] = {}
        for folder in dict.fromkeys(folder for folder, _ in located):
            wanted = [each for each in located if each[0] == folder]
            reply, _ = await self._call("real", replies.PathsReply, folder=folder, paths=[path for _, path in wanted])
            if len(reply.paths) != len(wanted):
                raise SandboxError("the sandbox sent an answer that cannot be: a path is missing")
            found |= zip(wanted, [_below(folder, path) for path in reply.paths], strict=True)
        return [found[each] for each in located]

    async def read_file(self, path: str, max_bytes: int = 1_048_576) -> FileContent:
        reply, data = await self._call("read", replies.ReadReply, at=path, max_bytes=max_bytes)
        return FileContent(data, reply.size, reply.mode, reply.sha256)

    async def write_file(self, path: str, data: bytes, *, expect_sha256: str | None = None) -> None:
        if len(data) > MAX_UPLOAD_BYTES:
            raise SandboxError(f"{sanitize_line(path)}: more than {MAX_UPLOAD_BYTES:,} bytes at once")
        await self._call("write", replies.Reply, data, at=path, expect_sha256=expect_sha256)

    async def make_directory(self, path: str) -> bool:
        reply, _ = await self._call("mkdir", replies.YesReply, at=path)
        return reply.is_so

    async def list_directory(self, path: str = "", depth: int = 1, max_entries: int = 1000) -> Sequence[DirEntry]:
        shape = replies.ListingReply
        _, data = await self._call("listing", shape, at=path, what="folder", depth=depth, max_entries=max_entries)
        folder, _ = self._locate(path)
        return [DirEntry(_below(folder, shown(each.path)), each.kind, each.size_bytes) for each in read_entries(data)]

    async def glob(self, pattern: str, max_results: int = 200) -> Sequence[str]:
        folder, pattern = self._locate(pattern)
        expression = translate(pattern)
        reply, _ = await self._call("glob", replies.PathsReply, folder=folder, expression=expression, max_results=max_results)
        return [_below(folder, path) for path in reply.paths]

    async def grep(
        self,
        pattern: str,
        *,
        path: str = "",
        glob: str = "",
        ignore_case: bool = False,
        is_literal: bool = False,
        context_lines: int = 0,
        max_matches: int = 200,
    ) -> Sequence[GrepMatch]:
        folder, path = self._locate(path)
        query = {
            "pattern": pattern,
            "path": path,
            "glob": translate(self._locate(glob)[1]) if glob else "",
            "ignore_case": ignore_case,
            "is_literal": is_literal,
            "context_lines": context_lines,
            "max_matches": max_matches,
        }
        reply, _ = await self._call("grep", replies.GrepReply, folder=folder, query=query)
        found = reply.matches
        return [GrepMatch(_below(folder, name), line, sanitize_line(text), around) for name, line, text, around in found]

    async def close(self) -> None:
        release, self._release = self._release, None
        await self.background.close()
        if release is not None:
            await release(self._pool)

    async def _call(
        self, op: str, shape: type[replies.R], data: bytes = b"", *, at: str | None = None, **fields: object
    ) -> tuple[replies.R, bytes]:
        """Do an operation, on the file or folder `at` a path if it is about one."""
        if at is not None:
            fields["folder"], fields["path"] = self._locate(at)
        kind, is_for_one_file = self._instance_kind, op not in _SWEEPING
        if self._overlay is not None:
            opened = self._overlay.client(kind, writes=op not in _LOOKING)
        else:
            opened = self._pool.revealing_client(kind, self._revealed, is_for_one_file=is_for_one_file)
        async with opened as client:
            return await client.ask(shape, op, fields, data, limit_s=_FILE_CALL_S)

    async def _run(self, client: Client, op: str, limit_s: int, on_output: OutputSink | None, **fields: object) -> ExecResult:
        live = replies.LiveOutput(on_output) if on_output is not None else None
        facts, data = await client.call(op, fields, limit_s=limit_s + _SPARE_S, on_output=live)
        if live is not None:
            live.finish()
        reply = replies.parse(facts, replies.RunReply)
        saved = "" if self._overlay is not None else sanitize_line(reply.saved)  # what an overlay saves goes with it
        result = ExecResult(
            exit_code=reply.exit,
            output=replies.whole_output(data, reply.head_bytes, reply.total, saved),
            total_bytes=reply.total,
            elapsed_ms=reply.elapsed_ms,
            is_timed_out=reply.reason == "timeout",
            saved_path=saved,
            data=data if len(data) == reply.total else b"",
        )
        notes = [f"[hooks that git did not run here: {sanitize_line(', '.join(reply.skipped))}]"] if reply.skipped else []
        for words, why in _GIT_WHY.items() if op == "git" and result.exit_code else ():
            if match := words.search(result.output):
                notes.append(sanitize_line(f"[{why.format(match[1])} in the sandbox: run this git command in a terminal]"))
        if not reply.clean:
            await client.close()  # what could not be killed from inside goes with the instance
        if op == "run" and self._pool.notice:
            notes.append(f"[{self._pool.notice}]")
            self._pool.notice = ""
        return _with_notes(result, [*notes, *self._limits_met(result, reply.reason, int(str(fields["memory_mb"])))])

    def _limits_met(self, result: ExecResult, reason: str, memory_mb: int) -> list[str]:
        """Say of a command that met a limit which one, and what raises it."""
        limits = self.limits
        is_lower = memory_mb < limits.memory_mb
        hint = f"memory_mb can be up to {limits.memory_mb:,}" if is_lower else "the setting command_memory_mb is the limit"
        met = [note for words, note in _LIMITS_MET.items() if result.exit_code and words.search(result.output[-_TAIL_CHARS:])]
        notes = [_NOTES["ends"][reason]] if reason in _NOTES["ends"] else met
        return [note.format(limits=limits, memory_mb=memory_mb, memory_hint=hint) for note in notes[:1]]

    def _view(self, kind: InstanceKind, revealed: frozenset[str] = frozenset()) -> WorkspaceSandbox:
        """Return another way to the same instances, without what starts programs."""
        view = copy(self)
        view._instance_kind, view._revealed = kind, revealed
        view._release, view.launcher = None, None
        return view

    def _locate(self, path: str) -> tuple[str, str]:
        return locate(path, self._pool.workspace, self._pool.added)


_MAX_GLOB_CHARS = 1000


def translate(pattern: str) -> str:
    """Return a regular expression for a glob of paths; one without a slash is about names.

    Raises:
        SandboxError: the pattern is empty, too long or no glob.
    """
    if not pattern or len(pattern) > _MAX_GLOB_CHARS or "\0" in pattern or pattern[0] == "!":
        raise SandboxError(
            "the glob is empty, too long, has a NUL character in it or begins with !, which excludes nothing here"
        )
    body = pattern.removeprefix("./")
    try:
        return rf"(?s:{'' if '/' in body else '(?:.*/)?'}{glob_expression(body)})\Z"
    except Refused as error:
        raise SandboxError(str(error)) from error


def _below(folder: str, path: str) -> str:
    """Return a path of an added folder as it is named elsewhere."""
    return f"{folder}/{path}".rstrip("/") if folder else path


def _with_notes(result: ExecResult, notes: Sequence[str], findings: Sequence[Findings] = ()) -> ExecResult:
    result = replace(result, notes=(*result.notes, *notes))
    for found in findings:
        notes = (*result.notes, *found.notes)
        result = replace(result, quarantined=found.quarantined, notable=found.notable, notes=notes)
    return result
