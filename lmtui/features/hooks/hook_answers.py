"""What a hook said by its exit code and its output, read and put together with what the others said.  Pure."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from lmtui.core.permissions.rules import Verdict
from lmtui.core.sanitize import sanitize, sanitize_line
from lmtui.features.hooks.hook_config import HookEntry
from lmtui.features.hooks.values import HookEvent, HookRan, HookVerdict
from lmtui.features.host_program import ProgramRun

BLOCKS = 2
_NOT_STARTED = (126, 127)
_MOST_CHARS = 10_000
_SAID_CHARS = 600
_LINE_CHARS = 200
_NO_REASON = "no reason given"
_UV = re.compile(r"\s*(?:\S*/)?uvx?(?=\s|\Z)")
_UV_FAILED = re.compile(r"^(?:error: Failed to|Failed to initialize cache).*", re.MULTILINE)
_NOT_FOUND = re.compile(r"^(?:\S*sh: .*|\S+: (?:line )?\d+: .+): (?:command )?not found$", re.MULTILINE)
_ADDS_TEXT = (HookEvent.SESSION_START, HookEvent.USER_PROMPT_SUBMIT)
_CAN_BLOCK = (
    HookEvent.PRE_TOOL_USE,
    HookEvent.POST_TOOL_USE,
    HookEvent.USER_PROMPT_SUBMIT,
    HookEvent.STOP,
    HookEvent.SUBAGENT_STOP,
)
_DECISIONS = {"allow": Verdict.ALLOW, "approve": Verdict.ALLOW, "ask": Verdict.ASK, "deny": Verdict.DENY, "block": Verdict.DENY}
_STRICTEST = (Verdict.DENY, Verdict.ASK, Verdict.ALLOW, None)


def read_answer(event: HookEvent, ran: ProgramRun) -> HookVerdict:
    """Return what a program's end means.

    A hook before a tool call that did not do its work, or whose answer cannot be read, has not said yes: the call is asked
    about.
    """
    err, is_before = _bounded(ran.err.decode("utf-8", "replace")), event is HookEvent.PRE_TOOL_USE
    answer, failure = HookVerdict(), ""
    if ran.exit_code == BLOCKS:
        return HookVerdict(Verdict.DENY, err or _NO_REASON) if event in _CAN_BLOCK else HookVerdict(notes=(err or _NO_REASON,))
    if ran.exit_code < 0 or ran.exit_code in _NOT_STARTED:
        failure = ran.problem or f"could not be started: {_line(err.partition(chr(10))[0])}".removesuffix(": ")
    elif ran.exit_code == 0:
        text = ran.out.decode("utf-8-sig", "replace").strip()
        if (found := _object(text)) is not None:
            answer = _from_object(event, found)
        elif is_before and text.startswith("{"):
            failure = "gave too long an answer" if ran.is_cut else "gave an answer that is not JSON"
        elif event in _ADDS_TEXT and b"\0" not in ran.out:
            answer = HookVerdict(context=_bounded(text))
    if lacks := _NOT_FOUND.search(err):
        failure = failure or f"lacks a program: {_line(lacks[0])}"
    if is_before and failure and answer.permission not in (Verdict.DENY, Verdict.ASK):
        return replace(answer, permission=Verdict.ASK, reason=f"a hook that checks it {failure}")
    return answer


def together(event: HookEvent, entries: Sequence[HookEntry], ran: Sequence[ProgramRun]) -> HookVerdict:
    """Return what hooks that ran together say: deny before ask, ask before allow."""
    answers = [_answer_of(event, *each) for each in zip(entries, ran, strict=True)]
    strictest = min((answer.permission for answer in answers), key=_STRICTEST.index, default=None)
    reasons = [answer.reason for answer in answers if answer.reason and answer.permission is strictest]
    changed = [answer.changed for answer in answers if answer.changed is not None]
    ends = [answer for answer in answers if answer.ends_turn]
    return HookVerdict(
        runs=tuple(run for answer in answers for run in answer.runs),
        permission=strictest,
        reason="\n".join(dict.fromkeys(reasons)),
        changed=changed[-1] if changed else None,
        ends_turn=bool(ends),
        end_reason=next((answer.end_reason for answer in ends if answer.end_reason), ""),
        context="\n".join(answer.context for answer in answers if answer.context),
        notes=tuple(note for answer in answers for note in answer.notes),
    )


def _answer_of(event: HookEvent, entry: HookEntry, ran: ProgramRun) -> HookVerdict:
    """Return what one hook said, with its run."""
    err = sanitize(ran.err.decode("utf-8", "replace")).strip()
    failed = _UV_FAILED.search(err) if ran.exit_code == BLOCKS and _UV.match(entry.command) else None
    if failed is not None:  # uv could not start the hook, and ends with the code that says no
        hint = "" if entry.is_own else " (hooks have no network; `--no-hooks` leaves them out)"
        ran = replace(ran, exit_code=-1, problem=f"could not be started: {_line(failed[0])}{hint}")
    answer = read_answer(event, ran)
    said = ran.problem or err or answer.reason
    run = HookRan(
        event=str(event),
        command=entry.shown,
        matcher=entry.matcher,
        source=entry.source,
        exit_code=ran.exit_code,
        decision=str(answer.permission or ""),
        said=said[:_SAID_CHARS],
        elapsed_ms=ran.elapsed_ms,
    )
    return replace(answer, runs=(run,))


def _text(found: Mapping[str, Any], name: str) -> str:
    """Return a field of an answer; what is of another kind is not there."""
    value = found.get(name)
    return _bounded(value) if isinstance(value, str) else ""


def _from_object(event: HookEvent, found: Mapping[str, Any]) -> HookVerdict:
    own = found["hookSpecificOutput"] if isinstance(found.get("hookSpecificOutput"), dict) else {}
    is_before = event is HookEvent.PRE_TOOL_USE
    word = own.get("permissionDecision") if is_before and "permissionDecision" in own else found.get("decision")
    reason = _text(own, "permissionDecisionReason") or _text(found, "reason")
    permission = _DECISIONS.get(word) if isinstance(word, str) else None
    if is_before and word is not None and permission is None:
        permission, reason = Verdict.ASK, f"a hook decided {str(word)[:40]!r}, which is not a decision"
    if not is_before and permission is not Verdict.DENY:
        permission = None
    changed = own.get("updatedInput")
    return HookVerdict(
        permission=permission if event in _CAN_BLOCK else None,
        reason=reason or (_NO_REASON if permission is Verdict.DENY else ""),
        changed=changed if is_before and isinstance(changed, dict) else None,
        ends_turn=found.get("continue") is False,
        end_reason=_text(found, "stopReason"),
        context=_text(own, "additionalContext") or _text(found, "additionalContext"),
        notes=tuple(filter(None, [_text(found, "systemMessage")])),
    )


def _object(text: str) -> dict[str, Any] | None:
    with contextlib.suppress(ValueError, RecursionError):
        found: dict[str, Any] | None = json.loads(text) if text.startswith("{") else None
        return found
    return None


def _line(text: str) -> str:
    return sanitize_line(text)[:_LINE_CHARS]


def _bounded(text: str) -> str:
    return sanitize(text).strip()[:_MOST_CHARS]
