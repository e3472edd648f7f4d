"""Logins of the connections to one cluster: the same user, or a token that is renewed."""

from __future__ import annotations

from ..errors import AuthenticationFailed, TokenRefused
from ..properties.bearer_credentials import BearerCredentials
from ..properties.client import Address, ClientProperties
from ..tokens.bearer import BearerToken
from ..tokens.source import TokenSource, TokenSources
from .authentication import Call, authenticate
from .sasl import Login


class Logins:
    """See the module's head.

    is_refused: whether the last login was refused, by a broker or a token endpoint.

    Args:
      tokens: the link's token sources; used only for OAUTHBEARER.
    """

    def __init__(self, properties: ClientProperties, tokens: TokenSources | None = None) -> None:
        self.is_refused = False
        self._login: Login | None = None
        self._tokens: TokenSource | None = None
        if isinstance(properties.sasl, BearerCredentials):
            assert tokens is not None, "OAUTHBEARER needs tokens"
            self._tokens = tokens.of(properties.sasl)
        else:
            self._login = properties.sasl

    async def next(self) -> Login | None:
        """Return the login of the next connection; None without SASL.

        Raises:
          AuthenticationFailed, TokenUnavailable: there is no token; see TokenSource.get().
        """
        if self._tokens is None:
            return self._login
        try:
            return await self._tokens.get()
        except AuthenticationFailed:
            self.is_refused = True
            raise

    async def log_in(self, call: Call, broker: Address, login: Login) -> float:
        """See authenticate().  A token that is refused is not used again."""
        try:
            lifetime_seconds = await authenticate(call, broker, login)
        except AuthenticationFailed as error:
            self.is_refused = True
            if isinstance(error, TokenRefused):
                self._forget(login, error)
            raise
        self.is_refused = False
        if self._tokens is not None:
            self._tokens.accepted()
        return lifetime_seconds

    def _forget(self, login: Login, error: TokenRefused) -> None:
        if self._tokens is not None and isinstance(login, BearerToken):
            self._tokens.refused(login, error)
