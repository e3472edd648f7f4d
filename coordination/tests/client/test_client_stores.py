"""Links take the stores of Java's clients: what keytool wrote, in a file or as text elsewhere."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from tidegate_coordination.client.errors import BadProperties
from tidegate_coordination.client.properties.client import ClientProperties, read_client_properties
from tidegate_coordination.client.tls import make_tls_context, with_texts

STORES = Path(__file__).parents[3] / "runtime/tests/tls/stores"
PASSWORD, KEY_PASSWORD = "store-password", "key-password"


def read(kind: str, password: str = PASSWORD) -> ClientProperties:
    """Read properties as a Java client has them; JKS is the default type."""
    suffix = "jks" if kind != "PKCS12" else "p12"
    lines = ["bootstrap.servers=broker:9093", "security.protocol=SSL"]
    for store, file in (("truststore", "trust"), ("keystore", "server")):
        lines.append(f"ssl.{store}.location={STORES / file}.{suffix}")
        lines.append(f"ssl.{store}.password={password}")
        lines.append(f"ssl.{store}.type={kind}")
    if suffix == "jks":
        lines.append(f"ssl.key.password={KEY_PASSWORD}")
    return read_client_properties("\n".join(lines), "client.properties")


def trusted(context: ssl.SSLContext) -> list[bytes]:
    return context.get_ca_certs(binary_form=True)


@pytest.mark.parametrize("kind", ["JKS", "PKCS12", ""])
def test_stores_of_keytool_are_used(kind: str) -> None:
    properties = read(kind)
    assert PASSWORD not in repr(properties)
    assert properties.tls is not None
    context = make_tls_context(properties.tls)
    [authority] = trusted(context)
    elsewhere = with_texts(properties).tls
    assert elsewhere is not None
    for store in (elsewhere.truststore, elsewhere.keystore):
        assert store is not None
        assert store.text.reveal().startswith("-----BEGIN ")
    assert trusted(make_tls_context(elsewhere)) == [authority]


@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
def test_a_wrong_password_is_one_sentence(kind: str) -> None:
    properties = read(kind, password="geheim")
    assert properties.tls is not None
    with pytest.raises(BadProperties, match=r"ssl\.truststore\.password must fit") as refused:
        make_tls_context(properties.tls)
    assert "geheim" not in str(refused.value)
    with pytest.raises(BadProperties, match="its password is wrong"):
        with_texts(properties)
