"""The delegation tokens of the cluster (KIP-48)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, KeysView
from typing import Any, Final

import msgspec

from ...events.security import DelegationTokenSet, DelegationTokensRemoved
from ...security.tokens import DelegationToken
from ..broken import expect
from ..frozen import FrozenRows, frozen_values
from ..long_values import sorted_keys


class TokenTable:
    """Tokens by id.  version: rises with every change, for caches."""

    def __init__(self) -> None:
        self.version = 0
        self._by_id: Final[dict[str, DelegationToken]] = {}
        self._of_requester: Final[Counter[str]] = Counter()
        self._bytes_of_requester: Final[Counter[str]] = Counter()

    def __iter__(self) -> Iterator[DelegationToken]:
        return iter(self._by_id.values())

    def get(self, token_id: str) -> DelegationToken | None:
        """Return a token, which may have expired."""
        return self._by_id.get(token_id)

    @property
    def ids(self) -> KeysView[str]:
        """Return the ids of all tokens."""
        return self._by_id.keys()

    def requested_by(self, principal: str) -> int:
        """Return how many tokens that a principal created still exist."""
        return self._of_requester[principal]

    def bytes_requested_by(self, principal: str) -> int:
        """Return about how much memory these tokens take, in bytes."""
        return self._bytes_of_requester[principal]

    def expired(self, now_ms: int) -> Iterator[DelegationToken]:
        """Yield the expired tokens; do not wait during the iteration."""
        return (each for each in self._by_id.values() if each.is_expired(now_ms))

    def fold_set(self, event: DelegationTokenSet) -> None:
        """Add a token, or replace the one with its id."""
        self._forget(event.token.token_id)
        self._add(event.token)
        self.version += 1

    def fold_removed(self, event: DelegationTokensRemoved) -> None:
        """Forget tokens."""
        for each in event.token_ids:
            expect(self._forget(each), f"there is no delegation token {each}")
        self.version += 1

    def _add(self, token: DelegationToken) -> None:
        self._by_id[token.token_id] = token
        self._of_requester[token.requester] += 1
        self._bytes_of_requester[token.requester] += token.memory_bytes

    def _forget(self, token_id: str) -> bool:
        token = self._by_id.pop(token_id, None)
        if token is None:
            return False
        self._of_requester[token.requester] -= 1
        self._bytes_of_requester[token.requester] -= token.memory_bytes
        if not self._of_requester[token.requester]:
            del self._of_requester[token.requester]
            del self._bytes_of_requester[token.requester]
        return True

    def frozen(self) -> FrozenRows[DelegationToken]:
        """Return the present rows, to be encoded later."""
        tokens = self._by_id.copy()
        slices = ([tokens[each] for each in ids] for ids in sorted_keys(tokens))
        return frozen_values("tokens", slices)

    def decode(self, rows: Iterable[Any]) -> None:
        """Add the rows of a piece of a snapshot."""
        for each in msgspec.convert(rows, list[DelegationToken]):
            self._add(each)
