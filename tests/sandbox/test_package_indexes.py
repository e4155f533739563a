from __future__ import annotations

import asyncio
import base64
import contextlib
import datetime
import hashlib
import io
import json
import os
import pwd
import re
import shutil
import ssl
import subprocess
import tarfile
import time
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
from tests.sandbox.conftest import ISOLATED, Gate, OpenSandbox, fill

_HOST = "packages.internal"
_WHEEL = "thing-1.0-py3-none-any.whl"


def indexes(home: Path, files: dict[str, str], **environ: str) -> PackageIndexes:
    return find_package_indexes(files, environ, home)


def test_the_users_own_configuration_names_the_index(tmp_path: Path) -> None:
    (tmp_path / ".config/pip").mkdir(parents=True)
    (tmp_path / ".config/pip/pip.conf").write_text("[global]\nindex-url = https://one.internal/simple\n")
    (tmp_path / ".npmrc").write_text("registry=https://two.internal/npm/\n//two.internal/:_authToken=secret\n")
    files = {"pyproject.toml": "", "package.json": "{}"}
    found = indexes(tmp_path, files, UV_INDEX_URL="https://three.internal/simple")
    assert found.hosts == ("one.internal", "three.internal", "two.internal")
    assert found.named == {"one.internal", "two.internal", "three.internal"}
    assert dict(found.variables) == {
        "PIP_INDEX_URL": "https://one.internal/simple",
        "UV_INDEX_URL": "https://three.internal/simple",
        "npm_config_registry": "https://two.internal/npm/",
    }


def test_no_password_goes_into_the_sandbox(tmp_path: Path) -> None:
    found = indexes(tmp_path, {}, PIP_INDEX_URL="https://me:secret@one.internal/simple")
    assert (found.hosts, found.variables) == (("one.internal",), ())


def test_what_a_project_names_is_reached_but_not_at_a_private_address(tmp_path: Path) -> None:
    files = {
        "package-lock.json": '{"packages": {"a": {"resolved": "https://files.example.com/a.tgz"}}}',
        "pyproject.toml": '[[tool.uv.index]]\nname = "x"\nurl = "https://index.example.com/simple"\n',
        "uv.lock": 'wheels = [{ url = "https://wheels.example.com/a.whl", hash = "x" }]',
        ".cargo/config.toml": '[registries.mine]\nindex = "sparse+https://crates.example.com/index/"\n',
        "requirements.txt": "--extra-index-url https://more.example.com/simple\n",
    }
    found = indexes(tmp_path, files, PIP_INDEX_URL="https://one.internal/simple")
    assert set(found.hosts) == {
        "one.internal", "files.example.com", "index.example.com", "wheels.example.com", "crates.example.com",
        "more.example.com",
    }  # fmt: skip
    assert found.named == {"one.internal"}


@pytest.mark.parametrize("text", ["{", "[tool", "index-url", "https://", '[tool.uv]\nindex = "x"', "[source]\nx = 1"])
def test_files_that_cannot_be_read_name_nothing(text: str, tmp_path: Path) -> None:
    names = ("pyproject.toml", "uv.lock", "package-lock.json", ".npmrc", "requirements.txt", ".cargo/config.toml")
    assert indexes(tmp_path, dict.fromkeys(names, text), PIP_INDEX_URL="https://a.example").hosts == ("a.example",)


@pytest.mark.full
def test_files_that_take_long_to_parse_take_this_process_no_time(tmp_path: Path) -> None:
    long = "\n".join(f"a{number}.{'b.' * 900}c = 1" for number in range(500))
    began = time.process_time()
    assert indexes(tmp_path, {"pyproject.toml": long, ".cargo/config.toml": long}).hosts
    assert time.process_time() - began < 1.0


def test_without_configuration_the_public_index_is_meant_and_no_program_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("python3", "uv", "npm", "go", "cargo"):
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\necho https://evil.example\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    found = indexes(tmp_path, {"pyproject.toml": "", "package.json": "{}", "Cargo.toml": "", "go.mod": ""})
    assert set(found.hosts) == {
        "pypi.org", "files.pythonhosted.org", "registry.npmjs.org", "index.crates.io", "static.crates.io",
        "proxy.golang.org", "sum.golang.org",
    }  # fmt: skip
    assert not (tmp_path / "ran").exists()
    fill(tmp_path, {".config/go/env": "GOPROXY=https://go.internal,direct\nGOFLAGS\n"})
    assert indexes(tmp_path, {"go.mod": ""}).hosts == ("go.internal",)
    assert indexes(tmp_path / "bin", {}, UV_INDEX_URL="https://pypi.org/simple").hosts == ("pypi.org", "files.pythonhosted.org")


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


