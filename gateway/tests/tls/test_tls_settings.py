"""The ssl.* settings of listeners, and what is refused at the start."""

from __future__ import annotations

import ssl
from typing import Any

import pytest
from structlog.testing import capture_logs
from trio.testing import wait_all_tasks_blocked

from tests.worlds.security.tls_world import TlsClientTransport, authority, client_context, opened
from tests.worlds.wire_client import wire_world
from tidegate_gateway.settings import listener_settings
from tidegate_gateway.settings.broker_settings import BrokerSettings
from tidegate_gateway.settings.listener_settings import Protection
from tidegate_gateway.tls.cipher_suites import TLS13_SUITES
from tidegate_gateway.tls.tls_settings import TlsSettings, tls_settings
from tidegate_runtime.secret import Secret
from tidegate_runtime.settings_texts import SettingsError

STORE = {"ssl.keystore.location": "/etc/server.pem"}
SECRET = "geheim"


def read(listener: str = "SSL", **settings: str) -> TlsSettings:
    """Read settings; `_` in names stands for a dot."""
    texts = {name.replace("_", "."): text for name, text in settings.items()}
    return tls_settings(BrokerSettings({**STORE, **texts}), listener)


def test_a_listeners_own_settings_come_first() -> None:
    texts = {
        "listener.security.protocol.map": "INNER:SSL,OUTER:SSL",
        "ssl.keystore.location": "/all.pem",
        "ssl.client.auth": "required",
        "listener.name.inner.ssl.keystore.location": "/inner.pem",
        "listener.name.inner.ssl.client.auth": "none",
    }
    inner = tls_settings(BrokerSettings(texts), "INNER")
    outer = tls_settings(BrokerSettings(texts), "OUTER")
    assert (str(inner.keystore.path), inner.client_auth) == ("/inner.pem", ssl.CERT_NONE)
    assert (str(outer.keystore.path), outer.client_auth) == ("/all.pem", ssl.CERT_REQUIRED)


def test_defaults_are_kafkas() -> None:
    found = read()
    assert found.versions == (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)
    assert found.client_auth is ssl.CERT_NONE
    assert found.truststore is None
    assert (found.may_change_name, found.may_change_alt_names) == (False, False)
    assert found.rules.principal_of("CN=x") == "User:CN=x"


def test_on_a_listener_with_sasl_only_its_own_client_auth_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    protocols = {"SASL_SSL": Protection(is_tls=True, is_sasl=True)}
    monkeypatch.setattr(listener_settings, "PROTOCOLS", protocols)
    monkeypatch.setattr("tidegate_gateway.tls.tls_settings.PROTOCOLS", protocols)
    found = read("SASL_SSL", ssl_client_auth="required")
    assert (found.client_auth, found.is_auth_ignored) == (ssl.CERT_NONE, True)
    texts = {**STORE, "listener.name.sasl_ssl.ssl.client.auth": "required"}
    found = tls_settings(BrokerSettings(texts), "SASL_SSL")
    assert (found.client_auth, found.is_auth_ignored) == (ssl.CERT_REQUIRED, False)
    assert found.has_sasl


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"ssl_engine_factory_class": "com.acme.Engine"}, "ssl.engine.factory.class names Java"),
        ({"ssl_provider": "BC"}, "ssl.provider names Java classes"),
        ({"security_providers": "com.acme.P"}, "security.providers names Java classes"),
        ({"ssl_enabled_protocols": "TLSv1.1,TLSv1.2"}, "TLSv1.1 is not served"),
        ({"ssl_protocol": "SSLv3"}, "ssl.protocol=SSLv3 is not served"),
        ({"ssl_cipher_suites": "TLS_RSA_WITH_RC4_128_SHA"}, "TLS_RSA_WITH_RC4_128_SHA is not"),
        (
            {"ssl_cipher_suites": TLS13_SUITES[0], "ssl_enabled_protocols": "TLSv1.2"},
            "has no suite of ssl.enabled.protocols",
        ),
        ({"ssl_keystore_location": ""}, "ssl.keystore.location is not set"),
        ({"ssl_keystore_key": SECRET}, "belong together"),
        (
            {"ssl_keystore_key": SECRET, "ssl_keystore_certificate_chain": SECRET},
            "set ssl.keystore.location or ssl.keystore.key, not both",
        ),
        (
            {"ssl_truststore_location": "x", "ssl_truststore_certificates": SECRET},
            "set ssl.truststore.location or ssl.truststore.certificates, not both",
        ),
        ({"ssl_principal_mapping_rules": "x"}, "is no rule"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings: Any, reason: str) -> None:
    with pytest.raises(SettingsError, match=f"listener SSL: .*{reason}") as refused:
        read(**settings)
    assert SECRET not in str(refused.value)


def test_secrets_are_not_shown() -> None:
    found = read(ssl_keystore_password=SECRET, ssl_key_password=SECRET)
    assert found.keystore.password == Secret(SECRET)
    assert SECRET not in repr(found)


@pytest.mark.parametrize(
    ("suites", "client_suites", "negotiated"),
    [
        ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ALL", "ECDHE-ECDSA-AES256-GCM-SHA384"),
        (
            "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
            "ALL",
            "ECDHE-ECDSA-CHACHA20-POLY1305",
        ),
        ("TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256", "ALL", "ECDHE-ECDSA-AES128-SHA256"),
        ("TLS_AES_256_GCM_SHA384", "ALL", "TLS_AES_256_GCM_SHA384"),
    ],
)
async def test_suites_are_named_as_in_java(
    suites: str, client_suites: str, negotiated: str
) -> None:
    async with wire_world(tls=opened({"ssl.cipher.suites": suites})) as world:
        context = client_context(authority().root)
        context.set_ciphers(client_suites)
        transport = TlsClientTransport(world.open(listener="SSL"), context)
        await transport.handshake()
        found = transport.tls.cipher()
        assert found is not None
        assert found[0] == negotiated


async def test_a_suite_of_tls_13_that_is_not_named_is_refused() -> None:
    """Python cannot exclude a suite from a context, so the gateway checks after the handshake."""
    suites = "TLS_AES_128_GCM_SHA256"
    async with wire_world(tls=opened({"ssl.cipher.suites": suites})) as world:
        transport = TlsClientTransport(world.open(listener="SSL"), client_context(authority().root))
        with capture_logs() as logs:
            await transport.handshake()  # with TLS_AES_256_GCM_SHA384, OpenSSL's first choice
            await wait_all_tasks_blocked()
        assert "its cipher suite is none of ssl.cipher.suites" in str(logs)
        assert transport.is_gone()
