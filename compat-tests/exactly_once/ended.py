"""How the transactions of a cluster ended, from its metadata log."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TextIO

import trio

from tidegate_coordination.events import transactions
from tidegate_coordination.events.cluster import ClaimTaken, GatewayRegistered
from tidegate_coordination.events.entries import authored, decode_entry
from tidegate_coordination.log.load import open_log
from tidegate_coordination.log.metadata_log import FIRST_POSITION, Trimmed

READ_BYTES = 4 << 20
_EVENTS = {
    transactions.TransactionalIdInitialised,
    transactions.TransactionGrew,
    transactions.TransactionWritten,
    transactions.OffsetsStaged,
    transactions.TransactionEnded,
    GatewayRegistered,
    ClaimTaken,
}
_CAUSES = {
    transactions.CAUSE_CLIENT: "by its client",
    transactions.CAUSE_TIME_OUT: "by time-out",
    transactions.CAUSE_INITIALISED: "by InitProducerId",
    transactions.CAUSE_OPERATOR: "by an operator",
}


def ended_transactions(url: str, kept: Path) -> Counter[str]:
    """Count the ends of transactions in a log by kind and cause; write their events to a file."""
    with kept.open("w") as lines:
        return trio.run(_count, url, lines)


async def _count(url: str, lines: TextIO) -> Counter[str]:
    log = await open_log(url)
    found: Counter[str] = Counter()
    position = FIRST_POSITION
    try:
        while True:
            entries = await log.read(position, READ_BYTES)
            if isinstance(entries, Trimmed):
                position = entries.first_position
                continue
            if not entries:
                return found
            for each in entries:
                entry = decode_entry(each.payload, each.position)
                for author, event in authored(entry):
                    if type(event) in _EVENTS:
                        print(entry.clock_ms, each.position, author, event, file=lines)
                    if isinstance(event, transactions.TransactionEnded):
                        found[_words(event)] += 1
            position = entries[-1].position + 1
    finally:
        await log.aclose()


def _words(event: transactions.TransactionEnded) -> str:
    kind = "committed" if event.committed else "aborted"
    return f"{kind} {_CAUSES[event.cause]}"
