"""python -m tidegate_bench.brokers.transaction_memory SPEC: what transactional ids take in memory.

In a process of its own, since its resident memory is measured.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from dataclasses import asdict, dataclass

from tidegate_coordination.events import cluster as ev
from tidegate_coordination.events import transactions as tev

from ..measure import proc
from .transaction_states import FIRST_ID, START_MS, Replica, name_of

SHARED_PARTITIONS = 1_000


@dataclass(frozen=True, slots=True)
class Spec:
    """`ids` transactional ids, of which `opened` have an open transaction.

    width: the number of partitions in which each transaction has records.
    """

    ids: int
    opened: int = 0
    width: int = 0


@dataclass(frozen=True, slots=True)
class Told:
    """Bytes of memory.  an_id: of an idle id, without its name."""

    an_id: float
    an_open_one: float


def main() -> None:
    """Run the specification in the first argument."""
    print(json.dumps(asdict(_measured(Spec(**json.loads(sys.argv[1]))))), flush=True)


def _measured(spec: Spec) -> Told:
    replica = Replica(SHARED_PARTITIONS)
    _write_in_all(replica, spec)
    before = _resident()
    replica.initialise(spec.ids)
    of_ids = _resident() - before
    names = sum(len(name_of(number)) for number in range(spec.ids))
    before = _resident()
    for number in range(spec.opened):
        first = number * spec.width
        partitions = [(first + at) % SHARED_PARTITIONS for at in range(spec.width)]
        offsets = tuple((each, number) for each in partitions)
        replica.apply(tev.TransactionWritten(FIRST_ID + number, offsets))
    of_open = _resident() - before
    return Told((of_ids - names) / spec.ids, of_open / spec.opened if spec.opened else 0.0)


def _write_in_all(replica: Replica, spec: Spec) -> None:
    """Give each partition as many offsets as there are transactions to begin in it."""
    runs = tuple(
        ev.Run(number, 0, 1, 0, spec.opened + 1, START_MS, 1, 0)
        for number in range(SHARED_PARTITIONS)
    )
    replica.apply(ev.WalCommitted(1, replica.next_object(), 1, runs, ()))


def _resident() -> int:
    gc.collect()
    return proc.rss_bytes(os.getpid())


if __name__ == "__main__":
    main()
