r"""Make text that lmtui did not write safe to show.

Model output, tool output, file names and server errors pass through here before they reach a screen, a terminal, a title or a
clipboard. Control sequences are those of ECMA-48.  Invisible characters are named rather than dropped, at two levels:

- `reveal` names all of them, for text that a user decides on; so does `clean_path`, for paths and commands anywhere.
- `clean` is for prose (what a model says, the content of files).  It keeps spaces of other widths, and joiners and variation
  selectors where a script needs them: after an emoji or a letter of a script other than Latin, Greek, Cyrillic and Armenian.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import Any, TypeVar

# Insides of classes of regular expressions, from Unicode 15.0.0: the property Default_Ignorable_Code_Point, the categories Zs,
# Zl and Zp without the space, and what is drawn as nothing though no property says so.
_IGNORABLE = (
    "\u00ad\u034f\u061c\u115f-\u1160\u17b4-\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f"
    "\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_SEPARATORS = "\u00a0\u1680\u2000-\u200a\u2028-\u2029\u202f\u205f\u3000"
_BLANK = "\u2800\ufff9-\ufffb\U0001d159"


def pluralize(number: int, thing: str) -> str:
    """Return a number with its thing: `1 file`, `2,000 files`."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def clipped(text: str, limit: int) -> str:
    """Return a text on one line, its end left out beyond so many characters."""
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


_T = TypeVar("_T")
_SHORTEST = 16
_FEWEST_SIGNS = 8
REDACTED = "[key redacted]"


class Redactor:
    """Replaces known values wherever they are.

    A value counts only if it cannot be an ordinary word: at least 16 characters, 8 of them different (local servers take
    anything for a key, and a placeholder must not eat holes into files).
    """

    def __init__(self, values: Iterable[str]) -> None:
        kept = {value for value in values if len(value) >= _SHORTEST and len(set(value)) >= _FEWEST_SIGNS}
        self._values = tuple(sorted(kept, key=len, reverse=True))

    def __bool__(self) -> bool:
        return bool(self._values)

    def also(self, values: Iterable[str]) -> Redactor:
        """Return one that takes out these values too."""
        return Redactor((*self._values, *values))

    def text(self, text: str) -> str:
        """Return a text without the values."""
        for value in self._values:
            if value in text:
                text = text.replace(value, REDACTED)
        return text

    def value(self, value: _T) -> _T:
        """Return a frozen dataclass, tuple, list, dict or text without the values; one without any is returned as it is."""
        return self._clean(value) if self._values else value

    def _clean(self, value: Any) -> Any:  # Any: whatever fields an event has
        if isinstance(value, str):
            return type(value)(self.text(value)) if any(each in value for each in self._values) else value
        if isinstance(value, tuple | list):
            cleaned = [self._clean(each) for each in value]
            return value if all(a is b for a, b in zip(cleaned, value, strict=True)) else type(value)(cleaned)
        if isinstance(value, dict):
            pairs = {self._clean(key): self._clean(each) for key, each in value.items()}
            return value if pairs == value else pairs
        if is_dataclass(value) and not isinstance(value, type):
            changed = {
                each.name: new for each in fields(value) if (new := self._clean(old := getattr(value, each.name))) is not old
            }
            return replace(value, **changed) if changed else value
        return value


# CSI, OSC, DCS/SOS/PM/APC (7- and 8-bit), then two-byte escapes.  A string that does not end on its line loses its
# introducer only: it must not swallow the text behind it.  None holds another introducer, so each place is looked at once.
_SEQUENCES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"
    r"|(?:\x1b\]|\x9d)[^\x07\x1b\x90\x98\x9b-\x9f\n]{0,4096}(?:\x07|\x1b\\|\x9c)"
    r"|(?:\x1b[PX^_]|[\x90\x98\x9e\x9f])[^\x1b\x90\x98\x9b-\x9f\n]{0,4096}(?:\x1b\\|\x9c)"
    r"|\x1b[ -/]*[0-~]?"
)
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_HIDDEN_CLASS = f"{_IGNORABLE}{_SEPARATORS}{_BLANK}\ud800-\udfff"
_HIDDEN = f"[{_HIDDEN_CLASS}]"
# Prose keeps these: spaces, and joiners and variation selectors between or after the characters of `_BASE`.
_PROSE_BLANKS = "\u00a0\u1680\u2000-\u200a\u202f\u205f\u2800\u3000"
_BASE = rf"(?![{_HIDDEN_CLASS}])[\u00a9\u00ae\u0590-\U0010ffff]"
_BEHIND_BASE = rf"(?:(?<={_BASE})|(?<={_BASE}\ufe0f))"
_KEPT = (
    rf"[{_PROSE_BLANKS}]|(?<={_BASE})[\ufe00-\ufe0f]|{_BEHIND_BASE}[\u200c\u200d](?={_BASE})"
    r"|(?<=[#*0-9])\ufe0f(?=\u20e3)"
)
_HIDDEN_IN_PROSE = rf"(?!{_KEPT})[{_HIDDEN_CLASS}]"
_RISKY = re.compile(r"[^\n\t -~\u00a0-\u00ac\u00ae-\u033f\u0370-\u05ff\u3000-\u3163\u3165-\ud7ff]")


