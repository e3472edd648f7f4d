"""Requests of transactional producers, and of tools that look at transactions.

A producer's id and epoch are known only to the gateway: stand-ins take their place in the frames,
and the sender replaces them by those of the transactional ids TX.
"""

from __future__ import annotations

from importlib import import_module
from random import Random
from typing import Any, Final, NamedTuple

from tidegate_protocol.apis import APIS
from tidegate_protocol.batches import TRANSACTIONAL
from tidegate_protocol.messages import add_offsets_to_txn as ao
from tidegate_protocol.messages import add_partitions_to_txn as ap
from tidegate_protocol.messages import end_txn as et
from tidegate_protocol.messages import fetch as fe
from tidegate_protocol.messages import init_producer_id as ip
from tidegate_protocol.messages import list_transactions as lt
from tidegate_protocol.messages import produce as pr
from tidegate_protocol.messages import txn_offset_commit as tc
from tidegate_protocol.messages import write_txn_markers as wm
from tidegate_protocol.records import Record, build_batch

from ..record_targets import NOW_MS
from ..shapes import message
from ..wire_targets import snake

TX: Final = ("fuzz-tx", "fuzz-other-tx")
LONG_TX: Final = "ab" * 4_000
"""Exists, and takes long to match."""
TOPIC: Final = "orders"
GROUP: Final = "group"
_ID_BYTES: Final = (b"\1PRODUCR", b"\1PRODUCS")
PRODUCER_IDS: Final = tuple(int.from_bytes(each, "big") for each in _ID_BYTES)
EPOCH: Final = 4076
"""Stands for the present epoch; the next number, for the one after it."""
PATTERNS: Final = (
    "",
    "fuzz-.*",
    ".*",
    "(a?b?){400}x*",
    "(a?b?){900}" * 6,
    "(a|b)*c{1,900}",
    "(",
    "[z-a]",
    "\\pL+",
    "(?i)FUZZ-TX|y",
    "a{1001}",
    "\\",
    "(?P<n>x)\\b$^",
    "x" * 3_000,
)
_STATES: Final = ("Ongoing", "Empty", "CompleteAbort", "PrepareCommit", "no such state", "")
_TEXTS: Final = (*TX, *TX, TOPIC, GROUP, "third-tx", "", LONG_TX)
_APIS: Final = (
    "InitProducerId",
    "AddPartitionsToTxn",
    "AddOffsetsToTxn",
    "EndTxn",
    "TxnOffsetCommit",
    "WriteTxnMarkers",
    "DescribeTransactions",
    "ListTransactions",
    "DescribeProducers",
)


class Producer(NamedTuple):
    """number: which of TX."""

    number: int
    epoch: int

    @property
    def name(self) -> str:
        return TX[self.number]

    @property
    def producer_id(self) -> int:
        return PRODUCER_IDS[self.number]

    @property
    def fields(self) -> tuple[str, int, int]:
        """Return the first three fields of most requests."""
        return self.name, self.producer_id, self.epoch


def with_producer(data: bytes, number: int, producer_id: int, epoch: int) -> bytes:
    """Replace the stand-ins of one of TX; the CRCs of batches are wrong then."""
    given = producer_id.to_bytes(8, "big", signed=True)
    for step in (0, 1):
        stands = _ID_BYTES[number] + (EPOCH + step).to_bytes(2, "big")
        present = min(epoch + step, 32_767)
        data = data.replace(stands, given + present.to_bytes(2, "big", signed=True))
    return data.replace(_ID_BYTES[number], given)


def names_a_producer(data: bytes) -> bool:
    """Return whether stand-ins are in it."""
    return any(each in data for each in _ID_BYTES)


def transaction_requests(rng: Random) -> list[tuple[str, int, bytes]]:
    """Return API, version and body of requests; the first ones are transactions in their order."""
    found = [*_life(rng, 5, bumps=True), *_life(rng, 3, bumps=False)]
    for _ in range(3):
        found += [*_markers(rng), *_lists(rng), *_shaped(rng)]
    return found


def lives(rng: Random) -> list[list[tuple[str, int, bytes]]]:
    """Return whole transactions, each to be sent on one connection."""
    return [
        _life(rng, version, bumps=version == 5)
        for version in (5, 5, 4, 3, 2, 1, 0)
        for _ in range(3)
    ]


def _life(rng: Random, version: int, *, bumps: bool) -> list[tuple[str, int, bytes]]:
    """Return one transaction of the client, or two; version: of EndTxn."""
    requests: list[tuple[str, int, bytes]] = []
    number = rng.randrange(len(TX))
    for step in range(rng.choice((1, 1, 2))):
        who = Producer(number, EPOCH + (step if bumps else 0))
        if not bumps:
            requests += _added(rng, min(version, 3), who)
        if rng.random() < 0.8:
            requests.append(_written(rng, 13 if bumps else rng.choice((9, 11)), who))
        if rng.random() < 0.6:
            requests += _offsets(rng, 5 if bumps else 3, who)
        if rng.random() < 0.3:
            requests.append(_read(rng))
        if rng.random() < 0.7:
            ends = et.EndTxnRequest(*who.fields, rng.random() < 0.6)
            body = et.encode_request(ends, version)
            requests += [("EndTxn", version, bytes(body))] * rng.choice((1, 1, 2))
    if rng.random() < 0.2:
        requests.insert(rng.randint(0, len(requests)), _begun(rng, Producer(number, EPOCH)))
    return requests


