"""The package indexes that a project's tools are configured for: what one approval of an installing command lets through.

The user's own configuration names an index, else the tool's public one is meant.  No program is run to learn that, and nothing
is fetched.  Files of the workspace are read by the caller, through the sandbox.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from lmtui.core.errors import UsageError
from lmtui.core.hosts import parse_host

# Files of a project that name an index or where its files lie, and what they show of the tools in use.
WORKSPACE_FILES = (
    "pyproject.toml", "uv.toml", "uv.lock", "requirements.txt", "setup.py", "setup.cfg", "package.json", "package-lock.json",
    "pnpm-lock.yaml", ".npmrc", "Cargo.toml", "Cargo.lock", ".cargo/config.toml", "go.mod",
)  # fmt: skip
_TOOLS = {
    "pip": ("pyproject.toml", "requirements.txt", "setup.py", "setup.cfg", "uv.lock"),
    "npm": ("package.json",),
    "cargo": ("Cargo.toml",),
    "go": ("go.mod",),
}
# Where a tool looks if nothing is configured, and the host of its files: of crates, the index names it in `config.json`.
_PUBLIC = {
    "pip": ("pypi.org", "files.pythonhosted.org"),
    "npm": ("registry.npmjs.org",),
    "cargo": ("index.crates.io", "static.crates.io"),
    "go": ("proxy.golang.org", "sum.golang.org"),
}
_SET_BY = {"PIP_INDEX_URL": "pip", "npm_config_registry": "npm", "NPM_CONFIG_REGISTRY": "npm", "GOPROXY": "go"}
_PIP_FILES = ("/etc/pip.conf", "/etc/xdg/pip/pip.conf", "~/.pip/pip.conf", "~/.config/pip/pip.conf")
_PIP_SETTING = re.compile(r"^(index-url|extra-index-url|cert)\s*[=:](.*(?:\n[ \t]+\S.*)*)", re.MULTILINE)
# Variables that commands get: where the index is, and the certificates of the user's machine.
_PASSED = (
    "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_INDEX", "UV_EXTRA_INDEX_URL",
    "NPM_CONFIG_REGISTRY", "npm_config_registry", "GOPROXY", "GOSUMDB",
    "GONOSUMDB", "GOPRIVATE",
)  # fmt: skip
_OWN_CERTIFICATES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "PIP_CERT", "CURL_CA_BUNDLE")  # each a whole bundle
_BUNDLES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem")
_URL = re.compile(r"https://[^\s\"'<>,|)]+")
# How files name an index, or where a package lies.
_IN_TOML = r'^[^#\n]*?\b(?:url|registry|index)\s*=\s*"(?:sparse\+)?(https://[^"]+)"'
_NAMED_IN = dict.fromkeys(("pyproject.toml", "uv.toml", "uv.lock", ".cargo/config.toml"), _IN_TOML) | {
    "package-lock.json": r'"resolved": "(https://[^"]+)"',
    ".npmrc": r"^(?:@[^:\s]+:)?registry\s*=\s*(\S+)",
    "requirements.txt": r"^[ \t]*(?:-i|--[\w-]+)[ =]+(https://\S+)",
}
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
    named = [url for name in (".npmrc", ".cargo/config.toml") for url in _named_in(name, _read(home / name))]
    own = _hosts((*(variables.get(name, "") for name in _PASSED), *named))
    has_own = {tool for name, tool in _SET_BY.items() if name in variables} | ({"cargo"} if cargo_settings(home) else set())
    for tool, markers in _TOOLS.items():
        is_used = any(marker in files for marker in markers) and tool not in has_own
        own += _PUBLIC[tool] if is_used or _PUBLIC[tool][0] in own else ()
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
        found = _PIP_SETTING.findall(_read(Path(name.replace("~", str(home), 1))))
        variables |= {f"PIP_{key.upper().replace('-', '_')}": " ".join(value.split()) for key, value in found}
    variables |= dict(re.findall(r"^(GO\w+)=(.*)$", _read(home / ".config/go/env"), re.MULTILINE))
    variables |= {name: environ[name] for name in (*_PASSED, *_OWN_CERTIFICATES) if environ.get(name)}
    if registry := " ".join(_named_in(".npmrc", _read(home / ".npmrc"))):
        variables.setdefault("npm_config_registry", registry)
    return variables


def certificates_of(variables: Mapping[str, str]) -> Path | None:
    """Return the file of the certificates that this machine trusts: a company's own may be among them."""
    own = [variables[name] for name in _OWN_CERTIFICATES if name in variables]
    found = (Path(name).expanduser() for name in (*own, ssl.get_default_verify_paths().cafile, *_BUNDLES) if name)
    return next((path.resolve() for path in found if path.is_file()), None)


def cargo_settings(home: Path) -> str:
    """Return the registries and mirrors of the user's cargo as a file of settings, without anything else; empty for none."""
    kept: list[str] = []
    is_shown = False
    for line in _read(home / ".cargo/config.toml").splitlines():
        is_shown = line.startswith(("[source.", "[registries.")) or (is_shown and not line.startswith("["))
        if is_shown and _KEPT_OF_CARGO.fullmatch(line):
            kept.append(f"{line}\n")
    return "".join(kept)


def _named_in(name: str, text: str) -> list[str]:
    """Return the addresses that a file names as an index, or as where a package lies."""
    return re.findall(_NAMED_IN[name], text, re.MULTILINE) if name in _NAMED_IN else []


def _hosts(texts: Iterable[str]) -> list[str]:
    found: list[str] = []
    for url in _URL.findall(" ".join(texts)):
        with suppress(UsageError, ValueError):
            found.append(parse_host(urlsplit(url).hostname or ""))
    return found


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
