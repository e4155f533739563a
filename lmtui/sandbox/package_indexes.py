"""The package indexes that a project's tools are configured for: what one approval of an installing command lets through.

A variable of the user's names an index, else the public one is meant (`indexes.toml`).  No program is run to learn that, and
nothing is fetched.  Files of the workspace are read by the caller, through the sandbox.
"""

from __future__ import annotations

import re
import ssl
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from lmtui.core.errors import UsageError
from lmtui.core.hosts import parse_host

MARKER_BYTES = 65_536  # how much of a file that tells about tools is read
CERTIFICATES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "PIP_CERT", "CURL_CA_BUNDLE")  # variables that each name a whole bundle
_BUNDLES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem")
_TABLE = tomllib.loads(Path(__file__).with_name("indexes.toml").read_text(encoding="utf-8"))
_INDEXES: Mapping[str, Mapping[str, Sequence[str]]] = _TABLE["indexes"]
_PASSED = [name for each in _INDEXES.values() for name in (*each["index"], *each["more"])]
_NAMED = {name: re.compile(row["pattern"], re.MULTILINE) for row in _TABLE["named"] for name in row["files"]}
# Files of a project that name an index or where its files lie, and those that show which tools are in use.
WORKSPACE_FILES = tuple(dict.fromkeys((*_NAMED, *(name for each in _INDEXES.values() for name in each["markers"]))))
_URL = re.compile(r"https://[^\s\"'<>,|)]+")
_MOST_HOSTS = 12


@dataclass(frozen=True, slots=True)
class PackageIndexes:
    """What an installing command may reach.

    `named` are the hosts that the user's variables name, which may have private addresses; `variables` are what the
    command gets next to its environment; `certificates` are those that this machine trusts.
    """

    hosts: tuple[str, ...] = ()
    named: frozenset[str] = frozenset()
    variables: tuple[tuple[str, str], ...] = ()
    certificates: Path | None = None


def find_package_indexes(files: Mapping[str, str], environ: Mapping[str, str]) -> PackageIndexes:
    """Return the indexes of a project.  Blocks (disk).

    Args:
        files: the text of those of `WORKSPACE_FILES` that exist.
        environ: the user's environment.
    """
    variables = {name: environ[name] for name in _PASSED if environ.get(name)}
    own = _hosts(variables.values())
    for each in _INDEXES.values():
        has_own = any(name in variables for name in each["index"])
        is_used = not has_own and any(marker in files for marker in each["markers"])
        own += each["hosts"] if is_used or each["hosts"][0] in own else ()
    told = _hosts(url for name, text in files.items() for url in _named_in(name, text))
    plain = {name: value for name, value in variables.items() if "@" not in value}  # no password goes in
    return PackageIndexes(
        tuple(dict.fromkeys((*own, *told)))[:_MOST_HOSTS],
        frozenset(own),
        tuple(sorted(plain.items())),
        certificates_of(environ),
    )


def certificates_of(variables: Mapping[str, str]) -> Path | None:
    """Return the file of the certificates that this machine trusts: a company's own may be among them."""
    own = [variables[name] for name in CERTIFICATES if variables.get(name)]
    found = (Path(name).expanduser() for name in (*own, ssl.get_default_verify_paths().cafile, *_BUNDLES) if name)
    return next((path.resolve() for path in found if path.is_file()), None)


def _named_in(name: str, text: str) -> list[str]:
    """Return the addresses that a file names as an index, or as where a package lies."""
    return _NAMED[name].findall(text) if name in _NAMED else []


def _hosts(texts: Iterable[str]) -> list[str]:
    found: list[str] = []
    for url in _URL.findall(" ".join(texts)):
        with suppress(UsageError, ValueError):
            found.append(parse_host(urlsplit(url).hostname or ""))
    return found


def read_beginning(path: Path) -> str:
    """Return the beginning of a file outside the workspace, empty where there is none.  Blocks."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.read(MARKER_BYTES)
    except OSError:
        return ""
