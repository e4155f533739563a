from __future__ import annotations

from lmtui.models.endpoint import is_local
from tests.sets import for_each


@for_each(("address", "expected"), [
    ("localhost:1", True), ("192.168.1.5", True), ("http://[::1]:8080", True), ("https://api.example.com", False),
    ("box.lan", True),
])  # fmt: skip
def test_local_addresses(address: str, expected: bool) -> None:
    assert is_local(address) is expected
