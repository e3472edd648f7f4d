"""Transfers between accounts: each order is done once, and the sum stays.  No I/O here.

An order is a record in a topic of a family.  A transaction of the family's movers takes it: it
writes a debit and a credit, and commits the offset after the order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping

from histories.checks import Anomaly
from histories.evidence import Sweep
from histories.history import transaction_of, writer_of

BANK = "bank"


def family_of(transaction: str) -> str:
    """Return the family whose writer made a transaction."""
    return writer_of(transaction).rpartition("-")[0]


def transfers(committed: Sweep, orders: Mapping[str, Collection[str]]) -> Iterator[Anomaly]:
    """Yield the anomalies.  orders: by family, PARTITION.OFFSET of each order in its topic."""
    done: Counter[tuple[str, str]] = Counter()
    name_of: dict[tuple[str, str], str] = {}
    total = deposits = 0
    for values in committed.values():
        for value in values.values():
            words = value.split(":")
            if len(words) < 5:
                continue
            name, order, amount = transaction_of(value), words[3], int(words[4])
            total += amount
            if family_of(name) == BANK:
                deposits += amount
            else:
                done[family_of(name), order] += 1
                name_of[family_of(name), order] = name
    if total != deposits:
        yield Anomaly("money", f"the accounts hold {total}, and {deposits} was paid in")
    wanted = {(family, order) for family, rows in orders.items() for order in rows}
    for key in wanted - done.keys():
        yield Anomaly("order lost", f"{key[0]}: order {key[1]} was not done")
    for key, count in done.items():
        if key not in wanted:
            yield Anomaly("order made up", f"{key[0]}: there is no order {key[1]}", name_of[key])
        elif count != 2:
            text = f"{key[0]}: order {key[1]} has {count} bookings"
            yield Anomaly("order twice" if count > 2 else "order torn", text, name_of[key])
