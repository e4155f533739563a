"""Large pastes and pictures as one token in the prompt: `[pasted 214 lines #1]`, `[image #2 plan.png]`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from lmtui.core.clean import clean_line
from lmtui.core.pictures import Image

MAX_LINES = 10
MAX_CHARS = 1000
_TOKEN = re.compile(r"\[(?:pasted \d+ (?:lines|characters)|image) #\d+(?: [^\[\]\n]*)?\]")


@dataclass(frozen=True, slots=True)
class Typed:
    """A text as it stands in the prompt, with what its paste tokens stand for."""

    text: str
    pastes: Mapping[str, str] = field(default_factory=dict)


def is_large(text: str) -> bool:
    """Tell whether a paste is folded."""
    return len(text) > MAX_CHARS or text.count("\n") >= MAX_LINES


class Folds:
    """What the tokens stand for.  Numbers are not used twice, so that a text that comes back still means the same."""

    def __init__(self) -> None:
        self._pastes: dict[str, str] = {}
        self._images: dict[str, Image] = {}
        self._number = 0

    def fold(self, text: str) -> str:
        """Return a token for a paste."""
        lines = text.count("\n") + 1
        size = f"{lines} lines" if lines > MAX_LINES else f"{len(text)} characters"
        token = f"[pasted {size} #{self._next()}]"
        self._pastes[token] = text
        return token

    def add_image(self, image: Image) -> str:
        """Return a token for a picture."""
        name = re.sub(r"[\[\]\n]", "_", clean_line(image.name))[:60]
        token = f"[image #{self._next()} {name}]"
        self._images[token] = image
        return token

    def load(self, pastes: Mapping[str, str]) -> None:
        """Know the pastes of an earlier run again."""
        for token, text in pastes.items():
            number = re.search(r"#(\d+)", token)
            if _TOKEN.fullmatch(token) and number:
                self._pastes[token] = text
                self._number = max(self._number, int(number[1]))

    def expand(self, text: str) -> str:
        """Return the text with every paste whole; tokens of pictures stay, they name them."""
        return _TOKEN.sub(lambda match: self._pastes.get(match[0], match[0]), text)

    def images(self, text: str) -> tuple[Image, ...]:
        """Return the pictures that a text names, each once."""
        found = dict.fromkeys(match[0] for match in _TOKEN.finditer(text))
        return tuple(self._images[token] for token in found if token in self._images)

    def typed(self, text: str) -> Typed:
        """Return a text with what its paste tokens stand for."""
        tokens = (match[0] for match in _TOKEN.finditer(text))
        return Typed(text, {token: self._pastes[token] for token in tokens if token in self._pastes})

    def whole(self, token: str) -> str | None:
        """Return what a paste token stands for; None for anything else."""
        return self._pastes.get(token)

    def at(self, line: str, column: int, *, before: bool = False, after: bool = False) -> tuple[int, int] | None:
        """Return where in a line the token is that a column is in; `before` and `after` say which of its ends counts."""
        for match in _TOKEN.finditer(line):
            start, end = match.span()
            is_known = match[0] in self._pastes or match[0] in self._images
            if is_known and (start < column < end or (after and column == end) or (before and column == start)):
                return start, end
        return None

    def _next(self) -> int:
        self._number += 1
        return self._number
