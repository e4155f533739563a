"""Writes docs/json-events.md from the event classes and their docstrings: `make docs`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from lmtui.core.errors import Fault
from lmtui.core.events import Event, TurnEnded, TurnReason
from lmtui.core.messages import ToolSet
from lmtui.store.session_logs import EVENT_TYPES

PAGE = Path(__file__).with_name("json-events.md")

# The fields that scripts may rely on, by kind; `session`, `seq`, `time` and `kind` of every event are stable too.
STABLE: dict[str, tuple[str, ...]] = {
    "tool_call_started": ("call_id", "tool", "arguments", "agent"),
    "tool_call_finished": ("call_id", "ok", "result", "elapsed_ms"),
    "approval_requested": ("approval_id", "call_id", "tool", "text"),
    "approval_resolved": ("outcome", "rule", "by"),
    "message_added": ("role", "text"),
    "files_changed": ("files",),
    "turn_ended": (
        "reason", "status", "exit_code", "text", "files_changed", "usage", "iterations", "elapsed_s", "sandbox", "error",
    ),
}  # fmt: skip

# What each line of `--output stream-json` begins with: value and meaning.
ENVELOPE = {
    "seq": ("number", "place in the session, counted from 1; numbers can be missing"),
    "time": ("time", "when it happened: UTC, ISO 8601, ending in `Z`"),
    "session": ("text", "id of the session"),
    "kind": ("text", "what happened"),
}

# What `--output json` prints: fields of `turn_ended`, and these of its own.
_ONLY_IN_RESULT = ("model", "swaps", "commands", "refused", "plan", "attempts", "patch")
RESULT = ("session", *STABLE["turn_ended"][1:], "verified", "checks", *_ONLY_IN_RESULT)
_OWN_OF_RESULT = {
    "session": ("text", "id of the session, for `--resume`"),
    "status": (", ".join(f"`{each}`" for each in TurnReason), "how the task ended"),
    "model": ("text", "name of the model; empty: the server's default"),
    "swaps": ("object", "counts: `model_changes`, and the `loads` and `unloads` that lmtui requested"),
    "commands": ("list of objects", "shell commands, each with `command` and `ok`"),
    "refused": ("list of objects", "denied actions, each with the `rule` that would allow it, or with `why` if no rule can"),
    "patch": ("text", "only in try mode: the patch with the changes, if there are any"),
    "attempts": ("list of objects", "only with `--attempts`: one for each [attempt](attempts.md)"),
    "plan": ("object", "only if a plan waits for your approval: `id` and the fields of a [Proposal](#objects)"),
}

# Meanings that no docstring gives: by `kind.field`, or for all kinds by the field alone.
MEANINGS = {
    "agent": "the agent that it belongs to: `root`, or the id of a sub-agent",
    "approval_id": "id that ties the request to its resolution",
    "call_id": "id of the tool call; it ties the events of one call",
    "elapsed_ms": "how long it took, in milliseconds",
    "images": "pictures that belong to it",
    "model_loading.model": "the model",
    "model_loading.text": "progress in words",
    "model_loading.ratio": "progress from 0 to 1; -1: unknown",
    "model_loaded.model": "the model",
    "model_loaded.role": "the role whose request needs it",
    "model_loaded.ok": "whether it is loaded",
    "model_loaded.unloaded": "models that were unloaded for it",
    "model_loaded.elapsed_s": "how long it took, in seconds",
    "proposal": "the proposed plan",
    "proposal_id": "id that ties the proposal to its decision",
    "tool": "name of the tool",
    "turn_id": "id of the turn",
    "usage": "tokens, as the server counted them",
    "window_tokens": "context window in tokens; 0: unknown",
    "turn_ended.checks": "the commands that checked it: of each the last run, with exit code and seconds",
    "turn_ended.verified": "what its changes are worth: `green`, `red`, `unverified`, or `none` where nothing changed",
    "check_started.command": "the command",
    "check_ran.rung": "`parse`, `lint`, `tests` (those that name the changed files), `suite` (all of them) or `goal`",
    "check_ran.outcome": "`passed`, `failed`, `flaky`, `known` (it failed before the change too) or `not run`",
    "check_ran.command": "the command, empty for what lmtui parses itself",
    "check_ran.source": "the file or setting that the command comes from",
    "check_ran.elapsed_s": "how long it took, in seconds",
    "review_written.is_rejected": "whether it blocks the change",
    "review_written.by": "who found it: `review` (the model of the role `reviewer`) or `validators` (lmtui itself)",
    "review_written.is_usable": "whether the model's answer could be parsed",
    "review_written.findings": "what it found, the first twenty",
    "review_written.summary": "the summary",
    "goal_changed.state": "`waiting`, `active`, `paused`, `reached` or `given up`",
    "agent_finished.usage": "tokens of all its requests",
    "agent_finished.elapsed_s": "duration in seconds (wall time)",
    "agent_started.work": "`work`: it may do what its parent may do; `explore`: it only reads",
    "approval_requested.commands": "number of commands in it; 0: unknown",
    "approval_requested.cwd": "folder in which it runs",
    "approval_requested.diff": "unified diff of a file change",
    "approval_requested.limits": "limits under which it runs, in words",
    "approval_requested.path": "the file that would change, if it is one file",
    "approval_requested.sandbox": "sandbox in which it runs, in words",
    "approval_resolved.outcome": "the answer",
    "brought_back.parts": "ids of the parts",
    "budget_set.budget": "the new budget",
    "call_form_changed.form": "the new form: `native`, `text` or `schema`",
    "call_form_changed.why": "the reason, in words",
    "call_progress.size_chars": "characters of its arguments so far",
    "checkpoint_created.left_out": "files that it does not contain (too large, or repositories of their own), 50 at most",
    "checkpoint_created.left_out_total": "how many files it does not contain",
    "compacted.elided": "ids of the results, messages and arguments that one line each replaces",
    "compacted.folded": "ids of those of which only the beginning, or what decides a failure, is sent",
    "compacted.kept_from": "place (from 0) of the first message after those that `summary` replaces; 0: none are replaced",
    "compacted.summary": "the summary that replaces earlier messages, else empty",
    "compacted.tokens_after": "estimated tokens of the conversation afterwards",
    "compacted.tokens_before": "estimated tokens of the conversation before",
    "files_changed.after": "checkpoint after the call; empty: none, so that it cannot be undone",
    "files_changed.before": "checkpoint before the call; empty: none, so that it cannot be undone",
    "files_changed.changes": "details of each change",
    "files_changed.files": "paths, relative to the workspace",
    "files_restored.after": "checkpoint after it",
    "files_restored.before": "checkpoint before it",
    "files_restored.calls": "ids of the steps that it is about (`step_`, then the `seq` of their `files_changed`)",
    "files_restored.changes": "details of each change",
    "files_restored.files": "paths, relative to the workspace",
    "guidance_read.guidance": "what was read",
    "hook_ran.call_id": "id of the tool call, if it ran for one",
    "hook_ran.command": "the command of the hook",
    "hook_ran.exit_code": "exit code; -1: it did not end by itself",
    "hook_ran.matcher": "pattern of tool names that the hook is limited to",
    "host_reached.host": "name of the host",
    "host_reached.received_bytes": "bytes received",
    "host_reached.sent_bytes": "bytes sent",
    "host_reached.why_not": "why the proxy refused the host; empty: it was reached",
    "inbox_changed.kinds": "what each of `queued` is, if the text does not say it: `reminder`, `call`, `file` or `pictures`",
    "inbox_changed.queued": "the queued texts",
    "loop_suspected.is_over": "whether the turn ends because of it",
    "loop_suspected.what": "what it repeats, in words",
    "message_added.images": "pictures of the message",
    "message_added.role": "who speaks",
    "message_added.text": "the message",
    "message_added.thinking": "the model's thinking before the message",
    "message_added.thinking_s": "how long the model thought, in seconds",
    "message_added.tool_calls": "tool calls that the model asks for in the message",
    "model_changed.model": "name of the model; empty: the server's default",
    "model_changed.default_model": "name of the server's default, if `model` is empty and the server has named it",
    "model_changed.role": "`planner`, `vision` or another role, if the change is only for work of that role",
    "model_changed.is_for_turn": "whether it is only until the turn ends",
    "model_changed.url": "address of the model server",
    "model_changed.window_tokens": "context window in tokens; 0: unknown",
    "notice.level": "how much it matters",
    "notice.text": "the notice, with what to do about it",
    "pinned.is_pinned": "whether the part is kept from now on",
    "pinned.part": "id of the part",
    "plan_decided.outcome": "the decision",
    "reminder.text": "what the model was told",
    "report_written.text": "the report, in Markdown",
    "retry_scheduled.attempt": "number of the attempt that failed; 0: it does not count",
    "retry_scheduled.attempts": "how many attempts there are at most",
    "retry_scheduled.reason": "what failed",
    "retry_scheduled.wait_s": "seconds until the next attempt",
    "rewound.turn_id": "id of the first turn that is left out",
    "rule_revoked.rule": "the rule",
    "sandbox_selected.reason": "why it is weaker",
    "session_opened.parent": "id of the session that this one is a fork of; empty: none",
    "session_opened.parent_seq": "events up to this `seq` are copies of the parent's",
    "session_renamed.title": "the title",
    "skill_ended.by": "who ended it: `user` or `model`",
    "skill_ended.skill": "name of the skill; empty: each that is in use",
    "skill_used.allowed": "rules for the tools that may be called",
    "skill_used.is_limited": "whether only the tools of `allowed` may be called",
    "skill_used.skill": "name of the skill",
    "skill_used.source": "where the skill comes from",
    "skill_used.stays": "whether it is in use until it is ended, or only until the turn ends",
    "text_delta.text": "the new part",
    "thinking_delta.text": "the new part",
    "tool_call_finished.decision": "what decided: `mode`, `rule`, `hook`, `once`, `session`, `always`, `no`, or empty",
    "tool_call_finished.ok": "whether the call succeeded",
    "tool_call_finished.rule": "the rule that decided",
    "tool_call_started.arguments": "the arguments, by name",
    "tool_output_delta.text": "the new part",
    "tool_set_changed.tools": f"the new set: {', '.join(f'`{each}`' for each in ToolSet)}",
    "tool_set_changed.why": "the reason, in words",
    "turn_ended.elapsed_s": "duration in seconds (wall time)",
    "turn_ended.error": "what went wrong, else empty",
    "turn_ended.exit_code": "the [exit code](scripts.md#exit-codes)",
    "turn_ended.fault": f"how the model server failed: {', '.join(f'`{each}`' for each in Fault)}; else empty",
    "turn_ended.files_changed": "paths; of other runs in the same folder too, if they change files at the same time",
    "turn_ended.iterations": "requests to the model",
    "turn_ended.reason": "how the turn ended",
    "turn_ended.sandbox": "where commands ran; empty: no command ran",
    "turn_ended.status": "the same as `reason`",
    "turn_ended.text": "the last answer",
    "turn_ended.usage": "`prompt_tokens`, `completion_tokens` and `cached_tokens` of all its requests",
    "usage_updated.model": "the model that was asked; empty: the server's default",
    "usage_updated.elapsed_s": "seconds from sending the request to the end of the answer; 0: unknown",
    "usage_updated.first_token_s": "seconds until the first token; 0: unknown",
    "usage_updated.reread_tokens": "tokens of the prompt that were sent before and read again",
    "usage_updated.reused_tokens": "tokens of the prompt that came from the server's cache",
    "usage_updated.is_cache_told": "whether the server reported the reuse; else it is inferred",
    "usage_updated.is_estimate": "whether the numbers are estimates: the server reported none",
    "usage_updated.tokens_per_s": "decoding speed; 0: unknown",
    "vision_changed.sees": "whether the model sees pictures; null: unknown",
    "wait_set.until": "when the session continues",
    "wait_set.why": "what it waits for",
}

HEAD = """\
# JSON output and events

