"""Keystores and truststores: PEM, and what keytool writes."""

from __future__ import annotations

import shutil
import ssl
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives import serialization as s

from tests.tls.keytool import KEY_PASSWORD, PASSWORD, STORES, make
from tidegate_runtime.tls.bad_store import BadStore
from tidegate_runtime.tls.certificate import read_certificate
from tidegate_runtime.tls.contexts import present, trust
from tidegate_runtime.tls.distinguished_names import java_name
from tidegate_runtime.tls.stores import KeyEntry, chain_problem, read_key_entry, read_trusted

KEYSTORES = {
    "server.p12": (PASSWORD, None),
    "legacy.p12": (PASSWORD, None),
    "server.jks": (PASSWORD, KEY_PASSWORD),
}
SIGNED = ("server.p12", "server.jks")
TRUSTSTORES = ("trust.p12", "trust-legacy.p12", "trust.jks")
CA = trustme.CA()
ISSUED = CA.issue_cert("gateway.test", common_name="pem")
KEY = ISSUED.private_key_pem.bytes()
CHAIN = b"".join(each.bytes() for each in ISSUED.cert_chain_pems)


def name(der: bytes) -> str:
    return java_name(read_certificate(der).subject)


def read(store: str, folder: Path = STORES) -> KeyEntry:
    return read_key_entry((folder / store).read_bytes(), *KEYSTORES[store])


def handshake(entry: KeyEntry, trusted: tuple[bytes, ...]) -> None:
    """A server that presents the entry convinces a client that trusts the certificates."""
    server, client = (
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER),
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
    )
    present(server, entry)
    client.check_hostname = False
    trust(client, trusted)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname="x"),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    while ends:
        for end in tuple(ends):
            try:
                end.do_handshake()
                ends.remove(end)
            except ssl.SSLWantReadError:
                pass


@pytest.mark.parametrize("store", KEYSTORES)
def test_keystores_of_keytool_are_read(store: str) -> None:
    entry = read(store)
    kind = {"server.p12": "pkcs12", "legacy.p12": "legacy", "server.jks": "jks"}[store]
    assert java_name(entry.chain[0].subject) == f"CN=one,OU={kind}"
    handshake(entry, (entry.chain[0].der,))
    assert "PRIVATE" not in repr(entry)


@pytest.mark.parametrize("store", SIGNED)
@pytest.mark.parametrize("truststore", [*TRUSTSTORES, "ca.pem"])
def test_chains_are_trusted_by_any_kind_of_truststore(store: str, truststore: str) -> None:
    entry = read(store)
    assert [java_name(each.subject) for each in entry.chain[1:]] == ["CN=ca"]
    assert chain_problem(entry.chain) == ""
    data = (STORES / truststore).read_bytes()
    trusted = read_trusted(data, PASSWORD)
    assert [name(each) for each in trusted] == ["CN=ca"]
    handshake(entry, trusted)


@pytest.mark.parametrize("store", SIGNED)
def test_of_a_keystore_only_own_certificates_are_trusted_as_in_java(store: str) -> None:
    trusted = read_trusted((STORES / store).read_bytes(), PASSWORD)
    assert "CN=ca" not in [name(each) for each in trusted]
    handshake(read(store), trusted)


def test_a_jks_store_needs_no_password_to_trust_it() -> None:
    assert read_trusted((STORES / "trust.jks").read_bytes(), None)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("keytool") is None, reason="needs Java")
def test_stores_that_keytool_just_made_are_read(tmp_path: Path) -> None:
    make(tmp_path)
    trusted = [read_trusted((tmp_path / each).read_bytes(), PASSWORD) for each in TRUSTSTORES]
    assert trusted[0] == trusted[1] == trusted[2]
    for store in SIGNED:
        handshake(read(store, tmp_path), trusted[0])


def test_pem_is_read_whatever_stands_between_the_blocks() -> None:
    entry = read_key_entry(b"Bag Attributes\n" + CHAIN + b"localKeyID: 1\n" + KEY, None, None)
    assert "CN=pem" in java_name(entry.chain[0].subject)
    handshake(entry, read_trusted(b"the root:\n" + CA.cert_pem.bytes(), None))


