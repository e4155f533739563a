"""The package indexes that a project's tools are configured for: what one approval of an installing command lets through.

The user's own configuration names an index, else the tool's public one is meant.  No program is run to learn that, and nothing
is fetched.  Files of the workspace are read by the caller, through the sandbox.
"""

from __future__ import annotations

import configparser
import json
import re
import ssl
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from lmtui.core.errors import UsageError
from lmtui.core.hosts import parse_host
from lmtui.parser_process import read_toml

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
_FROM_PIP = {"index-url": "PIP_INDEX_URL", "extra-index-url": "PIP_EXTRA_INDEX_URL", "cert": "PIP_CERT"}
# Variables that commands get: where the index is, and the certificates of the user's machine.
_PASSED = (
    "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_INDEX", "UV_EXTRA_INDEX_URL",
    "NPM_CONFIG_REGISTRY", "npm_config_registry", "GOPROXY", "GOSUMDB",
    "GONOSUMDB", "GOPRIVATE",
)  # fmt: skip
_OWN_CERTIFICATES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "PIP_CERT", "CURL_CA_BUNDLE")  # each a whole bundle
_BUNDLES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem")
_URL = re.compile(r"https://[^\s\"'<>,|)]+")
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
    urls = [url for name in _PASSED for url in _URL.findall(variables.get(name, ""))]
    urls += _URL.findall(_registry(home / ".npmrc")) + list(_cargo_urls(_read(home / ".cargo/config.toml")))
    own = [host for url in urls if (host := _host(url))]
    has_own = {tool for name, tool in _SET_BY.items() if name in variables} | ({"cargo"} if cargo_settings(home) else set())
    for tool, markers in _TOOLS.items():
        is_used = any(marker in files for marker in markers) and tool not in has_own
        own += _PUBLIC[tool] if is_used or _PUBLIC[tool][0] in own else ()
    told = [host for name, text in files.items() for url in _told_by(name, text) if (host := _host(url))]
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
        parser = configparser.ConfigParser(interpolation=None, strict=False)
        with suppress(OSError, configparser.Error, UnicodeDecodeError):
            parser.read(name.replace("~", str(home), 1), encoding="utf-8")
            section = parser["global"] if parser.has_section("global") else {}
            variables |= {_FROM_PIP[key]: " ".join(value.split()) for key, value in section.items() if key in _FROM_PIP}
    variables |= dict(re.findall(r"^(GO\w+)=(.*)$", _read(home / ".config/go/env"), re.MULTILINE))
    variables |= {name: environ[name] for name in (*_PASSED, *_OWN_CERTIFICATES) if environ.get(name)}
    if registry := _registry(home / ".npmrc"):
        variables.setdefault("npm_config_registry", registry)
    return variables


def certificates_of(variables: Mapping[str, str]) -> Path | None:
    """Return the file of the certificates that this machine trusts: a company's own may be among them."""
    own = [variables[name] for name in _OWN_CERTIFICATES if name in variables]
    found = (Path(name).expanduser() for name in (*own, ssl.get_default_verify_paths().cafile, *_BUNDLES) if name)
    return next((path.resolve() for path in found if path.is_file()), None)


def cargo_settings(home: Path) -> str:
    """Return the registries and mirrors of the user's cargo as a file of settings, without anything else; empty for none."""
    try:
        found = tomllib.loads(_read(home / ".cargo/config.toml"))
    except tomllib.TOMLDecodeError:
        return ""
    lines: list[str] = []
    for kind in ("source", "registries"):
        tables = found.get(kind)
        for name, table in tables.items() if isinstance(tables, dict) else ():
            values = {key: table.get(key) for key in ("registry", "index", "replace-with")} if isinstance(table, dict) else {}
            kept = {key: value for key, value in values.items() if isinstance(value, str) and not set("@?#") & set(value)}
            lines += [f"[{kind}.{_quoted(name)}]", *(f"{key} = {_quoted(value)}" for key, value in kept.items())]
    return "".join(f"{line}\n" for line in lines)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _told_by(name: str, text: str) -> Iterator[str]:
    """Yield the addresses that a file of the project names as an index, or as where a package lies."""
    if name == "uv.lock":
        yield from re.findall(r'(?:url|registry) = "(https://[^"]+)"', text)
    elif name.endswith((".toml", ".lock")):
        with suppress(AttributeError, TypeError):
            data = read_toml(text)
            tables = [data, data.get("tool", {}).get("uv", {}), data.get("tool", {}).get("poetry", {})]
            for table in tables:
                entries = [*table.get("index", []), *table.get("source", [])] if name != ".cargo/config.toml" else []
                yield from (entry["url"] for entry in entries if isinstance(entry, dict) and isinstance(entry.get("url"), str))
            yield from _cargo_urls(text) if name == ".cargo/config.toml" else ()
    elif name == "package-lock.json":
        yield from re.findall(r'"resolved": "(https://[^"]+)"', text)
    elif name == ".npmrc":
        yield from _URL.findall(_registry_of(text))
    elif name == "requirements.txt":
        yield from (url for line in text.splitlines() if line.lstrip().startswith(("-i", "--")) for url in _URL.findall(line))


def _cargo_urls(text: str) -> Iterator[str]:
    with suppress(AttributeError):
        data = read_toml(text)
        for table in (*data.get("source", {}).values(), *data.get("registries", {}).values()):
            yield from (url for key in ("registry", "index") for url in _URL.findall(str(table.get(key, ""))))


def _host(url: str) -> str:
    try:
        return parse_host(urlsplit(url).hostname or "")
    except (UsageError, ValueError):
        return ""


def _registry(path: Path) -> str:
    return _registry_of(_read(path))


def _registry_of(text: str) -> str:
    return " ".join(re.findall(r"^(?:@[^:\s]+:)?registry\s*=\s*(\S+)", text, re.MULTILINE))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
