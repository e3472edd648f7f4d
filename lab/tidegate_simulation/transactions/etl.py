"""Consume, process, produce: a group reads committed records, writes one for each, and commits the
offsets in the same transactions.  Whatever happens, each input is processed exactly once.

    etl        note ok {"in", "out"}: the keys of the lane
    processed  note ok {"in"}: everything in these keys was read and processed

The send of an output has the values of its inputs in "of"; see checks/checks_etl.py.
"""

from __future__ import annotations

from typing import Final

from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import offset_fetch

from ..clients.client import Client, Disconnected
from ..clients.readers import list_one
from ..clients.workload import Key, Workload, create_topic, own_retention
from ..members.groups import GroupClient
from ..members.members import GroupMember, Rejoin
from .committed_readers import CommittedReader
from .ledger import Ledger
from .steps import Step
from .transactional_producer import NO_MEMBER, Member, TransactionalProducer
from .transactors import Transactor

GROUP: Final = "etl"
_LATEST: Final = -1
_PARTITIONS: Final = 2
_ABORT_SHARE: Final = 0.1
_ZOMBIE_SHARE: Final = 0.3
_WRONG_OFFSET: Final = 1 << 40


class EtlFeeder(Transactor):
    """Makes the topics, and writes the inputs in transactions, of which some are aborted."""

    def __init__(self, workload: Workload, name: str, *, is_new: bool) -> None:
        super().__init__(workload, name, Ledger(name, workload.keys[0]), is_new=is_new)
        self._lane = workload.lane

    async def run(self) -> None:
        """Feed the lane until no operation is left; then the final readers read it, too."""
        made = [await self._make(f"etl-{what}") for what in ("in", "out")]
        self._lane.inputs, self._lane.outputs = made
        inputs, outputs = ([key.number for key in keys] for keys in made)
        value = {"in": inputs, "out": outputs}
        self.history.note(self.client.name, "ok", "etl", value)
        await super().run()
        self.workload.keys += [*self._lane.inputs, *self._lane.outputs]

    async def _make(self, topic: str) -> list[Key]:
        configs = own_retention(self.workload.world)
        topic_id = await create_topic(self.client, topic, _PARTITIONS, configs)
        return self.workload.new_keys(topic, topic_id, range(_PARTITIONS))

    def _choose(self) -> Key:
        return self.rng.choice(self._lane.inputs)


class _Source(CommittedReader):
    """Reads inputs.  taken: by key, the records that it has read and not yet passed on."""

    def __init__(self, workload: Workload, name: str) -> None:
        super().__init__(workload, name)
        self._max_bytes = self.rng.choice((250, 1 << 20))
        self.taken: dict[Key, list[int]] = {}

    def assign(self, positions: dict[Key, int]) -> None:
        """See Reader."""
        super().assign(positions)
        self.taken = {}

    def took(self, key: Key, records: list[tuple[int, int]]) -> None:
        """See Reader."""
        self.taken.setdefault(key, []).extend(value for _, value in records)

    def give(self) -> list[tuple[Key, list[int]]]:
        """Return the records that were read since the last call."""
        given, self.taken = [each for each in self.taken.items() if each[1]], {}
        return given


class _EtlProducer(TransactionalProducer):
    """A producer with a short time-out, so that it does not block the next owner of an input."""

    timeout_ms = 15_000


class Etl:
    """Processes what a source reads.  See the module's head."""

    def __init__(self, workload: Workload, name: str, group: GroupClient, *, is_new: bool) -> None:
        self.source = _Source(workload, f"{name} reader")
        self._lane = workload.lane
        self._group = group
        ledger = Ledger(f"id of {name}", workload.keys[0])
        self.producer = _EtlProducer(workload, f"{name} producer", ledger, is_new=is_new)

    def close(self) -> None:
        """Close all connections."""
        self.source.client.close()
        self.producer.close()

    async def position(self, key: Key) -> int | None:
        """Return the offset to continue at; None while a transaction may still change it.

        Raises:
          Disconnected
        """
        topic = offset_fetch.OffsetFetchRequestTopics(key.topic, partition_indexes=[key.partition])
        asked = offset_fetch.OffsetFetchRequestGroup(self._group.group_id, topics=[topic])
        request = offset_fetch.OffsetFetchRequest(groups=[asked], require_stable=True)
        answer = await self._group.call("OffsetFetch", offset_fetch, 8, request)
        [group] = answer.groups
        part = group.topics[0].partitions[0] if not group.error_code else None
        code = ErrorCode(group.error_code if part is None else part.error_code)
        if part is None or code not in (ErrorCode.NONE, ErrorCode.UNSTABLE_OFFSET_COMMIT):
            self._group.forget()
            raise Disconnected
        first = self.source.workload.first_offset
        return max(first, part.committed_offset) if code is ErrorCode.NONE else None

    async def resume(self, keys: list[Key]) -> bool:
        """Read keys from the last committed offsets; return False if one is not known yet.

        Raises:
          Disconnected
        """
        positions: dict[Key, int] = {}
        for key in keys:
            position = await self.position(key)
            if position is None:
                return False
            positions[key] = position
        self.source.assign(positions)
        return await self.producer.begin_life()

    async def process(self, member: Member = NO_MEMBER) -> bool:
        """Process the records that were read; return False if the client has to resume."""
        for key, values in self.source.give():
            self.producer.begin()
            step = await self.producer.write(self._lane.output_of(key), of=values)
            if step is Step.DONE:
                position = self.source.positions[key]
                step = await self.producer.stage(self._group, key, position, member)
            if step is Step.OVER:
                return False
            committed = step is Step.DONE and self.source.rng.random() >= _ABORT_SHARE
            if await self.producer.end(committed=committed) is Step.OVER or not committed:
                return False
        return True


