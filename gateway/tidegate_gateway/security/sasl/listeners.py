"""The mechanisms that SASL listeners offer, from the gateway's settings.  Pure.

No error quotes the value of sasl.jaas.config, since it holds passwords.
"""

from __future__ import annotations

import hashlib
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from tidegate_coordination.client.errors import BadProperties
from tidegate_coordination.client.properties.jaas import login_module, read_login_module
from tidegate_coordination.configs.listener_configs import listener_config
from tidegate_runtime.secret import Secret
from tidegate_runtime.settings_texts import SettingsError

from ...settings.broker_settings import BrokerSettings
from ..oauth.key_source import KeySources
from ..oauth.oauth_settings import KNOWN_CLASSES, OAUTHBEARER, oauth_settings
from ..oauth.token_check import BearerToken, UnknownKey, check_token
from .bearer import BearerConversation
from .mechanism import Conversation, Mechanism, NotYet
from .plain import PlainConversation, is_password_in
from .scram import HASHES, NONCE_BYTES, FindToken, Lookup, ScramConversation, no_token

PLAIN: Final = "PLAIN"
MECHANISMS: Final = (PLAIN, *HASHES, OAUTHBEARER)
USER_PREFIX: Final = "user_"
_ENABLED: Final = "sasl.enabled.mechanisms"
_JAAS: Final = "sasl.jaas.config"
_CLASSES: Final = (
    "sasl.server.callback.handler.class",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
)


@dataclass(frozen=True, slots=True)
class Credentials:
    """The sources from which mechanisms check users.

    lookup: finds SCRAM credentials in the cluster's state. random_bytes: returns unpredictable
    bytes. secret: the same for all gateways, so that they make up the same salts. keys: the keys of
    identity providers. wall_clock: returns seconds since 1970.  begin_token: returns the function
    with which one conversation finds delegation tokens.
    """

    lookup: Lookup
    random_bytes: Callable[[int], bytes]
    secret: bytes = field(repr=False)
    keys: KeySources = field(default_factory=KeySources)
    wall_clock: Callable[[], float] = time.time
    begin_token: Callable[[], FindToken] = lambda: no_token

    def nonce(self) -> str:
        """Return a nonce that was never used."""
        return urlsafe_b64encode(self.random_bytes(NONCE_BYTES)).decode()


@dataclass(frozen=True, slots=True)
class SaslListener:
    """The mechanisms and limits of one listener.

    failure_delay_seconds: how long the answer to a failure is delayed. max_token_bytes: the limit
    of a SaslAuthenticate request, or of a token without a header.
    """

    mechanisms: tuple[Mechanism, ...]
    failure_delay_seconds: float
    max_token_bytes: int


def secret_of(cluster_id: str, peer_token: Secret) -> bytes:
    """Return the secret from which gateways make up salts.

    Without a peer.token, insiders can compute this secret.
    """
    about = f"made-up salts\0{cluster_id}\0".encode()
    return hashlib.sha256(about + peer_token.reveal_bytes()).digest()


def sasl_listener(
    settings: BrokerSettings, listener: str, credentials: Credentials
) -> SaslListener:
    """Return the mechanisms that a listener offers.

    Raises:
      SettingsError: its settings are missing or wrong.
    """
    _refuse_classes(settings, listener)
    names = _enabled(settings, listener)
    return SaslListener(
        tuple(_mechanism(settings, listener, each, credentials) for each in names),
        settings.int("connection.failed.authentication.delay.ms") / 1000,
        int(settings.listener_text(listener, "sasl.server.max.receive.size")),
    )


def _refuse_classes(settings: BrokerSettings, listener: str) -> None:
    for name in _CLASSES:
        for mechanism in (None, "", *MECHANISMS):
            setting = name if mechanism is None else listener_config(listener, name, mechanism)
            known = KNOWN_CLASSES.get(name, ()) if mechanism == OAUTHBEARER else ()
            if settings.static.get(setting, "").strip() not in ("", *known):
                raise SettingsError(
                    f"{setting} names a Java class, which a gateway cannot load: remove it;"
                    f" users of PLAIN are in {_JAAS}, those of SCRAM in the cluster"
                )


def _enabled(settings: BrokerSettings, listener: str) -> tuple[str, ...]:
    text = settings.listener_text(listener, _ENABLED)
    names = tuple(dict.fromkeys(each.strip() for each in text.split(",") if each.strip()))
    advice = f"set {listener_config(listener, _ENABLED)} to some of {', '.join(MECHANISMS)}"
    if not names:
        raise SettingsError(f"listener {listener} has no SASL mechanism: {advice}")
    for name in names:
        if name == "GSSAPI":
            raise SettingsError(
                f"listener {listener} asks for GSSAPI, which is Kafka's default and is not served"
                f" here: {advice}"
            )
        if name not in MECHANISMS:
            raise SettingsError(f"listener {listener} asks for mechanism {name[:50]}: {advice}")
    return names


def _mechanism(
    settings: BrokerSettings, listener: str, name: str, credentials: Credentials
) -> Mechanism:
    begin = _beginning(settings, listener, name, credentials)
    lifetime_ms = int(settings.listener_text(listener, "connections.max.reauth.ms", name))
    return Mechanism(name, begin, max(lifetime_ms, 0))


def _beginning(
    settings: BrokerSettings, listener: str, name: str, credentials: Credentials
) -> Callable[[], Conversation]:
    options = _jaas_options(settings, listener, name)
    if name == PLAIN:
        users = {
            option.removeprefix(USER_PREFIX): Secret(password)
            for option, password in options.items()
            if option.startswith(USER_PREFIX)
        }
        return partial(PlainConversation, is_password_in(users))
    if name == OAUTHBEARER:
        return _bearers(settings, listener, options, credentials)

    def begin() -> Conversation:
        return ScramConversation(
            name,
            credentials.lookup,
            credentials.nonce(),
            credentials.secret,
            credentials.begin_token(),
        )

    return begin


def _bearers(
    settings: BrokerSettings, listener: str, options: Mapping[str, str], credentials: Credentials
) -> Callable[[], Conversation]:
    found = oauth_settings(settings, listener, options)
    source = credentials.keys.of(found.place, found.times)

    def check(token: str) -> BearerToken:
        try:
            return check_token(token, source, found.wanted, credentials.wall_clock())
        except UnknownKey as error:
            if not source.misses(error.key_id):
                raise
            raise NotYet(partial(source.wait_for, error.key_id)) from None

    return partial(BearerConversation, check, credentials.wall_clock)


def _jaas_options(settings: BrokerSettings, listener: str, mechanism: str) -> dict[str, str]:
    """Return the options of a mechanism's login module.

    As in Kafka, only the setting that names listener and mechanism is used.  Only PLAIN needs this
    setting.
    """
    setting = listener_config(listener, _JAAS, mechanism)
    text = settings.secrets.get(setting, Secret()).reveal().strip()
    module = login_module(mechanism)
    sample = f' {USER_PREFIX}NAME="PASSWORD"' if mechanism == PLAIN else ""
    example = f"{module} required{sample};"
    if not text:
        if mechanism != PLAIN:
            return {}
        raise SettingsError(f"{setting} is missing: set it to {example}")
    try:
        found, options = read_login_module(text)
    except BadProperties as error:
        raise SettingsError(f"{setting} {error}: write {example}") from None
    if found != module:
        raise SettingsError(f"{setting} names another login module: write {example}")
    return options
