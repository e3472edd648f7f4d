"""Clients that ask about transactions, as Kafka's tools do, and an operator who aborts them.

An answer must show a state from between the request and the answer.  The watch knows the state at
each position of the log (KIP-664, KIP-447).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, NamedTuple

from tidegate_coordination.state.migration.source_groups import is_named
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import (
    add_partitions_to_txn,
    describe_producers,
    describe_transactions,
    list_transactions,
    offset_fetch,
    write_txn_markers,
)

from ..clients.client import Client, Disconnected, ProtocolBroken
from ..clients.workload import Key, Workload, create_topic
from ..invariants.transactions.checks import IdView
from .ledger import Ledger

_OFFSETS_TOPIC: Final = "__consumer_offsets"
_NOT_OPEN: Final = -1
_KIND: Final = "wrong description"
_UNTOUCHED: Final = "untouched"


class Inspector:
    """Asks about transactional ids, about producers of partitions, and about offsets."""

    def __init__(self, workload: Workload, name: str, ledgers: Sequence[Ledger]) -> None:
        self.client = Client(workload.world, name)
        self._workload = workload
        self._ledgers = ledgers
        self._keys = workload.keys
        self._untouched: Key | None = None
        self._watch = workload.world.watch.transactions
        self._asked_at = 0

    async def run(self) -> None:
        """Ask until no operation is left."""
        questions: list[Callable[[], Awaitable[None]]] = [
            self._describe,
            self._list,
            self._describe_producers,
            self._fetch_offset,
            self._verify,
        ]
        while self._workload.take():
            try:
                await self.client.rng.choice(questions)()
            except Disconnected:
                await self.client.pause(1.0)
            await self.client.pause(2.0)
            if self.client.rng.random() < 0.3:
                self.client.close()
        self.client.close()

    @property
    def _position(self) -> int:
        return len(self.client.world.watch.payloads)

    def _complain(self, text: str) -> None:
        window = f"from {self._asked_at} to {self._position}"
        self.client.world.complain(_KIND, f"{text}, {window}")

    async def _call(self, name: str, messages: Any, version: int, request: Any) -> Any:
        self._asked_at = self._position
        return await self.client.call(name, messages, version, request)

    # -- transactional ids -----------------------------------------------------------------------

    def _views(self, name: str) -> list[IdView | None]:
        return self._watch.past_ids.between(name, self._asked_at, self._position)

    async def _describe(self) -> None:
        names = [each.transactional_id for each in self._ledgers]
        request = describe_transactions.DescribeTransactionsRequest([*names, "unknown"])
        answer = await self._call("DescribeTransactions", describe_transactions, 0, request)
        for row in answer.transaction_states:
            views = self._views(row.transactional_id)
            if row.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                if None not in views:
                    self._complain(f"{row.transactional_id} is unknown, not {views}")
            elif row.error_code:
                self._complain(f"{row.transactional_id}: {ErrorCode(row.error_code).name}")
            elif not any(self._is(row, each) for each in views):
                self._complain(f"{row}, not {views}")

    def _is(self, row: Any, view: IdView | None) -> bool:
        if view is None:
            return False
        told = (row.transaction_state, row.producer_id, row.producer_epoch)
        places = {
            (topic.topic, index)
            for topic in row.topics
            for index in topic.partitions
            if topic.topic != _OFFSETS_TOPIC
        }
        return told == view[:3] and places == self._places(view, places)

    def _places(self, view: IdView, told: set[tuple[str, int]]) -> set[tuple[str, int]]:
        """Return topics and partitions of a view; if one was deleted meanwhile, return `told`."""
        state = self.client.world.watch.state
        places: set[tuple[str, int]] = set()
        for number in view.partitions:
            partition = state.partitions.get(number)
            if partition is None:
                return told
            places.add((state.topics.by_id[partition.topic_id].name, partition.index))
        return places

    def _is_remote(self, name: str) -> bool:
        """Return whether an id may be at the source of a link; gateways list such ids, too."""
        links = self.client.world.watch.state.links.with_ids
        return any(is_named(each.transactional_ids, name) for each in links)

    async def _list(self) -> None:
        states = self.client.rng.choice(([], ["Ongoing"], ["Empty", "CompleteCommit"]))
        request = list_transactions.ListTransactionsRequest(states)
        answer = await self._call("ListTransactions", list_transactions, 2, request)
        for row in answer.transaction_states:
            views = self._views(row.transactional_id)
            if None in views and self._is_remote(row.transactional_id):
                continue
            told = (row.transaction_state, row.producer_id)
            is_wanted = not states or row.transaction_state in states
            if not is_wanted or told not in [each[:2] for each in views if each is not None]:
                self._complain(f"{row} is listed, not {views}, for {states}")

    async def _verify(self) -> None:
        """Ask whether a partition is in a transaction, which must not add it (KIP-890).

        No client writes to the topic of the untouched partition.
        """
        rng, untouched = self.client.rng, self._untouched
        if untouched is None:
            untouched = self._untouched = await self._make_topic()
        model = self._watch.ids.by_name.get(rng.choice(self._ledgers).transactional_id)
        if model is None:
            return
        key = rng.choice((untouched, rng.choice(self._keys)))
        asked = add_partitions_to_txn.AddPartitionsToTxnTransaction(
            model.name,
            model.producer_id,
            model.epoch,
            True,
            [add_partitions_to_txn.AddPartitionsToTxnTopic(key.topic, [key.partition])],
        )
        request = add_partitions_to_txn.AddPartitionsToTxnRequest([asked])
        answer = await self._call("AddPartitionsToTxn", add_partitions_to_txn, 5, request)
        [result] = answer.results_by_transaction[0].topic_results
        code = ErrorCode(result.results_by_partition[0].partition_error_code)
        place = (key.topic, key.partition)
        views = [each for each in self._views(model.name) if each is not None]
        is_in = any(place in self._places(each, {place}) for each in views)
        if code is ErrorCode.NONE and (key is untouched or not is_in):
            self._complain(f"{place} is in the transaction of {model.name}, not {views}")

    async def _make_topic(self) -> Key:
        topic_id = await create_topic(self.client, _UNTOUCHED, 1)
        [key] = self._workload.new_keys(_UNTOUCHED, topic_id, [0])
        return key

    # -- partitions ------------------------------------------------------------------------------

    async def _describe_producers(self) -> None:
        key = self.client.rng.choice(self._keys)
        self._asked_at = self._position
        opened = await open_producers(self.client, [key])
        topic = self.client.world.watch.state.topics.by_id[key.topic_id]
        number = topic.partition_numbers[key.partition]
        past = self._watch.past_open.between(number, self._asked_at, self._position)
        told = {each.producer_id: each.first_offset for each in opened}
        if told not in past:
            self._complain(f"{told} are open in {key}, not {past}")

    # -- offsets ---------------------------------------------------------------------------------

    async def _fetch_offset(self) -> None:
        ledger, is_stable = self.client.rng.choice(self._ledgers), self.client.rng.random() < 0.7
        key = ledger.key
        topic = offset_fetch.OffsetFetchRequestTopics(key.topic, partition_indexes=[key.partition])
        asked = offset_fetch.OffsetFetchRequestGroup(ledger.group_id, topics=[topic])
        request = offset_fetch.OffsetFetchRequest(groups=[asked], require_stable=is_stable)
        answer = await self._call("OffsetFetch", offset_fetch, 8, request)
        [group] = answer.groups
        if group.error_code:
            return
        part = group.topics[0].partitions[0]
        place = (ledger.group_id, (key.topic_id, key.partition))
        past = self._watch.past_offsets.between(place, self._asked_at, self._position)
        if part.error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT:
            if not is_stable or not any(each.is_pending for each in past):
                self._complain(f"{place} is unstable, not {past}")
            return
        possible = [each for each in past if not (is_stable and each.is_pending)]
        if part.committed_offset not in [each.offset for each in possible]:
            self._complain(f"{place} is {part.committed_offset}, not {past}, {is_stable=}")


class Opened(NamedTuple):
    """A transaction that is open in a partition."""

    key: Key
    producer_id: int
    epoch: int
    first_offset: int


async def open_producers(client: Client, keys: Sequence[Key]) -> list[Opened]:
    """Ask which producers have a transaction open in partitions; a deleted topic has none.

    Raises:
      Disconnected
    """
    topics = [describe_producers.TopicRequest(key.topic, [key.partition]) for key in keys]
    request = describe_producers.DescribeProducersRequest(topics)
    answer = await client.call("DescribeProducers", describe_producers, 0, request)
    opened: list[Opened] = []
    for topic in answer.topics:
        for part in topic.partitions:
            code = ErrorCode(part.error_code)
            if code not in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
                raise ProtocolBroken(f"DescribeProducers: {code.name}")
            [key] = [
                k for k in keys if (k.topic, k.partition) == (topic.name, part.partition_index)
            ]
            opened += [
                Opened(key, each.producer_id, each.producer_epoch, each.current_txn_start_offset)
                for each in part.active_producers
                if each.current_txn_start_offset != _NOT_OPEN
            ]
    return opened


class Aborter:
    """Aborts a transaction now and then, as `kafka-transactions.sh abort` does."""

    def __init__(self, workload: Workload, name: str) -> None:
        self.client = Client(workload.world, name)
        self._workload = workload

    async def run(self) -> None:
        """Abort until no operation is left."""
        while self._workload.take():
            try:
                await self._abort()
            except Disconnected:
                await self.client.pause(1.0)
            await self.client.pause(4.0)
        self.client.close()

    async def _abort(self) -> None:
        opened = await open_producers(self.client, self._workload.keys)
        if not opened:
            return
        who = self.client.rng.choice(opened)
        topic = write_txn_markers.WritableTxnMarkerTopic(who.key.topic, [who.key.partition])
        marker = write_txn_markers.WritableTxnMarker(who.producer_id, who.epoch, False, [topic], 0)
        request = write_txn_markers.WriteTxnMarkersRequest([marker])
        answer = await self.client.call("WriteTxnMarkers", write_txn_markers, 1, request)
        code = ErrorCode(answer.markers[0].topics[0].partitions[0].error_code)
        if code not in (
            ErrorCode.NONE,
            ErrorCode.INVALID_PRODUCER_EPOCH,
            ErrorCode.NOT_ENOUGH_REPLICAS,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ):
            raise ProtocolBroken(f"WriteTxnMarkers: {code.name}")
