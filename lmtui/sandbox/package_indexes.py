"""The package indexes that a project's tools are configured for: what one approval of an installing command lets through.

Nothing here is a list of hosts.  The user's own configuration and each tool's own default name an index; the index itself and
lock files say where its files lie.  Files of the workspace are read by the caller, through the sandbox.
"""

from __future__ import annotations

import configparser
import json
import re
import ssl
import subprocess
import tomllib
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from lmtui.core.errors import UsageError
from lmtui.core.hosts import parse_host
from lmtui.plain_files import find_program, path_outside

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
# How a tool says what it uses where nothing is configured.
_DEFAULTS = {
    "pip": (("python3", "-I", "-m", "pip", "install", "--help"), ("uv", "pip", "install", "--help")),
    "npm": (("npm", "config", "get", "registry"),),
    "go": (("go", "env", "GOPROXY"), ("go", "env", "GOSUMDB")),
}
# What these tools get of the user's environment: nothing that makes them load code, as PYTHONPATH and NODE_OPTIONS do.
_NEEDED = ("HOME", "USER", "LANG", "XDG_CONFIG_HOME", "http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")
_SETTINGS = ("PIP_", "UV_", "NPM_CONFIG_", "npm_config_", "GOPROXY", "GOSUMDB", "GOPRIVATE")
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
_BUILT_IN = re.compile(rb"sparse\+(https://[a-z0-9-]+(?:\.[a-z0-9-]+)+/)")
_MOST_PROGRAM_BYTES = 128 << 20
_HELP_S = 20.0
_FETCH_S = 8.0
_MOST_BYTES = 4 << 20
_MOST_HOSTS = 12
_SIMPLE = "application/vnd.pypi.simple.v1+json"  # PEP 691


@dataclass(frozen=True, slots=True)
class PackageIndexes:
    """What an installing command may reach.

    `named` are the hosts that the user's own configuration names, which may have private addresses; `variables` are what the
    command gets next to its environment; `urls` are the user's own indexes, `tools` those that the project uses;
    `certificates` are those that this machine trusts.
    """

    hosts: tuple[str, ...] = ()
    named: frozenset[str] = frozenset()
    variables: tuple[tuple[str, str], ...] = ()
    urls: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    certificates: Path | None = None


def find_package_indexes(workspace: Path, files: Mapping[str, str], environ: Mapping[str, str], home: Path) -> PackageIndexes:
    """Return the indexes of a project.  Blocks: it runs tools of the user's, which reach no network.

    Args:
        workspace: the project's folder; no program in it is run.
        files: the text of those of `WORKSPACE_FILES` that exist.
        environ: the user's environment.
        home: the user's home folder.
    """
    tools = [tool for tool, markers in _TOOLS.items() if any(marker in files for marker in markers)]
    variables = _own_variables(environ, home)
    own = [url for name in _PASSED for url in _URL.findall(variables.get(name, ""))]
    own += _URL.findall(_registry(home / ".npmrc")) + list(_cargo_urls(_read(home / ".cargo/config.toml")))
    for tool in tools:
        own += _default(tool, variables, workspace, environ)
    if "cargo" in tools and not cargo_settings(home):
        own += _default_of_cargo(workspace, home)
    told = [url for name, text in files.items() for url in _told_by(name, text)]
    found = [*own, *told]
    hosts = list(dict.fromkeys(host for url in found if (host := _host(url))))
    plain = {name: value for name, value in variables.items() if name in _PASSED and "@" not in value}  # no password goes in
    return PackageIndexes(
        tuple(hosts[:_MOST_HOSTS]),
        frozenset(filter(None, map(_host, own))),
        tuple(sorted(plain.items())),
        tuple(dict.fromkeys(own)),
        tuple(tools),
        certificates_of(variables),
    )


def with_file_hosts(indexes: PackageIndexes) -> PackageIndexes:
    """Return indexes with the hosts where they keep their files, which they are asked for.  Blocks; the user has allowed it."""
    found = [host for url in indexes.urls for host in _file_hosts(url, indexes.tools)]
    return replace(indexes, hosts=tuple(dict.fromkeys([*indexes.hosts, *found]))[: 2 * _MOST_HOSTS])


