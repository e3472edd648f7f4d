"""A frozen state keeps its moment, even if the live state changes while it is encoded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

import pytest

from tests.worlds.slices import RUN_RECORDS, START_MS, TOPIC, beginning, slice_entries
from tidegate_coordination.events import cluster as ev
from tidegate_coordination.events import groups as gev
from tidegate_coordination.events import security as sev
from tidegate_coordination.events import transactions as tev
from tidegate_coordination.events.entries import Entry, decode_entry
from tidegate_coordination.security.quotas import QuotaChange, QuotaEntity
from tidegate_coordination.security.tokens import DelegationToken
from tidegate_coordination.state import frozen as frozen_module
from tidegate_coordination.state.broken import StateBroken
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.long_values import SLICE_ROWS

PARTITIONS = 1_500
GROUPS = 600
IDS = 1_500
LONG = 2 * SLICE_ROWS + 50
"""Producers of partition 0, and offsets of group-0: their rows are encoded in slices."""
CLIENT_METRICS = 16
OTHER_TOPIC = b"o" * 16


def filled() -> ClusterState:
    state = ClusterState()
    entries = (beginning(PARTITIONS), *slice_entries(3_000, PARTITIONS))
    for position, payload in enumerate(entries, start=1):
        state.apply(position, decode_entry(payload, position))
    fold(state, ev.TopicCreated(OTHER_TOPIC, "other", 3, 1, {}))
    fold(state, *(offset_of(f"group-{number}", number, 7) for number in range(GROUPS)))
    fold(state, *(initialised(f"id-{number}", number, 0) for number in range(IDS)))
    make_long(state)
    return state


def make_long(state: ClusterState) -> None:
    for _ in range(LONG // 500 + 1):
        produce_many(state, 0, 500)
    longs = (gev.CommittedOffset(TOPIC, at, at, -1, "", START_MS) for at in range(PARTITIONS))
    others = (
        gev.CommittedOffset(OTHER_TOPIC, at, at, -1, "", START_MS) for at in range(PARTITIONS)
    )
    fold(state, gev.OffsetsCommitted("group-0", 1, (*longs, *others)))
    names = (f"metrics-{number}" for number in range(LONG))
    fold(state, *(ev.ConfigsSet(CLIENT_METRICS, name, {"metrics": "*"}) for name in names))
    fold(state, *(event for number in range(LONG) for event in of_user(number, 4096)))
    fold(state, *(ev.ClaimTaken(f"group/group-{number}", 1, 1) for number in range(LONG)))
    first = state.objects.next_number
    fold(state, *(ev.WalAbandoned(1, first + at) for at in range(LONG)))


def of_user(number: int, iterations: int) -> Iterator[ev.Event]:
    """Yield the events that give a user a plain or a sealed credential, quotas and a token."""
    user = f"u{number * 7919 % 100_003}"
    kind = number % 2
    if kind:
        yield sev.ScramCredentialSet(user, 1, b"s", b"k", b"k", iterations)
    else:
        yield sev.ScramCredentialSealed(user, 2, iterations, b"key", b"n" * 12, b"sealed")
    keys = ("producer_byte_rate", "consumer_byte_rate")
    rows = tuple(QuotaChange(QuotaEntity(user), key, float(iterations)) for key in keys)
    yield sev.ClientQuotasSet(rows)
    owner = f"User:{user}"
    times = START_MS, START_MS + 10**9, START_MS + iterations
    yield sev.DelegationTokenSet(DelegationToken(f"token-{user}", owner, owner, (), *times))


def produce_many(state: ClusterState, number: int, count: int) -> None:
    """Write batches of producers that the partition does not know yet."""
    partition, first = state.partitions[number], len(state.partitions[number].producers)
    base = partition.next_offset
    run = ev.Run(number, 0, 10, base, count, START_MS, 1, 0)
    batches = (
        ev.ProducerBatch(number, 1 << 40 | (first + at) * 7919 % 100_003, 0, 0, 0, base + at)
        for at in range(count)
    )
    fold(state, ev.WalCommitted(1, state.objects.next_number, 10, (run,), tuple(batches)))


def initialised(name: str, producer_id: int, epoch: int) -> tev.TransactionalIdInitialised:
    return tev.TransactionalIdInitialised(name, producer_id, epoch, -1, -1, 60_000)


def fold(state: ClusterState, *events: ev.Event) -> None:
    entry = Entry(1, b"n", 1, START_MS + state.position, events)
    state.apply(state.position + 1, entry)


def offset_of(group_id: str, number: int, offset: int) -> gev.OffsetsCommitted:
    topic_id = OTHER_TOPIC if number % 2 else TOPIC
    return gev.OffsetsCommitted(
        group_id, 1, (gev.CommittedOffset(topic_id, 0, offset, -1, "", START_MS),)
    )


def produce(state: ClusterState, rng: Random) -> None:
    number = rng.randrange(PARTITIONS)
    if state.partitions.get(number) is None:
        return
    counter = state.objects.next_number
    base = state.partitions[number].next_offset
    run = ev.Run(number, 0, 10, base, 1, START_MS, 1, 0)
    batch = ev.ProducerBatch(number, 5, 0, 0, 0, base)
    fold(state, ev.WalCommitted(1, counter, 10, (run,), (batch,)))


def produce_to_the_long_one(state: ClusterState, rng: Random) -> None:
    partition = state.partitions.get(0)
    if partition is not None and rng.random() < 0.5:
        produce_many(state, 0, 3)
    elif partition is not None:
        known = rng.choice(list(partition.producers) or [5])
        base = partition.next_offset
        run = ev.Run(0, 0, 10, base, 1, START_MS, 1, 0)
        batch = ev.ProducerBatch(0, known, 1, 0, 0, base)
        fold(state, ev.WalCommitted(1, state.objects.next_number, 10, (run,), (batch,)))


def commit_to_the_long_group(state: ClusterState, rng: Random) -> None:
    fold(state, offset_of("group-0", rng.randrange(2), rng.randrange(99)))


def set_configs(state: ClusterState, rng: Random) -> None:
    number = rng.randrange(LONG + 5)
    configs = {"metrics": "x"} if rng.random() < 0.5 else {}
    fold(state, ev.ConfigsSet(CLIENT_METRICS, f"metrics-{number}", configs))
    fold(state, ev.ConfigsSet(2, "other", {"retention.ms": str(number)}))


def change_user(state: ClusterState, rng: Random) -> None:
    fold(state, *of_user(rng.randrange(LONG + 50), rng.randrange(4096, 8192)))


def forget_user(state: ClusterState, rng: Random) -> None:
    user = f"u{rng.randrange(LONG) * 7919 % 100_003}"
    for each in state.scram.of_user(user):
        fold(state, sev.ScramCredentialRemoved(user, each.mechanism))
    entity = QuotaEntity(user)
    if state.quotas.get(entity, "producer_byte_rate") is not None:
        removed = QuotaChange(entity, "producer_byte_rate", None)
        fold(state, sev.ClientQuotasSet((removed,)))
    if state.tokens.get(f"token-{user}") is not None:
        fold(state, sev.DelegationTokensRemoved((f"token-{user}",)))


def claim(state: ClusterState, rng: Random) -> None:
    name = f"group/group-{rng.randrange(LONG + 50)}"
    last = state.claims.get(name)
    fold(state, ev.ClaimTaken(name, 1, last.epoch + 1 if last else 1))
    if rng.random() < 0.5:
        fold(state, ev.ClaimReleased(name))


def collect(state: ClusterState, rng: Random) -> None:
    fold(state, ev.ObjectsCollected(tuple(rng.sample(sorted(state.objects.dead), 3))))


def make_topic(state: ClusterState, rng: Random) -> None:
    topic_id = rng.randbytes(16)
    fold(state, ev.TopicCreated(topic_id, f"topic-{topic_id.hex()}", 1, 1, {}))
    made = [each for each in state.topics.by_id if each not in (TOPIC, OTHER_TOPIC)]
    if rng.random() < 0.5:
        fold(state, ev.TopicDeleted(rng.choice(made)))


def cut(state: ClusterState, rng: Random) -> None:
    number = rng.randrange(PARTITIONS)
    if (partition := state.partitions.get(number)) is not None:
        offset = min(partition.log_start + RUN_RECORDS, partition.next_offset)
        fold(state, ev.LogStartsMoved(((number, offset),)))


def commit_offset(state: ClusterState, rng: Random) -> None:
    fold(state, offset_of(f"group-{rng.randrange(GROUPS + 5)}", 0, rng.randrange(99)))


def grow(state: ClusterState, rng: Random) -> None:
    fold(state, ev.PartitionsAdded(OTHER_TOPIC, state.partitions.next_number))


def forget_producers(state: ClusterState, rng: Random) -> None:
    fold(state, ev.ProducersExpired(state.log_time_ms + 1))


def delete_group(state: ClusterState, rng: Random) -> None:
    group_id = f"group-{rng.randrange(GROUPS)}"
    if state.groups.get(group_id) is not None:
        fold(state, gev.GroupDeleted(group_id))


def delete_topic(state: ClusterState, rng: Random) -> None:
    if TOPIC in state.topics.by_id and rng.random() < 0.1:
        fold(state, ev.TopicDeleted(TOPIC))


def initialise(state: ClusterState, rng: Random) -> None:
    number = rng.randrange(IDS + 50)
    row = state.transactions.get(f"id-{number}")
    if row is None or not row.is_open:
        fold(state, initialised(f"id-{number}", number, row.epoch + 1 if row else 0))


def add_to_transaction(state: ClusterState, rng: Random) -> None:
    number, partition = rng.randrange(IDS), rng.randrange(PARTITIONS)
    if state.transactions.name_of(number) and state.partitions.get(partition) is not None:
        fold(state, tev.TransactionGrew(number, (partition,), ("group-1",)))


def forget_ids(state: ClusterState, rng: Random) -> None:
    names = [f"id-{rng.randrange(IDS + 50)}" for _ in range(3)]
    table = state.transactions
    known = {name for name in names if table.get(name) and table.open_of(name) is None}
    fold(state, tev.TransactionalIdsExpired(tuple(sorted(known))))


CHANGES: tuple[Callable[[ClusterState, Random], None], ...] = (
    produce,
    produce_to_the_long_one,
    commit_to_the_long_group,
    set_configs,
    cut,
    commit_offset,
    grow,
    forget_producers,
    delete_group,
    delete_topic,
    initialise,
    add_to_transaction,
    forget_ids,
    change_user,
    forget_user,
    claim,
    collect,
    make_topic,
)


@pytest.mark.parametrize("seed", range(5))
def test_changes_between_pieces_do_not_show(seed: int) -> None:
    rng, state = Random(seed), filled()
    for _ in range(20):
        produce(state, rng)
    before = state.encode()
    with state.frozen() as first:
        pieces: list[bytes] = []
        for piece in first.pieces():
            pieces.append(piece)
            if not piece and rng.random() < 0.5:
                continue
            for _ in range(10 if piece and rng.random() < 0.3 else 1):
                rng.choice(CHANGES)(state, rng)
    assert b"".join(pieces) == before
    assert first.position < state.position
    assert ClusterState.decode(state.encode()).encode() == state.encode()


def test_two_may_be_taken_at_once() -> None:
    state, rng = filled(), Random(1)
    before = state.encode()
    with state.frozen() as one, state.frozen() as two:
        for _ in range(200):
            rng.choice((initialise, add_to_transaction, forget_ids))(state, rng)
        delete_topic_now = ev.TopicDeleted(TOPIC)
        fold(state, ev.ProducersExpired(1), delete_topic_now)
        assert b"".join(one.pieces()) == before
        assert b"".join(two.pieces()) == before


def test_a_state_cut_short_is_refused() -> None:
    data = filled().encode()
    for length in (0, 3, 100, len(data) - 1):
        with pytest.raises(StateBroken, match="snapshot"):
            ClusterState.decode(data[:length])


def test_no_piece_is_large() -> None:
    state = filled()
    with state.frozen() as frozen:
        _, *rest = frozen.pieces()
    assert max(map(len, rest)) < 2 * frozen_module.MAX_PIECE_BYTES, "also where a row is long"
    assert len(rest) > PARTITIONS // frozen_module.MAX_PIECE_ROWS
