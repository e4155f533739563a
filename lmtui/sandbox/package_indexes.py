"""The package indexes that a project's tools are configured for: what one approval of an installing command lets through.

The user's own configuration names an index, else the public one is meant (`indexes.toml`).  No program is run to learn that,
and nothing is fetched.  Files of the workspace are read by the caller, through the sandbox.
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
_PIP_FILES = ("/etc/pip.conf", "/etc/xdg/pip/pip.conf", "~/.pip/pip.conf", "~/.config/pip/pip.conf")
_PIP_SETTING = re.compile(r"^(index-url|extra-index-url|cert)\s*[=:](.*(?:\n[ \t]+\S.*)*)", re.MULTILINE)
_URL = re.compile(r"https://[^\s\"'<>,|)]+")
_KEPT_OF_CARGO = re.compile(r'\[[\w."-]+\]\s*|(?:registry|index|replace-with)\s*=\s*"[^"\\@?#]*"\s*')  # no secrets
_MOST_HOSTS = 12


@dataclass(frozen=True, slots=True)
class PackageIndexes:
    """What an installing command may reach.

    `named` are the hosts that the user's own configuration names, which may have private addresses; `variables` are what the
    command gets next to its environment; `certificates` are those that this machine trusts.
    """

    hosts: tuple[str, ...] = ()
    named: frozenset[str] = frozenset()
    variables: tuple[tuple[str, str], ...] = ()
    certificates: Path | None = None


def find_package_indexes(files: Mapping[str, str], environ: Mapping[str, str], home: Path) -> PackageIndexes:
    """Return the indexes of a project.  Blocks (disk).

    Args:
        files: the text of those of `WORKSPACE_FILES` that exist.
        environ: the user's environment.
        home: the user's home folder.
    """
    variables = _own_variables(environ, home)
    named = [url for name in (".npmrc", ".cargo/config.toml") for url in _named_in(name, read_beginning(home / name))]
    own = _hosts((*(variables.get(name, "") for name in _PASSED), *named))
    for tool, each in _INDEXES.items():
        has_own = any(name in variables for name in each["index"]) or (tool == "cargo" and bool(cargo_settings(home)))
        is_used = not has_own and any(marker in files for marker in each["markers"])
        own += each["hosts"] if is_used or each["hosts"][0] in own else ()
    told = _hosts(url for name, text in files.items() for url in _named_in(name, text))
    plain = {name: value for name, value in variables.items() if name in _PASSED and "@" not in value}  # no password goes in
    return PackageIndexes(
        tuple(dict.fromkeys((*own, *told)))[:_MOST_HOSTS],
        frozenset(own),
        tuple(sorted(plain.items())),
        certificates_of(variables),
    )


def _own_variables(environ: Mapping[str, str], home: Path) -> dict[str, str]:
    variables: dict[str, str] = {}
    for name in _PIP_FILES:
        found = _PIP_SETTING.findall(read_beginning(Path(name.replace("~", str(home), 1))))
        variables |= {f"PIP_{key.upper().replace('-', '_')}": " ".join(value.split()) for key, value in found}
    variables |= dict(re.findall(r"^(GO\w+)=(.*)$", read_beginning(home / ".config/go/env"), re.MULTILINE))
    variables |= {name: environ[name] for name in (*_PASSED, *CERTIFICATES) if environ.get(name)}
    if registry := " ".join(_named_in(".npmrc", read_beginning(home / ".npmrc"))):
        variables.setdefault("npm_config_registry", registry)
    return variables


def certificates_of(variables: Mapping[str, str]) -> Path | None:
    """Return the file of the certificates that this machine trusts: a company's own may be among them."""
    own = [variables[name] for name in CERTIFICATES if name in variables]
    found = (Path(name).expanduser() for name in (*own, ssl.get_default_verify_paths().cafile, *_BUNDLES) if name)
    return next((path.resolve() for path in found if path.is_file()), None)


def cargo_settings(home: Path) -> str:
    """Return the registries and mirrors of the user's cargo as a file of settings, without anything else; empty for none."""
    kept: list[str] = []
    is_shown = False
    for line in read_beginning(home / ".cargo/config.toml").splitlines():
        is_shown = line.startswith(("[source.", "[registries.")) or (is_shown and not line.startswith("["))
        if is_shown and _KEPT_OF_CARGO.fullmatch(line):
            kept.append(f"{line}\n")
    return "".join(kept)


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
