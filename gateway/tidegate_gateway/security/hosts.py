"""The host of a client as ACLs name it: the address as Java writes it."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address


def host_of(address: str) -> str:
    """Return what InetAddress.getHostAddress() of Java returns for an address.

    An IPv4 address in an IPv6 one is the IPv4 address; an IPv6 address has all of its eight groups.
    Other texts, such as names, stay as they are.
    """
    plain, percent, scope = address.partition("%")
    try:
        found = ip_address(plain)
    except ValueError:
        return address
    if not isinstance(found, IPv6Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    groups = [found.packed[at : at + 2].hex().lstrip("0") or "0" for at in range(0, 16, 2)]
    return ":".join(groups) + percent + scope
