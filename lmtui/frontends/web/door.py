"""Who may come in: a link that works once, or a PIN, then a cookie; and from which addresses.  No I/O.

Any page in the same browser can send requests to loopback, so the cookie alone is not trusted: the host's name (against
DNS rebinding) and the origin (against other sites) are checked too.
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Callable
from urllib.parse import urlsplit

LEAST_PIN = 6
MOST_TRIES, LOCKED_S = 5, 60.0
COOKIE = "lmtui-key"


class Door:
    """Lets in who has the link or the PIN.

    Args:
        names: what the host may be called in a request, with its port.
        pin: opens as often as it is given; without one the link alone opens, and each link once.
    """

    def __init__(self, names: frozenset[str], pin: str = "", clock: Callable[[], float] = time.monotonic) -> None:
        self._names = names
        self._pin = pin
        self._clock = clock
        self._keys: set[str] = set()
        self._wrong = 0
        self._locked_until = 0.0
        self.token = secrets.token_urlsafe(24)

    @property
    def has_pin(self) -> bool:
        """Tell whether a PIN opens."""
        return bool(self._pin)

    @property
    def is_locked(self) -> bool:
        """Tell whether too many wrong keys were tried a moment ago."""
        return self._clock() < self._locked_until

    def is_known_host(self, host: str) -> bool:
        """Tell whether a request was sent to a name of ours."""
        return host.lower() in self._names

    def is_own_origin(self, origin: str) -> bool:
        """Tell whether a request comes from a page of ours."""
        try:
            return urlsplit(origin).netloc.lower() in self._names
        except ValueError:
            return False

    def try_key(self, text: str) -> str:
        """Return the cookie for a token or a PIN, an empty text for a wrong one; a token is used up by that."""
        if self.is_locked:
            return ""
        is_token = _is_same(text, self.token)
        is_pin = bool(self._pin) and _is_same(text, self._pin)
        if not (is_token or is_pin):
            self._wrong += 1
            if self._wrong >= MOST_TRIES:
                self._wrong, self._locked_until = 0, self._clock() + LOCKED_S
            return ""
        self._wrong = 0
        if is_token:
            self.token = secrets.token_urlsafe(24)
        key = secrets.token_urlsafe(32)
        self._keys.add(key)
        return key

    def is_open_to(self, cookie: str) -> bool:
        """Tell whether a cookie is one that was given."""
        return any(_is_same(cookie, key) for key in self._keys)


def _is_same(text: str, secret: str) -> bool:
    """Compare in a time that tells nothing; what a browser sent may be no text at all."""
    return hmac.compare_digest(text.encode("utf-8", "surrogatepass"), secret.encode("utf-8", "surrogatepass"))
