"""The logins of a run: a file for each client program, and the pairs of library and mechanism.

A client program gets the name of a file like this (see Plan), and prints the lines of ledger.py.  A
line on its standard input ends its producers.  The end of standard input ends the program.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

MTLS: Final = "SSL"
"""The mechanism of clients that show a certificate instead of a login."""
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", MTLS)
LIBRARIES: Final = (
    "librdkafka",
    "java",
    "franz-go",
    "kafka-python",
    "aiokafka",
    "kafkajs",
    "sarama",
)
PARTITIONS: Final = 3
PASSWORD: Final = "pass-word"


class Login(msgspec.Struct, frozen=True):
    """One pair.  certificate: for MTLS, a file with key and chain; else ""."""

    mechanism: str
    topic: str
    user: str
    password: str
    certificate: str


class Plan(msgspec.Struct, frozen=True):
    """The task of one client program.

    servers: bootstrap addresses, by security protocol.  ca: a file with the certificate of the
    brokers' authority.  tokens: the URL of an identity provider's tokens.  rate: records a second
    of each login.
    """

    servers: dict[str, str]
    ca: str
    tokens: str
    rate: int
    logins: list[Login]
    partitions: int = PARTITIONS

    def addresses(self, login: Login) -> str:
        """Return the bootstrap addresses of a login."""
        return self.servers[protocol_of(login.mechanism)]


def protocol_of(mechanism: str) -> str:
    """Return Kafka's name of the security protocol."""
    return "SSL" if mechanism == MTLS else "SASL_SSL"


def user_of(library: str, mechanism: str) -> str:
    """Return the name of the pair's user and topic."""
    return f"{library}-{mechanism}".lower()


def users(mechanisms: Sequence[str]) -> Iterator[str]:
    """Yield the users of these mechanisms."""
    for mechanism in mechanisms:
        for library in LIBRARIES:
            yield user_of(library, mechanism)


def logins_of(
    library: str, mechanisms: Sequence[str], certificates: Mapping[str, Path]
) -> list[Login]:
    """Return the logins of one program.  certificates: by user."""
    found: list[Login] = []
    for mechanism in mechanisms:
        user = user_of(library, mechanism)
        certificate = str(certificates[user]) if mechanism == MTLS else ""
        found.append(Login(mechanism, user, user, PASSWORD, certificate))
    return found


def read(file: str) -> Plan:
    """Read the file of a program."""
    return msgspec.json.decode(Path(file).read_bytes(), type=Plan)
