"""When a link gets its next token, and what it does until then.  Pure.

A token is renewed before it expires.  If that fails, the present token is used until it expires.
After a failure or a broker's refusal, the provider is asked again only after a pause.  Each pause
is twice the last one, until a broker accepts a token.
"""

from __future__ import annotations

from math import inf

from ..errors import AuthenticationFailed, ClassicError, TokenRefused, TokenUnavailable
from ..properties.token_times import TokenTimes, renew_after
from .bearer import BearerToken


class TokenPlan:
    """All times are of the caller's clock, which never goes back."""

    def __init__(self, times: TokenTimes) -> None:
        self._times = times
        self._token: BearerToken | None = None
        self._expires_at = -inf
        self._due_at = -inf
        self._failure: ClassicError | None = None
        self._pause = times.first_pause_seconds

    def usable(self, now: float) -> BearerToken | None:
        """Return the token, if it has not expired."""
        return self._token if now < self._expires_at else None

    def is_due(self, now: float) -> bool:
        """Return whether to ask for a token."""
        return now >= self._due_at

    def failure(self) -> ClassicError:
        """Return why there is no token, if there is none and no request is due."""
        if isinstance(self._failure, AuthenticationFailed):
            return AuthenticationFailed(str(self._failure))
        return TokenUnavailable(str(self._failure))

    def got(self, token: BearerToken, life_seconds: float, share: float, now: float) -> None:
        """Take a new token.

        Args:
          life_seconds: until it expires.  share: see renew_after().
        """
        self._token, self._failure = token, None
        self._expires_at = now + life_seconds
        # With a short lifetime Kafka's formula may give a time after the expiry.
        self._due_at = now + min(life_seconds, renew_after(life_seconds, self._times, share))

    def failed(self, error: ClassicError, now: float) -> None:
        """Note that the provider gave no new token; the next try follows after a pause."""
        self._failure = error
        self._due_at = now + self._pause
        self._pause = min(self._pause * 2, self._times.most_pause_seconds)

    def refused(self, token: BearerToken, error: TokenRefused, now: float) -> None:
        """Note that a broker refused a token; drop it if it is the present one."""
        if token is self._token:
            self._token = None
            self.failed(error, now)

    def accepted(self) -> None:
        """Note that a broker accepted a token: the next pause is the shortest one again."""
        self._pause = self._times.first_pause_seconds
