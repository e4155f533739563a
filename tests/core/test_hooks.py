from __future__ import annotations

from lmtui.core.hooks import HookRan, hook_words
from tests.sets import for_each


@for_each(("event", "words"), [
    (HookRan(event="Stop", command="true"), ""),
    (HookRan(event="Stop", command="true", decision="allow"), ""),
    (
        HookRan(event="PreToolUse", command="g", exit_code=2, decision="deny", said="no\nmore"),
        "hook PreToolUse (g) said no: no",
    ),
    (HookRan(event="PreToolUse", command="g", decision="ask"), "hook PreToolUse (g) said ask"),
    (
        HookRan(event="Stop", command="g" * 61, exit_code=1, said="x" * 161),
        f"hook Stop ({'g' * 59}…) failed with exit code 1: {'x' * 159}…",
    ),
    (HookRan(event="Stop", command="g", exit_code=1), "hook Stop (g) failed with exit code 1"),
    (HookRan(event="Stop", command="g", exit_code=-1, said="was killed"), "hook Stop (g) was killed"),
    (HookRan(event="Stop", command="g\x1b[2J\nx", exit_code=-1), "hook Stop (g⏎x) did not end by itself"),
])  # fmt: skip
def test_only_what_blocked_or_failed_is_told(event: HookRan, words: str) -> None:
    assert hook_words(event) == words
