from __future__ import annotations

from pathlib import Path

import pytest

from lmtui.core.errors import ConfigError
from lmtui.models.keys import resolve_key


def test_a_plain_value_is_the_key() -> None:
    assert resolve_key("sk-1") == "sk-1"


@pytest.mark.parametrize("key", ["\u201csk-1\u201d", "sk\n1", "ключ"])
def test_what_no_request_can_carry_is_no_key(key: str) -> None:
    with pytest.raises(ConfigError, match="no request can carry"):
        resolve_key(key)


def test_a_key_comes_from_a_file_that_only_its_owner_can_read(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("sk-1\n")
    path.chmod(0o600)
    assert resolve_key(f"file:{path}") == "sk-1"
    path.chmod(0o640)
    with pytest.raises(ConfigError, match="read by others"):
        resolve_key(f"file:{path}")


@pytest.mark.parametrize("content", [b"", b"two\nlines", b"\xff"])
def test_a_file_without_a_key_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "key"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(ConfigError, match=str(path)):
        resolve_key(f"file:{path}")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        resolve_key(f"file:{tmp_path}/nothing")