Made from the program's own event classes by `make docs`; do not edit it. [Scripts, CI and containers](scripts.md)
has the other options of `lmtui run`, and the exit codes.

To read the result of a task, use `--output json`. It prints one object at the end:

```sh
lmtui run --output json "count the tests" > result.json
```

To follow a task, use `--output stream-json`. It prints one event per line as it happens. The last one has the answer:

```sh
lmtui run --output stream-json "count the tests" | tail -n 1
```

Standard output carries nothing else. Messages for people go to standard error.
"""
EVENTS = """
## Events

Each line has these fields, then those of its kind:

{fields}
- The last line is `turn_ended`. Only `--output json` has `model`, `commands`, `refused`, `plan` and `attempts`.
- A run can have several turns: after `--approve`, and if an answer does not match `--output-schema`. The last
  `turn_ended` is the end of the run, with the figures of all turns.
- With `--resume` and `--continue` the earlier events of the session come first, with their own `time`.
- A run that cannot begin prints one `turn_ended` without `seq`, `time` and `turn_id`; `error` says why.
- Wrong usage (exit code 64) prints nothing on standard output.
- The log of a session, `.lmagent/sessions/ID.jsonl`, has the same lines, without the kinds that are marked *not stored*.

## Stable events

Scripts can rely on these kinds, and on the fields in **bold**: their names and meanings do not change. New fields and kinds
can be added at any time, so ignore what you do not know.
"""
OTHERS = """
## Other events

