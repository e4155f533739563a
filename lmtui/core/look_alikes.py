"""Words in commands and paths that are not what they look like: another script, full width, mathematical letters, odd signs.

Unicode normalisation (NFKC, UAX #15) and the confusable characters of UTS #39 say what a word looks like.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from importlib.resources import files

from lmtui.core.events import ApprovalRequested
from lmtui.core.proposals import Proposal
from lmtui.core.sanitize import clipped, escape_invisible

HIDDEN_NAMED = "hidden or look-alike characters are shown as codes like <U+202E>"
_RIGHT_TO_LEFT = "\u05d5\u05df\u05e1\u0627\u0647\u06be\u06c1\u06d5"  # like l and o among Latin letters; not in the table
_WORD = re.compile(r"[^\s\x00-\x1f]+")
_LETTERS = re.compile(r"[^\W\d_]+")
_NAMED = re.compile(r"<U\+[0-9A-F]{4,6}>")
_MARKED = re.compile(r"[\x21-\x7e][\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]")
_PROSE_SIGNS = re.compile(r"(?<=[^\W\d_])[\u2018\u2019\u02bc](?=[^\W\d_])|\u2026")  # don’t; …
_MOST_WORDS, _MOST_CHARS = 4, 40


def approval_warning(request: ApprovalRequested) -> str:
    """Return one line about text in a request that may not be what it looks like, or an empty string.

    File contents can be prose or code in any language, so for a change only the path is checked for look-alike words.
    """
    return warning((request.path or request.text,), seen=(request.text, request.diff))


def plan_warning(proposal: Proposal) -> str:
    """Return the same for the commands and files that a plan names."""
    return warning(tuple(each for step in proposal.steps for each in (*step.commands, *step.files, step.verification)))


@lru_cache(maxsize=16)  # drawn again with every frame of a question
def warning(texts: tuple[str, ...], seen: tuple[str, ...] = ()) -> str:
    """Return one line about commands and paths; `seen` are further texts that may have hidden characters in them."""
    found = list(dict.fromkeys(word for text in texts for word in look_alikes(text)))
    parts = [HIDDEN_NAMED] if any(_NAMED.search(escape_invisible(text)) for text in (*texts, *seen)) else []
    if found:
        rest = f" and {len(found) - _MOST_WORDS} more" if len(found) > _MOST_WORDS else ""
        parts.append(f"look-alikes: {', '.join(map(_described, found[:_MOST_WORDS]))}{rest}")
    return f"warning: {'; '.join(parts)}" if parts else ""


def look_alikes(text: str) -> Iterator[str]:
    """Yield the words of a command or a path that look like others, each once."""
    if text.isascii():
        return
    text = _NAMED.sub("", text)
    is_prose = not "".join(_LETTERS.findall(text)).translate(_shapes()).isascii()
    for word in dict.fromkeys(_WORD.findall(text)):
        if not word.isascii() and _is_look_alike(_PROSE_SIGNS.sub("", word), is_prose=is_prose):
            yield word


@lru_cache(maxsize=1)
def _shapes() -> dict[int, str]:
    """Return what looks like one ASCII character, for `str.translate`; the table has a double quote as two single ones."""
    data = files("confusable_homoglyphs").joinpath("confusables.json").read_bytes()  # 1 MB, for words that are not ASCII
    found: dict[int, str] = dict(zip(map(ord, _RIGHT_TO_LEFT), "lloloooo", strict=True))
    for char, others in json.loads(data).items():
        shapes = ['"' if other["c"] == "''" else other["c"] for other in others]
        shape = next((each for each in shapes if len(each) == 1 and each.isascii()), "")
        if shape and len(char) == 1 and not char.isascii():
            found[ord(char)] = shape
    return found


def appearance(word: str) -> str:
    """Return what a word looks like, in ASCII if possible."""
    composed = _MARKED.sub(lambda match: match[0][0], unicodedata.normalize("NFC", word))
    return unicodedata.normalize("NFKC", composed).translate(_shapes())


def _is_look_alike(word: str, *, is_prose: bool) -> bool:
    """Tell whether a word looks like another; in prose, a single letter of another script counts as a word."""
    if word.isascii():
        return False
    if unicodedata.normalize("NFKC", word) != word or _MARKED.search(word):
        return True
    signs = [char for char in word if not char.isascii() and not char.isalnum()]
    if len(word) > 1 and any(char.translate(_shapes()).isascii() for char in signs):
        return True
    runs = [run for run in _LETTERS.findall(word) if not run.isascii() and (len(run) > 1 or not is_prose)]
    return any(run.strip(_RIGHT_TO_LEFT) and run.translate(_shapes()).isascii() for run in runs)


def _described(word: str) -> str:
    codes = " ".join(dict.fromkeys(f"U+{ord(char):04X}" for char in word if not char.isascii()))
    look = appearance(word)
    like = f", looks like {clipped(look, _MOST_CHARS)}" if look.isascii() and look != word else ""
    return f"{escape_invisible(clipped(word, _MOST_CHARS))} ({clipped(codes, _MOST_CHARS)}{like})"
