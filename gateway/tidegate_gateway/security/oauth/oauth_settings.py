"""How a listener checks bearer tokens, from the gateway's settings.  Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from tidegate_coordination.client.properties.tls import Pem
from tidegate_coordination.configs.listener_configs import listener_config
from tidegate_coordination.configs.validation import split_list
from tidegate_runtime.http.urls import is_url
from tidegate_runtime.secret import Secret
from tidegate_runtime.settings_texts import SettingsError

from ...settings.broker_settings import BrokerSettings
from .key_place import SCHEMES, KeyPlace
from .key_refresh import RefreshTimes
from .token_check import WantedClaims

OAUTHBEARER: Final = "OAUTHBEARER"
_PACKAGE: Final = "org.apache.kafka.common.security.oauthbearer"
_HANDLERS: Final = {
    "sasl.server.callback.handler.class": "OAuthBearerValidatorCallbackHandler",
    "sasl.login.callback.handler.class": "OAuthBearerLoginCallbackHandler",
}
KNOWN_CLASSES: Final = {
    name: {f"{_PACKAGE}.{each}", f"{_PACKAGE}.secured.{each}"} for name, each in _HANDLERS.items()
}
"""Kafka's own classes, which a broker's settings for this mechanism name; before 4.0 in another
package.
"""
_VALIDATORS: Final = {f"{_PACKAGE}.DefaultJwtValidator", f"{_PACKAGE}.BrokerJwtValidator"}
_URL: Final = "sasl.oauthbearer.jwks.endpoint.url"
_ISSUER: Final = "sasl.oauthbearer.expected.issuer"
_VALIDATOR: Final = "sasl.oauthbearer.jwt.validator.class"


@dataclass(frozen=True, slots=True)
class OAuthSettings:
    """Where the keys are, how often to read them, and which claims tokens must have."""

    place: KeyPlace
    times: RefreshTimes
    wanted: WantedClaims


def oauth_settings(
    settings: BrokerSettings, listener: str, options: Mapping[str, str]
) -> OAuthSettings:
    """Return how a listener checks tokens.

    Args:
      options: of the login module in sasl.jaas.config.

    Raises:
      SettingsError: a setting is missing or wrong.
    """
    text = partial(settings.listener_text, listener, mechanism=OAUTHBEARER)
    if any(each.startswith("unsecured") for each in options):
        raise SettingsError(
            f"{listener_config(listener, 'sasl.jaas.config', OAUTHBEARER)} has options for unsigned"
            " tokens, which gateways do not accept: remove them"
        )
    if text(_VALIDATOR) not in _VALIDATORS:
        raise SettingsError(
            f"{_VALIDATOR} names a Java class, which a gateway cannot load: remove it"
        )
    url, issuer = text(_URL), text(_ISSUER)
    _check_url(url, listener_config(listener, _URL, OAUTHBEARER))
    if not issuer:
        name = listener_config(listener, _ISSUER, OAUTHBEARER)
        raise SettingsError(
            f"{name} is missing: set it to the issuer (iss) of the tokens, since a provider may"
            " sign those of others with the same keys"
        )

    def seconds(name: str) -> float:
        return int(text(f"sasl.oauthbearer.jwks.endpoint.{name}")) / 1000

    first_pause = max(seconds("retry.backoff.ms"), 0.1)
    return OAuthSettings(
        KeyPlace(url, _truststore(options)),
        RefreshTimes(
            max(seconds("refresh.ms"), 1.0),
            first_pause,
            max(seconds("retry.backoff.max.ms"), first_pause),
        ),
        WantedClaims(
            issuer,
            frozenset(split_list(text("sasl.oauthbearer.expected.audience"))),
            text("sasl.oauthbearer.sub.claim.name"),
            text("sasl.oauthbearer.scope.claim.name"),
            max(int(text("sasl.oauthbearer.clock.skew.seconds")), 0),
        ),
    )


def _check_url(url: str, name: str) -> None:
    example = f"set {name} to where the provider publishes its keys, as https://HOST/PATH"
    if not url:
        raise SettingsError(f"{name} is missing: {example}")
    if not is_url(url, SCHEMES):
        raise SettingsError(f"{name} is no URL of {', '.join(SCHEMES)}: {example}")


def _truststore(options: Mapping[str, str]) -> Pem | None:
    """Return the truststore for https; None for the system's.

    As in Kafka, the login module's options name the truststore.
    """
    path = options.get("ssl.truststore.location", "")
    text = options.get("ssl.truststore.certificates", "")
    if not path and not text:
        return None
    return Pem(path, Secret(text), password=Secret(options.get("ssl.truststore.password", "")))