class EtlMember(GroupMember):
    """A member of the group.  Its former process may still have an open transaction."""

    def __init__(self, workload: Workload, name: str, *, is_new: bool) -> None:
        super().__init__(workload, name, GROUP)
        self._lane = workload.lane
        self._etl = Etl(workload, name, self._group, is_new=is_new)
        self._reader = self._etl.source
        self._keys: list[Key] = []
        self._must_resume = True

    def subscribed(self) -> list[Key]:
        """See GroupMember."""
        return self._lane.inputs

    async def run(self) -> None:
        """Take part until no operation is left; leave nothing open."""
        while not self._lane.inputs and self._workload.operations_left > 0:
            await self.client.pause(1.0)
        await super().run()
        await self._etl.producer.tidy_up()
        self._etl.close()

    async def _take_part(self) -> None:
        joined, self._keys = await self.join()
        former, self._generation = self._generation, joined.generation
        await self._resume()
        if self._keys and self.rng.random() < _ZOMBIE_SHARE:
            await self._haunt(self._keys[0], former)
        await self._read(joined.generation)

    async def _resume(self) -> None:
        """Continue where the last committed transaction has ended, once that is known."""
        self._must_resume = True
        while not await self._etl.resume(self._keys):
            if self._workload.operations_left <= 0:
                raise Rejoin("the run is over")
            await self._heartbeat(self._generation)
            await self.client.pause(2.0)
        self._must_resume = False

    async def _haunt(self, key: Key, generation: int) -> None:
        """Stage an offset with a former generation; the gateway must refuse it."""
        if not 0 <= generation < self._generation:
            return
        producer = self._etl.producer
        producer.begin()
        zombie = Member(generation, self._member_id)
        step = await producer.stage(self._group, key, _WRONG_OFFSET, zombie)
        if step is Step.DONE:
            text = f"generation {generation} of {GROUP}, before {self._generation}"
            self.client.world.complain("zombie staged", text)
        if step is Step.OVER or await producer.end(committed=False) is Step.OVER:
            raise Rejoin("its producer was fenced")
        await self._resume()

    async def _report(self, generation: int) -> None:
        """Send a heartbeat, and process the records that were read."""
        await self._heartbeat(generation)
        if self._must_resume:
            await self._resume()
        self._must_resume = True  # unless the next call succeeds
        self._must_resume = not await self._etl.process(Member(generation, self._member_id))


async def finish(workload: Workload) -> None:
    """Process the remaining inputs, without a membership, so that all outputs can be read."""
    name, lane = "last etl", workload.lane
    group = GroupClient(Client(workload.world, name), GROUP)
    etl = Etl(workload, name, group, is_new=True)
    ends = {key: await _end(group, key) for key in lane.inputs}
    if all(end == workload.first_offset for end in ends.values()):
        return  # no inputs: the cluster's level may allow no transactions
    while True:
        try:
            if await etl.resume(lane.inputs) and await _read_on(etl, ends) and await etl.process():
                break
        except Disconnected:
            pass
        await group.client.pause(1.0)
    value = {"in": [key.number for key in lane.inputs]}
    workload.world.history.note(name, "ok", "processed", value)
    etl.close()
    group.client.close()


async def _read_on(etl: Etl, ends: dict[Key, int]) -> bool:
    """Read all inputs up to their ends."""
    positions = etl.source.positions
    while any(positions[key] < end for key, end in ends.items()):
        await etl.source.poll()
        await etl.source.client.pause(0.1)
    return True


async def _end(group: GroupClient, key: Key) -> int:
    while True:
        end = await list_one(group.client, key, _LATEST)
        if end is not None:
            return end
        await group.client.pause(1.0)
