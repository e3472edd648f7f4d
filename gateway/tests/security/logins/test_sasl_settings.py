"""Settings of SASL listeners: what is refused, in which words, and which value applies."""

from __future__ import annotations

import hashlib

import pytest

from tests.worlds.security.sasl_client import PLAIN_MODULE, PREFIX, oauth_settings, sasl_settings
from tidegate_coordination.configs.listener_configs import static_definition
from tidegate_gateway.security.sasl.gates import check_sasl
from tidegate_gateway.security.sasl.listeners import (
    Credentials,
    SaslListener,
    sasl_listener,
    secret_of,
)
from tidegate_gateway.settings.broker_settings import BrokerSettings
from tidegate_gateway.settings.listener_settings import listen_addresses
from tidegate_gateway.settings.settings_sources import from_environment, gather
from tidegate_runtime.secret import Secret
from tidegate_runtime.settings_texts import BadSource, SettingsError

LISTENER = "SASL_PLAINTEXT"
NOBODY = Credentials(lambda _mechanism, _user: None, bytes, b"")
ENABLED = f"{PREFIX}.sasl.enabled.mechanisms"
JAAS = f"{PREFIX}.plain.sasl.jaas.config"
HANDLER = f"{PREFIX}.scram-sha-256.sasl.server.callback.handler.class"
REAUTH = "connections.max.reauth.ms"
JAAS_END = ".sasl.jaas.config"
OF_OAUTH = f"{PREFIX}.oauthbearer"
OAUTH = f"{OF_OAUTH}.sasl.oauthbearer"
OAUTH_PACKAGE = "org.apache.kafka.common.security.oauthbearer"
OAUTH_MODULE = f"{OAUTH_PACKAGE}.OAuthBearerLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"


def offer(texts: dict[str, str]) -> SaslListener:
    return sasl_listener(BrokerSettings(texts), LISTENER, NOBODY)


def lifetimes(texts: dict[str, str]) -> dict[str, int]:
    return {each.name: each.max_session_ms for each in offer(texts).mechanisms}


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ({}, "GSSAPI, which is Kafka's default and is not served here: set " + ENABLED),
        ({ENABLED: "GSSAPI,PLAIN"}, "GSSAPI, which is Kafka's default"),
        ({ENABLED: "OAUTHBEARER"}, f"{OAUTH}.jwks.endpoint.url is missing: set"),
        (oauth_settings(jwks_endpoint_url="gopher://a/b"), "url is no URL of http, https, file"),
        (oauth_settings(jwks_endpoint_url="https:///keys"), "url is no URL of"),
        (oauth_settings(jwks_endpoint_url="https://a:b/keys"), "url is no URL of"),
        (oauth_settings(jwks_endpoint_url="https://u:secret@a/keys"), "url is no URL of"),
        (oauth_settings(jwks_endpoint_url="https://a/k s"), "url is no URL of"),
        (oauth_settings(jwks_endpoint_url="file://"), "url is no URL of"),
        (oauth_settings(expected_issuer=""), f"{OAUTH}.expected.issuer is missing: set"),
        (oauth_settings(jwt_validator_class="mine"), "jwt.validator.class names a Java class"),
        (oauth_settings() | {OF_OAUTH + JAAS_END: f"{OAUTH_MODULE} required unsecuredA=b;"},
         "options for unsigned tokens"),
        (oauth_settings() | {OF_OAUTH + JAAS_END: f"{PLAIN_MODULE} required;"}, "another login"),
        (oauth_settings() | {OF_OAUTH + ".sasl.server.callback.handler.class": "x"}, "Java class"),
        ({ENABLED: "plain"}, "asks for mechanism plain: set"),
        ({ENABLED: ""}, "has no SASL mechanism: set"),
        ({ENABLED: "PLAIN"}, f"{JAAS} is missing: set it to {PLAIN_MODULE} required user_NAME"),
        ({ENABLED: "PLAIN", JAAS: "secret"}, f'{JAAS} does not end with ";": write'),
        ({ENABLED: "PLAIN", JAAS: f'{SCRAM_MODULE} required user_a="secret";'}, "another login"),
        ({ENABLED: "PLAIN", JAAS: f'{PLAIN_MODULE} required user_a="secret'}, "does not end"),
        (
            {ENABLED: "PLAIN", "sasl.jaas.config": f'{PLAIN_MODULE} required user_a="secret";'},
            f"{JAAS} is missing",
        ),
        (
            {ENABLED: "SCRAM-SHA-256", f"{PREFIX}.scram-sha-256.sasl.jaas.config": "x y;"},
            "has no login module",
        ),
        ({ENABLED: "SCRAM-SHA-256", HANDLER: "x"}, f"{HANDLER} names a Java class"),
        ({ENABLED: "PLAIN", "sasl.login.class": "x"}, "sasl.login.class names a Java class"),
    ],
)  # fmt: skip
def test_wrong_settings_are_refused_without_quoting_secrets(
    texts: dict[str, str], said: str
) -> None:
    with pytest.raises(SettingsError) as refused:
        check_sasl(BrokerSettings(texts), ["PLAINTEXT", LISTENER])
    assert said in str(refused.value)
    assert "secret" not in str(refused.value)


