"""At the end of some runs the metadata log is lost and restored while consumers continue.

    before   the log is copied; producers write more, and consumers that know leader epochs read it
    lost     all gateways stop; the log is lost, and some of the objects stored since the copy
    after    a gateway starts on the restored log; producers write more; the consumers continue, and
             their records must be the records that a new reader finds

Kinds of violations:

    read across a restore   a consumer's record differs from the log's at its offset; no error
    wrong leader epoch      the epoch of a record's batch ends before the record
    not restored            a restore, or a gateway on the restored log, did not finish

In runs with transactions there are more: see restored_transactions.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Final

import trio

from tidegate_coordination.backup.copier import Copier
from tidegate_coordination.backup.recovery import recover_from_copies
from tidegate_coordination.backup.restore import Work, look_at_target, restore
from tidegate_coordination.events.cluster import Endpoint
from tidegate_coordination.forwarding.service import ProposalService
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_gateway.builder import GatewayBuilder
from tidegate_gateway.environment import Environment, Identity
from tidegate_gateway.gateway import Gateway
from tidegate_gateway.network.memory_transport import MemoryTransport, memory_transport_pair
from tidegate_gateway.settings.broker_settings import BrokerSettings
from tidegate_gateway.work.pools import inline_pools
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import produce
from tidegate_runtime.http.values import HttpRequest
from tidegate_storage.objects.keys import wal_prefix
from tidegate_storage.objects.ownership import read_owner

from ..clients.client import Client, Disconnected
from ..clients.epoch_readers import EpochReader, Unreadable
from ..clients.workload import Key, Workload, batch_bytes
from ..world.answer_tally import AnswerTally
from ..world.dials import host_of
from ..world.node import CLUSTER_ID, LISTENER
from ..world.world import World
from .restored_transactions import RestoredTransactions

STRIKE: Final = "log.restored"
TOLD: Final = "log.restored.told"
PATIENCE_SECONDS: Final = 120.0
_SHARE: Final = 0.15
_MAX_KEYS: Final = 3
_MOVED_SHARE: Final = 0.5
_MOVED_SECONDS: Final = 15.0  # then gateways have moved what was in the log only
_PRODUCE_VERSION: Final = 9
_QUIET: Final = {"housekeeping.interval.ms": "3600000", "orphan.scan.interval.ms": "0"}


def draws_restore(seed: int) -> bool:
    """Return whether a run ends with a restore."""
    return Random(f"{seed}/restore").random() < _SHARE


class _RestoredMachine:
    """The machine of the gateway on the restored log."""

    def __init__(self, gateway: Gateway, nursery: trio.Nursery, zone: str) -> None:
        self.name = "restored"
        self.zone = zone
        self.gateway: Gateway | None = gateway
        self.answers = AnswerTally()
        self._serve = gateway.door.let_in
        self._nursery = nursery

    def connect(self, process: str, listener: str = LISTENER) -> MemoryTransport:
        """See Machine."""
        ours, theirs = memory_transport_pair((process, 1))
        self._nursery.start_soon(self._serve, theirs, listener)
        return ours

    def drop(self, process: str) -> None:
        """See Machine.  Nothing is in flight here."""

    def ask(self, request: HttpRequest, answered: object) -> None:
        """See Machine.  There is no other gateway."""
        raise NotImplementedError

    @property
    def proposals(self) -> ProposalService | None:
        """See AskedMachine."""
        return None


class RestoreTrial:
    """The loss and the restore at the end of a run."""

    def __init__(self, world: World, workload: Workload) -> None:
        self._world = world
        self._rng = world.rng("restore")
        self._workload = workload
        self._readers: list[EpochReader] = []
        self._stored_since: list[str] = []
        self._copied: dict[int, dict[int, bytes]] = {}
        self._keys: set[str] = set()
        self._must_read = False
        self._names = iter(range(1 << 30))
        self._transactions: RestoredTransactions | None = None

    async def before(self) -> None:
        """Write and read records that the restore can lose."""
        world = self._world
        plain = [each for each in self._workload.keys if each.number not in self._workload.keyed]
        keys = sorted(self._rng.sample(plain, min(len(plain), _MAX_KEYS)))
        if world.plan.transactions.is_on:
            self._transactions = RestoredTransactions(self._workload, keys[0], self._rng)
            with trio.move_on_after(PATIENCE_SECONDS):
                await self._transactions.before_the_copy()
        if world.settings["wal.inline.max.bytes"] != "0":
            await self._write_to_the_log(keys)
        state = world.watch.state
        copier = Copier(
            world.log_at(world.homes[-1]), world.store, state.cluster_id, state.timeline
        )
        await copier.copy()
        stored = set(self._wal_objects())
        self._keys = set(world.store.all_keys())
        with trio.move_on_after(PATIENCE_SECONDS):
            await self._write(keys)
            if self._transactions is not None:
                await self._transactions.after_the_copy()
        if self._copied and self._rng.random() < _MOVED_SHARE:
            await trio.sleep(_MOVED_SECONDS)
        self._stored_since = sorted(set(self._wal_objects()) - stored)
        for key in keys:
            reader = await self._read(EpochReader(self._client("consumer"), key))
            if reader is not None:
                self._readers.append(reader)

    async def _write_to_the_log(self, keys: list[Key]) -> None:
        """Write small records, which are in the log only when it is copied."""
        with trio.move_on_after(PATIENCE_SECONDS):
            await self._write(keys)
            for key in keys:
                reader = await self._read(EpochReader(self._client("early consumer"), key))
                if reader is not None:
                    self._copied[key.number] = reader.held

    def _client(self, name: str) -> Client:
        return Client(self._world, f"{name} {next(self._names)} over the restore")

    def _wal_objects(self) -> Iterator[str]:
        prefix = wal_prefix(self._world.watch.state.cluster_id, self._world.watch.state.timeline)
        return (key for key in self._world.store.all_keys() if key.startswith(prefix))

    async def _write(self, keys: list[Key]) -> None:
        """Write to each key until the write is acknowledged, with few attempts."""
        client = self._client("producer")
        for key in keys:
            for _ in range(self._rng.randint(1, 3)):
                values = self._workload.values(self._rng.randint(1, 4))
                while not await self._produce(client, key, values):
                    await client.pause(2.0)

    async def _produce(self, client: Client, key: Key, values: list[int]) -> bool:
        data = batch_bytes(values, int(self._world.wall_clock() * 1000), sequence=-1)
        part = produce.PartitionProduceData(key.partition, data)
        topic = produce.TopicProduceData(key.topic, bytes(16), [part])
        request = produce.ProduceRequest(None, -1, 30_000, [topic])
        try:
            answer = await client.call("Produce", produce, _PRODUCE_VERSION, request)
        except Disconnected:
            return False
        found = answer.responses[0].partition_responses[0]
        return ErrorCode(found.error_code) == ErrorCode.NONE

    async def _read(self, reader: EpochReader) -> EpochReader | None:
        """Let a consumer read to the end; None if it cannot, as after a loss of objects."""
        with trio.move_on_after(PATIENCE_SECONDS):
            while True:
                try:
                    await reader.read_to_the_end()
                except Unreadable:
                    return None
                except Disconnected:
                    await reader.client.pause(1.0)
                else:
                    return reader
        return None

    async def after(self) -> None:
        """Restore the rest and let the consumers continue; no gateway runs at this point."""
        world = self._world
        loses = self._rng.random() < 0.7
        for key in self._stored_since:
            is_there = world.store.peek(key) is not None  # it may be deleted since, after a merge
            if loses and is_there and self._rng.random() < 0.8:
                world.store.replace(key, None)
        # Without backups, gateways may have deleted objects that the copied log needs.
        is_whole = self._keys <= set(world.store.all_keys())
        self._must_read = is_whole and not loses and not world.plan.losses.kinds
        log: MemoryLog | None = None
        with trio.move_on_after(PATIENCE_SECONDS):
            log = await self._restored()
        if log is None:
            world.complain("not restored", f"after {PATIENCE_SECONDS} s")
            return
        world.strikes.count(STRIKE)
        async with trio.open_nursery() as nursery:
            world.nursery = nursery
            gateway = await self._builder(log).start(nursery)
            world.nodes = {1: _RestoredMachine(gateway, nursery, gateway.identity.zone)}
            await self._go_on()
            nursery.cancel_scope.cancel()

    async def _restored(self) -> MemoryLog:
        world, log = self._world, MemoryLog()
        owner = await read_owner(world.store)
        assert owner is not None
        recovered = await recover_from_copies(world.store, owner, _say)
        work = Work(world.store, owner, log, self._rng, world.wall_clock, _say, "0")
        await restore(work, recovered, await look_at_target(log))
        return log

    def _builder(self, log: MemoryLog) -> GatewayBuilder:
        world = self._world
        zone = world.plan.zones.of_gateways[1]
        endpoints = (Endpoint(LISTENER, host_of(1), 9092),)
        return GatewayBuilder(
            Identity(1, "key-1", zone, endpoints, "0", CLUSTER_ID),
            BrokerSettings({**world.settings, **_QUIET, "node.id": "1"}),
            Environment(
                store=world.store,
                log=log,
                rng=self._rng,
                wall_clock=world.wall_clock,
                pools=inline_pools(),
            ),
        )

    async def _go_on(self) -> None:
        with trio.move_on_after(PATIENCE_SECONDS):
            await self._write([each.key for each in self._readers])
            if self._transactions is not None:
                await self._transactions.after_the_restore()
        for reader in self._readers:
            reader.client.close()
            truth = await self._read(EpochReader(self._client("auditor"), reader.key))
            if truth is not None:
                self._check_copied(truth)
            elif self._must_read:
                self._world.complain("unreadable after a restore", f"key {reader.key.number}")
            if truth is not None and await self._read(reader) is not None:
                self._world.strikes.count(TOLD, reader.truncations > 0)
                self._compare(reader, truth)
                await self._check_epochs(truth)

    def _check_copied(self, truth: EpochReader) -> None:
        """Check that each record of the copied log is there once; retention may have deleted some.

        Only in runs with small writes.
        """
        copied = self._copied.get(truth.key.number, {})
        first = min(truth.held, default=0)
        values = {each for each in copied.values() if each.isdigit()}  # the others end transactions
        lost = [at for at in copied if at >= first and truth.held.get(at) != copied[at]]
        doubled = [at for at in truth.held.keys() - copied.keys() if truth.held[at] in values]
        for kind, offsets in (("lost by a restore", lost), ("doubled by a restore", doubled)):
            if offsets:
                self._world.complain(kind, f"key {truth.key.number}, offsets {sorted(offsets)}")

    def _compare(self, reader: EpochReader, truth: EpochReader) -> None:
        key = f"key {reader.key.number}"
        for offset, value in sorted(reader.held.items()):
            stands = truth.held.get(offset, value)
            if stands != value:
                text = f"{key}: {value!r} was read at {offset}, and {stands!r} stands there"
                self._world.complain("read across a restore", text)
                return

    async def _check_epochs(self, truth: EpochReader) -> None:
        """Check that the epoch of a consumer's last record does not end before that record."""
        for epoch in sorted(set(truth.epochs.values())):
            last = max(at for at, found in truth.epochs.items() if found == epoch)
            try:
                end = await truth.end_of(epoch)
            except (Disconnected, Unreadable):
                return
            if end <= last:
                text = f"key {truth.key.number}: epoch {epoch} ends at {end}, and {last} is of it"
                self._world.complain("wrong leader epoch", text)


def _say(text: str) -> None:
    """Drop the text: the trial shows no progress."""