def sanitize(text: str) -> str:
    r"""Return text that is safe to show: newlines and tabs stay, control sequences go, hidden characters are named.

    Carriage returns become newlines (`\r\n` one, a lone `\r` one), other controls their picture (U+2400 block), and
    characters that hide or reorder text appear as `<U+202E>`; see the module on what prose keeps.
    """
    if _RISKY.search(text) is None:
        return text
    text = _SEQUENCES.sub("", text)
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _compiled(_HIDDEN_IN_PROSE).sub(_name, _CONTROLS.sub(_picture, text))


_REWRITTEN = re.compile(r"^[^\n]*(?:\r|\x1b\[[01]?G)(?=[^\r\n])", re.MULTILINE)
_ERASED = re.compile(r"[^\n\x08]\x08")


def last_states(text: str) -> str:
    """Return output with each line as it is in the end: progress bars and spinners write over theirs again and again."""
    return _REWRITTEN.sub("", _ERASED.sub("", text))


_ALL_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_WORD = re.compile(r"[^\W\d_]+")


def show_controls(text: str) -> str:
    """Return text with a picture for every control character but newline and tab: unlike in `clean`, nothing is dropped."""
    return _ALL_CONTROLS.sub(_picture, text)


def escape_invisible(text: str) -> str:
    """Return text with every control, hidden character and unusual space named, so that a user can decide on it.

    In a word of Latin letters, a letter of another script is named as well: it may imitate a Latin one. Revealed text does not
    change when revealed again.
    """
    text = _name_hidden(show_controls(text))
    return text if text.isascii() else _WORD.sub(_name_strangers, text)


def escape_invisible_line(text: str) -> str:
    """Return `reveal(text)` on one line, as `clean_line` does: what is asked about in a list or in a sentence."""
    return sanitize_line(escape_invisible(text))


def sanitize_line(text: str) -> str:
    """Return `clean(text)` on one line: newlines and tabs become visible signs (titles, names, notes)."""
    return sanitize(text).replace("\n", "\u23ce").replace("\t", " ")


def sanitize_path(text: str) -> str:
    """Return `clean_line(text)` with every hidden character and unusual space named, for showing a path or a command."""
    return _name_hidden(sanitize_line(text))


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Return one of the two patterns over Unicode's tables."""
    return re.compile(pattern)


def _name_hidden(text: str) -> str:
    return text if text.isascii() else _compiled(_HIDDEN).sub(_name, text)


def _picture(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else f"<U+{code:04X}>"


def _name_strangers(match: re.Match[str]) -> str:
    word = match[0]
    if word.isascii() or not any(char.isascii() for char in word):
        return word
    named = "".join(char if _is_latin(char) else f"{char}<U+{ord(char):04X}>" for char in word)
    last = f"<U+{ord(word[-1]):04X}>"
    return named.removesuffix(last) if match.string.startswith(last, match.end()) else named


def _is_latin(char: str) -> bool:
    return char.isascii() or unicodedata.name(char, "").startswith("LATIN ")


def _name(match: re.Match[str]) -> str:
    return f"<U+{ord(match[0]):04X}>"


_MARKS = re.compile(r"\*\*|`+|^\s*(?:#+|>|[-*+]|\d+\.)\s+|^\s*(?:---+|===+|[|\s:-]+)$")


def last_words(text: str) -> str:
    """Return the last line of a message that says something, on one line and without the marks of Markdown."""
    lines = (
        _MARKS.sub("", line).strip() for line in reversed(text.strip().splitlines()) if not line.lstrip().startswith("```")
    )
    return sanitize_line(next((line for line in lines if line), ""))
