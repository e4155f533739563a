"""Proof, from inside, that an instance isolates what its backend promises; it tries, and believes no version or setting.

A backend runs the system's programs in an empty folder of lmtui's.  In the workspace only the supervisor writes, and the
read-only instance runs the system's shell, which tries to.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import secrets
import shlex
import tempfile
import tomllib
from pathlib import Path

import psutil

from lmtui.core.errors import SandboxError, SandboxUnavailable
from lmtui.core.sanitize import sanitize_line
from lmtui.sandbox import replies
from lmtui.sandbox.backend import Backend
from lmtui.sandbox.supervisor_client import Client

_LIMIT_S = 20
_MEMORY_MB = 256
_SCRIPT = Path(__file__).with_name("selftest.sh").read_text("utf-8")
_CHECKS = tomllib.loads(Path(__file__).with_name("selftest.toml").read_text("utf-8"))
_READ_ONLY_SCRIPT = Path(__file__).with_name("selftest_read_only.sh").read_text("utf-8")


async def verify_read_only(client: Client, guard: Client) -> None:
    """Try to change the workspace from inside.

    Raises:
        SandboxUnavailable: something could be changed, or nothing could be tried.
    """
    probe = f".lmtui-probe-{secrets.token_hex(6)}"
    changed = await _said(client, _READ_ONLY_SCRIPT.replace("PROBE", probe), "the read-only instance failed its test")
    taken, _ = await guard.ask(replies.YesReply, "guard", {"action": "take_away", "name": probe}, limit_s=_LIMIT_S)
    if changed != ["scratch"] or taken.is_so:
        what = ", ".join(each for each in changed if each != "scratch") or "its scratch space is missing"
        raise SandboxUnavailable(f"the read-only instance failed its test: {what}")


async def verify(backend: Backend, client: Client) -> None:
    """Try what the backend promises, in an empty folder with `.git` and `.lmagent`.

    Raises:
        SandboxUnavailable: something does not hold; the text names the first.
    """
    with tempfile.NamedTemporaryFile(prefix="lmtui-marker-") as marker:
        os.fchmod(marker.fileno(), 0o644)  # nothing but the sandbox hides it
        script = _SCRIPT.replace("IS_SHARED", "false" if backend.has_mounts else "true")
        script = script.replace("MARKER", shlex.quote(marker.name))
        lines = await _said(client, script, f"{backend.name} failed its self-test")
    found = {name.rstrip(":"): value.strip() for name, _, value in (line.partition("=") for line in lines)}
    problem = _problem(found, backend)
    if problem:
        raise SandboxUnavailable(f"{backend.name} failed its self-test: {problem}")


async def verify_workspace(backend: Backend, client: Client, guard: Client, workspace: Path) -> None:
    """Write a file to the workspace, and look whose it is; no program runs.

    Raises:
        SandboxUnavailable: it cannot be written, or the file would belong to somebody else.
    """
    probe = f".lmtui-probe-{secrets.token_hex(6)}"
    try:
        facts, _ = await client.call("write", {"path": probe}, b"probe", limit_s=_LIMIT_S)
        problem = str(facts.get("error", "")) or await asyncio.to_thread(_owner_problem, workspace, probe)
    finally:
        with contextlib.suppress(SandboxError):
            await guard.call("guard", {"action": "take_away", "name": probe}, limit_s=_LIMIT_S)
    if problem:
        why = f"{backend.name} cannot write to the workspace: {sanitize_line(problem)}"
        raise await asyncio.to_thread(_foreign, backend, workspace) or SandboxUnavailable(why)


async def _said(client: Client, script: str, problem: str) -> list[str]:
    """Run a script and return the lines that it says."""
    fields = {"command": script, "is_own": True, "timeout_s": _LIMIT_S, "memory_mb": _MEMORY_MB}
    try:
        _, data = await client.ask(replies.RunReply, "run", fields, limit_s=_LIMIT_S * 2)
    except SandboxError as error:
        raise SandboxUnavailable(f"{problem}: {error}") from error
    return data.decode("utf-8", "replace").splitlines()


def _problem(found: dict[str, str], backend: Backend) -> str:
    """Return the first thing that does not hold, or an empty text."""
    kind = "mounts" if backend.has_mounts else "shared"
    kinds = ["always", "isolated", kind] if backend.is_isolated else ["always"]
    if backend.is_isolated and backend.network == "none":
        kinds.append(f"{kind}_offline")
    for name, (wanted, problem) in (check for each in kinds for check in _CHECKS[each].items()):
        value = found.get(name, "")
        if not re.fullmatch(wanted, value):
            return f"{problem} ({name}: {value or 'nothing'})"
    return ""


def _owner_problem(workspace: Path, probe: str) -> str:
    try:
        made = (workspace / probe).lstat()
    except OSError:
        return "a file written inside does not appear in the workspace"
    owner, user = workspace.stat().st_uid, os.geteuid()
    if made.st_uid not in (owner, user):
        return f"files written inside belong to {_owner(workspace / probe)} instead of {_owner(workspace)}"
    return ""


def _foreign(backend: Backend, workspace: Path) -> SandboxUnavailable | None:
    """Return what to say where a workspace cannot be written because it is somebody else's."""
    if workspace.stat().st_uid == os.geteuid():
        return None
    owner, user = _owner(workspace), psutil.Process().username()
    why = f"{backend.name} cannot write to the workspace: it belongs to {owner}, and you are {user}"
    chown = f"chown -R {user} {shlex.quote(str(workspace))}"
    return SandboxUnavailable(why, f"Run lmtui as {owner}, or make the folder yours ({chown}), or use Docker.")


def _owner(path: Path) -> str:
    try:
        return path.owner()
    except KeyError:
        return f"uid {path.stat().st_uid}"
