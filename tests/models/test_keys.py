from __future__ import annotations

import re
from pathlib import Path

import pytest

import lmtui
from lmtui.core.errors import ConfigError
from lmtui.models.keys import ServerKeys, resolve_key
from tests.sets import for_each


def test_a_key_comes_from_a_file_of_its_owner_alone_and_what_no_request_can_carry_is_none(tmp_path: Path) -> None:
    assert resolve_key("sk-1") == "sk-1"
    for key in ("\u201csk-1\u201d", "sk\n1", "ключ"):
        with pytest.raises(ConfigError, match="no request can carry"):
            resolve_key(key)
    path = tmp_path / "key"
    path.write_text("sk-1\n")
    path.chmod(0o600)
    assert resolve_key(f"file:{path}") == "sk-1"
    path.chmod(0o640)
    with pytest.raises(ConfigError, match="read by others"):
        resolve_key(f"file:{path}")


@for_each("content", [b"", b"two\nlines", b"\xff", None])
def test_a_file_without_a_key_is_named(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "key"
    if content is not None:
        path.write_bytes(content)
        path.chmod(0o600)
    with pytest.raises(ConfigError, match="cannot be read" if content is None else str(path)):
        resolve_key(f"file:{path}")


@for_each("url", [
    "https://api.example.com/v1", "https://api.example.com", "HTTPS://API.Example.COM/v1/chat/completions",
    "https://api.example.com:443", "https://api.example.com./v1", "https://user:word@api.example.com/other",
])  # fmt: skip
def test_a_key_goes_to_its_origin_however_that_is_written(url: str) -> None:
    assert ServerKeys([("https://api.example.com/v1", "sk-1")]).key_for(url) == "sk-1"


@for_each("url", [
    "http://api.example.com", "https://api.example.com:8443", "https://api.example.com.evil.org", "https://example.com",
    "https://xapi.example.com", "https://api.example.com@evil.org", "https://api.example.com:443@evil.org/v1",
    "https://evil.org/https://api.example.com/v1", "https://evil.org#@api.example.com/", "https://evil.org?api.example.com",
    "https://api.example.co", "https://api\N{FULLWIDTH FULL STOP}example.com",
    "https://\N{CYRILLIC SMALL LETTER A}pi.example.com",
    "https://api.example.com..", "https://[::ffff:1.2.3.4]", "api.example.com", "https://api.example.com%2eevil.org",
    "ftp://api.example.com", "https://", "", "gguf:", "profile:", "https://evil.org\\@other.org", "https://a b",
])  # fmt: skip
def test_a_key_goes_to_no_other_address(url: str) -> None:
    assert ServerKeys([("https://api.example.com/v1", "sk-1")]).key_for(url) == ""


def test_only_the_keys_of_servers_are_read_from_settings_where_servers_are_known() -> None:
    root = Path(lmtui.__file__).parent
    allowed = {"models/keys.py", "app/model_servers.py", "app/key_protection.py", "features/web_tools/fetcher.py"}
    readers = {str(each.relative_to(root)) for each in root.rglob("*.py") if "resolve_key" in each.read_text()}
    assert readers == allowed
    named = {str(each.relative_to(root)) for each in root.rglob("*.py") if re.search(r"config\.api_key", each.read_text())}
    assert named == {"app/model_servers.py", "app/key_protection.py"}
