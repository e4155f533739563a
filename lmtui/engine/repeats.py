"""The same call with the same result, again: a weak model that does not see that it is done.  Looks at the last few calls."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping

from lmtui.core.ports import ToolResult

_LOOKS_BACK = 8
_HELD_FROM = 3
_SHORT_CHARS = 1_000
_SAME = "Same result as before: you have it already. Do not make this call again. Answer the user now, in plain words."
_SAME_FAILURE = "(This call failed in the same way before. Do it in another way, or tell the user what is missing.)"


class Repeats:
    """Counts equal calls with equal results among the last ones; polling, whose results change, is none.

    `count` is how often the last call with its result is among them, `has_failed` tells whether it did.
    """

    def __init__(self) -> None:
        self._last: deque[tuple[str, str, str]] = deque(maxlen=_LOOKS_BACK)
        self._revision = 0
        self.count = 0
        self.has_failed = False

    def begin(self, revision: int = 0) -> None:
        """Forget what was done, for a new turn begins."""
        self._last.clear()
        self._revision, self.count, self.has_failed = revision, 0, False

    def look(self, revision: int) -> None:
        """Forget what was done where something was left out of the conversation meanwhile: it may be asked for again."""
        if revision != self._revision:
            self.begin(revision)

    def see(self, tool: str, arguments: Mapping[str, object], result: ToolResult) -> str:
        """Take note of a call that ran; return what the model gets, in place of a result that it has already."""
        self.has_failed = not result.ok
        if result.changes:
            self._last.clear()
        key = (tool, json.dumps(dict(arguments), sort_keys=True, default=str), _essence(result))
        self._last.append(key)
        self.count = self._last.count(key)
        if self.count == 1:
            return result.text
        if not result.ok:
            return f"{result.text}\n{_SAME_FAILURE}"
        return f"{_SAME}\n{result.text}" if len(result.text) <= _SHORT_CHARS else _SAME

    @property
    def needs_answer(self) -> bool:
        """Tell whether the next answer should end the task, for nothing new comes any more."""
        return self.count >= _HELD_FROM


def _essence(result: ToolResult) -> str:
    """Return what tells results apart; a write that changes nothing says so the second time, which is no news."""
    return result.text.removesuffix(", unchanged")
