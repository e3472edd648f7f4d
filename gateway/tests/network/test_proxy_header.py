"""The PROXY protocol: only an exactly right header is accepted, and no byte after it is read."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address
from struct import pack

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from tests.worlds.wire_client import Closed, wire_world
from tidegate_gateway.network.memory_transport import memory_transport_pair
from tidegate_gateway.network.proxied import HEADER_SECONDS, source_of
from tidegate_gateway.network.proxy_header import BadProxyHeader, ProxyHeader, read_proxy_header
from tidegate_protocol.messages.metadata import MetadataRequest

SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
PORTS = st.integers(0, 65535)


def v2(block: bytes, family: int = 0x11, command: int = 0x21) -> bytes:
    return SIGNATURE + pack(">BBH", command, family, len(block)) + block


def ipv4_block(host: str = "10.1.2.3", port: int = 77) -> bytes:
    return IPv4Address(host).packed + IPv4Address("10.0.0.9").packed + pack(">HH", port, 9092)


def read_in_steps(data: bytes) -> tuple[ProxyHeader, bytes]:
    """Pass as many bytes as are requested; return the header and the bytes after it."""
    taken = 0
    while isinstance(found := read_proxy_header(data[:taken]), int):
        assert found > 0
        taken += found
        assert taken <= len(data), "it asks for more than the header has"
    return found, data[taken:]


@given(st.ip_addresses(v=4), PORTS, st.binary(max_size=300), st.sampled_from([0x11, 0x12]))
def test_v2_ipv4(host: IPv4Address, port: int, tlvs: bytes, family: int) -> None:
    data = v2(ipv4_block(str(host), port) + tlvs, family) + b"kafka"
    assert read_in_steps(data) == (ProxyHeader((str(host), port)), b"kafka")


@given(st.ip_addresses(v=6), PORTS, st.binary(max_size=300))
def test_v2_ipv6(host: IPv6Address, port: int, tlvs: bytes) -> None:
    block = host.packed + bytes(16) + pack(">HH", port, 1) + tlvs
    assert read_in_steps(v2(block, 0x21) + b"k") == (ProxyHeader((str(host), port)), b"k")


@given(st.ip_addresses(), PORTS)
def test_v1(host: IPv4Address | IPv6Address, port: int) -> None:
    line = f"PROXY TCP{host.version} {host} {host} {port} 9092\r\n".encode()
    assert read_in_steps(line + b"kafka") == (ProxyHeader((str(host), port)), b"kafka")


@pytest.mark.parametrize(
    "data",
    [
        v2(b"", 0x00, 0x20),
        v2(ipv4_block(), 0x11, 0x20),
        v2(b"", 0x00),
        v2(bytes(7), 0x00),
        v2(bytes(216), 0x31),
        b"PROXY UNKNOWN\r\n",
        b"PROXY UNKNOWN ffff::1 whatever 1 2\r\n",
    ],
)
def test_a_proxy_header_may_name_no_client(data: bytes) -> None:
    assert read_in_steps(data + b"kafka") == (ProxyHeader(None), b"kafka")


@pytest.mark.parametrize(
    "data",
    [
        b"\0\0\0\x1a\0\x12\0\3\0\0\0\1",
        b"GET / HTTP/1.1\r\n",
        v2(ipv4_block(), command=0x11),
        v2(ipv4_block(), command=0x22),
        v2(ipv4_block(), family=0x13),
        v2(ipv4_block(), family=0x41),
        v2(ipv4_block()[:-1]),
        v2(ipv4_block(), family=0x21),
        v2(bytes(215), family=0x31),
        v2(bytes(5000)),
        b"PROXY TCP4 1.2.3.4 5.6.7.8 1\r\n",
        b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2 3\r\n",
        b"PROXY TCP4 1.2.3.4  5.6.7.8 1 2\r\n",
        b"PROXY TCP4 01.2.3.4 5.6.7.8 1 2\r\n",
        b"PROXY TCP4 ::1 ::1 1 2\r\n",
        b"PROXY TCP6 1.2.3.4 5.6.7.8 1 2\r\n",
        b"PROXY TCP4 1.2.3.4 5.6.7.8 65536 2\r\n",
        b"PROXY TCP4 1.2.3.4 5.6.7.8 01 2\r\n",
        b"PROXY TCP4 1.2.3.4 5.6.7.8 1 -2\r\n",
        b"PROXY UDP4 1.2.3.4 5.6.7.8 1 2\r\n",
        b"PROXY TCP4 1.2.3.\xb2 5.6.7.8 1 2\r\n",
        b"PROXY TCP4 " + b"1" * 200 + b"\r\n",
        b"PROXY \r\n" + bytes(20),
    ],
)
def test_whatever_is_wrong_is_refused(data: bytes) -> None:
    with pytest.raises(BadProxyHeader):
        read_in_steps(data)


@given(
    st.binary(), st.sampled_from([b"", SIGNATURE, SIGNATURE + b"\x21", b"PROXY ", b"PROXY TCP4"])
)
def test_no_bytes_break_it(rest: bytes, start: bytes) -> None:
    data, taken = start + rest, 0
    try:
        while isinstance(found := read_proxy_header(data[:taken]), int) and taken < len(data):
            assert found > 0
            taken += found
    except BadProxyHeader:
        pass


# -- on a connection -------------------------------------------------------------------------------


async def test_a_slow_header_is_waited_for_in_pieces(autojump_clock: trio.abc.Clock) -> None:
    client, server = memory_transport_pair(("proxy", 5))
    data = v2(ipv4_block())

    async def send() -> None:
        for number in range(len(data)):
            await trio.sleep(0.01)
            client.send_nowait([data[number : number + 1]])
        client.send_nowait([b"kafka"])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(send)
        assert await source_of(server) == ("10.1.2.3", 77)
    rest = memoryview(bytearray(10))
    assert server.receive_nowait(rest) == 5


async def test_a_header_that_does_not_come_is_not_waited_for(
    autojump_clock: trio.abc.Clock,
) -> None:
    client, server = memory_transport_pair()
    client.send_nowait([SIGNATURE])
    start = trio.current_time()
    assert await source_of(server) is None
    assert trio.current_time() - start == HEADER_SECONDS


@pytest.mark.parametrize("sent", [b"", SIGNATURE])
async def test_a_connection_that_ends_inside_the_header_names_no_client(sent: bytes) -> None:
    client, server = memory_transport_pair()
    if sent:
        client.send_nowait([sent])
    client.close()
    assert await source_of(server) is None


async def test_a_connection_without_an_address_in_its_header_has_its_own() -> None:
    client, server = memory_transport_pair(("proxy", 5))
    client.send_nowait([v2(b"", 0x00, 0x20)])
    assert await source_of(server) == ("proxy", 5)


async def test_only_a_proxied_listener_reads_a_proxy_header() -> None:
    settings = {"proxy.protocol.listeners": "plaintext", "zone.cidr.map": "b@10.0.0.0/8"}
    async with wire_world(settings) as world:
        client = world.connect("192.0.2.1")
        await client.send(v2(ipv4_block()))
        await client.call("Metadata", 12, MetadataRequest([]))
        [connection] = world.gateway.connections
        peer = connection.peer
        without = world.connect("10.0.0.1")
        with pytest.raises(Closed):
            await without.call("Metadata", 12, MetadataRequest([]))
    assert (peer.host, peer.port, peer.origin.zone) == ("10.1.2.3", 77, "b")

    async with wire_world({"zone.cidr.map": "b@10.0.0.0/8"}) as world:
        client = world.connect("192.0.2.1")
        await client.send(v2(ipv4_block()))
        with pytest.raises(Closed):
            await client.call("Metadata", 12, MetadataRequest([]))
