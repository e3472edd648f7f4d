"""The parts that write objects, and those that answer producers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from tidegate_coordination.object_names.keys import object_key
from tidegate_coordination.state.records.objects import WalName
from tidegate_storage.objects.wal import WalIdentity

from ..cost.ledger import CostLedger
from ..cut_off import tell_of_cuts
from ..feature import Feature, Ground, Task
from ..inlining.feature import small_writes
from ..inlining.mover import InlineMover
from ..network.arenas import ArenaPool
from ..network.connection import ReplyFlusher
from ..network.inflow import Inflow
from ..produce.inline_lane import InlineLane
from ..produce.metrics import write_metrics
from ..produce.produce_deadlines import ProduceDeadlines
from ..produce.wal_settings import WalSettings
from ..produce.wal_writer import WalWriter
from ..settings.broker_settings import BrokerSettings
from ..store_way.store_proof import StoreProof
from ..store_way.store_watch import StoreWatch
from .reads import ReadParts


@dataclass(frozen=True, slots=True)
class WriteParts:
    """pool: the receive buffers.  inflow: when produce requests arrive, for the writer."""

    flusher: ReplyFlusher
    produce_deadlines: ProduceDeadlines
    inflow: Inflow
    pool: ArenaPool
    writer: WalWriter
    mover: InlineMover
    store_watch: StoreWatch
    features: tuple[Feature, ...]


def write_parts(
    ground: Ground, reads: ReadParts, ledger: CostLedger, is_cut_off: Callable[[], bool]
) -> WriteParts:
    """Make the parts.  is_cut_off: returns whether other gateways serve instead of this one."""
    coordinator, store = ground.coordinator, ground.environment.store
    flusher, inflow = ReplyFlusher(), Inflow()

    def key_of(identity: WalIdentity) -> str:
        return object_key(coordinator.state, WalName(identity.incarnation, identity.counter))

    lane = InlineLane(
        ground.settings.int("wal.inline.max.bytes"),
        lambda: coordinator.log_capabilities,
        coordinator.state,
    )
    writer = WalWriter(
        store,
        coordinator,
        wal_settings(ground.settings),
        node_id=ground.identity.node_id,
        inflow=inflow,
        key_of=key_of,
        is_append_time=lambda topic: ground.cluster.of(topic).timestamp_type_is_append,
        on_stored=reads.reader.adopt,
        on_batches=ledger.wrote_batches,
        after_answers=flusher.flush,
        upkeep=ground.upkeep,
        way=reads.store_way,
    )
    writer.lane = lane if lane.is_on else None
    counters = writer.counters
    ledger.inlined = lambda: (counters.inlined_objects, counters.inlined_bytes)
    mover = InlineMover(
        coordinator,
        writer.puts,
        ground.upkeep,
        next_identity=writer.next_identity,
        key_of=key_of,
        on_stored=reads.reader.adopt,
        on_batches=ledger.wrote_batches,
        put_seconds=ground.settings.int("wal.put.timeout.ms") / 1000,
    )
    proof = StoreProof(store, coordinator, writer.next_identity, key_of)
    watch = StoreWatch(coordinator, reads.store_way, proof, writer, store, ground.upkeep)
    deadlines = ProduceDeadlines(flusher.flush, is_cut_off)
    pool = ArenaPool(ground.settings.int("buffered.bytes.max"))
    tasks = (
        Task("tell of cuts", partial(tell_of_cuts, coordinator)),
        Task("watch the way to the object store", watch.run),
    )
    feature = Feature("writes", tasks=tasks, metrics=partial(write_metrics, writer, pool))
    inlining = small_writes(coordinator.state, mover, counters)
    features = (feature, inlining)
    return WriteParts(flusher, deadlines, inflow, pool, writer, mover, watch, features)


def wal_settings(settings: BrokerSettings) -> WalSettings:
    """Return the settings of the WAL writer."""
    return WalSettings(
        max_object_bytes=settings.int("wal.max.object.bytes"),
        put_budget_per_second=settings.float("wal.put.budget.per.second"),
        linger_seconds=settings.int("wal.linger.ms") / 1000,
        upload_slots=settings.int("wal.upload.slots"),
        put_timeout_seconds=settings.int("wal.put.timeout.ms") / 1000,
        # A sealed object is a copy, so it takes memory in addition to the requests that
        # buffered.bytes.max limits.
        max_in_flight_bytes=settings.int("buffered.bytes.max") // 2,
        walks_records=settings.text("record.validation") == "full",
    )
