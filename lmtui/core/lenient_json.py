"""JSON as models write it: fenced, between other words, with stray commas.  A text that is cut is shown, but never repaired."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping

from lmtui.core.errors import ToolError

MOST_LEVELS = 64  # beyond it one of the programs that such a value meets gives up, each at a depth of its own


def fit_values(tool: str, given: dict[str, object]) -> dict[str, object]:
    """Return arguments without halves of surrogate pairs, which no file, command or server can hold.

    Raises:
        ToolError: they are nested too deep.
    """
    return {fit_text(str(name)): _fit(tool, value, MOST_LEVELS) for name, value in given.items()}


def fit_text(text: str) -> str:
    """Return a text with whole surrogate pairs as their character, and a sign in place of each half."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _fit(tool: str, value: object, levels: int) -> object:
    if isinstance(value, str):
        return fit_text(value)
    if not isinstance(value, list | dict):
        return value
    if not levels:
        raise ToolError(f"{tool[:64]} was not run: its arguments are nested more than {MOST_LEVELS} deep.")
    if isinstance(value, list):
        return [_fit(tool, each, levels - 1) for each in value]
    return {fit_text(str(name)): _fit(tool, each, levels - 1) for name, each in value.items()}


_MOST_STARTS = 20
_COMMA = re.compile(r",(?=\s*[\]}])")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)', re.DOTALL)  # one that is cut ends with the text
_FENCED = re.compile(r"```[A-Za-z]*[^\S\n]*+\n(.*?)```", re.DOTALL)


def read_loose_json(text: str) -> object:
    """Return the JSON value that a text is, or its first fence; commas before a closing bracket are passed over.

    Raises:
        ValueError: it is none, or not a whole one; says where.
    """
    where = ""
    for written in dict.fromkeys((text.strip(), _fenced(text).strip())):
        for candidate in (written, without_commas(written)):
            try:
                return json.loads(candidate, strict=False)
            except json.JSONDecodeError as error:
                where = where or f" at line {error.lineno}"
            except (ValueError, RecursionError):
                continue
    raise ValueError(f"not a complete JSON value{where}")


def objects_in(text: str, word: str) -> Iterator[object]:
    """Yield the objects that are between other words, in the first fence that holds `word` or else in all of the text.

    Those that begin first come first, as far as one looks.
    """
    decoder = json.JSONDecoder(strict=False)
    inner = _fenced(text, word)
    for candidate in (inner, without_commas(inner)):
        for start in itertools.islice((found.start() for found in re.finditer(r"\{", candidate)), _MOST_STARTS):
            with contextlib.suppress(ValueError, RecursionError):
                yield decoder.raw_decode(candidate, start)[0]


def _fenced(text: str, word: str = "") -> str:
    """Return what is in the first fence that holds a word, the whole text where none does."""
    return next((found[1] for found in _FENCED.finditer(text) if word in found[1]), text)


def without_commas(text: str) -> str:
    """Return JSON without commas before a closing bracket; strings stay as they are."""
    parts: list[str] = []
    end = 0
    for found in _STRING.finditer(text):
        parts += [_COMMA.sub("", text[end : found.start()]), found[0]]
        end = found.end()
    return "".join((*parts, _COMMA.sub("", text[end:])))


def first_of(given: Mapping[str, object], names: Iterable[str]) -> object:
    """Return the first value, of an object's keys in any case, that is neither missing nor empty; None where there is none."""
    lowered = {str(key).lower(): value for key, value in given.items()}
    return next((lowered[name] for name in names if lowered.get(name) not in (None, "")), None)


def texts_of(given: object) -> tuple[str, ...]:
    """Return a value or a list of values as texts, each once, empty ones left out."""
    if given is None or given == "":
        return ()
    each = given if isinstance(given, list) else [given]
    return tuple(dict.fromkeys(text for one in each if (text := text_of(one))))


def text_of(given: object) -> str:
    """Return a value as text that any editor and any log can hold."""
    if given is None:
        return ""
    text = json.dumps(given, ensure_ascii=False, default=str) if isinstance(given, Mapping | list) else str(given)
    return fit_text(text).replace("\r\n", "\n").replace("\r", "\n").strip()


def line_of(given: object) -> str:
    """Return a value as text on one line."""
    return " ".join(text_of(given).split())
