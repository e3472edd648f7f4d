"""Checks of transactions: what readers of committed records may see, and what they must see.

    end_txn    {"txn", "commit"}: its name, and whether it is to be committed
    epoch      note ok {"id", "producer", "epoch"}: a client got them for its transactional id

A transaction is certainly committed after an ok of its commit, and may be after its invoke.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from .facts import Facts, Violation, value_of

_MARKERS_ONLY: Final = 32_767


@dataclass(slots=True)
class _Transaction:
    """values: its sends.  committed_at: index of the ok; tried_at: of the first invoke; -1: none.

    failed: whether the commit certainly had no effect.
    """

    values: list[int] = field(default_factory=list[int])
    committed_at: int = -1
    tried_at: int = -1
    failed: bool = False


def transactions_of(facts: Facts) -> dict[str, _Transaction]:
    """Return all transactions by name."""
    found: dict[str, _Transaction] = defaultdict(_Transaction)
    for value, sent in facts.sent.items():
        name = value_of(sent.invoke).get("txn")
        if name is not None:
            found[name].values.append(value)
    for event in facts.events:
        if event.f == "end_txn" and value_of(event)["commit"]:
            each = found[value_of(event)["txn"]]
            if event.type == "invoke":
                each.tried_at = event.index
            elif event.type == "ok":
                each.committed_at = event.index
            each.failed = event.type == "fail"
    return found


def committed_reads(facts: Facts) -> Iterator[Violation]:
    """Aborted read: a record of a transaction that was not committed, and that no client tried to
    commit before.  Skipped: a record of a committed transaction was passed.
    """
    transactions = transactions_of(facts)
    name_of = {value: name for name, each in transactions.items() for value in each.values}
    for event, table in facts.finished("poll"):
        if not table.get("committed"):
            continue
        key, got = table["key"], {offset for offset, _ in table["records"]}
        for offset, value in table["records"]:
            each = transactions.get(name_of.get(value, ""))
            is_early = each is not None and not 0 <= each.tried_at < event.index
            if each is not None and (is_early or each.failed):
                text = f"value {value} at {offset} of key {key}, of {name_of[value]}, is read"
                yield Violation("aborted read", text, (event.index,))
        first = max(table["position"], facts.trimmed[key])
        for offset, value in facts.at[key].items():
            if offset in got or not first <= offset < table["next"]:
                continue
            each = transactions.get(name_of.get(value, ""))
            must_be_seen = each is None or each.committed_at >= 0
            is_excused = facts.may_be_compacted(value, offset)
            is_excused = is_excused or facts.is_lost(key, offset, event.index)
            if must_be_seen and not is_excused:
                text = f"{event.process} went past {value} at {offset} of key {key}"
                yield Violation("skipped", text, (event.index,))


def torn(facts: Facts) -> Iterator[Violation]:
    """A transaction whose end is unknown is seen as a whole, or not at all."""
    seen: dict[int, int] = {}
    for event, table in facts.finished("poll"):
        if table.get("committed"):
            seen |= {value: event.index for _, value in table["records"]}
    drained = {table["key"] for _, table in facts.finished("drained") if table.get("committed")}
    for name, each in transactions_of(facts).items():
        acked = [
            value
            for value in each.values
            if facts.sent[value].acked
            and facts.sent[value].key in drained
            and not facts.may_be_gone(value)
        ]
        visible = [value for value in acked if value in seen]
        if visible and len(visible) < len(acked):
            missing = sorted(set(acked) - set(visible))
            text = f"{name}: {visible} are read, and {missing} are not"
            yield Violation("torn transaction", text, tuple(seen[value] for value in visible))
        if each.committed_at >= 0 and len(visible) < len(acked):
            text = f"{name} was committed, and {sorted(set(acked) - set(visible))} are not read"
            yield Violation("lost transaction", text, (each.committed_at,))


def stable_offsets(facts: Facts) -> Iterator[Violation]:
    """On one connection the last stable offset does not move back, nor is it above the end."""
    last: dict[tuple[object, ...], int] = {}
    for event, table in facts.finished("poll"):
        stable = table.get("lso")
        if stable is None:
            continue
        where = (event.process, table.get("link"), table["key"])
        before = last.get(where, 0)
        if stable < before or stable > table["hw"]:
            text = f"key {table['key']}: LSO {before}, then {stable}, with {table['hw']} as the end"
            yield Violation("last stable offset fell", text, (event.index,))
        last[where] = stable


def epochs_given(facts: Facts) -> Iterator[Violation]:
    """No two clients get the same epoch of a producer id, and none gets Kafka's last number."""
    holders: dict[tuple[int, int], str] = {}
    for event, table in facts.finished("epoch"):
        given = (table["producer"], table["epoch"])
        if given in holders or table["epoch"] == _MARKERS_ONLY:
            text = f"{given} is given to {event.process}, and to {holders.get(given)} before"
            yield Violation("epoch given twice", text, (event.index,))
        holders[given] = event.process
