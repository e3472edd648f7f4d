"""Writes the sums of this gateway's costs into the object store, so that they outlive the process.

Each object holds the sums of one interval, so a restart loses no earlier sums.  The gateway writes
an object after each interval, and one when it stops.  The key has the incarnation and a counter, so
no other gateway uses the same key.  The orphan scan skips these objects, since it looks only at WAL
objects and segments.  A crash loses the current interval.

The gateway that is the housekeeper also adds the bytes that the cluster's topics keep, for the time
since another gateway was the housekeeper.  It also deletes old sums.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Final

import structlog
import trio

from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.state.changes import CLAIMS, GATEWAYS
from tidegate_storage.objects.cost_sums import OTHERS, CostSums, encode, hour_of, merged
from tidegate_storage.objects.keys import cost_key, cost_prefix, parse_cost_key
from tidegate_storage.stores.counting_store import CountingStore, Request
from tidegate_storage.stores.object_store import (
    ObjectExists,
    ObjectStore,
    StoreMisconfigured,
    StoreUnavailable,
    put_idempotent,
)

from ..cost.ledger import MAX_NAME, MAX_NAMES, CostLedger
from .upkeep import Upkeep

_log = structlog.get_logger("tidegate.cost")

AGAIN_SECONDS: Final = 60.0
COLLECT_SECONDS: Final = 86_400.0
_PARTITIONS_A_TURN: Final = 10_000
# A second group is enough to know that the client is not in one group only.
_GROUPS_OF_A_CLIENT: Final = 2
_HOUR_MS: Final = 3_600_000


@dataclass(frozen=True, slots=True)
class CostSettings:
    """interval_seconds: the time between two objects.

    retention_seconds: how long objects are kept.

    linger_ms, put_budget: of the WAL writer; the objects hold them so that advice can refer to
    them.
    """

    interval_seconds: float
    retention_seconds: float
    linger_ms: int
    put_budget: float


@dataclass(frozen=True, slots=True)
class Books:
    """The ledger in which a gateway counts its requests, and its store.

    store: requests through it are counted.  bare: the same store, without counting.
    """

    ledger: CostLedger
    store: CountingStore
    bare: ObjectStore


class CostFiles:
    """See the module's head.

    groups: returns the group and the client id of each member; called before each look at sums.
    is_housekeeper: whether this gateway works for the whole cluster, and its clock is good.
    is_elsewhere: whether another gateway does this work.  check_owner: raises if the prefix is
    another log's; called before deletions.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        node_id: int,
        books: Books,
        settings: CostSettings,
        *,
        groups: Callable[[], Iterable[tuple[str, str]]],
        is_housekeeper: Callable[[], bool],
        is_elsewhere: Callable[[], bool],
        check_owner: Callable[[], Awaitable[object]],
        wall_clock: Callable[[], float],
        upkeep: Upkeep,
    ) -> None:
        self._coordinator = coordinator
        self._node_id = node_id
        self._books = books
        self._settings = settings
        self._groups = groups
        self._is_housekeeper = is_housekeeper
        self._is_elsewhere = is_elsewhere
        self._check_owner = check_owner
        self._wall_clock = wall_clock
        self._upkeep = upkeep
        self._counter = 0
        self._unwritten: tuple[str, bytes] | None = None
        self._last = CostSums()
        self._seen: dict[str, list[str]] = {}
        self._one_at_a_time = trio.Lock()
        self._collect_at = trio.current_time()
        self._was_elsewhere = is_elsewhere()
        self._others_until_ms = 0
        coordinator.listen(self._on_change, CLAIMS | GATEWAYS)

    def _on_change(self, _touched: set[int]) -> None:
        """Note the time until which another gateway was the housekeeper."""
        is_elsewhere = self._is_elsewhere()
        if is_elsewhere or self._was_elsewhere:
            self._others_until_ms = round(self._wall_clock() * 1000)
        self._was_elsewhere = is_elsewhere

    def recent(self) -> CostSums:
        """Return the merged sums of the last whole interval and of the current one."""
        self.note_groups()
        sums = self._books.ledger.sums()
        self._sign(sums)
        sums.groups = self._seen
        return merged([self._last, sums])

    async def run(self) -> None:
        """Write the sums of each interval, and collect old ones; forever."""
        pause = self._settings.interval_seconds
        while True:
            await trio.sleep(pause)
            is_written = await self._upkeep.attempt("write what this gateway cost", self.write)
            pause = self._settings.interval_seconds if is_written else AGAIN_SECONDS
            is_due = trio.current_time() >= self._collect_at and self._is_housekeeper()
            if is_due and await self._upkeep.attempt("delete old sums of costs", self.collect):
                self._collect_at = trio.current_time() + COLLECT_SECONDS

    async def write(self) -> None:
        """End the interval, and store its sums, after any earlier sums that could not be stored.

        Raises:
          StoreUnavailable, StoreMisconfigured: call this again later; no sums are lost.
        """
        async with self._one_at_a_time:
            if self._unwritten is not None:
                await self._put(*self._unwritten)
            kept = await self.kept() if self._is_housekeeper() else Counter[str]()
            self.note_groups()
            sums = self._books.ledger.take()
            self._sign(sums)
            sums.groups, self._seen = self._seen, {}
            begin_ms = max(sums.begin_ms, self._others_until_ms)
            hours = max(sums.end_ms - begin_ms, 0) / _HOUR_MS
            sums.kept_bytes = dict(kept)
            sums.kept_byte_hours = {name: round(size * hours) for name, size in kept.items()}
            self._last = sums
            # The sums include the PUT of this object; otherwise the last PUT would be missing.
            sums.requests["put costs"] = sums.requests.get("put costs", 0) + 1
            self._unwritten = self._key(sums.end_ms), encode(sums)
            await self._put(*self._unwritten)

    async def collect(self) -> None:
        """Delete the sums that are older than the retention.

        Raises:
          StoreUnavailable, StoreMisconfigured: call it again later.
        """
        state, store = self._coordinator.state, self._books.store
        oldest = hour_of(self._wall_clock() - self._settings.retention_seconds)
        await self._check_owner()
        for timeline in range(1, state.timeline + 1):
            prefix, after = cost_prefix(state.cluster_id, timeline), ""
            while page := await store.list(prefix, start_after=after):
                after = page[-1].key
                old = [each.key for each in page if _is_before(each.key, oldest)]
                if not old:
                    break
                await store.delete_many(old)

    async def _put(self, key: str, body: bytes) -> None:
        ledger = self._books.ledger
        try:
            await put_idempotent(self._books.bare, key, body)
        except ObjectExists:
            _log.warning("another gateway's sums have the key of this one's", key=key)
        except (StoreMisconfigured, StoreUnavailable):
            ledger.asked(Request.PUT, key)  # counts the PUT that will repeat this one
            raise
        else:
            ledger.stored(key, len(body))
        self._unwritten = None

    def _key(self, end_ms: int) -> str:
        state, me = self._coordinator.state, self._coordinator.incarnation
        self._counter += 1
        return cost_key(
            state.cluster_id,
            state.timeline,
            hour_of(end_ms / 1000),
            self._node_id,
            me,
            self._counter,
        )

    def _sign(self, sums: CostSums) -> None:
        sums.node_id, sums.linger_ms = self._node_id, self._settings.linger_ms
        if self._books.store.requests_cost_money:
            sums.put_budget = self._settings.put_budget

    def note_groups(self) -> None:
        """Note the groups of clients; also called before the gateway hands its groups over."""
        for group_id, client_id in self._groups():
            name = client_id[:MAX_NAME]
            if name in self._seen or len(self._seen) < MAX_NAMES:
                groups = self._seen.setdefault(name, [])
                if group_id not in groups and len(groups) < _GROUPS_OF_A_CLIENT:
                    groups.append(group_id)

    async def kept(self) -> Counter[str]:
        """Return the bytes of live batches by topic; the smallest topics are summed as OTHERS."""
        kept: Counter[str] = Counter()
        state = self._coordinator.state
        for at, partition in enumerate(list(state.partitions.values())):
            topic = state.topics.by_id.get(partition.topic_id)
            if topic is not None:
                kept[topic.name] += partition.size_bytes
            if not at % _PARTITIONS_A_TURN:
                await trio.lowlevel.checkpoint()
        shown = Counter(dict(kept.most_common(MAX_NAMES)))
        if len(kept) > MAX_NAMES:
            shown[OTHERS] += kept.total() - shown.total()
        return shown


def _is_before(key: str, hour: int) -> bool:
    try:
        return parse_cost_key(key).hour < hour
    except ValueError:
        return False
