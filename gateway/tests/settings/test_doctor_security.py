"""`tidegate doctor` on logins and rights."""

from __future__ import annotations

import pytest

from tests.worlds.sasl_client import oauth_settings, sasl_settings
from tests.worlds.tls_world import authority
from tidegate_gateway.security.authorizer_settings import STANDARD
from tidegate_gateway.settings.broker_settings import BrokerSettings
from tidegate_gateway.settings.listener_settings import listen_addresses
from tidegate_gateway.tools.doctor_security import security_findings

SASL = {"listeners": "SASL_PLAINTEXT://127.0.0.1:9092"}
FAR = {"listeners": "SASL_PLAINTEXT://gw.example:9092"}
SCRAM = {"listener.name.sasl_plaintext.sasl.enabled.mechanisms": "SCRAM-SHA-512"}
RIGHTS = {"authorizer.class.name": STANDARD, "super.users": "User:admin"}
SSL = {
    "listeners": "SSL://:9093",
    "ssl.keystore.key": authority().server.partition("-----BEGIN CERTIFICATE")[0],
    "ssl.keystore.certificate.chain": "-----BEGIN CERTIFICATE"
    + authority().server.partition("-----BEGIN CERTIFICATE")[2],
}


def problems(*texts: dict[str, str]) -> list[str]:
    """Return the advice of what is not right."""
    settings = BrokerSettings({name: each for part in texts for name, each in part.items()})
    found = list(security_findings(settings, listen_addresses(settings)))
    assert all(bool(each.advice) is not each.ok for each in found)
    return [each.advice for each in found if not each.ok]


def test_nothing_is_said_of_a_gateway_without_security_or_with_all_of_it() -> None:
    assert problems({}) == []
    assert problems(SASL, sasl_settings(), RIGHTS) == []
    assert problems(FAR, SCRAM, RIGHTS) == []
    assert problems(SSL, {"ssl.client.auth": "required"}, RIGHTS) == []


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ((SASL, sasl_settings()), "clients log in at SASL_PLAINTEXT, and then may do everything"),
        ((SSL, {"ssl.client.auth": "required"}), "clients log in at SSL, and then may do"),
        ((FAR, sasl_settings(), RIGHTS), "PLAIN without TLS: use SASL_SSL, or take them from"),
        ((FAR, oauth_settings(), RIGHTS), "OAUTHBEARER without TLS"),
        ((RIGHTS, {"super.users": ""}), "name one in super.users"),
        ((RIGHTS, {"super.users": "User:a;Group:ops"}), "Group:ops: every principal here begins"),
        (
            (RIGHTS, {"super.users": "User:admin; User:ANONYMOUS"}),
            "clients of PLAINTEXT need no name, and may do everything",
        ),
        ((RIGHTS, {"allow.everyone.if.no.acl.found": "true"}), "open to all"),
        ((RIGHTS, {"super.users": "admin"}), "super.users: admin is not a principal"),
        (({"authorizer.class.name": "mine"},), "is a Java class"),
        ((SASL,), "GSSAPI, which is Kafka's default"),
    ],
)
def test_what_few_want_is_named(texts: tuple[dict[str, str], ...], said: str) -> None:
    [found] = problems(*texts)
    assert said in found


def test_anonymous_may_be_a_super_user_where_all_clients_log_in() -> None:
    users = {"super.users": "User:ANONYMOUS"}
    assert problems(SASL, sasl_settings(), RIGHTS, users) == []
    assert problems(SSL, RIGHTS, users) != []
