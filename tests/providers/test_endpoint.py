from __future__ import annotations

import pytest

from lmtui.core.errors import UsageError
from lmtui.providers.endpoint import base_url, is_local, root_url


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("http://localhost:1234", "http://localhost:1234/v1"),
        ("localhost:1234/", "http://localhost:1234/v1"),
        ("http://localhost:1234/v1", "http://localhost:1234/v1"),
        ("http://localhost:1234/v1/chat/completions", "http://localhost:1234/v1"),
        ("https://host/proxy/v1/models", "https://host/proxy/v1"),
        ("http://[::1]:8080", "http://[::1]:8080/v1"),
        ("http://user:secret@host:1/v1?key=1#x", "http://host:1/v1"),
    ],
)
def test_forms_of_an_address(address: str, expected: str) -> None:
    assert base_url(address) == expected
    assert root_url(address) == expected.removesuffix("/v1")


@pytest.mark.parametrize(
    "address", ["", "ftp://host", "http://", "http://host:notaport", "file:///etc/passwd", "http://host:0"]
)
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(UsageError, match="not a server address"):
        base_url(address)


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("localhost:1", True),
        ("192.168.1.5", True),
        ("http://[::1]:8080", True),
        ("https://api.example.com", False),
        ("box.lan", True),
    ],
)
def test_local_addresses(address: str, expected: bool) -> None:
    assert is_local(address) is expected
