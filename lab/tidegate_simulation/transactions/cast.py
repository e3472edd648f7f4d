"""The transactional clients of a run."""

from __future__ import annotations

from ..clients.workload import Workload
from .committed_readers import CommittedReader
from .ledger import Ledger
from .transactors import Transactor


def transactional_clients(workload: Workload) -> list[Transactor | CommittedReader]:
    """Return producers of both protocol versions, twins of one id, and readers of what they
    commit.
    """
    rng = workload.world.rng("transactional clients")
    twins, first, second = (
        Ledger(name, rng.choice(workload.keys)) for name in ("twins", "t1", "t2")
    )
    clients: list[Transactor | CommittedReader] = [
        Transactor(workload, "transactor 1", first, is_new=True),
        Transactor(workload, "transactor 2", second, is_new=False),
        CommittedReader(workload, "committed reader"),
    ]
    if rng.random() < 0.5:
        clients += [
            Transactor(workload, f"twin transactor {number}", twins, is_new=rng.random() < 0.5)
            for number in (1, 2)
        ]
    return clients
