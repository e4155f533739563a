from __future__ import annotations

import asyncio
import base64
import contextlib
import datetime
import hashlib
import io
import os
import ssl
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from lmtui.sandbox import proxy
from lmtui.sandbox.package_indexes import PackageIndexes, find_package_indexes
from tests.sandbox.conftest import ISOLATED, OpenSandbox

_HOST = "packages.internal"
_WHEEL = "thing-1.0-py3-none-any.whl"


def indexes(workspace: Path, home: Path, files: dict[str, str], **environ: str) -> PackageIndexes:
    return find_package_indexes(workspace, files, environ, home)


def test_the_users_own_configuration_names_the_index(workspace: Path, tmp_path: Path) -> None:
    (tmp_path / ".config/pip").mkdir(parents=True)
    (tmp_path / ".config/pip/pip.conf").write_text("[global]\nindex-url = https://one.internal/simple\n")
    (tmp_path / ".npmrc").write_text("registry=https://two.internal/npm/\n//two.internal/:_authToken=secret\n")
    files = {"pyproject.toml": "", "package.json": "{}"}
    found = indexes(workspace, tmp_path, files, UV_INDEX_URL="https://three.internal/simple")
    assert found.hosts == ("one.internal", "three.internal", "two.internal")
    assert found.named == {"one.internal", "two.internal", "three.internal"}
    assert dict(found.variables) == {
        "PIP_INDEX_URL": "https://one.internal/simple",
        "UV_INDEX_URL": "https://three.internal/simple",
        "npm_config_registry": "https://two.internal/npm/",
    }


def test_no_password_goes_into_the_sandbox(workspace: Path, tmp_path: Path) -> None:
    found = indexes(workspace, tmp_path, {}, PIP_INDEX_URL="https://me:secret@one.internal/simple")
    assert (found.hosts, found.variables) == (("one.internal",), ())


def test_what_a_project_names_is_reached_but_not_at_a_private_address(workspace: Path, tmp_path: Path) -> None:
    files = {
        "package-lock.json": '{"packages": {"a": {"resolved": "https://files.example.com/a.tgz"}}}',
        "pyproject.toml": '[[tool.uv.index]]\nname = "x"\nurl = "https://index.example.com/simple"\n',
        "uv.lock": 'wheels = [{ url = "https://wheels.example.com/a.whl", hash = "x" }]',
        ".cargo/config.toml": '[registries.mine]\nindex = "sparse+https://crates.example.com/index/"\n',
        "requirements.txt": "--extra-index-url https://more.example.com/simple\n",
    }
    found = indexes(workspace, tmp_path, files, PIP_INDEX_URL="https://one.internal/simple")
    assert set(found.hosts) == {
        "one.internal", "files.example.com", "index.example.com", "wheels.example.com", "crates.example.com",
        "more.example.com",
    }  # fmt: skip
    assert found.named == {"one.internal"}


@pytest.mark.parametrize("text", ["{", "[tool", "index-url", "https://", '[tool.uv]\nindex = "x"', "[source]\nx = 1"])
def test_files_that_cannot_be_read_name_nothing(text: str, workspace: Path, tmp_path: Path) -> None:
    names = ("pyproject.toml", "uv.lock", "package-lock.json", ".npmrc", "requirements.txt", ".cargo/config.toml")
    assert indexes(workspace, tmp_path, dict.fromkeys(names, text), PIP_INDEX_URL="https://a.example").hosts == ("a.example",)


