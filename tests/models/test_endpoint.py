from __future__ import annotations

import pytest

from lmtui.models.endpoint import is_local


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
