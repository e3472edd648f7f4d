"""Seals SCRAM credentials for the metadata log, its snapshots and its backups.  Pure.

AES-256-GCM under metadata.secret.key.  The seal also covers user, mechanism, iterations and tenant:
a row that was changed, or moved to another user, cannot be opened.  The gateway that proposes a row
draws its nonce; the fold of the log sees only sealed bytes.  Each row has an id of its key, from
which the key cannot be computed.  So a gateway also opens rows of former keys, with
metadata.secret.old.keys.

A gateway that lacks a key of the log does not start: it would refuse some users' correct passwords,
and an operator would look for the fault at the clients.  If a row of a missing key appears later,
the gateway refuses only that login, and logs an error (upkeep/resealing.py).
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterable
from typing import Final

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tidegate_coordination.events.metadata_versions import FEATURE_NAME, SEALS
from tidegate_coordination.rules.security.scram import KEY_ID_BYTES, NONCE_BYTES
from tidegate_coordination.state.security.scram import (
    KeptCredential,
    ScramCredential,
    SealedCredential,
)
from tidegate_runtime.secret import Secret
from tidegate_runtime.settings_texts import SettingsError

from ..settings.broker_settings import BrokerSettings
from .sasl.scram import CannotOpen

SECRET_KEY: Final = "metadata.secret.key"
OLD_KEYS: Final = "metadata.secret.old.keys"
MIN_KEY_CHARACTERS: Final = 32
FORGET: Final = "tidegate user forget-sealed"
SEALS_NOT_YET: Final = (
    f"{SECRET_KEY} is set, and sealing needs {FEATURE_NAME} {SEALS}: raise it with"
    f" kafka-features.sh upgrade --feature {FEATURE_NAME}={SEALS}."
)
_MAKE_ONE: Final = "make one with `openssl rand -base64 32`"
_SHOWN_USERS: Final = 3
_TENANT: Final = 0
_encode = msgspec.msgpack.encode


class _Key:
    """One key of the settings.  Its text is random, so a single HMAC suffices to derive the key."""

    def __init__(self, text: Secret) -> None:
        made_of = text.reveal_bytes()
        self.key_id: Final = hmac.digest(made_of, b"tidegate key id", "sha256")[:KEY_ID_BYTES]
        self.cipher: Final = AESGCM(hmac.digest(made_of, b"tidegate scram", "sha256"))


class Sealing:
    """The keys of a gateway.

    Args:
      key: seals and opens; empty if the gateway seals nothing.
      old_keys: only open.
      random_bytes: returns unpredictable bytes, for nonces.
    """

    def __init__(
        self, key: Secret, old_keys: Iterable[Secret], random_bytes: Callable[[int], bytes]
    ) -> None:
        self._key: Final = _Key(key) if key else None
        known = [each for each in (self._key, *map(_Key, old_keys)) if each is not None]
        self._known: Final = {each.key_id: each for each in known}
        self._random_bytes: Final = random_bytes

    @property
    def seals(self) -> bool:
        """Return whether credentials are to be sealed."""
        return self._key is not None

    def sealed(self, credential: ScramCredential) -> SealedCredential:
        """Return the sealed credential, for the log.  Call it only if `seals`."""
        assert self._key is not None
        nonce = self._random_bytes(NONCE_BYTES)
        secrets = _encode((credential.salt, credential.stored_key, credential.server_key))
        sealed = self._key.cipher.encrypt(nonce, secrets, _bound(credential))
        about = credential.user, credential.mechanism, credential.iterations
        return SealedCredential(*about, self._key.key_id, nonce, sealed)

    def opened(self, kept: KeptCredential) -> ScramCredential:
        """Return a credential that can be used.

        Raises:
          CannotOpen: this gateway lacks its key, or the row was changed.
        """
        if isinstance(kept, ScramCredential):
            return kept
        key = self._known.get(kept.key_id)
        if key is None:
            raise CannotOpen(
                f"its credential is sealed with a key that is neither in {SECRET_KEY} nor in"
                f" {OLD_KEYS}"
            )
        try:
            secrets = key.cipher.decrypt(kept.nonce, kept.sealed, _bound(kept))
        except InvalidTag:
            raise CannotOpen("its sealed credential was changed: set the password again") from None
        salt, stored_key, server_key = msgspec.msgpack.decode(
            secrets, type=tuple[bytes, bytes, bytes]
        )
        about = kept.user, kept.mechanism
        return ScramCredential(*about, salt, stored_key, server_key, kept.iterations)

    def is_current(self, kept: KeptCredential) -> bool:
        """Return whether a credential is sealed with the current key."""
        if self._key is None or isinstance(kept, ScramCredential):
            return False
        return kept.key_id == self._key.key_id

    def needs_old_key(self, kept: KeptCredential) -> bool:
        """Return whether a credential is sealed, but not with the current key."""
        return isinstance(kept, SealedCredential) and not self.is_current(kept)

    def missing(self, credentials: Iterable[KeptCredential]) -> list[SealedCredential]:
        """Return the credentials whose key this gateway lacks."""
        return [
            each
            for each in credentials
            if isinstance(each, SealedCredential) and each.key_id not in self._known
        ]


def _bound(about: KeptCredential) -> bytes:
    """Return the associated data: an array, so that different rows never have the same data."""
    return _encode(("scram", _TENANT, about.user, int(about.mechanism), about.iterations))


def sealing_of(settings: BrokerSettings, random_bytes: Callable[[int], bytes]) -> Sealing:
    """Return the keys of a gateway's settings.

    Raises:
      SettingsError: see checked_key().
    """
    key = checked_key(SECRET_KEY, settings.secret(SECRET_KEY))
    texts = settings.secret(OLD_KEYS).reveal().split(",")
    old = [checked_key(OLD_KEYS, Secret(each.strip())) for each in texts if each.strip()]
    return Sealing(key, old, random_bytes)


def checked_key(name: str, key: Secret) -> Secret:
    """Return a key, after a check that it is empty, or long enough and fit for a list of keys.

    Raises:
      SettingsError: the key is too short, or could not be an item of metadata.secret.old.keys
        later.
    """
    text = key.reveal()
    if any(each == "," or each.isspace() for each in text):
        raise SettingsError(f"{name} has a key with a comma or white space: {_MAKE_ONE}")
    if text and len(text) < MIN_KEY_CHARACTERS:
        raise SettingsError(
            f"{name} has a key of fewer than {MIN_KEY_CHARACTERS} characters: {_MAKE_ONE}"
        )
    return key


def refuse_missing_keys(sealing: Sealing, credentials: Iterable[KeptCredential]) -> None:
    """Check that this gateway can open all credentials of the cluster.

    Raises:
      SettingsError: it lacks a key.
    """
    missing = sealing.missing(credentials)
    if missing:
        raise SettingsError(missing_key_text(missing))


def missing_key_text(missing: Iterable[SealedCredential]) -> str:
    """Return advice about credentials whose key a gateway lacks."""
    users = list(dict.fromkeys(repr(each.user)[1:-1] for each in missing))
    shown = ", ".join(users[:_SHOWN_USERS]) + (", ..." if len(users) > _SHOWN_USERS else "")
    return (
        f"SCRAM credentials of the cluster ({shown}) are sealed with a key that this gateway has"
        f" neither in {SECRET_KEY} nor in {OLD_KEYS}: give it the keys of the others; if the key is"
        f" lost, remove these credentials with `{FORGET}` (docs/operations/sasl.md)"
    )