def test_a_brokers_settings_for_tokens_are_taken() -> None:
    check_sasl(
        BrokerSettings(
            oauth_settings(
                jwks_endpoint_url="file:///keys.json",
                expected_audience="a,b",
                clock_skew_seconds="0",
            )
            | {
                OF_OAUTH + JAAS_END: f'{OAUTH_MODULE} required ssl.truststore.location="x.pem";',
                f"{OF_OAUTH}.sasl.server.callback.handler.class": f"{OAUTH_PACKAGE}."
                "OAuthBearerValidatorCallbackHandler",
                f"{OF_OAUTH}.sasl.login.callback.handler.class": f"{OAUTH_PACKAGE}.secured."
                "OAuthBearerLoginCallbackHandler",
            }
        ),
        [LISTENER],
    )


def test_kafkas_classes_for_tokens_are_for_no_other_mechanism() -> None:
    handler = f"{OAUTH_PACKAGE}.OAuthBearerValidatorCallbackHandler"
    with pytest.raises(SettingsError, match="names a Java class"):
        offer(sasl_settings() | {HANDLER: handler})


def test_other_listeners_need_no_sasl() -> None:
    check_sasl(BrokerSettings({}), ["PLAINTEXT"])


def test_the_narrowest_session_time_holds() -> None:
    users = {"a": "b"}
    both = sasl_settings(users, "PLAIN,SCRAM-SHA-512")
    assert lifetimes(both) == {"PLAIN": 0, "SCRAM-SHA-512": 0}
    assert lifetimes(both | {REAUTH: "1000"}) == {"PLAIN": 1000, "SCRAM-SHA-512": 1000}
    of_listener = both | {REAUTH: "1000", f"{PREFIX}.{REAUTH}": "2000"}
    assert lifetimes(of_listener) == {"PLAIN": 2000, "SCRAM-SHA-512": 2000}
    of_mechanism = of_listener | {f"{PREFIX}.scram-sha-512.{REAUTH}": "3000"}
    assert lifetimes(of_mechanism) == {"PLAIN": 2000, "SCRAM-SHA-512": 3000}


def test_sizes_and_delays_are_kafkas() -> None:
    found = offer(sasl_settings())
    assert (found.failure_delay_seconds, found.max_token_bytes) == (0.1, 524_288)
    more = {"connection.failed.authentication.delay.ms": "0", "sasl.server.max.receive.size": "99"}
    found = offer(sasl_settings(more=more))
    assert (found.failure_delay_seconds, found.max_token_bytes) == (0, 99)


def test_names_are_read_from_the_environment_too() -> None:
    found = from_environment(
        {"TIDEGATE_LISTENER_NAME_SASL__PLAINTEXT_SCRAM___SHA___256_SASL_JAAS_CONFIG": "x"}
    )
    assert found == {f"{PREFIX}.scram-sha-256.sasl.jaas.config": "x"}


@pytest.mark.parametrize(
    "name",
    [
        f"{PREFIX}.sasl.enabled.mechanism",
        f"{PREFIX}.num.partitions",
        f"{PREFIX}.plain.sasl.enabled.mechanisms",
        "listener.name.SASL_PLAINTEXT.sasl.enabled.mechanisms",
        "listener.name.sasl.jaas.config",
        "listener.name.",
    ],
)
def test_misspelt_names_are_refused(name: str) -> None:
    with pytest.raises(BadSource, match="unknown setting"):
        gather(defaults={}, environ={}, assignments=[f"{name}=x"])


def test_values_are_checked_and_passwords_never_shown() -> None:
    with pytest.raises(SettingsError, match=f"Invalid value x for configuration {PREFIX}.{REAUTH}"):
        BrokerSettings({f"{PREFIX}.{REAUTH}": "x"})
    definition = static_definition(JAAS)
    assert definition is not None
    assert definition.is_sensitive
    assert "secret" not in repr(BrokerSettings(sasl_settings({"alice": "secret"})))


def test_protocols_that_are_not_served_are_named() -> None:
    settings = BrokerSettings(
        {"listeners": "OTHER://:9092", "listener.security.protocol.map": "OTHER:KERBEROS"}
    )
    with pytest.raises(SettingsError, match="asks for KERBEROS; this release serves PLAINTEXT,"):
        listen_addresses(settings)
    [address] = listen_addresses(BrokerSettings({"listeners": "SASL_PLAINTEXT://:9092"}))
    assert address.name == LISTENER


@pytest.mark.parametrize("token", [b"token", b"\xff"])
def test_salts_are_made_up_from_any_peer_token(token: bytes) -> None:
    """Environment variables may hold bytes that are not UTF-8."""
    made = secret_of("cluster", Secret(token.decode(errors="surrogateescape")))
    assert made == hashlib.sha256(b"made-up salts\0cluster\0" + token).digest()
