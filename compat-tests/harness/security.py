"""Rights and logins at a broker under test, as the suites need them.

A broker that is started with SASL has a second listener on the port after its own, as 9093 comes
after 9092.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._scram import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialUpsertion,
)
from confluent_kafka.cimpl import NewTopic

NEXT_PORT: Final = "NEXT_PORT"
"""Stands in settings for the port after the broker's own."""

AUTHORIZER: Final[Mapping[str, str]] = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "super.users": "User:ANONYMOUS",
}

SCRAM_USERS: Final = {
    "SCRAM-SHA-256": ("adminscram256", "admin-secret-256"),
    "SCRAM-SHA-512": ("adminscram512", "admin-secret-512"),
}
"""Name and password by mechanism; they are those in the tests of kafka-go."""

_SCRAM: Final = {
    "SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256,
    "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512,
}
_LISTENER: Final = "listener.name.sasl_plaintext"
_MODULES: Final = "org.apache.kafka.common.security"
_SCRAM_MODULE: Final = f"{_MODULES}.scram.ScramLoginModule required;"
SASL: Final[Mapping[str, str]] = {
    "listeners": f"SASL_PLAINTEXT://127.0.0.1:{NEXT_PORT}",
    f"{_LISTENER}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    f"{_LISTENER}.plain.sasl.jaas.config": (
        f'{_MODULES}.plain.PlainLoginModule required user_adminplain="admin-secret";'
    ),
    f"{_LISTENER}.scram-sha-256.sasl.jaas.config": _SCRAM_MODULE,
    f"{_LISTENER}.scram-sha-512.sasl.jaas.config": _SCRAM_MODULE,
}
_SECONDS: Final = 30.0


def with_ports(settings: Mapping[str, str], port: int) -> dict[str, str]:
    """Return the settings of a broker on this port."""
    return {name: text.replace(NEXT_PORT, str(port + 1)) for name, text in settings.items()}


def sasl_address(bootstrap: str) -> str:
    """Return host:port of the SASL listener."""
    host, _, port = bootstrap.rpartition(":")
    return f"{host}:{int(port) + 1}"


def add_scram_users(bootstrap: str) -> None:
    """Create the user of each mechanism, over the listener without logins."""
    for mechanism, (name, password) in SCRAM_USERS.items():
        set_scram_users(bootstrap, mechanism, [ScramUser(name, password)])


class ScramUser(NamedTuple):
    """A user, and its password of one mechanism."""

    name: str
    password: str
    iterations: int = 4096


def set_scram_users(bootstrap: str, mechanism: str, users: Iterable[ScramUser]) -> None:
    """Give each user its password of a mechanism, with a new salt."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    changes: list[UserScramCredentialAlteration] = [
        UserScramCredentialUpsertion(
            each.name,
            ScramCredentialInfo(_SCRAM[mechanism], each.iterations),
            each.password.encode(),
        )
        for each in users
    ]
    for done in admin.alter_user_scram_credentials(changes).values():
        done.result(_SECONDS)


def create_topic(bootstrap: str, topic: str) -> None:
    """Create a topic for tests of logins."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(_SECONDS)