def _own_variables(environ: Mapping[str, str], home: Path) -> dict[str, str]:
    variables: dict[str, str] = {}
    for name in _PIP_FILES:
        parser = configparser.ConfigParser(interpolation=None, strict=False)
        with suppress(OSError, configparser.Error, UnicodeDecodeError):
            parser.read(name.replace("~", str(home), 1), encoding="utf-8")
            section = parser["global"] if parser.has_section("global") else {}
            variables |= {_FROM_PIP[key]: " ".join(value.split()) for key, value in section.items() if key in _FROM_PIP}
    variables |= {name: environ[name] for name in (*_PASSED, *_OWN_CERTIFICATES) if environ.get(name)}
    if registry := _registry(home / ".npmrc"):
        variables.setdefault("npm_config_registry", registry)
    return variables


def certificates_of(variables: Mapping[str, str]) -> Path | None:
    """Return the file of the certificates that this machine trusts: a company's own may be among them."""
    own = [variables[name] for name in _OWN_CERTIFICATES if name in variables]
    found = (Path(name).expanduser() for name in (*own, ssl.get_default_verify_paths().cafile, *_BUNDLES) if name)
    return next((path.resolve() for path in found if path.is_file()), None)


def _default(tool: str, variables: Mapping[str, str], workspace: Path, environ: Mapping[str, str]) -> Iterator[str]:
    """Yield what a tool uses by itself, as it says."""
    is_set = {"pip": "PIP_INDEX_URL", "npm": "npm_config_registry", "go": "GOPROXY"}
    if is_set.get(tool, "") in variables:
        return
    own = {name: value for name, value in environ.items() if name in _NEEDED or name.startswith(_SETTINGS)}
    environment = {**own, "PATH": path_outside(workspace)}
    for name, *arguments in _DEFAULTS.get(tool, ()):
        program = find_program(name, workspace)
        if program is None:
            continue
        with suppress(OSError, subprocess.SubprocessError, UnicodeDecodeError):
            ran = subprocess.run(
                [program, *arguments],
                cwd="/",
                env=environment,
                capture_output=True,
                text=True,
                timeout=_HELP_S,
                check=True,
                stdin=subprocess.DEVNULL,
            )
            text = ran.stdout
            if tool == "pip":
                text = " ".join(re.findall(r"default:?\s+(https://\S+?)[)\]\s]", " ".join(text.split())))
            urls = _URL.findall(text)
            urls += [f"https://{text.split()[0]}"] if arguments[-1] == "GOSUMDB" and "." in text.split("+")[0] else []
            if urls:
                yield from urls
                if tool == "pip":
                    return


def _default_of_cargo(workspace: Path, home: Path) -> list[str]:
    """Return the registry that is built into cargo, which has no command that tells it."""
    program = find_program("cargo", workspace)
    toolchains = sorted(home.glob(".rustup/toolchains/*/bin/cargo"), key=lambda path: "stable" not in path.parts[-3])
    if program is None or (program.resolve().name == "rustup" and not toolchains):
        return []
    with suppress(OSError), (toolchains[0] if program.resolve().name == "rustup" else program).open("rb") as file:
        return [each.decode() for each in dict.fromkeys(_BUILT_IN.findall(file.read(_MOST_PROGRAM_BYTES)))]
    return []


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
        with suppress(tomllib.TOMLDecodeError, AttributeError, TypeError):
            data = tomllib.loads(text)
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
    with suppress(tomllib.TOMLDecodeError, AttributeError):
        data = tomllib.loads(text)
        for table in (*data.get("source", {}).values(), *data.get("registries", {}).values()):
            yield from (url for key in ("registry", "index") for url in _URL.findall(str(table.get(key, ""))))


def _file_hosts(url: str, tools: Iterable[str]) -> Iterator[str]:
    """Yield where an index says that its files lie."""
    if "cargo" in tools:
        data = _fetched(f"{url.removeprefix('sparse+').rstrip('/')}/config.json", "application/json")
        yield from filter(None, [_host(str(data.get("dl", "")))])
    if "pip" in tools:
        files = _fetched(f"{url.rstrip('/')}/pip/", _SIMPLE).get("files")
        found = (_host(str(each.get("url", ""))) for each in files if isinstance(each, dict)) if isinstance(files, list) else ()
        yield from dict.fromkeys(filter(None, found))


def _fetched(url: str, kind: str) -> dict[str, object]:
    """Return the JSON object at an address, empty where there is none."""
    with suppress(OSError, ValueError):
        request = urllib.request.Request(url, headers={"Accept": kind})  # noqa: S310  (https, as _URL says)
        with urllib.request.urlopen(request, timeout=_FETCH_S, context=ssl.create_default_context()) as answer:  # noqa: S310
            data = json.loads(answer.read(_MOST_BYTES))
            return data if isinstance(data, dict) else {}
    return {}


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