These kinds, and the fields above that are not bold, can change with a new version.
"""
OBJECTS = """
## Objects

| Object | Fields | Meaning |
| --- | --- | --- |
"""


def page() -> str:
    """Return the whole page."""
    stable = sorted((each for each in EVENT_TYPES if each.kind in STABLE), key=lambda each: list(STABLE).index(each.kind))
    others = [each for each in EVENT_TYPES if each.kind not in STABLE]
    objects = sorted(_objects(EVENT_TYPES), key=lambda each: each.__name__)
    return "".join([
        HEAD, _result(), EVENTS.format(fields=_envelope()), *map(_section, stable), OTHERS, *map(_section, others),
        OBJECTS, *(_object_row(each) for each in objects),
    ])  # fmt: skip


def meaning(event: type[Event], name: str) -> str:
    """Return what a field means, empty where nothing says it."""
    own = MEANINGS.get(f"{event.kind}.{name}", "")
    return own or "; ".join(_told(event)[name]) or MEANINGS.get(name, "")


def _envelope() -> str:
    rows = [(name, *told) for name, told in ENVELOPE.items()]
    return _table([*rows, ("agent", "text", MEANINGS["agent"])], bold=())


def _result() -> str:
    rows = [(name, *_OWN_OF_RESULT[name]) if name in _OWN_OF_RESULT else _field(TurnEnded, name) for name in RESULT]
    return "\n## The result\n\n" + _table(rows, bold=())


def _section(event: type[Event]) -> str:
    names = [each.name for each in fields(event) if each.name != "agent" or "agent" in STABLE.get(event.kind, ())]
    about = " ".join(_told(event)[""]) + ("" if event.durable else " *Not stored.*")
    table = _table([_field(event, name) for name in names], STABLE.get(event.kind, ())) if names else ""
    return f"\n### `{event.kind}`\n\n{about}\n" + (f"\n{table}" if table else "")


def _field(event: type[Event], name: str) -> tuple[str, str, str]:
    return name, _value(get_type_hints(event)[name]), meaning(event, name)


def _table(rows: Sequence[tuple[str, str, str]], bold: Sequence[str]) -> str:
    lines = ["| Field | Value | Meaning |", "| --- | --- | --- |"]
    lines += [_row(f"**`{name}`**" if name in bold else f"`{name}`", value, text) for name, value, text in rows]
    return "\n".join(lines) + "\n"


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _value(kind: Any) -> str:
    """Return a type in the words of JSON."""
    arguments = get_args(kind)
    if isinstance(kind, UnionType):
        return " or ".join("null" if each is NoneType else _value(each) for each in arguments)
    if get_origin(kind) is tuple:
        inner = _value(arguments[0])
        return "list of " + re.sub("^(text|number|list|object)", r"\1s", inner)
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return ", ".join(f"`{each}`" for each in kind)
    if is_dataclass(kind):
        assert isinstance(kind, type)
        return f"[{kind.__name__}](#objects)"
    return {str: "text", int: "number", float: "number", bool: "true or false", datetime: "time"}.get(kind, "object")


def _told(described: type[Any]) -> dict[str, list[str]]:
    """Return what a class's docstring says of each of its fields, and of none of them (the empty name).

    A part of it is a sentence, or what stands before a `;`; a part that tells of several fields in turn is one for each.
    """
    names = [each.name for each in fields(described)]
    told: dict[str, list[str]] = {name: [] for name in ("", *names)}
    field = f"`(?:{'|'.join(names)})`"
    for place, sentence in enumerate(re.split(r"(?<=\.)\s+", _about(described))):
        parts = re.split(rf";\s+|(?<!`),\s+(?={field})|(?<=[^`,])\s+and\s+(?={field})", sentence.rstrip("."))
        named = [[name for name in names if f"`{name}`" in part] for part in parts]
        if plain := [part for number, part in enumerate(parts) if not named[number] or place + number == 0]:
            told[""].append("; ".join(plain) + ".")
        for part, those in zip(parts, named, strict=True):
            for name in those:
                told[name].append(_short(part, name))
    return told


def _about(described: type[Any]) -> str:
    """Return a class's docstring in one line, in the words of JSON."""
    kinds = {each.__name__: each.kind for each in EVENT_TYPES}
    text = re.sub(r"\s*Shown, not stored[^.]*\.", "", " ".join(str(described.__doc__).split())).replace("None", "null")
    return re.sub(r"`([A-Z][a-z]\w+)`", lambda found: f"`{kinds[found[1]]}`" if found[1] in kinds else found[1], text)


def _short(part: str, name: str) -> str:
    """Return a part of a docstring as a cell: without the field's own name and its verb where it begins with them."""
    return re.sub(rf"^`{name}`:? (?!and )(?:(?:is|are|says|tells|names)(?: that)? )?", "", part)


def _objects(types: Sequence[type[Any]]) -> set[type[Any]]:
    """Return the dataclasses that fields of these hold, and those that they hold in turn."""
    found: set[type[Any]] = set()
    ahead = [hint for each in types for hint in get_type_hints(each).values()]
    while ahead:
        hint = ahead.pop()
        ahead += get_args(hint)
        if is_dataclass(hint) and isinstance(hint, type) and hint not in found:
            found.add(hint)
            ahead += get_type_hints(hint).values()
    return found


def _object_row(kind: type[Any]) -> str:
    hints = get_type_hints(kind)
    told = ", ".join(f"`{each.name}` ({_value(hints[each.name])})" for each in fields(kind))
    return _row(f"`{kind.__name__}`", told, _about(kind)) + "\n"


if __name__ == "__main__":
    _ = PAGE.write_text(page(), encoding="utf-8")
