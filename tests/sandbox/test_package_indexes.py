from __future__ import annotations

import asyncio
import base64
import contextlib
import datetime
import hashlib
import io
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
from tests.sandbox.conftest import ISOLATED, Gate, OpenSandbox

_HOST = "packages.internal"
_WHEEL = "thing-1.0-py3-none-any.whl"


def indexes(files: dict[str, str], **environ: str) -> PackageIndexes:
    return find_package_indexes(files, environ)


def test_a_variable_of_the_users_names_the_index() -> None:
    files = {"pyproject.toml": "", "package.json": "{}"}
    given = {"UV_INDEX_URL": "https://three.internal/simple", "PIP_INDEX_URL": "https://one.internal/simple"}
    found = indexes(files, **given, npm_config_registry="https://two.internal/npm/")
    assert set(found.hosts) == found.named == {"one.internal", "two.internal", "three.internal"}
    assert dict(found.variables) == {**given, "npm_config_registry": "https://two.internal/npm/"}


def test_no_password_goes_into_the_sandbox() -> None:
    found = indexes({}, PIP_INDEX_URL="https://me:secret@one.internal/simple")
    assert (found.hosts, found.variables) == (("one.internal",), ())


def test_what_a_project_names_is_reached_but_not_at_a_private_address() -> None:
    files = {
        "package-lock.json": '{"packages": {"a": {"resolved": "https://files.example.com/a.tgz"}}}',
        "pyproject.toml": '[[tool.uv.index]]\nname = "x"\nurl = "https://index.example.com/simple"\n',
        "uv.lock": 'wheels = [{ url = "https://wheels.example.com/a.whl", hash = "x" }]',
        ".cargo/config.toml": '[registries.mine]\nindex = "sparse+https://crates.example.com/index/"\n',
        "requirements.txt": "--extra-index-url https://more.example.com/simple\n",
    }
    found = indexes(files, PIP_INDEX_URL="https://one.internal/simple")
    assert set(found.hosts) == {
        "one.internal", "files.example.com", "index.example.com", "wheels.example.com", "crates.example.com",
        "more.example.com",
    }  # fmt: skip
    assert found.named == {"one.internal"}


@pytest.mark.parametrize("text", ["{", "[tool", "index-url", "https://", '[tool.uv]\nindex = "x"', "[source]\nx = 1"])
def test_files_that_cannot_be_read_name_nothing(text: str) -> None:
    names = ("pyproject.toml", "uv.lock", "package-lock.json", ".npmrc", "requirements.txt", ".cargo/config.toml")
    assert indexes(dict.fromkeys(names, text), PIP_INDEX_URL="https://a.example").hosts == ("a.example",)


def test_without_configuration_the_public_index_is_meant_and_no_program_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("python3", "uv", "npm", "go", "cargo"):
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\necho https://evil.example\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    found = indexes({"pyproject.toml": "", "package.json": "{}", "Cargo.toml": "", "go.mod": ""})
    assert set(found.hosts) == {
        "pypi.org", "files.pythonhosted.org", "registry.npmjs.org", "index.crates.io", "static.crates.io",
        "proxy.golang.org", "sum.golang.org",
    }  # fmt: skip
    assert not (tmp_path / "ran").exists()
    assert indexes({"go.mod": ""}, GOPROXY="https://go.internal,direct").hosts == ("go.internal",)
    assert indexes({}, UV_INDEX_URL="https://pypi.org/simple").hosts == ("pypi.org", "files.pythonhosted.org")


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
    pages = {f"/files/{_WHEEL}": wheel()}
    listing = f'<a href="/files/{_WHEEL}">{_WHEEL}</a>'.encode()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            path = (await reader.readuntil(b"\r\n\r\n")).split(b" ")[1].decode()
            body = pages.get(path, listing if path.startswith("/simple/") else None)
            kind = "text/html" if body is listing else "application/octet-stream"
            status = "404 Not Found" if body is None else "200 OK"
            head = (
                f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body or b'')}\r\nConnection: close\r\n\r\n"
            )
            writer.write(head.encode() + (body or b""))
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
    monkeypatch.setenv("LMTUI_HOME", str(tmp_path / "lmtui"))
    for name in ("UV_INDEX_URL", "UV_DEFAULT_INDEX", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_INDEX_URL", f"https://{_HOST}/simple")
    monkeypatch.setenv("PIP_CERT", str(public))
    yield
    server.close()
    await server.wait_closed()


@pytest.mark.parametrize("backend", ISOLATED)
@pytest.mark.full
async def test_a_package_is_installed_from_the_index_that_pip_is_configured_for(
    backend: str, workspace: Path, index: None, open_sandbox: OpenSandbox
) -> None:
    (workspace / "requirements.txt").write_text("thing\n")
    sandbox, gate = await open_sandbox(backend), Gate()
    install = "/usr/bin/python3 -m venv .venv && .venv/bin/pip install -q --no-cache-dir -r requirements.txt"
    refused = await sandbox.run_command(install, timeout_s=100)
    assert refused.exit_code != 0
    assert "call shell again with network=true" in refused.text
    assert await sandbox.package_hosts() == [_HOST]
    done = await sandbox.run_command(
        f"{install} && mkdir $CARGO_HOME && touch $CARGO_HOME/kept", timeout_s=100, gate=gate, with_packages=True
    )
    assert done.exit_code == 0, done.output
    assert (set(gate.listed), gate.asked) == ({_HOST}, [])
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
    assert gate.asked == ["late.example"]


@pytest.mark.bubblewrap
async def test_of_two_questions_neither_opens_what_only_the_other_one_names(
    workspace: Path, index: None, open_sandbox: OpenSandbox
) -> None:
    sandbox, asked = await open_sandbox("bubblewrap"), []
    for host in ("first", "second"):
        (workspace / ".npmrc").write_text(f"registry=https://{host}.example/\n")
        await sandbox.package_hosts()
    for host in ("second", "first"):
        gate = Gate()
        other = f"import urllib.request; urllib.request.urlopen('https://{host}.example/', timeout=5)"
        await sandbox.run_command(f'python3 -c "{other}"', timeout_s=60, gate=gate, with_packages=True)
        asked += gate.asked
    assert asked == ["second.example", "first.example"]
