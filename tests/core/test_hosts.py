from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmtui.core.errors import UsageError
from lmtui.core.hosts import is_covered, is_public, parse_host, parse_pattern, wider_patterns
from tests.sets import for_each


@for_each("text", [
    "", "localhost", "127.0.0.1", "0x7f.1", "1.2.3.4.", "2130706433", "pypi.org.", ".pypi.org", "pypi..org", "-a.org", "a-.org",
    "a_b.org", "pypi.org:443", "user@pypi.org", "pypi.org/x", "pypi.org\0.evil.com", "pypi.org\n", "pypі.org", "[::1]", "::1",
    "pypi.org%00", "a." + "b" * 64 + ".org", ".".join(["abcdefghij"] * 26), "pypi org.com", "*.org", "pypi.org#", "pypi。org",
])  # fmt: skip
def test_what_is_no_host_name_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_host(text)


@given(st.text())
def test_a_parsed_host_has_no_characters_that_another_parser_could_read_otherwise(text: str) -> None:
    try:
        host = parse_host(text)
    except UsageError:
        return
    assert set(host) <= set("abcdefghijklmnopqrstuvwxyz0123456789-.")
    assert parse_host(host) == host
    with pytest.raises(ValueError, match="does not appear"):
        ipaddress.ip_address(host)


def test_hosts_are_taken_in_lower_case_and_a_suffix_covers_what_is_below_it_alone() -> None:
    for text in ("pypi.org", "PyPI.org", "a-b.example.co.uk", "xn--bcher-kva.example", "1.pool.ntp.org"):
        assert parse_host(text) == text.lower()
    patterns = [parse_pattern("pypi.org"), parse_pattern(".pythonhosted.org")]
    assert is_covered("pypi.org", patterns)
    assert is_covered("files.pythonhosted.org", patterns)
    for host in ("evil-pypi.org", "pypi.org.evil.com", "www.pypi.org", "pythonhosted.org", "evilpythonhosted.org"):
        assert not is_covered(host, patterns)
    assert wider_patterns("files.pythonhosted.org") == (".pythonhosted.org",)
    for host in ("pypi.org", "shop.example.co.uk", "a.github.io", "x.com.au"):
        assert wider_patterns(host) == ()


@for_each("address", [
    "127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1",
    "255.255.255.255", "198.18.0.1", "192.0.2.1", "::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "ff02::1",
    "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "2001::1", "2001:db8::1", "nonsense", "",
    "fec0::1", "4000::1",
])  # fmt: skip
def test_other_addresses_are_not(address: str) -> None:
    assert not is_public(address)
    assert all(map(is_public, ("93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946", "8.8.8.8")))
