"""All client quotas of the cluster (KIP-546)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

import msgspec

from ...events.security import ClientQuotasSet
from ...security.quotas import (
    DEFAULT,
    Limit,
    QuotaChange,
    QuotaEntity,
    QuotaKey,
    limit_of,
    normal_address,
)
from ..broken import expect
from ..frozen import FrozenRows, frozen_values
from ..long_values import SLICE_ROWS


class ClientQuotaTable:
    """See the module's head.  version: rises with every change, for caches of limits.

    An entity's quotas are replaced, and never change, so a copy of the rows stays as it is.
    """

    def __init__(self) -> None:
        self.version = 0
        self._rows: Final[dict[QuotaEntity, Mapping[str, float]]] = {}
        self._counts: Final[Counter[str]] = Counter()
        self._of_addresses: Final[dict[str, float]] = {}

    def __iter__(self) -> Iterator[tuple[QuotaEntity, Mapping[str, float]]]:
        """Yield all entities with their quotas, in the order in which they got the first."""
        return iter(self._rows.items())

    def copied(self) -> dict[QuotaEntity, Mapping[str, float]]:
        """Return a copy of the quotas by entity, in the same order."""
        return self._rows.copy()

    def __len__(self) -> int:
        return len(self._rows)

    def get(self, entity: QuotaEntity, key: str) -> float | None:
        """Return a quota of an entity itself."""
        return self._rows.get(entity, {}).get(key)

    def has(self, *keys: QuotaKey) -> bool:
        """Return whether any entity has one of these quotas."""
        return any(self._counts[key] for key in keys)

    def limit(self, key: QuotaKey, user: str, client_id: str) -> Limit | None:
        """Return the quota that holds for a client; see limit_of()."""
        return limit_of(self._rows, key, user, client_id) if self._counts[key] else None

    def connection_rate(self, host: str) -> float | None:
        """Return how many connections a second an address may open; None for any number."""
        if not self._of_addresses:
            return None
        default = self._of_addresses.get(DEFAULT)
        return self._of_addresses.get(normal_address(host) or host, default)

    def fold_set(self, event: ClientQuotasSet) -> None:
        """Set and remove quotas."""
        for each in event.changes:
            if each.value is None:
                self._remove(each.entity, each.key)
            else:
                self._set(each.entity, each.key, each.value)
        self.version += 1

    def _set(self, entity: QuotaEntity, key: str, value: float) -> None:
        row = self._rows.get(entity, {})
        self._counts[key] += key not in row
        self._rows[entity] = {**row, key: value}
        if entity.ip is not None and key == QuotaKey.CONNECTION:
            self._of_addresses[_address(entity.ip)] = value

    def _remove(self, entity: QuotaEntity, key: str) -> None:
        row = self._rows.get(entity, {})
        expect(key in row, f"{entity} has no quota {key}")
        left = {other: value for other, value in row.items() if other != key}
        self._counts[key] -= 1
        if left:
            self._rows[entity] = left
        else:
            del self._rows[entity]
        if entity.ip is not None and key == QuotaKey.CONNECTION:
            self._forget_address(_address(entity.ip))

    def _forget_address(self, address: str) -> None:
        """Drop an address, unless a quota names it in another spelling."""
        del self._of_addresses[address]
        for entity, row in self._rows.items():
            if entity.ip is not None and _address(entity.ip) == address:
                self._of_addresses[address] = row[QuotaKey.CONNECTION]

    def frozen(self) -> FrozenRows[QuotaChange]:
        """Return the present quotas, to be encoded later."""
        return frozen_values("quotas", _slices(self.copied()))

    def decode(self, rows: Iterable[Any]) -> None:
        """Add the rows of a piece of a snapshot."""
        for each in msgspec.convert(rows, list[QuotaChange]):
            expect(each.value is not None, f"a quota without a value in a snapshot: {each}")
            self._set(each.entity, each.key, each.value or 0.0)


def _address(name: str) -> str:
    return normal_address(name) or name


def _slices(rows: Mapping[QuotaEntity, Mapping[str, float]]) -> Iterator[list[QuotaChange]]:
    items = iter(rows.items())
    while some := list(islice(items, SLICE_ROWS)):
        yield [
            QuotaChange(entity, key, value) for entity, row in some for key, value in row.items()
        ]
