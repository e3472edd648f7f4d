"""Logins by delegation tokens: SCRAM with the extension `tokenauth=true` (KIP-48).

The user name is the token's id, the password its secret in base64.  From these a gateway computes
the SCRAM keys, which for other users are in the log.  It computes them once for each token and
mechanism, in a thread, since this takes milliseconds.  Meanwhile other logins by the same token
wait.  The salt is the one that a user who does not exist would get.

A token is valid until its end, by the time that ends.py returns.
"""

from __future__ import annotations

from base64 import b64encode
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from math import inf
from typing import Final

import trio

from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.coordinator.waiting import CoordinatorUnavailable
from tidegate_coordination.security.tokens import USER, DelegationToken
from tidegate_coordination.state.security.scram import ScramCredential, ScramMechanism

from ...work.blocking import Blocking
from ..sasl.mechanism import NotYet
from ..sasl.scram import MIN_ITERATIONS, FindToken, TokenLogin, made_up
from ..sasl.scram_keys import credential_of, salted
from .ends import judging_ms
from .secrets import TokenSecrets

MAX_KEPT: Final = 2_000
"""Credentials of tokens that are kept; a token beyond costs its login a few ms more."""
LOOK_SECONDS: Final = 1.0
"""Clients who name no good token have the log read once in this time, all together."""
_LOOK_TIMEOUT_SECONDS: Final = 3.0


class TokenLogins:
    """The delegation tokens, as SCRAM conversations of a gateway see them.

    Args:
      salt_secret: see scram.made_up.
      wall_clock: seconds since 1970.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        secrets: TokenSecrets,
        salt_secret: bytes,
        blocking: Blocking,
        wall_clock: Callable[[], float],
    ) -> None:
        self._coordinator: Final = coordinator
        self._secrets: Final = secrets
        self._salt_secret: Final = salt_secret
        self._blocking: Final = blocking
        self._wall_clock: Final = wall_clock
        self._kept: Final[OrderedDict[tuple[str, str], ScramCredential]] = OrderedDict()
        self._under_way: Final[dict[tuple[str, str], trio.Event]] = {}
        self._lock: Final = trio.Lock()
        self._looked_at = -inf

    def begin(self) -> FindToken:
        """Return the function with which one SASL conversation finds its token."""
        has_looked = False

        def find(mechanism: str, token_id: str) -> TokenLogin | None:
            nonlocal has_looked
            if not self._secrets.is_enabled:
                return None
            found = self._coordinator.state.tokens.get(token_id)
            login = None if found is None else self._login(mechanism, found)
            if login is None and not has_looked:
                # Another gateway may have created or renewed the token a moment ago.
                has_looked = True
                raise NotYet(self._look)
            return login

        return find

    def _login(self, mechanism: str, token: DelegationToken) -> TokenLogin | None:
        now_ms = judging_ms(self._coordinator.state, self._wall_clock())
        kind, _, user = token.owner.partition(":")
        if token.is_expired(now_ms) or kind != USER:
            return None
        key = mechanism, token.token_id
        credential = self._kept.get(key)
        if credential is None:
            raise NotYet(partial(self._make, *key))
        self._kept.move_to_end(key)
        return TokenLogin(credential, user, (token.expires_ms - now_ms) / 1000)

    async def _make(self, mechanism: str, token_id: str) -> None:
        """Compute and keep a credential, or wait until another login has done so or gave up."""
        key = mechanism, token_id
        other = self._under_way.get(key)
        if other is not None:
            return await other.wait()
        self._under_way[key] = done = trio.Event()
        try:
            self._kept[key] = await self._compute(mechanism, token_id)
        finally:
            del self._under_way[key]
            done.set()
        if len(self._kept) > MAX_KEPT:
            self._kept.popitem(last=False)
        return None

    async def _compute(self, mechanism: str, token_id: str) -> ScramCredential:
        kind = ScramMechanism.of_sasl_name(mechanism)
        password = b64encode(self._secrets.of(token_id)).decode()
        salt = made_up(mechanism, token_id, self._salt_secret).salt
        key = await self._blocking.run(partial(salted, kind, password, salt, MIN_ITERATIONS))
        return credential_of(token_id, kind, salt, key, MIN_ITERATIONS)

    async def _look(self) -> None:
        """Read the log, unless a read that another client began after this call has done so."""
        asked_at = trio.current_time()
        async with self._lock:
            if self._looked_at >= asked_at:
                return
            await trio.sleep_until(self._looked_at + LOOK_SECONDS)
            self._looked_at = trio.current_time()
            with trio.move_on_after(_LOOK_TIMEOUT_SECONDS):
                try:
                    await self._coordinator.catch_up()
                except CoordinatorUnavailable:
                    return  # the local state decides
