"""File globs as regular expressions over paths relative to the workspace.

A pattern without a slash matches names at any depth; with one it starts at the workspace's root.
"""

from __future__ import annotations

import re

from lmtui.core.errors import SandboxError

_MAX_CHARS = 1000


def translate(pattern: str) -> str:
    r"""Return a regular expression for a glob with `*`, `**`, `?`, `[a-z]`, `[!a]`, `{a,b}` and `\` before a literal.

    Raises:
        SandboxError: the pattern is empty, too long or has a brace that does not close.
    """
    if not pattern or len(pattern) > _MAX_CHARS or "\0" in pattern:
        raise SandboxError("the glob is empty, too long or has a NUL character in it")
    body = pattern.removeprefix("./")
    source = _Translator(body).translate()
    anchor = "" if "/" in body else "(?:.*/)?"
    return rf"(?s:{anchor}{source})\Z"


class _Translator:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._depth = 0

    def translate(self) -> str:
        out: list[str] = []
        while self._at < len(self._pattern):
            out.append(self._next())
        if self._depth:
            raise SandboxError(f"the glob {self._pattern} has a brace that does not close")
        return "".join(out)

    def _next(self) -> str:
        char = self._pattern[self._at]
        self._at += 1
        match char:
            case "*":
                return self._stars()
            case "?":
                return "[^/]"
            case "[":
                return self._class()
            case "{":
                self._depth += 1
                return "(?:"
            case "," if self._depth:
                return "|"
            case "}" if self._depth:
                self._depth -= 1
                return ")"
            case "\\" if self._at < len(self._pattern):
                self._at += 1
                return re.escape(self._pattern[self._at - 1])
            case _:
                return re.escape(char)

    def _stars(self) -> str:
        start = self._at
        while self._pattern[self._at : self._at + 1] == "*":
            self._at += 1
        if self._at == start:
            return "[^/]*"
        if self._pattern[self._at : self._at + 1] == "/":
            self._at += 1
            return "(?:.*/)?"
        return ".*"

    def _class(self) -> str:
        """Translate `[...]`; one that does not close is a plain bracket."""
        end = self._pattern.find("]", self._at + 1 + (self._pattern[self._at : self._at + 1] in ("!", "^")))
        if end < 0:
            return re.escape("[")
        inner = self._pattern[self._at : end]
        self._at = end + 1
        negated = inner[:1] in ("!", "^")
        inner = (inner[1:] if negated else inner).replace("\\", "\\\\").replace("[", "\\[").replace("^", "\\^")
        inner = inner.replace("&&", "&\\&").replace("~~", "~\\~").replace("||", "|\\|").replace("--", "-\\-")
        source = f"(?!/)[{'^' if negated else ''}{inner}]"
        try:
            re.compile(source)
        except re.error as error:
            raise SandboxError(f"the glob {self._pattern} has a set that cannot be: [{inner}]") from error
        return source
