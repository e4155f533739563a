"""Links that a terminal may follow (OSC 8): targets on the web only, and nothing in them but what an address is made of.

A link is a role of a span, so that it is wrapped and cut with its text; the terminal opens it, lmtui never does.
"""

from __future__ import annotations

import re
from urllib.parse import quote

PREFIX = "@"
_LONGEST = 2000
_TARGET = re.compile(r"https?://[A-Za-z0-9._~:\[\]-]+(?:[/?#][!-~]*)?")
_SAFE = "!#$%&'()*+,-./:;=?@[]_~"


def link_role(target: str) -> str:
    """Return the role of a text that leads to a target; empty for one that is no address on the web."""
    address = quote(target.strip(), safe=_SAFE, errors="replace")
    return f"{PREFIX}{address}" if len(address) <= _LONGEST and _TARGET.fullmatch(address) else ""


def link_target(role: str) -> str:
    """Return the address in a role that `link_role` made, checked once more; empty for any other role."""
    address = role[len(PREFIX) :]
    return address if role.startswith(PREFIX) and _TARGET.fullmatch(address) else ""
