"""Where a JSON value ends that arrives in pieces; each character is looked at once."""

from __future__ import annotations

import re

from lmtui.providers.parsing.literals import MAX_DEPTH

_OUTSIDE = re.compile(r"[\"'{}\[\]`<>/“”]")
_INSIDE = {'"': re.compile(r'["\\]'), "'": re.compile(r"['\\]"), "”": re.compile(r"[”\\]")}


class JsonExtent:
    """Follows one object or list.  `is_whole`: its last bracket has come; `is_broken`: something stands where nothing may."""

    def __init__(self) -> None:
        self.is_whole = False
        self.is_broken = False
        self.is_too_deep = False
        self._depth = 0
        self._quote = ""
        self._escapes = False
        self._last = ""
        self._comment = ""

    @property
    def is_closing(self) -> bool:
        """Tell whether a bracket was the last that came: only the outermost ones are missing."""
        return not self._quote and self._last == "closed"

    def feed(self, text: str) -> int:
        """Take more; return how many characters of it belong to the value (all of them while it is open)."""
        at = 0
        while True:
            if self._escapes:
                if at >= len(text):
                    return len(text)
                at, self._escapes = at + 1, False
            if self._comment:
                if at >= len(text):
                    return len(text)
                at = self._skip_comment(text, at)
                continue
            if self._quote:
                found = _INSIDE[self._quote].search(text, at)
                if found is None:
                    return len(text)
                at = found.end()
                if found[0] == "\\":
                    self._escapes = True
                else:
                    self._quote, self._last = "", "string"
                continue
            found = _OUTSIDE.search(text, at)
            if found is None:
                self._note(text[at:])
                return len(text)
            self._note(text[at : found.start()])
            if self._outside(found[0]):
                return found.end() if self.is_whole else found.start()
            at = found.end()

    def _skip_comment(self, text: str, at: int) -> int:
        """Return where a comment ends, behind the text if it goes on; `_comment` is as much of its beginning as matters."""
        if self._comment == "/":
            self._comment = f"/{text[at]}" if text[at] in "/*" else ""
            self._last = self._last if self._comment else "other"
            return at + 1 if self._comment else at
        if self._comment == "//":
            end = text.find("\n", at) + 1
            self._comment = "" if end else "//"
            return end or len(text)
        if self._comment == "/**" and text[at] == "/":
            self._comment = ""
            return at + 1
        end = text.find("*/", at) + 2
        self._comment = "" if end > 1 else "/**" if text.endswith("*") else "/*"
        return end if end > 1 else len(text)

    def _outside(self, mark: str) -> bool:
        """Take a mark outside strings; tell whether the value ends with it."""
        if mark in "\"'":
            self._quote = mark
        elif mark in "“”":
            self._quote = "”"
        elif mark == "/":
            self._comment = "/"
        elif mark in "{[":
            if self._depth and self._last == "closed" and mark == "{":
                self.is_broken = True
                return True
            self._depth += 1
            self._last = "open"
            self.is_too_deep = self._depth > MAX_DEPTH
        elif mark in "}]":
            self._depth -= 1
            self._last = "closed"
            self.is_whole = self._depth <= 0
        else:
            self.is_broken = True
        return self.is_whole or self.is_broken or self.is_too_deep

    def _note(self, between: str) -> None:
        if between and not between.isspace():
            self._last = "other"
