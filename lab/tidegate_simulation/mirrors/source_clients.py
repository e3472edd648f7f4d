"""Clients of the source, and the faults that strike it.  Gateways see them only by mirroring."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import trio

from tidegate_protocol.batches import TRANSACTIONAL
from tidegate_protocol.compression import Codec
from tidegate_protocol.records import Record, build_batch

from ..classic.log.batch_checks import check_client_batch, one_batch
from ..classic.log.faults import raise_log_start, remove_records
from ..classic.model_topics import ModelPartition
from ..classic.topic_settings import TopicSettings
from ..clients.client import Client
from ..clients.workload import Workload
from ..plans.link_plan import PREFIX
from .source import MAX_TOPICS, Source

_PRODUCE_VERSION: Final = 9
_MOST_OPEN: Final = 3
_KEYS: Final = 5
LATE_SECONDS: Final = 0.05
_CONFIGS: Final = (
    ("retention.ms", "600000"),
    ("retention.ms", "-1"),
    ("max.message.bytes", "2000000"),
    ("segment.bytes", "1048576"),
)


class SourceWriter:
    """Writes batches of all kinds to the source: plain, idempotent, transactional."""

    def __init__(self, workload: Workload, name: str, source: Source) -> None:
        self.client = Client(workload.world, name)
        self._workload = workload
        self._source = source
        self._sequences: dict[tuple[bytes, int, int], int] = {}
        self._open: list[tuple[int, list[tuple[bytes, ModelPartition]]]] = []
        self._producer_id = source.cluster.next_producer_id(1)

    async def run(self) -> None:
        """Write until no operation is left; end all transactions then."""
        while self._workload.take():
            self._act()
            if self.client.rng.random() < 0.3:
                await self.write_late(self.client.rng.choice(list(self._source.partitions())))
            await self.client.pause(2.0)
        while self._open:
            if not self._end(self._open[-1]):
                await self.client.pause(1.0)
        self.client.close()

    async def write_late(self, chosen: tuple[bytes, ModelPartition]) -> None:
        """Write a batch that its leader checks first, and appends a moment later."""
        if not self._is_fenced(*chosen):
            await trio.sleep(self.client.rng.uniform(0, LATE_SECONDS))
            self._append(*chosen, -1)

    def _is_fenced(self, topic_id: bytes, partition: ModelPartition) -> bool:
        """Return whether the source refuses the batch, or only gateways may write to it now."""
        switched = self._workload.world.watch.state.switches.switched.get(topic_id)
        if switched is not None and switched.reached:
            return True
        return self._source.settings_of(partition).max_message_bytes == 0

    def _act(self) -> None:
        rng = self.client.rng
        if self._open and rng.random() < 0.4:
            self._end(rng.choice(self._open))
            return None
        if len(self._open) < _MOST_OPEN and rng.random() < 0.3:
            return self._begin()
        topic_id, partition = rng.choice(list(self._source.partitions()))
        for _ in range(rng.randint(1, 3)):
            is_idempotent = rng.random() < 0.5
            self._write(topic_id, partition, self._producer_id if is_idempotent else -1)
        return None

    def _begin(self) -> None:
        rng = self.client.rng
        producer_id = self._source.cluster.next_producer_id(1)
        count = rng.randint(1, 2)
        chosen = rng.sample(list(self._source.partitions()), count)
        if any(self._is_fenced(*each) for each in chosen):
            return
        for topic_id, partition in chosen:
            self._write(topic_id, partition, producer_id, TRANSACTIONAL)
        self._open.append((producer_id, chosen))

    def _end(self, transaction: tuple[int, list[tuple[bytes, ModelPartition]]]) -> bool:
        """End a transaction; return False if a fence keeps its markers out now."""
        producer_id, chosen = transaction
        if any(self._is_fenced(*each) for each in chosen):
            return False
        self._open.remove(transaction)
        committed = self.client.rng.random() < 0.6
        for topic_id, partition in chosen:
            now_ms = self._source.servers.now_ms()
            partition.log.append_marker(
                producer_id, 0, committed=committed, settings=TopicSettings(), now_ms=now_ms
            )
            self._written(topic_id, partition)
        return True

    def _write(
        self, topic_id: bytes, partition: ModelPartition, producer_id: int, attributes: int = 0
    ) -> None:
        if not self._is_fenced(topic_id, partition):
            self._append(topic_id, partition, producer_id, attributes)

    def _append(
        self, topic_id: bytes, partition: ModelPartition, producer_id: int, attributes: int = 0
    ) -> None:
        rng, now_ms = self.client.rng, self._source.servers.now_ms()
        count = rng.randint(1, 4)
        records = [
            Record(at, now_ms, b"k%d" % rng.randrange(_KEYS), str(value).encode())
            for at, value in enumerate(self._workload.values(count))
        ]
        who = (topic_id, partition.key.partition, producer_id)
        sequence = self._sequences.get(who, 0)
        head = {}
        if producer_id >= 0:
            head = {
                "producer_id": producer_id,
                "producer_epoch": 0,
                "base_sequence": sequence,
                "attributes": attributes,
            }
            self._sequences[who] = sequence + count
        raw = build_batch(records, codec=rng.choice((Codec.NONE, Codec.LZ4)), **head)
        settings = TopicSettings()
        sound = check_client_batch(one_batch(raw, _PRODUCE_VERSION), settings, now_ms)
        partition.log.append(sound, settings, now_ms)
        self._written(topic_id, partition)

    def _written(self, topic_id: bytes, partition: ModelPartition) -> None:
        self._source.remember(topic_id, partition)
        self._source.spoilt.appended(partition)
        self._source.cluster.replicated(partition, partition.log.end_offset)


class SourceKeeper:
    """Changes topics of the source, and lets the drawn faults strike it, until `late`."""

    def __init__(self, workload: Workload, name: str, source: Source) -> None:
        self.client = Client(workload.world, name)
        self._workload = workload
        self._source = source
        self._world = workload.world
        acts: dict[str, Callable[[], bool]] = {
            "broker_down": self._stop_broker,
            "leader_moved": self._move_leader,
            "connection": self._reset,
            "retention": self._retain,
            "compaction": self._compact,
            "slow_replicas": self._hold,
            "malformed": self._spoil,
        }
        drawn = workload.world.plan.links.kinds
        self._faults = [(kind, acts[kind.removeprefix(PREFIX)]) for kind in drawn]
        self._repairs: list[tuple[float, Callable[[], None]]] = []

    async def run(self) -> None:
        """Act until no operation is left; then heal the source."""
        rng = self.client.rng
        while self._workload.take():
            self._repair(trio.current_time())
            if rng.random() < 0.2:
                self._administrate()
            elif self._faults:
                kind, act = rng.choice(self._faults)
                if act():
                    self._world.strikes.count(kind)
            await self.client.pause(4.0)
        self._repair(float("inf"))
        self.client.close()

    def _repair(self, now: float) -> None:
        due = [each for each in self._repairs if each[0] <= now]
        self._repairs = [each for each in self._repairs if each[0] > now]
        for _, repair in due:
            repair()

    def _later(self, repair: Callable[[], None]) -> None:
        self._repairs.append((trio.current_time() + self.client.rng.uniform(1, 15), repair))

    def _any(self) -> tuple[bytes, ModelPartition]:
        return self.client.rng.choice(list(self._source.partitions()))

    def _administrate(self) -> None:
        rng, cluster = self.client.rng, self._source.cluster
        if len(cluster.running) < len(cluster.nodes):
            return  # new partitions would have fewer replicas
        name = rng.choice(list(cluster.topics))
        if cluster.topics[name].configs.latest.get("max.message.bytes") == "0":
            return  # the topic is fenced: a switch is under way, or done
        match rng.randrange(3):
            case 0 if len(cluster.topics) < MAX_TOPICS:
                self._source.create_topic(f"mirrored-{len(cluster.topics)}", rng.randint(1, 2))
            case 1 if len(cluster.topics[name].partitions) < 3:
                cluster.add_partitions(name, len(cluster.topics[name].partitions) + 1)
            case _:
                config, value = rng.choice(_CONFIGS)
                cluster.set_config(name, config, value, trio.current_time())

    def _stop_broker(self) -> bool:
        running = [each.node_id for each in self._source.cluster.running]
        if not running:
            return False
        node_id = self.client.rng.choice(running)
        self._source.servers.stop_broker(node_id)
        self._later(lambda: self._source.servers.start_broker(node_id))
        return True

    def _move_leader(self) -> bool:
        _, partition = self._any()
        others = [each for each in partition.isr if each != partition.leader]
        if not others or partition.leader < 0:
            return False
        self._source.cluster.move_leader(*partition.key, self.client.rng.choice(others))
        return True

    def _reset(self) -> bool:
        running = [each.node_id for each in self._source.cluster.running]
        return bool(running) and self._source.servers.reset(self.client.rng.choice(running)) > 0

    def _retain(self) -> bool:
        topic_id, partition = self._any()
        log = partition.log
        if log.high_watermark <= log.log_start:
            return False
        raise_log_start(log, self.client.rng.randint(log.log_start + 1, log.high_watermark))
        self._source.remember(topic_id, partition)
        return True

    def _compact(self) -> bool:
        topic_id, partition = self._any()
        if self._source.spoilt.holds(partition.key):
            return False  # a cleaner stops at a malformed batch
        log, rng = partition.log, self.client.rng
        # Kafka's cleaner removes a marker only long after the last record of its transaction.
        markers = {each.header.base_offset for each in log.batches if each.header.is_control}
        stable = [
            offset
            for offset in range(log.log_start, log.last_stable_offset)
            if rng.random() < 0.3 and offset not in markers
        ]
        if not stable:
            return False
        remove_records(log, set(stable))
        self._source.remember(topic_id, partition)
        return True

    def _hold(self) -> bool:
        _, partition = self._any()
        key = partition.key
        self._source.cluster.hold_watermark(*key)
        self._later(lambda: self._source.cluster.release_watermark(*key))
        return True

    def _spoil(self) -> bool:
        _, partition = self._any()
        if not self._source.spoilt.await_batch(partition.key):
            return False
        self._later(lambda: self._source.spoilt.heal(partition))
        return True
