"""The promises of transactions, each a check that yields what breaks it.  No I/O here.

Kinds of anomalies:

    lost           a value of an acknowledged commit is not visible; or a value is not where it was
                   acknowledged
    aborted        a reader of committed records got a value of a transaction that was aborted, or
                   whose commit was never asked for
    precommitted   ... got it before the commit was asked for
    torn           of a transaction with an unknown end, some values are visible and some are not
    twice          a value has two offsets
    order          offsets did not rise in a pass
    skipped        a pass went over a record
    vanished       a pass got a record that is not visible at the end
    conflict       two readers got different values at an offset
    LSO back       a later question for the last stable offset got a lower answer
    unseen         a committed value was not read after 30 calm seconds
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from histories.evidence import Evidence
from histories.history import COMMITTED, History, Pass, Stable, Transaction, transaction_of

UNSEEN_MS: Final = 30_000


class Anomaly(NamedTuple):
    """One break of a promise.  transaction: its name, if it is about one."""

    kind: str
    text: str
    transaction: str = ""


def ends(evidence: Evidence) -> Iterator[Anomaly]:
    """Check that each transaction is visible wholly or not at all, as its acknowledged end says."""
    for name, each in evidence.transactions.items():
        visible = {_index(value): where for where, value in evidence.visible.get(name, ())}
        if each.ended_ms >= 0 and each.committed:
            yield from _of_commit(name, each, visible)
        elif visible and (each.ended_ms >= 0 or each.asked_ms < 0):
            yield Anomaly("aborted", f"{name}: {sorted(visible.values())} are visible", name)
        elif visible and len(visible) < each.count:
            text = f"{name}: {sorted(visible)} of {each.count} are visible"
            yield Anomaly("torn", text, name)
    for name in evidence.visible.keys() - evidence.transactions.keys():
        yield Anomaly("aborted", f"{name}: its end was never asked for", name)


def _of_commit(name: str, each: Transaction, visible: dict[int, str]) -> Iterator[Anomaly]:
    for index in range(each.count):
        told = each.places[index] if index < len(each.places) else ""
        found = visible.get(index, "")
        if not found or (told and told != found):
            text = f"{name}: value {index}, acknowledged at {told or '?'}, is at {found or '?'}"
            yield Anomaly("lost", text, name)


def _index(value: str) -> int:
    return int(value.split(":", 2)[1])


def acknowledged_records(evidence: Evidence) -> Iterator[Anomaly]:
    """Check that aborted transactions have their records in the log at the acknowledged offsets."""
    for name, each in evidence.transactions.items():
        if each.committed:
            continue
        for index, told in enumerate(each.places):
            place, _, offset = told.partition(":")
            value = evidence.all_records.get(place, {}).get(int(offset), "") if told else name
            if told and not value.startswith(f"{name}:{index}:"):
                text = f"{name}: at {told}, where value {index} was acknowledged, is {value or '?'}"
                yield Anomaly("lost", text, name)


def sightings(evidence: Evidence) -> Iterator[Anomaly]:
    """Check that read_committed readers get no value before its client asked for the commit."""
    for name, seen_ms in evidence.first_seen_ms.items():
        asked_ms = evidence.transactions.get(name, Transaction()).asked_ms
        if asked_ms < 0:
            yield Anomaly("aborted", f"{name}: no commit was asked for, and it was read", name)
        elif seen_ms < asked_ms:
            yield Anomaly("precommitted", f"{name}: {asked_ms - seen_ms} ms early", name)


def doubles(evidence: Evidence) -> Iterator[Anomaly]:
    """Check that a value is written once, and that all readers get the same value at an offset."""
    at: dict[str, str] = {}
    for place, values in evidence.all_records.items():
        for offset, value in values.items():
            before = at.setdefault(value, f"{place}:{offset}")
            if before != f"{place}:{offset}":
                text = f"{value} is at {before} and at {place}:{offset}"
                yield Anomaly("twice", text, transaction_of(value))
    seen = {id(each.records): each.records for each in evidence.histories}
    for records in seen.values():
        yield from (Anomaly("conflict", text) for text in records.conflicts)


def passes(evidence: Evidence) -> Iterator[Anomaly]:
    """Check that a pass gets all records of its isolation level, from its begin on, in order."""
    for history in evidence.histories:
        for each in history.passes:
            if each.offsets:
                yield from _of_pass(evidence, history, each)


def _of_pass(evidence: Evidence, history: History, each: Pass) -> Iterator[Anomaly]:
    expected = evidence.expected(each.place, each.level, each.begin, max(each.offsets))
    if expected == each.offsets:
        return
    got, wanted = set(each.offsets), set(expected)
    if list(each.offsets) != sorted(got):
        yield Anomaly("order", f"{each.reader} in {each.place} did not go on")
    for offset in sorted(wanted - got):
        value = evidence.all_records[each.place].get(offset, "?")
        yield Anomaly("skipped", f"{each.reader} in {each.place} went over {offset}, {value}")
    for offset in sorted(got - wanted):
        value = history.records.at[each.place].get(offset, "?")
        yield _unexpected(evidence, each, offset, value)


def _unexpected(evidence: Evidence, each: Pass, offset: int, value: str) -> Anomaly:
    name = transaction_of(value)
    of = evidence.transactions.get(name, Transaction())
    is_aborted = each.level == COMMITTED and of.ended_ms >= 0 and not of.committed
    kind = "aborted" if is_aborted else "vanished"
    return Anomaly(kind, f"{each.reader} got {value} at {each.place}:{offset}", name)


def stable_offsets(evidence: Evidence) -> Iterator[Anomaly]:
    """Check that no last stable offset is below one that was answered before it was asked for."""
    by_place: dict[str, list[Stable]] = {}
    for history in evidence.histories:
        for place, answers in history.stable.items():
            by_place.setdefault(place, []).extend(answers)
        for each in history.passes:
            if each.is_tail and each.level == COMMITTED:
                seen = zip(each.times, each.offsets, strict=True)
                by_place.setdefault(each.place, []).extend(
                    Stable(0, at_ms, offset + 1) for at_ms, offset in seen
                )
    for place, answers in by_place.items():
        yield from _of_answers(place, answers)


def _of_answers(place: str, answers: Sequence[Stable]) -> Iterator[Anomaly]:
    received = sorted(answers, key=lambda each: each.received_ms)
    known, at = 0, 0
    for each in sorted((one for one in answers if one.sent_ms), key=lambda one: one.sent_ms):
        while at < len(received) and received[at].received_ms < each.sent_ms:
            known = max(known, received[at].offset)
            at += 1
        if each.offset < known:
            text = f"{place}: {known}, then {each.offset} (asked at {each.sent_ms})"
            yield Anomaly("LSO back", text)


class Wait(NamedTuple):
    """How many calm ms a tail waited for a committed value, and when the tail got it.

    seen_ms: ms since 1970.
    """

    ms: int = 0
    seen_ms: int = 0
    reader: str = "none"
    transaction: str = ""


def waits(evidence: Evidence) -> Iterator[Wait]:
    """Yield the waits of tails."""
    at = evidence.calm.at
    for history in evidence.histories:
        for each in history.passes:
            if not each.is_tail or each.level != COMMITTED:
                continue
            values = evidence.committed.get(each.place, {})
            for offset, seen_ms in zip(each.offsets, each.times, strict=True):
                name = transaction_of(values.get(offset, ""))
                of = evidence.transactions.get(name)
                if of is not None and of.committed:
                    since_ms = max(of.ended_ms, each.begun_ms)
                    yield Wait(at(seen_ms) - at(since_ms), seen_ms, each.reader, name)


def unseen(evidence: Evidence) -> Iterator[Anomaly]:
    """Check that committed values are read soon."""
    for waited_ms, _, reader, name in waits(evidence):
        if waited_ms > UNSEEN_MS:
            yield Anomaly("unseen", f"{reader} waited {waited_ms} calm ms for {name}", name)
