"""Clients of transactional ids that the source coordinates, and the operator who moves them here.

The ids write to one mirrored topic and commit offsets of groups of their own; all of it moves as
one unit.  At the end the committed records of the topic must be exactly those of the transactions
that were committed, each once and in order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final

import trio

from tidegate_coordination.coordinator.coordinator import ProposalFailed
from tidegate_coordination.coordinator.waiting import CoordinatorUnavailable
from tidegate_coordination.rules.migration.switches import FenceTopics
from tidegate_gateway.gateway import Gateway
from tidegate_gateway.migration.units.closure import Unit
from tidegate_gateway.migration.units.fencing import NotAtRest, fenced_unit, unfenced_unit
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import fetch as fe

from ..checks.history import Event
from ..clients.client import Client, Disconnected
from ..clients.producers import Batch
from ..clients.workload import Key, Workload
from ..members.groups import GroupClient
from ..transactions.committed_readers import committed_records
from ..transactions.ledger import Ledger
from ..transactions.steps import Step
from ..transactions.transactors import Transactor
from ..world.node import Node
from .group_clients import await_link, keys_of
from .source import LINK, UNIT_TOPIC, Source

NAMES: Final = tuple(f"remote tx {number}" for number in range(1, 4))
IDS: Final = "remote-tx-*"
GROUPS: Final = tuple(f"remote-of-{each.replace(' ', '-')}" for each in NAMES)
_AGAIN: Final = (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.LEADER_NOT_AVAILABLE)
_MAX_BYTES: Final = 1 << 20
_COMMITTED: Final = 1
_WAIT_SECONDS: Final = 60.0
_LOOK_SECONDS: Final = 0.1
_LIMIT: Final = "max.message.bytes"
_FENCED: Final = "0"


class RemoteLedger(Ledger):
    """The ledger of a transactional id whose group is also at the source."""

    __slots__ = ()

    @property
    def group_id(self) -> str:
        """See Ledger."""
        return f"remote-of-{self.transactional_id}"


class RemoteTransactor(Transactor):
    """A transactional client whose id is at the source until it moves."""

    leave_share = 0.03

    def __init__(self, workload: Workload, name: str, source: Source) -> None:
        keys = keys_of(workload, source)
        ledger = RemoteLedger(name.replace(" ", "-"), keys[0])
        is_new = workload.world.rng(f"{name} is new").random() < 0.5
        super().__init__(workload, name, ledger, is_new=is_new)
        self._keys = keys
        self._source = source
        # No history has all records of the topic, so wrong_transactions() judges them.
        self.history = source.transactions
        self._group = GroupClient(self.client, ledger.group_id)

    async def run(self) -> None:
        """Work once the link exists.  Before, the id would be this cluster's."""
        await await_link(self.client)
        while not self._source.cluster.groups.get(self.ledger.group_id):
            await self._commit_plainly()
            await self.client.pause(1.0)
        await super().run()

    def _choose(self) -> Key:
        return self.rng.choice(self._keys)

    async def _attempt(self, batch: Batch) -> tuple[ErrorCode, int]:
        """Send a batch; treat further errors of the source as retriable, too."""
        code, offset = await super()._attempt(batch)
        if code in _AGAIN:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER, offset
        return code, offset

    async def _stage(self) -> Step:
        """Stage an offset without a pause: a unit moves only between transactions."""
        return await self.stage(self._group, self._key, self.ledger.next_offset())


class UnitMover:
    """Moves the topic, the groups and the ids at once, from any gateway, until they are here."""

    def __init__(self, workload: Workload, name: str, source: Source) -> None:
        self.client = Client(workload.world, name)
        self._workload = workload
        self._world = workload.world
        self._source = source

    async def run(self) -> None:
        """Try until no operation is left."""
        while self._workload.operations_left > 0:
            await self.client.pause(2.0)
            topic = self._world.watch.state.topics.by_name.get(UNIT_TOPIC)
            if topic is not None and topic.link:
                with (
                    trio.move_on_after(_WAIT_SECONDS),
                    suppress(CoordinatorUnavailable, ProposalFailed),
                ):
                    await self._move(topic.topic_id)
        self.client.close()

    async def _move(self, topic_id: bytes) -> None:
        nodes = [each for each in self._world.nodes.values() if isinstance(each, Node)]
        gateway = self.client.rng.choice(nodes).gateway
        if gateway is None:
            return
        number = await self._fenced(gateway, topic_id)
        switches = self._world.watch.state.switches
        while number in switches.fences:  # noqa: ASYNC110 - gateways make it so
            await trio.sleep(_LOOK_SECONDS)
        is_here = topic_id in switches.switched
        self._world.strikes.count("source.unit_moved" if is_here else "source.unit_kept")

    async def _fenced(self, gateway: Gateway, topic_id: bytes) -> int:
        """Fence topic, groups and ids; return the topic's fence, 0 for none."""
        running = gateway.links.running.get(LINK)
        limit = self._source.cluster.topics[UNIT_TOPIC].configs.latest.get(_LIMIT, "")
        if running is None or running.group_lines is None or limit == _FENCED:
            return 0
        if not set(GROUPS) <= self._source.cluster.groups.keys():
            return 0
        unit = Unit((UNIT_TOPIC,), GROUPS, (IDS,))
        coordinator, source = gateway.coordinator, running.group_lines.cluster
        try:
            held = await fenced_unit(coordinator, source, LINK, unit)
        except NotAtRest:
            return 0
        number = await coordinator.propose(FenceTopics(LINK, ((topic_id, limit),), held))
        if isinstance(number, str):
            await unfenced_unit(coordinator, held, number)
            return 0
        return number


