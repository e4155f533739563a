"""Which files hold secrets, by their name: `.env`, keys, tokens.  Reading one is asked about; nothing here looks at a disk."""

from __future__ import annotations

import re
import unicodedata

_FOLDERS = frozenset({".ssh", ".aws", ".gnupg"})
_PAIRS = ((".kube", "config"), (".docker", "config.json"))
_NAMES = (
    ".env", ".env.*", "*.pem", "*.key", "*.p12", "*.pfx", "*.kdbx", "*.jks", "*.keystore", ".netrc", "_netrc", ".npmrc",
    ".pypirc", ".pgpass", ".git-credentials", ".htpasswd",
)  # fmt: skip
_OPEN_ENDED = ("id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "credentials*", "secrets.*")
_ENV_SHOWN = (".example", ".sample", ".template")
# Package managers put public files there: libraries ship test keys, tools ship an example `credentials.json`.
_DEPENDENCIES = (
    "node_modules", ".venv", "venv", "site-packages", ".tox", "__pycache__", "vendor", "target", ".cargo", "go/pkg",
)  # fmt: skip
# Source and prose: `credentials.py` is code that handles credentials, `id_rsa.pub` is meant to be shown.
_HARMLESS_ENDS = (
    ".py", ".pyi", ".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".go", ".rs", ".java", ".kt", ".swift", ".c", ".h", ".cc",
    ".cpp", ".hpp", ".cs", ".rb", ".php", ".lua", ".sh", ".md", ".rst", ".html", ".css", ".scss", ".vue", ".svelte", ".pub",
)  # fmt: skip


def secret_regex() -> str:
    """Return the expression of the paths whose contents a sandbox hides; see `core.masks` for how to use it.

    It ignores look-alike letters and skips dependency folders.
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


def is_secret_path(path: str) -> bool:
    """Tell whether a path names a file (or a folder of files) that holds secrets; case and look-alike forms do not matter."""
    plain = "/".join(part for part in _folded(path).split("/") if part not in ("", "."))
    return _SECRET.match(plain) is not None


def _folded(text: str) -> str:
    if text.isascii():
        return text.lower()
    plain = unicodedata.normalize("NFKC", text).casefold()
    return "".join(char for char in plain if unicodedata.category(char) != "Cf")


_SECRET = re.compile(rf"{secret_regex()}|proc/(?:.*/)?environ\Z", re.DOTALL)
