"""Compares the SCRAM users of a source with those that are here, and gives them new passwords.

A source shows only mechanisms and iterations, not keys or salts, so credentials cannot be copied.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from tidegate_coordination.state.security.scram import ScramCredential, ScramMechanism, ScramTable

from ...security.sasl.exchange import ILLEGAL_USERS
from ...security.sasl.scram import MIN_ITERATIONS
from ...security.sasl.scram_keys import MAX_ITERATIONS, credential_of, salted
from .source_security import Users


class ScramUser(NamedTuple):
    """A user of the source.

    mechanisms: iterations by mechanism at the source.  missing: the mechanisms without a credential
    here.
    """

    name: str
    mechanisms: Mapping[int, int]
    missing: frozenset[int]

    @property
    def is_here(self) -> bool:
        """Return whether the user has a credential here for any of its mechanisms."""
        return len(self.missing) < len(self.mechanisms)

    @property
    def obstacle(self) -> str:
        """Return why this cluster cannot have the user; "" if it can."""
        if self.name in ILLEGAL_USERS:
            return "a user cannot be called so here"
        if not self.name.isascii():
            return "names of SCRAM users are ASCII here"
        return "" if self.mechanisms else "it has no mechanism that is known here"


def scram_users(theirs: Users, ours: ScramTable) -> list[ScramUser]:
    """Return the users of the source by name."""
    found: list[ScramUser] = []
    for name, mechanisms in sorted(theirs.items()):
        known = {each.mechanism for each in ours.of_user(name)}
        found.append(ScramUser(name, mechanisms, frozenset(mechanisms) - known))
    return found


def password_problem(password: str) -> str:
    """Return why a password cannot be set; "" if it can."""
    if not password:
        return "it is empty"
    # Clients normalise other characters in different ways before they hash a password.
    return "" if password.isascii() and password.isprintable() else "choose it from printable ASCII"


def credentials(user: ScramUser, password: str, salts: Iterator[bytes]) -> list[ScramCredential]:
    """Return the user's credentials for all of its mechanisms; see salted() for the time."""
    found: list[ScramCredential] = []
    for number, at_source in sorted(user.mechanisms.items()):
        mechanism, salt, iterations = ScramMechanism(number), next(salts), bounded(at_source)
        secret = salted(mechanism, password, salt, iterations)
        found.append(credential_of(user.name, mechanism, salt, secret, iterations))
    return found


def bounded(iterations: int) -> int:
    """Return the iterations within Kafka's limits; sources before 2.7 have no upper limit."""
    return min(max(iterations, MIN_ITERATIONS), MAX_ITERATIONS)
