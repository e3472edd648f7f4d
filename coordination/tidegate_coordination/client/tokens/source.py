"""The tokens that connections log in with: one for all connections with the same credentials.

No task renews tokens. A caller that finds the token due for renewal gets the next one, within a
deadline.  Other callers use the present token meanwhile, or wait if there is none.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from random import Random
from typing import Final, TypeAlias

import trio

from tidegate_runtime.secret import Secret

from ..errors import AuthenticationFailed, ClassicError, TokenRefused, TokenUnavailable
from ..properties.bearer_credentials import BearerCredentials
from .bearer import BadToken, BearerToken, expiry_of
from .fetch import fetch_token
from .plan import TokenPlan

FetchToken: TypeAlias = Callable[[BearerCredentials], Awaitable[str]]
"""Raises AuthenticationFailed, TokenUnavailable or BadProperties.  The caller sets the deadline."""

MAX_SOURCES: Final = 4
"""A link has one or two files of properties, and these may change."""


class TokenSource:
    """The tokens of some credentials.

    Args:
      wall_clock: seconds since 1970.
    """

    def __init__(
        self,
        credentials: BearerCredentials,
        rng: Random,
        fetch: FetchToken,
        wall_clock: Callable[[], float],
    ) -> None:
        self._credentials = credentials
        self._rng = rng
        self._fetch = fetch
        self._wall_clock = wall_clock
        self._plan = TokenPlan(credentials.times)
        self._fetched: trio.Event | None = None  # set once the fetch under way is over

    async def get(self) -> BearerToken:
        """Return a token that has not expired.

        Raises:
          AuthenticationFailed: no token can be got until an operator changes a setting or the
            provider.
          TokenUnavailable: no token can be got now; a later call may succeed.
        """
        while True:
            now = trio.current_time()
            token = self._plan.usable(now)
            if not self._plan.is_due(now):
                if token is None:
                    raise self._plan.failure()
                return token
            if self._fetched is None:
                await self._renew()
            elif token is not None:
                return token
            else:
                await self._fetched.wait()

    def refused(self, token: BearerToken, error: TokenRefused) -> None:
        """Note that a broker refused a token; get another one."""
        self._plan.refused(token, error, trio.current_time())

    def accepted(self) -> None:
        """Note that a broker accepted a token."""
        self._plan.accepted()

    async def _renew(self) -> None:
        fetched = self._fetched = trio.Event()
        try:
            token = await self._new_token()
        except ClassicError as error:
            self._plan.failed(error, trio.current_time())
        else:
            life_seconds = token.expires_at - self._wall_clock()
            self._plan.got(token, life_seconds, self._rng.random(), trio.current_time())
        finally:
            self._fetched = None
            fetched.set()

    async def _new_token(self) -> BearerToken:
        """Return a token that has not expired.

        Raises:
          ClassicError: see get().
        """
        credentials = self._credentials
        seconds = credentials.times.fetch_seconds
        text: str | None = None
        with trio.move_on_after(seconds):
            text = await self._fetch(credentials)
        if text is None:
            raise TokenUnavailable(
                f"{credentials.place} gives no token within {seconds:g} s; it is asked again."
            )
        try:
            expires_at = expiry_of(text)
        except BadToken as error:
            raise AuthenticationFailed(f"the token of {credentials.place} {error}.") from None
        if expires_at <= self._wall_clock():
            raise AuthenticationFailed(
                f"the token of {credentials.place} has expired already: compare the clocks, or"
                " write a new one if it is in a file."
            )
        return BearerToken(Secret(text), expires_at, credentials.who, credentials.extensions)


class TokenSources:
    """The sources of one link, or of one command; the most recently used ones are kept.

    Args:
      wall_clock: seconds since 1970.
    """

    def __init__(
        self,
        rng: Random,
        fetch: FetchToken = fetch_token,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._rng = rng
        self._fetch = fetch
        self._wall_clock = wall_clock
        self._known: OrderedDict[BearerCredentials, TokenSource] = OrderedDict()

    def of(self, credentials: BearerCredentials) -> TokenSource:
        """Return the source of the credentials."""
        found = self._known.pop(credentials, None)
        if found is None:
            found = TokenSource(credentials, self._rng, self._fetch, self._wall_clock)
        self._known[credentials] = found
        if len(self._known) > MAX_SOURCES:
            self._known.popitem(last=False)
        return found
