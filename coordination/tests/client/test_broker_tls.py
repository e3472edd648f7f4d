"""Our client's TLS to a classic broker: which certificates each side trusts."""

from __future__ import annotations

import ssl
from dataclasses import replace
from pathlib import Path

import pytest
import trio
import trustme
from cryptography.hazmat.primitives import serialization as se
from trio.testing import MockClock

from tests.client.test_broker_authentication import SECRET
from tests.worlds.scripted_broker import ADDRESS, PROPERTIES, ScriptedBroker
from tidegate_coordination.client.errors import (
    AuthenticationFailed,
    BadProperties,
    BrokerUnreachable,
    ClassicError,
)
from tidegate_coordination.client.properties.tls import Pem, TlsProperties
from tidegate_coordination.client.tls import make_tls_context
from tidegate_coordination.client.wire.connection import open_connection
from tidegate_coordination.client.wire.dialling import tls_dial
from tidegate_protocol.messages import metadata as me
from tidegate_runtime.secret import Secret

# -- TLS ------------------------------------------------------------------------------------------


@pytest.fixture
def ca() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def server(ca: trustme.CA) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert("broker-1").configure_cert(context)
    return context


@pytest.fixture
def ca_file(ca: trustme.CA, tmp_path: Path) -> str:
    path = tmp_path / "ca.pem"
    ca.cert_pem.write_to_path(path)
    return str(path)


async def connected_with(tls: TlsProperties, server: ssl.SSLContext) -> str | ClassicError:
    """Return the cluster id from a TLS broker, or the error of the connection."""
    async with trio.open_nursery() as nursery:
        answers = {"Metadata": lambda _: me.MetadataResponse(cluster_id="c")}
        broker = ScriptedBroker(nursery, answers, tls=server)
        dial = tls_dial(broker.dial, make_tls_context(tls))
        try:
            properties = replace(PROPERTIES, tls=tls)
            connection = await open_connection(nursery, dial, ADDRESS, properties)
            answer: me.MetadataResponse = await connection.call("Metadata", me.MetadataRequest())
        except ClassicError as error:
            return error
        await connection.aclose()
    return answer.cluster_id or ""


async def test_a_trusted_broker_is_connected(
    server: ssl.SSLContext, ca: trustme.CA, ca_file: str, autojump_clock: MockClock
) -> None:
    assert await connected_with(TlsProperties(Pem(ca_file)), server) == "c"
    text = f"a comment\n{ca.cert_pem.bytes().decode()}"
    assert await connected_with(TlsProperties(Pem(text=Secret(text))), server) == "c"


async def test_a_certificate_that_is_not_trusted_is_refused(
    server: ssl.SSLContext, autojump_clock: MockClock
) -> None:
    stranger = trustme.CA().cert_pem.bytes().decode()
    for tls in (TlsProperties(Pem(text=Secret(stranger))), TlsProperties()):
        error = await connected_with(tls, server)
        assert isinstance(error, AuthenticationFailed)
        assert "broker-1:9092 has a certificate that is not trusted" in str(error)


async def test_the_brokers_own_certificate_may_be_the_trusted_one(
    ca: trustme.CA, autojump_clock: MockClock
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    issued = ca.issue_cert("broker-1")
    issued.configure_cert(context)
    own = issued.cert_chain_pems[0].bytes().decode()
    assert await connected_with(TlsProperties(Pem(text=Secret(own))), context) == "c"


async def test_the_host_must_be_in_the_certificate_unless_that_is_off(
    ca: trustme.CA, ca_file: str, autojump_clock: MockClock
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert("other-broker").configure_cert(context)
    error = await connected_with(TlsProperties(Pem(ca_file)), context)
    assert "Hostname mismatch" in str(error)
    tls = TlsProperties(Pem(ca_file), is_host_checked=False)
    assert await connected_with(tls, context) == "c"


async def test_a_client_certificate_is_presented(
    server: ssl.SSLContext, ca: trustme.CA, ca_file: str, tmp_path: Path, autojump_clock: MockClock
) -> None:
    server.verify_mode = ssl.CERT_REQUIRED
    ca.configure_trust(server)
    issued = ca.issue_cert("client")
    path = tmp_path / "client.pem"
    issued.private_key_and_cert_chain_pem.write_to_path(path)
    key = issued.private_key_pem.bytes().decode()
    chain = issued.cert_chain_pems[0].bytes().decode()
    for store in (Pem(str(path)), Pem(text=Secret(chain), key=Secret(key))):
        assert await connected_with(TlsProperties(Pem(ca_file), store), server) == "c"
    # Trio's server closes without an alert; Kafka's alert is in compat-tests.
    error = await connected_with(TlsProperties(Pem(ca_file)), server)
    assert "check ssl.keystore.location" in str(error)


async def test_a_port_without_tls_is_named(ca_file: str, autojump_clock: MockClock) -> None:
    async def dial(host: str, port: int) -> trio.abc.Stream:
        client, server = trio.testing.memory_stream_pair()
        await server.send_all(b"\0\0\0\4nope")
        return client

    secured = tls_dial(dial, make_tls_context(TlsProperties(Pem(ca_file))))
    async with trio.open_nursery() as nursery:
        with pytest.raises(AuthenticationFailed, match=r"agree on no TLS.*security\.protocol"):
            await open_connection(nursery, secured, ADDRESS, PROPERTIES)


async def test_a_broker_that_hangs_up_in_the_handshake_is_unreachable(
    ca_file: str, autojump_clock: MockClock
) -> None:
    async def dial(host: str, port: int) -> trio.abc.Stream:
        client, server = trio.testing.memory_stream_pair()
        await server.aclose()
        return client

    secured = tls_dial(dial, make_tls_context(TlsProperties(Pem(ca_file))))
    async with trio.open_nursery() as nursery:
        with pytest.raises((BrokerUnreachable, AuthenticationFailed)):
            await open_connection(nursery, secured, ADDRESS, PROPERTIES)


BAD_STORES = {
    "no file": TlsProperties(Pem("/nowhere/ca.pem")),
    "no certificate": TlsProperties(Pem(text=Secret("nothing"))),
    "damaged": TlsProperties(
        Pem(text=Secret("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"))
    ),
    "no key file": TlsProperties(keystore=Pem("/nowhere/key.pem")),
    "no key": TlsProperties(
        keystore=Pem(text=Secret("nothing"), key=Secret(SECRET)), key_password=Secret(SECRET)
    ),
}


@pytest.mark.parametrize("name", BAD_STORES)
def test_a_store_that_cannot_be_used_is_one_sentence(name: str) -> None:
    with pytest.raises(BadProperties, match=r"^ssl\.(trust|key)store.*cannot be used") as caught:
        make_tls_context(BAD_STORES[name])
    assert SECRET not in str(caught.value)


def test_an_encrypted_key_needs_its_password(ca: trustme.CA) -> None:
    issued = ca.issue_cert("client")
    plain = se.load_pem_private_key(issued.private_key_pem.bytes(), None)
    best = se.BestAvailableEncryption(SECRET.encode())
    key = plain.private_bytes(se.Encoding.PEM, se.PrivateFormat.PKCS8, best).decode()
    store = Pem(text=Secret(issued.cert_chain_pems[0].bytes().decode()), key=Secret(key))
    make_tls_context(TlsProperties(keystore=store, key_password=Secret(SECRET)))
    for wrong in ("", "wrong"):
        with pytest.raises(BadProperties, match=r"ssl\.key\.password must fit"):
            make_tls_context(TlsProperties(keystore=store, key_password=Secret(wrong)))