class UnitReader:
    """Reads the committed records of the topic, and judges them."""

    def __init__(self, workload: Workload, source: Source) -> None:
        self.client = Client(workload.world, "last of transactions")
        self._world = workload.world
        self._source = source
        self._keys = keys_of(workload, source)

    async def judge(self) -> None:
        """Read all, and complain of what is wrong."""
        found: dict[int, list[int]] = {}
        for key in self._keys:
            found[key.number] = await self._read(key)
        for text in wrong_transactions(self._source.transactions.events, found):
            self._world.complain("remote transaction", text)
        self.client.close()

    async def _read(self, key: Key) -> list[int]:
        state = self._world.watch.state
        topic = state.topics.by_name[key.topic]
        partition = state.partitions[topic.partition_numbers[key.partition]]
        position, values = partition.log_start, list[int]()
        while position < partition.next_offset:
            wanted = fe.FetchPartition(
                key.partition, fetch_offset=position, partition_max_bytes=_MAX_BYTES
            )
            request = fe.FetchRequest(
                max_bytes=_MAX_BYTES,
                isolation_level=_COMMITTED,
                session_epoch=-1,
                topics=[fe.FetchTopic(key.topic, partitions=[wanted])],
            )
            following = position
            with suppress(Disconnected):
                response = await self.client.call("Fetch", fe, 12, request)
                [data] = response.responses[0].partitions
                if not data.error_code:
                    records, following = committed_records(data, position)
                    values += [value for _, value in records]
            if following == position:
                await self.client.pause(1.0)
            position = following
        return values


def wrong_transactions(events: Iterable[Event], found: Mapping[int, Sequence[int]]) -> list[str]:
    """Return problems of the committed records of partitions.  Pure.

    events: of clients: sends and ends with the names of transactions.  found: values by the number
    of the partition, in order; those of other writers are among them.
    """
    written: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    outcomes: dict[str, bool | None] = {}
    for event in events:
        value = event.value or {}
        if (event.type, event.f) == ("invoke", "send"):
            name = value["txn"]
            written[name] += [(value["key"], each) for each in value["values"]]
        elif event.f == "end_txn":
            name = value["txn"]
            is_sure = event.type in ("ok", "fail")
            outcome = value["commit"] and event.type == "ok" if is_sure else None
            outcomes[name] = outcome if is_sure or value["commit"] else False
    places = {(key, value): at for key, values in found.items() for at, value in enumerate(values)}
    return [
        *_repeated(found),
        *(
            text
            for name, values in written.items()
            for text in _wrong(name, values, places, outcomes.get(name, False))
        ),
    ]


def _repeated(found: Mapping[int, Sequence[int]]) -> list[str]:
    seen: set[int] = set()
    wrong: list[str] = []
    for values in found.values():
        for value in values:
            if value in seen:
                wrong.append(f"{value} is there twice")
            seen.add(value)
    return wrong


def _wrong(
    name: str,
    written: Sequence[tuple[int, int]],
    places: Mapping[tuple[int, int], int],
    outcome: bool | None,
) -> list[str]:
    """Judge one transaction.  outcome: whether it was committed; None: it is unknown."""
    present = [each for each in written if each in places]
    if outcome is False and present:
        return [f"{name} was not committed, and {present} are there"]
    if outcome and len(present) < len(written):
        return [f"{name} was committed, and {sorted(set(written) - set(present))} are missing"]
    if present and len(present) < len(written):
        return [f"{name} is there in part: {present} of {written}"]
    wrong: list[str] = []
    last: dict[int, int] = {}
    for key, value in present:
        if places[key, value] < last.get(key, -1):
            wrong.append(f"{name}: {value} is out of order")
        last[key] = places[key, value]
    return wrong
