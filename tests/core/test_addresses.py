from __future__ import annotations

import pytest

from lmtui.core.errors import UsageError
from lmtui.core.hosts import base_url, is_same_server, root_url
from tests.sets import for_each


@for_each(("address", "expected"), [
    ("http://localhost:1234", "http://localhost:1234/v1"), ("localhost:1234/", "http://localhost:1234/v1"),
    ("http://localhost:1234/v1", "http://localhost:1234/v1"),
    ("http://localhost:1234/v1/chat/completions", "http://localhost:1234/v1"),
    ("https://host/proxy/v1/models", "https://host/proxy/v1"), ("http://[::1]:8080", "http://[::1]:8080/v1"),
    ("http://user:secret@host:1/v1?key=1#x", "http://host:1/v1"),
])  # fmt: skip
def test_forms_of_an_address(address: str, expected: str) -> None:
    assert (base_url(address), root_url(address)) == (expected, expected.removesuffix("/v1"))


@for_each("address", [
    "", "ftp://host", "http://", "http://host:notaport", "file:///etc/passwd", "http://host:0", "http://[::1", "http://[x]",
])  # fmt: skip
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(UsageError, match="not a server address"):
        base_url(address)


@for_each(("one", "other", "expected"), [
    ("http://localhost:1234", "http://127.0.0.1:1234/v1/", True), ("http://[::1]:1234/v1", "127.0.0.1:1234", True),
    ("http://0.0.0.0:1234/", "http://localhost:1234/v1/models", True), ("https://host/proxy/v1", "https://host/proxy/", True),
    ("https://host/proxy", "https://host", False), ("http://127.0.0.1:1234", "http://127.0.0.1:1235", False),
    ("http://host:1", "https://host:1", False), ("gguf:", "http://127.0.0.1:1234", False), ("gguf:", "gguf:", True),
    ("", "http://127.0.0.1:1234", False), ("", "", True),
])  # fmt: skip
def test_one_server_has_many_addresses(one: str, other: str, expected: bool) -> None:
    assert is_same_server(one, other) is expected
    assert is_same_server(other, one) is expected