def go_module() -> dict[str, bytes]:
    """Return what a module proxy serves of a module (https://go.dev/ref/mod#goproxy-protocol)."""
    definition = b"module example.com/thing\n\ngo 1.19\n"
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("example.com/thing@v1.0.0/go.mod", definition)
        archive.writestr("example.com/thing@v1.0.0/thing.go", 'package thing\n\nconst Says = "thing works"\n')
    base = "/example.com/thing/@v"
    info = json.dumps({"Version": "v1.0.0", "Time": "2024-01-01T00:00:00Z"}).encode()
    return {f"{base}/v1.0.0.info": info, f"{base}/v1.0.0.mod": definition, f"{base}/v1.0.0.zip": data.getvalue()}


def crate() -> dict[str, bytes]:
    """Return what a sparse registry serves of a crate (https://doc.rust-lang.org/cargo/reference/registry-index.html)."""
    data = io.BytesIO()
    files = {
        "Cargo.toml": '[package]\nname = "thing"\nversion = "1.0.0"\nedition = "2021"\n',
        "src/lib.rs": 'pub const SAYS: &str = "thing works";\n',
    }
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(f"thing-1.0.0/{name}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    packed = data.getvalue()
    digest = hashlib.sha256(packed).hexdigest()
    line = {"name": "thing", "vers": "1.0.0", "deps": [], "cksum": digest, "features": {}, "yanked": False}
    return {
        "/crates/config.json": json.dumps({"dl": f"https://{_HOST}/download/{{crate}}"}).encode(),
        "/crates/th/in/thing": json.dumps(line).encode(),
        "/download/thing": packed,
    }


@pytest.fixture
async def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """Serve a package index at a private address, which the user's pip is configured for."""
    public, private = certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(public, private)
    pages = {f"/files/{_WHEEL}": wheel(), **go_module(), **crate()}
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


@pytest.mark.bubblewrap
@pytest.mark.skipif(shutil.which("go") is None, reason="no go here")
async def test_go_fetches_a_module_that_later_commands_have(
    workspace: Path, index: None, open_sandbox: OpenSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOPROXY", f"https://{_HOST}")
    monkeypatch.setenv("GOSUMDB", "off")
    (workspace / "go.mod").write_text("module a\n\ngo 1.19\n\nrequire example.com/thing v1.0.0\n")
    (workspace / "a.go").write_text('package main\n\nimport "example.com/thing"\n\nfunc main() { println(thing.Says) }\n')
    sandbox = await open_sandbox("bubblewrap")
    assert await sandbox.package_hosts() == [_HOST]
    fetch = "go mod download example.com/thing && go mod tidy"
    assert (await sandbox.run_command(fetch, timeout_s=100)).exit_code != 0
    done = await sandbox.run_command(fetch, timeout_s=100, gate=Gate(), with_packages=True)
    assert done.exit_code == 0, done.output
    after = await sandbox.run_command("go run .", timeout_s=100)
    assert after.output == "thing works\n"


def has_sparse_registries() -> bool:
    if shutil.which("cargo") is None:
        return False
    told = subprocess.run(["cargo", "--version"], capture_output=True, text=True, check=False).stdout
    found = re.match(r"cargo (\d+)\.(\d+)", told)
    return found is not None and (int(found[1]), int(found[2])) >= (1, 68)


def link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


@pytest.mark.bubblewrap
@pytest.mark.skipif(not has_sparse_registries(), reason="no cargo 1.68 or later here")
async def test_cargo_fetches_from_the_mirror_of_the_user_and_sees_no_token(
    workspace: Path, index: None, open_sandbox: OpenSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, real = Path(os.environ["HOME"]), Path(pwd.getpwuid(os.getuid()).pw_dir)
    (home / ".cargo").mkdir()
    for name in (".cargo/bin", ".rustup"):
        if (real / name).is_dir():
            ignored = shutil.ignore_patterns("nightly*", "share", "doc")
            shutil.copytree(real / name, home / name, symlinks=True, copy_function=link_or_copy, ignore=ignored)
    monkeypatch.setenv("PATH", os.environ["PATH"].replace(str(real), str(home)))
    (home / ".cargo/config.toml").write_text(
        f'[source.crates-io]\nreplace-with = "mirror"\n[source.mirror]\nregistry = "sparse+https://{_HOST}/crates/"\n'
        '[registry]\ntoken = "secret"\n[http]\nproxy = "me:secret@x"\n'
    )
    (workspace / "Cargo.toml").write_text(
        '[package]\nname = "a"\nversion = "0.1.0"\nedition = "2021"\n[dependencies]\nthing = "1"\n'
    )
    (workspace / "src/main.rs").write_text('fn main() { println!("{}", thing::SAYS); }\n')
    sandbox = await open_sandbox("bubblewrap")
    assert await sandbox.package_hosts() == [_HOST]
    assert (await sandbox.run_command("cargo fetch", timeout_s=100)).exit_code != 0
    done = await sandbox.run_command("cargo fetch", timeout_s=100, gate=Gate(), with_packages=True)
    assert done.exit_code == 0, done.output
    after = await sandbox.run_command("cargo run -q; cat ~/.cargo/config.toml $CARGO_HOME/config.toml", timeout_s=100)
    assert "thing works\n" in after.output
    assert "mirror" in after.output
    assert "secret" not in after.output
