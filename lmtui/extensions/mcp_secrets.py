"""Which values of an entry are secrets, so that they can be taken out of whatever is stored, shown to a model or logged."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from urllib.parse import parse_qsl, unquote, urlsplit

from lmtui.extensions.mcp_config import ServerEntry, variables_in

_NAMES = r"token|secret|passw|passphrase|api.?key|credential|auth(?!or)|private|cookie|(^|[_-])(key|pat|pin|pwd)($|[_-])"
_SECRET_NAME = re.compile(_NAMES, re.IGNORECASE)
_WORD = re.compile(r"[A-Za-z0-9]{16,}")
_FEWEST_OF_EACH = 3


def secrets_of(entry: ServerEntry, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the values that an entry holds or takes from the environment and that look like secrets."""
    return tuple(dict.fromkeys(value for value in _secrets(entry, environ) if value))


def _secrets(entry: ServerEntry, environ: Mapping[str, str]) -> Iterator[str]:
    options = [(name, word) for name, word in pairwise(entry.command) if name.startswith("-")]
    options += [(word.partition("=")[0], word.partition("=")[2]) for word in entry.command]
    for name, text in (*entry.env, *entry.headers, *entry.oauth, *options, ("", entry.url)):
        variables = variables_in(text)
        if not variables:
            yield from _parts(name, text)
        for variable in variables:
            yield from _parts(f"{name}_{variable}", environ.get(variable, ""))


def _parts(name: str, value: str) -> Iterator[str]:
    """Yield a value that is a secret by its name or by its looks, with and without the scheme before it (`Bearer …`)."""
    if "://" in value:
        yield from _of_address(value)
    elif _is_made(value) or (_SECRET_NAME.search(name) and not value.startswith(("/", "~/", "./", "../"))):
        yield value
        yield from value.split() if " " in value else ()


def _is_made(value: str) -> bool:
    """Tell whether a value has a long word of letters and digits mixed, as no person names a thing or a place."""
    digits = [sum(sign.isdigit() for sign in word) for word in _WORD.findall(value)]
    lengths = [len(word) for word in _WORD.findall(value)]
    return any(_FEWEST_OF_EACH <= some <= all_ - _FEWEST_OF_EACH for some, all_ in zip(digits, lengths, strict=True))


def _of_address(text: str) -> Iterator[str]:
    """Yield the password of an address, and what of its query is one."""
    try:
        found = urlsplit(text)
        password = found.password or ""
    except ValueError:
        return
    yield from (password, unquote(password))
    yield from (value for name, value in parse_qsl(found.query) if _SECRET_NAME.search(name))
