"""The read-only lane: its workspace is mounted read-only, and a test from inside confirms that before use."""

from __future__ import annotations

import secrets

from lmtui.core.errors import SandboxError, SandboxUnavailable
from lmtui.sandbox import replies
from lmtui.sandbox.client import Client

_LIMIT_S = 20
_MEMORY_MB = 256
# One word a try: a new file, a new folder, and a change of the folder itself.
_SCRIPT = """
if (: > PROBE) 2>/dev/null; then echo file; fi
if mkdir PROBE-folder 2>/dev/null; then echo folder; rmdir PROBE-folder; fi
for name in *; do if [ -f "$name" ]; then if (: >> "$name") 2>/dev/null; then echo "old file"; fi; break; fi; done
if (: > "${TMPDIR:-/tmp}/PROBE") 2>/dev/null; then echo scratch; fi
"""


async def verify(client: Client, guard: Client) -> None:
    """Try to change the workspace from inside.

    Raises:
        SandboxUnavailable: something could be changed, or nothing could be tried.
    """
    probe = f".lmtui-probe-{secrets.token_hex(6)}"
    fields = {"command": _SCRIPT.replace("PROBE", probe), "timeout_s": _LIMIT_S, "memory_mb": _MEMORY_MB}
    try:
        facts, data = await client.call("run", fields, limit_s=_LIMIT_S * 2)
        replies.parse(facts, replies.RunReply)
    except SandboxError as error:
        raise SandboxUnavailable(f"the read-only lane failed its test: {error}") from error
    changed = data.decode("utf-8", "replace").splitlines()
    taken, _ = await guard.call("guard", {"action": "take_away", "name": probe}, limit_s=_LIMIT_S)
    is_left = replies.parse(taken, replies.TakenReply).was_there
    if changed != ["scratch"] or is_left:
        what = ", ".join(each for each in changed if each != "scratch") or "its scratch space is missing"
        raise SandboxUnavailable(f"the read-only lane failed its test: {what}")
