"""The shares of requests add up exactly, are bounded in number, and outlive their object."""

from __future__ import annotations

import zlib
from collections import Counter
from contextvars import copy_context

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate_gateway.cost import ledger as ledger_module
from tidegate_gateway.cost.ledger import CostLedger, paid_by, read_of, reading_for
from tidegate_storage.objects.cost_sums import (
    OTHERS,
    PARTS,
    BadSums,
    CostSums,
    Use,
    decode,
    encode,
    kind_of,
    merged,
    whole_parts,
)
from tidegate_storage.objects.keys import cost_key, segment_key, wal_key
from tidegate_storage.stores.counting_store import Request, RequestSums

WAL = wal_key("c", 1, "az1", 1, 1, 0)
SEGMENT = segment_key("c", 1, b"b" * 16, 0, 0, 1, 1)
NAMES = {b"a" * 16: "apples", b"b" * 16: "pears"}


def ledger() -> CostLedger:
    return CostLedger(lambda: 0, NAMES.get)


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=30), st.integers(0, 10**12))
def test_rounded_shares_add_up_and_are_near(weights: list[int], total: int) -> None:
    whole = sum(weights) or 1
    weights = weights if sum(weights) else [1, *weights[1:]]
    shares = {at: total * weight / whole for at, weight in enumerate(weights)}

    rounded = whole_parts(shares, total)

    assert sum(rounded.values()) == total
    assert all(abs(rounded[at] - shares[at]) <= 1.01 for at in shares)


@given(
    st.lists(
        st.tuples(
            st.dictionaries(st.sampled_from(sorted(NAMES)), st.integers(1, 10**7), min_size=1),
            st.dictionaries(st.sampled_from("xyz"), st.integers(1, 10**7)),
            st.integers(1, 10**7),
        )
    )
)
def test_sums_over_topics_and_over_clients_are_the_requests(
    objects: list[tuple[dict[bytes, int], dict[str, int], int]],
) -> None:
    book = ledger()
    for topics, clients, size in objects:
        with paid_by(topics, clients):
            book.asked(Request.PUT, WAL)
            book.stored(WAL, size)
            book.asked(Request.GET, WAL)
            book.got(WAL, size)

    sums = book.take()

    for uses in (sums.topics, sums.clients):
        assert sum(each.puts for each in uses.values()) == len(objects) * PARTS
        assert sum(each.gets for each in uses.values()) == len(objects) * PARTS
        assert sum(each.put_bytes for each in uses.values()) == sum(size for *_, size in objects)
        assert sum(each.get_bytes for each in uses.values()) == sum(size for *_, size in objects)
    assert sums.count("put") == sums.count("get") == len(objects)


def test_a_shared_object_is_split_by_bytes() -> None:
    book = ledger()
    with paid_by({b"a" * 16: 3000, b"b" * 16: 1000}, {"x": 1, "y": 1}):
        book.asked(Request.PUT, WAL)
        book.stored(WAL, 4100)

    sums = book.take()

    assert sums.topics == {
        "apples": Use(puts=750, put_bytes=3075),
        "pears": Use(puts=250, put_bytes=1025),
    }
    assert {name: each.puts for name, each in sums.clients.items()} == {"x": 500, "y": 500}


def test_a_read_is_paid_by_its_reader_or_else_by_what_its_key_names() -> None:
    book = ledger()
    book.asked(Request.GET, SEGMENT)
    book.asked(Request.GET, WAL)

    def read() -> None:
        reading_for("x" * 1000)
        with read_of({b"a" * 16: 5}):
            book.asked(Request.GET, WAL)

    copy_context().run(read)  # in a copied context, so that other tests have no reader

    sums = book.take()

    assert {name: each.gets for name, each in sums.topics.items()} == {
        "pears": PARTS,
        OTHERS: PARTS,
        "apples": PARTS,
    }
    assert {name: each.gets for name, each in sums.clients.items()} == {
        OTHERS: 2 * PARTS,
        "x" * ledger_module.MAX_NAME: PARTS,
    }


def test_other_requests_are_nobodys() -> None:
    book = ledger()
    costs = cost_key("c", 1, 2026112620, 1, 1, 1)
    book.asked(Request.PUT, "c/1/backup/x")
    book.asked(Request.PUT, costs)
    book.asked(Request.LIST, "c/1/wal/")
    book.asked(Request.DELETE, WAL, 2)
    book.asked(Request.GET, "tidegate-owner.json")

    sums = book.take()

    assert sums.requests == {
        "put backup": 1,
        "put costs": 1,
        "list wal": 1,
        "delete wal": 2,
        "get other": 1,
    }
    assert not sums.topics
    assert not sums.clients
    assert kind_of("c/1/wal/") == "wal"