@pytest.mark.parametrize("form", [s.PrivateFormat.PKCS8, s.PrivateFormat.TraditionalOpenSSL])
def test_encrypted_keys_are_read_with_their_password(form: s.PrivateFormat) -> None:
    key = s.load_pem_private_key(KEY, None)
    text = key.private_bytes(s.Encoding.PEM, form, s.BestAvailableEncryption(b"geheim\xc3\xa4"))
    entry = read_key_entry(text + CHAIN, None, "geheimä")
    handshake(entry, read_trusted(CA.cert_pem.bytes(), None))
    for password, reason in ((None, "needs ssl.key.password"), ("x", "is wrong")):
        with pytest.raises(BadStore, match=reason):
            read_key_entry(text + CHAIN, None, password)


def cut(store: str, at: int) -> bytes:
    return (STORES / store).read_bytes()[:at]


def flipped(store: str, at: int) -> bytes:
    data = bytearray((STORES / store).read_bytes())
    data[at] ^= 1
    return bytes(data)


BAD_KEYSTORES = {
    "nothing": (b"", None, None, "it needs a password, or it is no PKCS12, JKS or PEM"),
    "text": (b"hello", None, None, "no PKCS12, JKS or PEM"),
    "only a key": (KEY, None, None, "no certificate of its key"),
    "only certificates": (CHAIN, None, None, "no private key in PEM"),
    "another's key": (CHAIN + trustme.CA().private_key_pem.bytes(), None, None, "mismatch"),
    "a broken certificate": (KEY + CHAIN.replace(b"\n", b"\n!", 1), None, None, "not base64"),
    "pkcs12, wrong password": (cut("server.p12", 9999), "x", None, "its password is wrong"),
    "pkcs12, no password": (cut("server.p12", 9999), None, None, "it needs a password"),
    "pkcs12, cut": (cut("server.p12", 500), PASSWORD, None, "or damaged"),
    "pkcs12, only trusted": (cut("trust.p12", 9999), PASSWORD, None, "no private key"),
    "jks, wrong password": (cut("server.jks", 9999), "x", KEY_PASSWORD, "its password is wrong"),
    "jks, wrong key password": (cut("server.jks", 9999), PASSWORD, "x", "of its key is wrong"),
    "jks, no password": (cut("server.jks", 9999), None, None, "its key needs a password"),
    "jks, cut": (cut("server.jks", 300), None, KEY_PASSWORD, "it is damaged"),
    "jks, flipped": (flipped("server.jks", 200), PASSWORD, KEY_PASSWORD, "or it is damaged"),
    "jks, only trusted": (cut("trust.jks", 9999), PASSWORD, None, "no private key"),
    "jceks": (b"\xce\xce\xce\xce\0\0\0\2", PASSWORD, None, "JCEKS store: convert it"),
}


@pytest.mark.parametrize("kind", BAD_KEYSTORES)
def test_what_is_wrong_with_a_keystore_is_said_without_secrets(kind: str) -> None:
    data, password, key_password, reason = BAD_KEYSTORES[kind]
    with pytest.raises(BadStore, match=reason) as refused:
        present(
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), read_key_entry(data, password, key_password)
        )
    assert PASSWORD not in str(refused.value)
    assert "PRIVATE" not in str(refused.value)


@pytest.mark.parametrize("data", [b"", KEY, b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END"])
def test_a_truststore_without_certificates_is_refused(data: bytes) -> None:
    with pytest.raises(BadStore):
        read_trusted(data, None)


@pytest.mark.parametrize("store", ["server.jks", "trust.jks", "server.p12"])
def test_no_cut_of_a_store_breaks_its_reader(store: str) -> None:
    data = (STORES / store).read_bytes()
    for size in range(len(data)):
        with pytest.raises(BadStore):
            read_trusted(data[:size], None)


def test_a_chain_in_the_wrong_order_is_noticed() -> None:
    chain = [read_certificate(ssl.PEM_cert_to_DER_cert(ISSUED.cert_chain_pems[0].bytes().decode()))]
    root = read_certificate(ssl.PEM_cert_to_DER_cert(CA.cert_pem.bytes().decode()))
    assert chain_problem([*chain, root]) == ""
    assert chain_problem([root, *chain]) == (
        "certificate 2 of its chain did not sign certificate 1"
    )
