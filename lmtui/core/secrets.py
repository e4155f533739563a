"""Which files hold secrets, by their name: `.env`, keys, tokens.  Reading one is asked about; nothing here looks at a disk."""

from __future__ import annotations

import re
import unicodedata
from itertools import pairwise

from lmtui.core import globs

_FOLDERS = frozenset({".ssh", ".aws", ".gnupg"})
_PAIRS = ((".kube", "config"), (".docker", "config.json"))
_NAMES = (
    ".env", ".env.*", "*.pem", "*.key", "*.p12", "*.pfx", "*.kdbx", "*.jks", "*.keystore", ".netrc", "_netrc", ".npmrc",
    ".pypirc", ".pgpass", ".git-credentials", ".htpasswd",
)  # fmt: skip
_OPEN_ENDED = ("id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "credentials*", "secrets.*")
_ENV_SHOWN = (".example", ".sample", ".template")
# What package managers put there is public: tests of libraries have keys, tools have `credentials.json` of examples.
_DEPENDENCIES = (
    "node_modules", ".venv", "venv", "site-packages", ".tox", "__pycache__", "vendor", "target", ".cargo", "go/pkg",
)  # fmt: skip
# Source and prose: `credentials.py` is code that handles credentials, `id_rsa.pub` is meant to be shown.
_HARMLESS_ENDS = (
    ".py", ".pyi", ".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".go", ".rs", ".java", ".kt", ".swift", ".c", ".h", ".cc",
    ".cpp", ".hpp", ".cs", ".rb", ".php", ".lua", ".sh", ".md", ".rst", ".html", ".css", ".scss", ".vue", ".svelte", ".pub",
)  # fmt: skip


_ANY_SECRET = re.compile(
    "|".join(re.escape(each).replace(r"\*", ".*") for each in (*_FOLDERS, *_NAMES, *_OPEN_ENDED, *sum(_PAIRS, ()), "environ")),
    re.DOTALL,
)


def secret_regex() -> str:
    """Return the expression of the paths whose contents a sandbox hides; see `core.masks` for how to use it.

    It knows no look-alike letters and leaves out what lies in folders of dependencies.
    """
    names = "|".join(_name_regex(name) for name in _NAMES)
    opened = "|".join(_name_regex(name) for name in _OPEN_ENDED)
    pairs = "|".join(f"{re.escape(folder)}/{re.escape(name)}" for folder, name in _PAIRS)
    folders = "|".join(map(re.escape, _FOLDERS))
    dependencies = "|".join(map(re.escape, _DEPENDENCIES))
    shown = rf"\.env[^/]*(?:{'|'.join(map(re.escape, _ENV_SHOWN))})(?:/|\Z)"
    ends = rf"[^/]*(?:{'|'.join(map(re.escape, _HARMLESS_ENDS))})(?:/|\Z)"
    one = rf"(?:(?:{folders}|{pairs})(?:/|\Z)|(?!{shown})(?:{names})\Z|(?!{ends})(?:{opened})\Z)"
    return rf"(?si:(?!(?:[^/]*/)*?(?:{dependencies})/)(?:[^/]*/)*?{one})"


def _name_regex(name: str) -> str:
    return re.escape(name).replace(r"\*", "[^/]*")


_HINTS = re.compile(
    r"env|\.pem|\.key|\.p12|\.pfx|kdbx|jks|keystore|netrc|npmrc|pypirc|pgpass|id_|credential|htpasswd|secrets|ssh|aws|gnupg"
    r"|kube|docker",
    re.IGNORECASE,
)


def is_secret_path(path: str) -> bool:
    """Tell whether a path names a file (or a folder of files) that holds secrets; case and look-alike forms do not matter."""
    if path.isascii() and _HINTS.search(path) is None:
        return False
    return could_be_secret(globs.escape(path))


def could_be_secret(pattern: str) -> bool:
    """Tell whether a shell glob (a backslash takes the next character as itself) could name a file that holds secrets."""
    parts = [part for part in _folded(pattern).split("/") if part not in ("", ".")]
    plain = [globs.literal(part) for part in parts]
    if not parts or all(part is not None and _ANY_SECRET.fullmatch(part) is None for part in plain):
        return False
    if any(_meets(part, folder) for part in parts for folder in _FOLDERS):
        return True
    if parts[0] == "proc" and _meets(parts[-1], "environ"):
        return True
    for one, other in pairwise(parts):
        if any(_meets(one, folder) and _meets(other, name) for folder, name in _PAIRS):
            return True
    return _is_secret_name(parts[-1])


def _is_secret_name(name: str) -> bool:
    if name.startswith(".env.") and name.endswith(_ENV_SHOWN):
        return False
    if any(_meets(name, secret) for secret in _NAMES):
        return True
    return not name.endswith(_HARMLESS_ENDS) and any(_meets(name, secret) for secret in _OPEN_ENDED)


def _meets(name: str, secret: str) -> bool:
    """Compare two globs as a shell does: a leading dot is matched by a dot only."""
    if secret.startswith(".") and name[:1] in ("*", "?"):
        return False
    return globs.can_meet(name, secret)


def _folded(text: str) -> str:
    if text.isascii():
        return text.lower()
    plain = unicodedata.normalize("NFKC", text).casefold()
    return "".join(char for char in plain if unicodedata.category(char) != "Cf")