def test_names_are_bounded_and_the_rest_is_summed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_module, "MAX_NAMES", 3)
    book = ledger()
    for number in range(10):
        with paid_by({b"a" * 16: 1}, {f"client {number}": 1}):
            book.asked(Request.PUT, WAL)
        book.crossed(f"client {number}", 1, 2)

    clients = book.take().clients

    assert len(clients) == 4
    assert clients[OTHERS] == Use(puts=7 * PARTS, crossed_bytes=7, unknown_bytes=14)
    assert sum(each.puts for each in clients.values()) == 10 * PARTS


def test_long_client_ids_are_not_kept_and_their_shares_add_up() -> None:
    book = ledger()
    for end in "abc":
        with paid_by({b"a" * 16: 0}, {"x" * 30_000 + end: 1}):
            book.asked(Request.PUT, WAL)

    sums = book.take()

    assert sums.clients == {"x" * ledger_module.MAX_NAME: Use(puts=3 * PARTS)}
    assert sums.topics == {OTHERS: Use(puts=3 * PARTS)}


def test_sums_of_a_request_under_way_are_split_already() -> None:
    book = ledger()
    with paid_by({b"a" * 16: 5}, {"x": 5}):
        book.asked(Request.PUT, WAL)
        first = book.take()
        book.stored(WAL, 100)
    assert first.topics == {"apples": Use(puts=PARTS)}
    assert book.take().clients == {"x": Use(put_bytes=100)}


def test_an_interval_begins_at_nothing() -> None:
    now = Counter(ms=1000)
    book = CostLedger(lambda: now["ms"], NAMES.get)
    book.asked(Request.PUT, WAL)
    now["ms"] = 5000
    assert book.sums() == book.take()
    assert book.sums() == CostSums(begin_ms=5000, end_ms=5000)


def test_the_requests_of_a_log_are_booked_once_also_after_it_moved() -> None:
    logs = [RequestSums()]
    book = CostLedger(lambda: 0, NAMES.get, lambda: logs[0])
    logs[0].asked(Request.PUT, "tidegate-log/1")
    logs[0].stored("tidegate-log/1", 100)
    assert book.sums().requests == {"put log": 1}
    logs[0].asked(Request.PUT, "tidegate-log/2")
    first = book.take()
    assert (first.requests, first.stored_bytes) == ({"put log": 2}, {"log": 100})
    logs[0].asked(Request.PUT, "tidegate-log/3")
    logs[0] = RequestSums()
    logs[0].asked(Request.GET, "tidegate-log/2")
    assert book.take().requests == {"put log": 1, "get log": 1}
    assert book.take().requests == {}


def test_sums_survive_an_object_and_merge() -> None:
    book = ledger()
    with paid_by({b"a" * 16: 3000}, {"x": 1}):
        book.asked(Request.PUT, WAL)
    one = book.take()
    one.groups = {"x": ["g"]}
    one.kept_bytes, one.kept_byte_hours = {"apples": 10}, {"apples": 10}
    other = CostSums(end_ms=9, clients={"x": Use(gets=500)}, groups={"x": ["g", "h"]})
    other.kept_bytes, other.kept_byte_hours = {"pears": 20}, {"apples": 1, "pears": 5}

    whole = merged(decode(encode(each)) for each in (one, other))

    assert whole.requests == {"put wal": 1}
    assert whole.clients == {"x": Use(puts=PARTS, gets=500)}
    assert (whole.kept_bytes, whole.kept_byte_hours) == ({"pears": 20}, {"apples": 11, "pears": 5})
    assert one.by_group() == {"g": Use(puts=PARTS)}
    assert whole.by_group() == {OTHERS: Use(puts=PARTS, gets=500)}


@pytest.mark.parametrize("body", [b"", b"text", zlib.compress(b"[]"), zlib.compress(b"\xff")])
def test_other_bytes_are_no_sums(body: bytes) -> None:
    with pytest.raises(BadSums):
        decode(body)


def test_sums_of_a_later_release_are_not_guessed() -> None:
    with pytest.raises(BadSums, match="version 2"):
        decode(encode(CostSums(version=2)))