def test_no_program_of_the_workspace_is_run(workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("python3", "uv", "npm", "go"):
        program = workspace / name
        program.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\necho https://evil.example\n")
        program.chmod(0o755)
    linked = tmp_path / "linked"
    linked.symlink_to(workspace)
    monkeypatch.setenv("PATH", f"{workspace}:{linked}")
    found = indexes(workspace, tmp_path, {"pyproject.toml": "", "package.json": "{}", "go.mod": ""})
    assert found.hosts == ()
    assert not (tmp_path / "ran").exists()


def test_no_code_of_the_workspace_is_loaded(workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (workspace / "pip").mkdir()
    (workspace / "pip/__init__.py").write_text("")
    (workspace / "pip/__main__.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    (workspace / "sitecustomize.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    environ = {**os.environ, "PYTHONPATH": str(workspace), "PYTHONSTARTUP": str(workspace / "sitecustomize.py")}
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    _ = find_package_indexes(workspace, {"pyproject.toml": ""}, environ, tmp_path)
    assert not (tmp_path / "ran").exists()


def certificate(folder: Path) -> tuple[Path, Path]:
    """Make a certificate for the index, signed by itself."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, _HOST)])
    now = datetime.datetime.now(datetime.UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(_HOST)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    public, private = folder / "index.pem", folder / "index.key"
    public.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return public, private


def wheel() -> bytes:
    """Return a package that has one program."""
    files = {
        "thing.py": "def main():\n    print('thing works')\n",
        "thing-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: thing\nVersion: 1.0\n",
        "thing-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "thing-1.0.dist-info/entry_points.txt": "[console_scripts]\nthing = thing:main\n",
    }
    record = [
        f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b'=').decode()},{len(text)}"
        for name, text in files.items()
    ]
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
        archive.writestr("thing-1.0.dist-info/RECORD", "\n".join([*record, "thing-1.0.dist-info/RECORD,,\n"]))
    return data.getvalue()


@pytest.fixture
async def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """Serve a package index at a private address, which the user's pip is configured for."""
    public, private = certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(public, private)
    package = wheel()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            path = (await reader.readuntil(b"\r\n\r\n")).split(b" ")[1].decode()
            page = f'<a href="/files/{_WHEEL}">{_WHEEL}</a>'.encode()
            body = package if path.endswith(".whl") else page
            kind = "application/zip" if path.endswith(".whl") else "text/html"
            head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
            writer.write(head.encode() + body)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]

    async def look_up(host: str) -> list[str]:
        return ["127.0.0.1"]

    async def connect(address: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(address, port)

    monkeypatch.setattr(proxy, "_look_up", look_up)
    monkeypatch.setattr(proxy, "_open", connect)
    home = tmp_path / "home"
    (home / ".config/pip").mkdir(parents=True)
    (home / ".config/pip/pip.conf").write_text(f"[global]\nindex-url = https://{_HOST}/simple\ncert = {public}\n")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("LMTUI_HOME", str(tmp_path / "lmtui"))
    for name in ("PIP_INDEX_URL", "UV_INDEX_URL", "UV_DEFAULT_INDEX", "SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    yield
    server.close()
    await server.wait_closed()


class Gate:
    """Allows what is listed; says what was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, bool]] = []

    async def may_show(self, folder: str, why: str) -> bool:
        raise AssertionError(folder)

    async def may_reach(self, host: str, *, is_listed: bool = False) -> bool:
        self.asked.append((host, is_listed))
        return is_listed

    def reached(self, host: str, sent_bytes: int, received_bytes: int, why_not: str) -> None:
        pass


@pytest.mark.parametrize("backend", ISOLATED)
async def test_a_package_is_installed_from_the_index_that_pip_is_configured_for(
    backend: str, workspace: Path, index: None, open_sandbox: OpenSandbox
) -> None:
    (workspace / "requirements.txt").write_text("thing\n")
    sandbox, gate = await open_sandbox(backend), Gate()
    install = "/usr/bin/python3 -m venv .venv && .venv/bin/pip install -q --no-cache-dir -r requirements.txt"
    refused = await sandbox.run_command(install, timeout_s=100)
    assert refused.exit_code != 0
    assert "call shell again with network=true" in refused.output
    assert await sandbox.package_hosts() == [_HOST]
    done = await sandbox.run_command(
        f"{install} && mkdir $CARGO_HOME && touch $CARGO_HOME/kept", timeout_s=100, gate=gate, with_packages=True
    )
    assert done.exit_code == 0, done.output
    assert set(gate.asked) == {(_HOST, True)}
    after = await sandbox.run_command("thing; ls $CARGO_HOME; echo ${https_proxy:-no proxy}")
    assert after.output.splitlines() == ["thing works", "kept", "no proxy"]


@pytest.mark.parametrize("backend", ISOLATED)
async def test_only_the_hosts_that_were_shown_are_reached_unasked(
    backend: str, workspace: Path, index: None, open_sandbox: OpenSandbox
) -> None:
    (workspace / "requirements.txt").write_text("thing\n")
    sandbox, gate = await open_sandbox(backend), Gate()
    (workspace / ".npmrc").write_text("registry=https://early.example/\n")
    assert await sandbox.package_hosts() == [_HOST, "early.example (named by this project)"]
    (workspace / ".npmrc").write_text("registry=https://late.example/\n")
    other = "import urllib.request; urllib.request.urlopen('https://late.example/', timeout=5)"
    result = await sandbox.run_command(f'python3 -c "{other}"', timeout_s=60, gate=gate, with_packages=True)
    assert result.exit_code != 0
    assert "403" in result.output
    assert gate.asked == [("late.example", False)]
