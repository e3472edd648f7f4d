"""Hosts in the form in which ACLs name them."""

from __future__ import annotations

import pytest

from tidegate_gateway.security.hosts import host_of


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("10.1.2.3", "10.1.2.3"),
        ("::ffff:10.1.2.3", "10.1.2.3"),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("fe80::1%eth0", "fe80:0:0:0:0:0:0:1%eth0"),
        ("2001:db8::ff00:42:8329", "2001:db8:0:0:0:ff00:42:8329"),
        ("client-1", "client-1"),
        ("", ""),
    ],
)
def test_addresses_are_as_java_writes_them(address: str, host: str) -> None:
    assert host_of(address) == host
