"""`tidegate doctor` on logins and rights."""

from __future__ import annotations

import pytest

from tests.worlds.security.sasl_client import oauth_settings, sasl_settings
from tests.worlds.security.tls_world import authority
from tidegate_coordination.events.security import ScramCredentialSealed, ScramCredentialSet
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.security.scram import ScramCredential
from tidegate_gateway.cli.doctor import COLUMNS, _line
from tidegate_gateway.security.authorizer_settings import STANDARD
from tidegate_gateway.security.sealing import Sealing
from tidegate_gateway.settings.broker_settings import BrokerSettings
from tidegate_gateway.settings.listener_settings import listen_addresses
from tidegate_gateway.settings.settings_sources import secrets_in_view
from tidegate_gateway.tools.doctor_security import (
    command_line_finding,
    scram_findings,
    security_findings,
)
from tidegate_gateway.tools.findings import Checked
from tidegate_runtime.secret import Secret

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
    """Return the advice of all findings that are not ok."""
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


@pytest.mark.parametrize(
    ("assignment", "is_in_view"),
    [
        ("peer.token=s3cret", True),
        ("listener.name.x.ssl.key.password=s3cret", True),
        ("metadata.secret.key=s3cret", True),
        ("metadata.log=postgres://ann:s3cret@h/db", True),
        ("metadata.log=http://:s3cret@h", True),
        ("peer.token=${file:/run/secrets/p:token}", False),
        ("peer.token=", False),
        ("metadata.log=sqlite:log.db", False),
        ("metadata.log=postgres://ann@h/db", False),
        ("object.store=s3://bucket/p?region=r", False),
        ("num.partitions=3", False),
        ("no.such.setting=3", False),
    ],
)
def test_secrets_on_the_command_line_are_named(assignment: str, is_in_view: bool) -> None:
    name = assignment.partition("=")[0]
    assert secrets_in_view(["node.id=2", assignment]) == [name] * is_in_view
    found = command_line_finding([assignment])
    assert found.ok is not is_in_view
    assert (name in found.advice) is is_in_view
    assert "s3cret" not in found.advice


KEY = "K" * 32
ALICE = ScramCredential("alice", 1, b"salt", b"stored", b"server", 4_096)


def of_scram(
    credential: ScramCredential | None, key: str = "", is_sealed: str = "", old: str = ""
) -> list[str]:
    """Return the advice on a cluster with one credential; "" if all is well."""
    state = ClusterState()
    if credential is not None and is_sealed:
        sealed = Sealing(Secret(is_sealed), (), bytes).sealed(credential)
        about = sealed.user, sealed.mechanism, sealed.iterations
        secrets = sealed.key_id, sealed.nonce, sealed.sealed
        state.scram.fold_sealed(ScramCredentialSealed(*about, *secrets))
    elif credential is not None:
        keys = credential.salt, credential.stored_key, credential.server_key
        user, mechanism = credential.user, credential.mechanism
        state.scram.fold_set(ScramCredentialSet(user, mechanism, *keys, credential.iterations))
    settings = BrokerSettings({"metadata.secret.key": key, "metadata.secret.old.keys": old})
    return [each.advice for each in scram_findings(state, settings)]


def test_plain_scram_credentials_are_named() -> None:
    assert of_scram(None) == []
    assert of_scram(None, KEY) == []
    [advice] = of_scram(ALICE)
    assert "plain in the metadata log, its snapshots and backups: set metadata.secret.key" in advice
    [advice] = of_scram(ALICE, KEY)
    assert "are plain: gateways that run with metadata.secret.key seal them once" in advice
    assert of_scram(ALICE, KEY, KEY) == [""]
    for wrong in ("", "X" * 32):
        [advice] = of_scram(ALICE, wrong, KEY)
        assert "give it the keys of the others" in advice
    [advice] = of_scram(ALICE, "short")
    assert "fewer than 32 characters" in advice


def test_credentials_that_need_a_former_key_are_named() -> None:
    assert of_scram(ALICE, KEY, KEY, old="O" * 32) == [""]
    [advice, rest] = of_scram(ALICE, "N" * 32, KEY, old=KEY)
    assert "still sealed with a former key, so keep it" in advice
    assert "restart one" in advice
    assert rest == ""
    [advice, _] = of_scram(ALICE, "", KEY, old=KEY)
    assert "set their passwords again, or set metadata.secret.key" in advice


def test_no_line_of_a_finding_is_wider_than_a_page() -> None:
    advice = "all users of this machine see it in `ps`; give it in a file of --config " * 3
    lines = _line(Checked("security", "no secret is on the command line", False, advice))
    assert max(map(len, lines.splitlines())) <= COLUMNS
    assert " ".join(lines.split()).endswith(advice.strip())
    assert "\n" not in _line(Checked("security", "all is well", True))
