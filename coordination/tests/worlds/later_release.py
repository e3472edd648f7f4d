"""A small release with tenants. Tests check that the bytes of this release leave room for it.

The release has tables for each tenant, which production code makes and folds into.  Its snapshots
are of another format, with one more table: the rows of all tenants but 0.  The release has no
rules.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

import msgspec
import pytest

from tidegate_coordination.events import links as kev
from tidegate_coordination.events.cluster import Event
from tidegate_coordination.events.metadata_versions import LEVELS, NEWEST, TENANTS, Level
from tidegate_coordination.state import snapshot_head
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.event_rows import ROWS
from tidegate_coordination.state.folds.parts import FoldParts
from tidegate_coordination.state.frozen import FrozenRows, piece, split
from tidegate_coordination.state.long_values import LongValue
from tidegate_coordination.state.rows.row import Row
from tidegate_coordination.state.tables import StateTables
from tidegate_coordination.state.tenant_tables import TenantTables

FORMAT = LEVELS[NEWEST].snapshot_format + 1
_FENCING = {
    kev.TopicsFenced: "switches",
    kev.ReturnFenced: "switches",
    kev.GroupsFenced: "link_groups",
}
_OF_GROUP_FENCES = (kev.GroupFenceReached, kev.GroupsUnfenced, kev.GroupsMoved)


@contextmanager
def later_release() -> Iterator[None]:
    """Within the block, the level of tenants and its snapshot format are known."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(LEVELS, TENANTS, Level(2, FORMAT, "tenants"))
        patch.setattr(snapshot_head, "_READABLE_FORMATS", range(2, FORMAT + 1))
        yield


class OtherTenant(TenantTables):
    """The tables of a tenant, and access to those that all tenants share."""

    def __init__(self, fleet: ClusterState) -> None:
        super().__init__(fleet.partitions, fleet._grows)
        self._fleet = fleet

    def __getattr__(self, name: str) -> Any:
        return getattr(self._fleet, name)


class LaterState(ClusterState):
    """Folds an event into the tables of its tenant."""

    def __init__(self, highest_version: int = TENANTS) -> None:
        super().__init__(highest_version)
        self.others: dict[int, OtherTenant] = {}
        for row in ROWS:
            self._folds[row.kind] = (partial(self._fold, row), row.tables)

    def of(self, tenant: int) -> TenantTables:
        """Return the tables of a tenant, made at the first call."""
        return self.others.setdefault(tenant, OtherTenant(self)) if tenant else self

    def _fold(self, row: Row, event: Event) -> None:
        tables = self.of(self._owner(event))
        parts = self._parts if tables is self else FoldParts(cast(StateTables, tables))
        if row.kind in _FENCING:  # tenant 0's table counts the fences of all tenants
            counted, own = (getattr(each, _FENCING[row.kind]) for each in (self, tables))
            own.next_fence = counted.next_fence
            row.fold(parts)(event)
            counted.next_fence = own.next_fence
        else:
            row.fold(parts)(event)

    def _owner(self, event: Event) -> int:
        """Return the tenant that an event names, or to which its numbers belong."""
        if "tenant" in event.__struct_fields__:
            return int(cast(Any, event).tenant)
        owners = (tenant for tenant, tables in self.others.items() if _has(tables, event))
        return next(owners, 0)

    def encode(self) -> bytes:
        """Return the bytes of this release, followed by those of the other tenants."""
        rows = [[tenant, rows_of(tables)] for tenant, tables in sorted(self.others.items())]
        return super().encode() + (piece(["tenants", rows]) if rows else b"")

    @classmethod
    def decode(cls, data: bytes, highest_version: int = TENANTS) -> LaterState:
        """Return the state from the bytes of encode()."""
        pieces = list(split(data))
        is_last = isinstance(pieces[-1], list) and pieces[-1][0] == "tenants"
        others = pieces.pop()[1] if is_last else []
        state = super().decode(b"".join(map(piece, pieces)), highest_version)
        assert isinstance(state, cls)
        for tenant, tables in others:
            state._decode_tenant(state.of(tenant), tables)
        return state

    def _decode_tenant(self, tenant: TenantTables, tables: dict[str, Any]) -> None:
        tombstones = tables.pop("offsets_tombstones", [])
        tenant.scram.decode_sealed(tables.pop("scram_sealed", []))
        for name, rows in tables.items():
            getattr(tenant, name).decode(rows)
        tenant.offsets_topic.decode(self.metadata_version, tombstones)


def _has(tables: TenantTables, event: Event) -> bool:
    """Return whether a number in an event is that of a tenant's topic, producer or fence."""
    is_of_groups = isinstance(event, _OF_GROUP_FENCES)
    fences = tables.link_groups.fences if is_of_groups else tables.switches.fences
    topic_ids = (getattr(event, "topic_id", b""), *getattr(event, "topic_ids", ()))
    return (
        not tables.topics.by_id.keys().isdisjoint(topic_ids)
        or tables.transactions.name_of(getattr(event, "producer_id", -1)) is not None
        or getattr(event, "fence", 0) in fences
    )


def rows_of(tables: TenantTables) -> dict[str, Any]:
    """Return all rows of a tenant, by table, as they are in a snapshot."""
    with tables.topics.frozen() as topics:
        of_head = {"topics": topics, "links": tables.links.encode()}
        for name in ("claims", "switches", "link_groups", "configs"):
            of_head[name] = getattr(tables, name).encode()
        found = msgspec.msgpack.decode(b"".join(LongValue.of_map(of_head).parts()))
    frozen: list[FrozenRows[Any]] = [
        tables.groups.frozen(),
        tables.transactions.frozen(),
        tables.acls.frozen(),
        *tables.scram.frozen(),
        tables.quotas.frozen(),
        tables.tokens.frozen(),
        tables.offsets_topic.frozen(),
    ]
    for name, rows in split(b"".join(each for table in frozen for each in table.pieces())):
        found.setdefault(name, []).extend(rows)
    return cast(dict[str, Any], found)
