"""The PROXY protocol's header, versions 1 and 2; no I/O.

A load balancer sends this header to name the client whose connection it forwards.
https://www.haproxy.org/download/1.8/doc/proxy-protocol.txt

The reader must not take bytes after the header from the socket.  So read_proxy_header() returns the
least number of missing bytes, and the reader receives at most as many.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from struct import Struct
from typing import Final

MAX_HEADER_BYTES: Final = 4096
"""The bound on a version 2 header with all its TLVs; a certificate in them has about 2 KiB."""

_SIGNATURE: Final = b"\r\n\r\n\0\r\nQUIT\n"
_FIRST_BYTES: Final = len(_SIGNATURE)  # no whole header of either version is shorter
_HEAD: Final = Struct(">12sBBH")
_V1_START: Final = b"PROXY "
_V1_END: Final = b"\r\n"
_MAX_V1_BYTES: Final = 107
_V1_WORDS: Final = 6
_MAX_PORT: Final = 65535
_LOCAL, _PROXY = 0x20, 0x21
# Families and transports.  The protocol requires to refuse all others.
_UNSPECIFIED, _UNIX = 0x00, frozenset({0x31, 0x32})
_IPV4, _IPV6 = frozenset({0x11, 0x12}), frozenset({0x21, 0x22})
_IPV4_ADDRESSES, _IPV6_ADDRESSES = Struct(">4s4sHH"), Struct(">16s16sHH")
_UNIX_BYTES: Final = 216


class BadProxyHeader(Exception):
    """The header is malformed, so the connection must be closed.  The text says why."""


@dataclass(frozen=True, slots=True)
class ProxyHeader:
    """source: address and port of the client; None for the connection's own."""

    source: tuple[str, int] | None


def read_proxy_header(data: bytes) -> ProxyHeader | int:
    """Parse all bytes received so far; return the header, or the least number of missing bytes.

    Raises:
      BadProxyHeader: the bytes do not begin a PROXY header.
    """
    if len(data) < _FIRST_BYTES:
        return _FIRST_BYTES - len(data)
    if data.startswith(_SIGNATURE):
        return _read_v2(data)
    if data.startswith(_V1_START):
        return _read_v1(data)
    raise BadProxyHeader("the connection does not begin with a PROXY header")


# -- version 1: a line of text ------------------------------------------------------------------


def _read_v1(data: bytes) -> ProxyHeader | int:
    if not data.endswith(_V1_END):
        if len(data) >= _MAX_V1_BYTES or _V1_END in data:
            raise BadProxyHeader("the PROXY line does not end")
        return 1 if data.endswith(_V1_END[:1]) or len(data) == _MAX_V1_BYTES - 1 else 2
    try:
        words = data[: -len(_V1_END)].decode("ascii").split(" ")
    except UnicodeDecodeError:
        raise BadProxyHeader("the PROXY line is not text") from None
    if words[1] == "UNKNOWN":
        return ProxyHeader(None)
    if len(words) != _V1_WORDS or words[1] not in ("TCP4", "TCP6"):
        raise BadProxyHeader("the PROXY line is not `PROXY TCP4|TCP6 source target port port`")
    kind = IPv4Address if words[1] == "TCP4" else IPv6Address
    try:
        source, _ = kind(words[2]), kind(words[3])
    except AddressValueError as error:
        raise BadProxyHeader(f"the PROXY line has a wrong address: {error}") from error
    ports = [_port(each) for each in words[4:]]
    return ProxyHeader((str(source), ports[0]))


def _port(text: str) -> int:
    is_number = text.isdecimal() and (text == "0" or not text.startswith("0"))
    if not is_number or int(text) > _MAX_PORT:
        raise BadProxyHeader("the PROXY line has a wrong port")
    return int(text)


# -- version 2: binary --------------------------------------------------------------------------


def _read_v2(data: bytes) -> ProxyHeader | int:
    if len(data) < _HEAD.size:
        return _HEAD.size - len(data)
    _, command, family, length = _HEAD.unpack_from(data)
    if command not in (_LOCAL, _PROXY):
        raise BadProxyHeader(f"the PROXY header has version and command {command:#04x}")
    if _HEAD.size + length > MAX_HEADER_BYTES:
        raise BadProxyHeader(f"the PROXY header has {length} bytes more; that is too many")
    missing: int = _HEAD.size + length - len(data)
    if missing > 0:
        return missing
    if command == _LOCAL:  # a connection of the proxy itself, such as a health check
        return ProxyHeader(None)
    return _read_addresses(family, data[_HEAD.size : _HEAD.size + length])


def _read_addresses(family: int, block: bytes) -> ProxyHeader:
    """Read the addresses, and ignore the TLVs after them."""
    if family == _UNSPECIFIED:
        return ProxyHeader(None)
    if family in _UNIX:
        _expect_size(block, _UNIX_BYTES)
        return ProxyHeader(None)
    if family in _IPV4:
        _expect_size(block, _IPV4_ADDRESSES.size)
        source, _, port, _ = _IPV4_ADDRESSES.unpack_from(block)
        return ProxyHeader((str(IPv4Address(source)), port))
    if family in _IPV6:
        _expect_size(block, _IPV6_ADDRESSES.size)
        source, _, port, _ = _IPV6_ADDRESSES.unpack_from(block)
        return ProxyHeader((str(IPv6Address(source)), port))
    raise BadProxyHeader(f"the PROXY header has address family {family:#04x}")


def _expect_size(block: bytes, size: int) -> None:
    if len(block) < size:
        raise BadProxyHeader(f"the PROXY header has {len(block)} bytes of addresses, not {size}")