def _begun(rng: Random, who: Producer) -> tuple[str, int, bytes]:
    version = rng.randrange(6)
    request = ip.InitProducerIdRequest(who.name, rng.choice((1, 60_000, 900_000, 900_001)))
    if version >= 3 and rng.random() < 0.5:
        request.producer_id, request.producer_epoch = (
            who.producer_id,
            rng.choice((EPOCH, EPOCH + 1)),
        )
    return "InitProducerId", version, bytes(ip.encode_request(request, version))


def _added(rng: Random, version: int, who: Producer) -> list[tuple[str, int, bytes]]:
    topics = [ap.AddPartitionsToTxnTopic(TOPIC, rng.choice(([0], [0, 1], [1, 1], [0, 9])))]
    request = ap.AddPartitionsToTxnRequest([], *who.fields, topics)
    found = [("AddPartitionsToTxn", version, bytes(ap.encode_request(request, version)))]
    if rng.random() < 0.3:
        each = ap.AddPartitionsToTxnTransaction(
            *who.fields, rng.random() < 0.5, topics * rng.choice((1, 2))
        )
        several = ap.AddPartitionsToTxnRequest([each] * rng.choice((1, 3)))
        late = rng.choice((4, 5))
        found.append(("AddPartitionsToTxn", late, bytes(ap.encode_request(several, late))))
    return found


def _written(rng: Random, version: int, who: Producer) -> tuple[str, int, bytes]:
    records = [Record(0, NOW_MS, b"k", b"v" * rng.choice((1, 100)))]
    batch = build_batch(
        records,
        attributes=TRANSACTIONAL,
        producer_id=who.producer_id,
        producer_epoch=who.epoch,
        base_sequence=0,
    )
    parts = [pr.PartitionProduceData(each, batch) for each in rng.choice(((0,), (1,), (0, 1)))]
    by_id = version >= 13
    topic = pr.TopicProduceData(
        "" if by_id else TOPIC, bytes(range(16)) if by_id else bytes(16), parts
    )
    body = pr.encode_request(pr.ProduceRequest(who.name, -1, 1000, [topic]), version)
    return "Produce", version, bytes(body)


def _offsets(rng: Random, version: int, who: Producer) -> list[tuple[str, int, bytes]]:
    found: list[tuple[str, int, bytes]] = []
    if version < 5:
        adds = ao.AddOffsetsToTxnRequest(*who.fields, GROUP)
        added = rng.randrange(5)
        found.append(("AddOffsetsToTxn", added, bytes(ao.encode_request(adds, added))))
    rows = [tc.TxnOffsetCommitRequestPartition(rng.choice((0, 1, 9)), rng.choice((0, 7, 2**62)))]
    topics = [tc.TxnOffsetCommitRequestTopic(TOPIC, rows * rng.choice((1, 2)))]
    commits = tc.TxnOffsetCommitRequest(who.name, GROUP, who.producer_id, who.epoch, topics=topics)
    found.append(("TxnOffsetCommit", version, bytes(tc.encode_request(commits, version))))
    return found


def _read(rng: Random) -> tuple[str, int, bytes]:
    asked = [
        fe.FetchPartition(each, fetch_offset=0, partition_max_bytes=1 << 16) for each in (0, 1)
    ]
    request = fe.FetchRequest(
        max_wait_ms=rng.choice((0, 100)),
        min_bytes=1,
        max_bytes=1 << 20,
        isolation_level=1,
        session_epoch=-1,
        topics=[fe.FetchTopic(TOPIC, partitions=asked)],
    )
    return "Fetch", 12, bytes(fe.encode_request(request, 12))


def _markers(rng: Random) -> list[tuple[str, int, bytes]]:
    topics = [wm.WritableTxnMarkerTopic(TOPIC, rng.choice(([0], [0, 1], [9])))]
    marker = wm.WritableTxnMarker(
        rng.choice(PRODUCER_IDS), rng.choice((EPOCH, EPOCH + 1, -1)), rng.random() < 0.2, topics
    )
    request = wm.WriteTxnMarkersRequest([marker] * rng.choice((1, 2)))
    return [
        ("WriteTxnMarkers", version, bytes(wm.encode_request(request, version)))
        for version in (1, 2)
    ]


def _lists(rng: Random) -> list[tuple[str, int, bytes]]:
    found: list[tuple[str, int, bytes]] = []
    for pattern in PATTERNS:
        request = lt.ListTransactionsRequest(
            rng.choices(_STATES, k=rng.choice((0, 0, 1, 3))),
            rng.choices((*PRODUCER_IDS, 0, -1), k=rng.choice((0, 0, 2))),
            rng.choice((-1, -1, 0, 10_000, -(2**63), 2**63 - 1)),
            pattern,
        )
        for each in (request, lt.ListTransactionsRequest(transactional_id_pattern=pattern)):
            found.append(("ListTransactions", 2, bytes(lt.encode_request(each, 2))))
    return found


def _shaped(rng: Random) -> list[tuple[str, int, bytes]]:
    """Return requests of any shape, with names that exist."""
    found: list[tuple[str, int, bytes]] = []
    for facts in APIS.values():
        if facts.name not in _APIS:
            continue
        module: Any = import_module(f"tidegate_protocol.messages.{snake(facts.name)}")
        cls = getattr(module, f"{facts.name}Request")
        for version in range(facts.min_version, facts.max_version + 1):
            made = message(rng, cls, version, module.encode_request, texts=_TEXTS)
            if made is not None:
                found.append((facts.name, version, made))
    return found
