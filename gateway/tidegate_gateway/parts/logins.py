"""The parts for the authentication of clients."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tidegate_coordination.state.security.scram import ScramCredential
from tidegate_runtime.prometheus import Break, Family

from ..feature import Feature, Ground, Task
from ..network.connection import FrameHandler
from ..network.receiver import ConnectionLimits
from ..security.oauth.key_source import KeySources
from ..security.oauth.metrics import oauth_metrics
from ..security.sasl.gates import SaslGates
from ..security.sasl.listeners import Credentials, secret_of
from ..security.sasl.metrics import login_metrics
from ..security.sealing import Sealing
from ..security.tokens.logins import TokenLogins
from ..security.tokens.secrets import TokenSecrets
from ..settings.broker_settings import BrokerSettings
from ..tls.metrics import tls_metrics
from ..tls.tls_listeners import TlsListeners


@dataclass(frozen=True, slots=True)
class LoginParts:
    """provider_keys: the keys of identity providers."""

    provider_keys: KeySources
    token_logins: TokenLogins
    gates: SaslGates
    feature: Feature


def login_parts(
    ground: Ground,
    sealing: Sealing,
    token_secrets: TokenSecrets,
    dispatcher: FrameHandler,
    count: Callable[[int], None],
) -> LoginParts:
    """Make the parts.

    dispatcher: handles the frames of clients that have logged in, or need no login.  count: see
    SaslGates.
    """
    environment, state = ground.environment, ground.coordinator.state
    keys = KeySources(environment.read_keys)
    secret = secret_of(state.cluster_id, ground.settings.secret("peer.token"))
    logins = TokenLogins(
        ground.coordinator,
        token_secrets,
        secret,
        environment.pools.logins,
        environment.wall_clock,
    )

    def credential(mechanism: str, user: str) -> ScramCredential | None:
        kept = state.scram.by_sasl_name(mechanism, user)
        return None if kept is None else sealing.opened(kept)

    gates = SaslGates(
        ground.settings,
        [each.listener for each in ground.identity.endpoints],
        Credentials(
            credential,
            environment.random_bytes,
            secret,
            keys,
            environment.wall_clock,
            logins.begin,
        ),
        dispatcher,
        connection_limits(ground.settings),
        count,
        environment.audit,
    )
    return LoginParts(keys, logins, gates, _feature(environment.tls, keys, gates))


def _feature(tls: TlsListeners, keys: KeySources, gates: SaslGates) -> Feature:
    def metrics() -> Iterable[Family | Break]:
        yield from login_metrics(gates)
        yield from tls_metrics(tls)
        yield from oauth_metrics(keys)

    tasks: list[Task] = []
    if len(tls):
        tasks.append(Task("look for new certificates", tls.run))
    if len(keys):
        tasks.append(Task("read the keys of identity providers", keys.run))
    return Feature("logins", tasks=tuple(tasks), metrics=metrics)


def connection_limits(settings: BrokerSettings) -> ConnectionLimits:
    """Return the limits of one connection."""
    return ConnectionLimits(
        max_frame_bytes=settings.int("socket.request.max.bytes"),
        idle_seconds=settings.int("connections.max.idle.ms") / 1000,
    )
